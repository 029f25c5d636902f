"""JSON Schemas and values for them, drawn by hypothesis; and Gemini's forms read back as JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any

import jsonschema
from hypothesis import strategies as st

Json = Any
NAMES = ("a", "b", "kind", "type", "$ref", "title", "default", "properties", "required", "enum", "items", "nullable")
TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
SCALARS = (None, True, False, 0, 1, -1, 2, 3.5, 1.0, "", "a", "ab", "x-1", "2024-01-01")
REFERENCES = ("#/$defs/A", "#/$defs/B", "#/$defs/C", "#", "#named", "#/$defs/a~1b%20c")

names = st.sampled_from(NAMES)
small = st.integers(0, 3)
scalars = st.sampled_from(SCALARS)
numbers = st.sampled_from((-1, 0, 1, 2, 2.5, 3))
anything = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
                        max_leaves=4)


@lru_cache
def schemas(depth: int = 3) -> st.SearchStrategy[Json]:
    """Valid schemas of draft 2020-12, with references to `DEFINITIONS`."""
    if depth == 0:
        return st.one_of(_node(st.just({"type": "string"})), st.booleans(), st.sampled_from(REFERENCES).map(
            lambda reference: {"$ref": reference}))
    return _node(schemas(depth - 1))


def _node(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    some = st.lists(inner, min_size=1, max_size=3)
    table = st.dictionaries(names, inner, max_size=3)
    keywords: dict[str, st.SearchStrategy[Json]] = {
        "type": st.sampled_from(TYPES) | st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True),
        "enum": st.lists(anything, min_size=1, max_size=3), "const": anything,
        "title": st.just("T"), "description": st.just("Says what it is"), "default": anything,
        "examples": st.lists(anything, max_size=2), "nullable": st.booleans(), "deprecated": st.booleans(),
        "format": st.sampled_from(("uri", "date-time", "int32", "float", "email")), "$comment": st.just("no"),
        "pattern": st.sampled_from(("^a", "b$", "[0-9]+")), "minLength": small, "maxLength": small,
        "minimum": numbers, "maximum": numbers, "exclusiveMinimum": numbers, "exclusiveMaximum": numbers,
        "multipleOf": st.sampled_from((1, 2, 0.5)),
        "items": inner, "prefixItems": some, "contains": inner, "minItems": small, "maxItems": small,
        "uniqueItems": st.booleans(),
        "properties": table, "required": st.lists(names, max_size=2, unique=True), "additionalProperties": inner,
        "patternProperties": st.dictionaries(st.sampled_from(("^a", "t")), inner, max_size=2),
        "propertyNames": inner, "minProperties": small, "maxProperties": small,
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=1), max_size=1),
        "dependentSchemas": st.dictionaries(names, inner, max_size=1), "unevaluatedProperties": st.booleans(),
        "anyOf": some, "oneOf": some, "allOf": some, "not": inner, "if": inner, "then": inner, "else": inner,
        "$ref": st.sampled_from(REFERENCES), "x-own": st.just(1),
    }
    usual = ("type", "enum", "properties", "required", "items", "anyOf", "oneOf", "allOf", "$ref", "minimum",
             "additionalProperties", "prefixItems", "exclusiveMinimum")
    combined = st.sampled_from(("anyOf", "oneOf", "allOf"))
    key = st.sampled_from(usual) | st.sampled_from(tuple(keywords))
    free = st.lists(key, min_size=1, max_size=5, unique=True).flatmap(
        lambda keys: st.fixed_dictionaries({key: keywords[key] for key in keys}))

    def shape(required: dict[str, Json], *optional: str) -> st.SearchStrategy[Json]:
        fixed = {key: keywords[key] if value is None else value for key, value in required.items()}
        return st.fixed_dictionaries(fixed, optional={key: keywords[key] for key in optional})

    thing = shape({"type": st.just("object"), "properties": None}, "required", "additionalProperties",
                  "patternProperties", "description")
    part = shape({"properties": None}, "required", "additionalProperties") | shape({"required": None})
    parts = st.lists(part, min_size=2, max_size=3)
    return st.one_of(
        free, thing,
        shape({"type": st.sampled_from(("integer", "number", ["integer", "null"]))}, "minimum", "maximum",
              "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        shape({"type": st.just("array")}, "items", "prefixItems", "minItems", "maxItems", "contains"),
        st.builds(lambda base, key, some: {**base, key: some}, thing, combined, parts),
        st.builds(lambda key, some: {key: some}, combined, parts),
        shape({"enum": None}, "type", "nullable"))


@st.composite
def documents(draw: st.DrawFn) -> Json:
    """Whole schemas: with definitions, which may refer to each other and to the whole."""
    top = draw(schemas())
    top["$defs"] = {"A": draw(schemas(2)), "B": draw(schemas(1)), "a/b c": draw(schemas(1)),
                    "C": {"$anchor": "named", **draw(schemas(1))}}
    return top


def garbage() -> st.SearchStrategy[Json]:
    """What some client may send as a schema."""
    words = st.sampled_from((*NAMES, "$ref", "anyOf", "allOf", "oneOf", "additionalProperties", "format", "minimum",
                             "minItems", "pattern", "exclusiveMinimum", "const", "not", "patternProperties",
                             "description", "$defs", "prefixItems", "definitions", "maxLength", "nullable"))
    odd = st.sampled_from((None, True, "string", "STRING", "int", "any", "#", "#/$defs/a", "(", 3, -2, 1e300,
                           10**400, []))
    return st.recursive(odd, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=4),
                        max_leaves=20)


def some_value(rng: Random, root: Json, schema: Json, depth: int = 0) -> Json:
    """A value that has good chances to match; the caller checks."""
    if not isinstance(schema, dict) or depth > 5 or rng.random() < 0.07:
        return _free_value(rng, 2)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "$ref" in schema and rng.random() < 0.9:
        return some_value(rng, root, _target(root, schema["$ref"]), depth + 1)
    objects = schema.get("type") == "object" or any({"properties", "required"} & part.keys()
                                                    for part in _parts(schema))
    if objects and "object" in schema.get("type", "object"):
        return _object_value(rng, root, schema, depth)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema and rng.random() < 0.6:
            return some_value(rng, root, rng.choice(schema[key]), depth + 1)
    types = schema.get("type", list(TYPES))
    kind = rng.choice(types) if isinstance(types, list) else types
    if "type" not in schema and {"items", "prefixItems"} & schema.keys():
        kind = "array"
    if kind == "object":
        return _object_value(rng, root, schema, depth)
    if kind == "array":
        first = schema.get("prefixItems", [])
        return [some_value(rng, root, first[at] if at < len(first) else schema.get("items"), depth + 1)
                for at in range(rng.choice((len(first), 0, 1, 2, len(first) + 1)))]
    edges = [schema[key] + step for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
             if key in schema for step in (-1, 0, 0.5, 1)]
    return rng.choice([value for value in (*SCALARS, 4, *edges) if _is(kind, value)])


def _free_value(rng: Random, depth: int) -> Json:
    roll = rng.random()
    if depth == 0 or roll < 0.6:
        return rng.choice(SCALARS)
    if roll < 0.8:
        return [_free_value(rng, depth - 1) for _ in range(rng.randrange(3))]
    return {rng.choice(NAMES): _free_value(rng, depth - 1) for _ in range(rng.randrange(3))}


def _object_value(rng: Random, root: Json, schema: Json, depth: int) -> Json:
    """An object for a schema and for one of its alternatives."""
    parts = [schema, *(part for part in schema.get("allOf", []) if isinstance(part, dict))]
    for key in ("anyOf", "oneOf"):
        if key in schema and isinstance(option := rng.choice(schema[key]), dict):
            parts.append(option)
    declared = {name: inner for part in parts for name, inner in part.get("properties", {}).items()}
    wanted = dict.fromkeys(name for part in parts for name in part.get("required", []))
    wanted |= dict.fromkeys(name for name in declared if rng.random() < 0.5)
    wanted |= dict.fromkeys(rng.choice(NAMES) for _ in range(rng.choice((0, 0, 1, 2))))
    return {name: some_value(rng, root, declared.get(name, schema.get("additionalProperties")), depth + 1)
            for name in wanted}


def _parts(schema: Json) -> list[Json]:
    found = [schema, *(part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, []))]
    return [part for part in found if isinstance(part, dict)]


def _is(kind: str, value: Json) -> bool:
    plain = {"string": str, "boolean": bool, "null": type(None)}
    if kind in plain:
        return isinstance(value, plain[kind])
    return isinstance(value, int | float) and not isinstance(value, bool) and (kind == "number" or value == int(value))


def _target(root: Json, reference: str) -> Json:
    places = {"#": root, "#named": root["$defs"]["C"], "#/$defs/a~1b%20c": root["$defs"]["a/b c"]}
    return places[reference] if reference in places else root["$defs"][reference.rpartition("/")[2]]


def accepting(schema: Json) -> Callable[[Json], bool]:
    """Whether a value matches, as a JSON Schema library says."""
    return jsonschema.Draft202012Validator(schema).is_valid


def decidable(root: Json) -> bool:
    """Whether validation ends: no schema leads back to itself for the same value."""
    done: set[int] = set()

    def ends(schema: Json, above: tuple[int, ...]) -> bool:
        if not isinstance(schema, dict) or id(schema) in done:
            return True
        if id(schema) in above:
            return False
        beside = [schema[key] for key in ("not", "if", "then", "else") if key in schema]
        beside += [inner for key in ("anyOf", "oneOf", "allOf") for inner in schema.get(key, [])]
        beside += schema.get("dependentSchemas", {}).values()
        beside += [_target(root, schema["$ref"])] if "$ref" in schema else []
        if not all(ends(inner, (*above, id(schema))) for inner in beside):
            return False
        done.add(id(schema))
        return True

    def every(schema: Json) -> list[Json]:
        if not isinstance(schema, dict):
            return []
        inner = [schema[key] for key in ("items", "contains", "additionalProperties", "propertyNames", "not", "if",
                                         "then", "else") if key in schema]
        inner += [one for key in ("anyOf", "oneOf", "allOf", "prefixItems") for one in schema.get(key, [])]
        inner += [one for key in ("properties", "patternProperties", "dependentSchemas", "$defs")
                  for one in schema.get(key, {}).values()]
        return [schema, *(found for one in inner for found in every(one))]

    return all(ends(schema, ()) for schema in every(root))


def arrays_in_arrays(value: Json) -> int:
    if isinstance(value, list):
        return 1 + max((arrays_in_arrays(item) for item in value), default=0)
    if isinstance(value, dict):
        return max((arrays_in_arrays(item) for item in value.values()), default=0)
    return 0


def as_json_schema(schema: Json) -> Json:
    """An OpenAPI schema as JSON Schema: types in lower case, null where it is allowed."""
    out = {key: value for key, value in schema.items() if key not in ("nullable", "propertyOrdering")}
    if "type" in out:
        out["type"] = out["type"].lower()
    if "properties" in out:
        out["properties"] = {name: as_json_schema(inner) for name, inner in out["properties"].items()}
    if "items" in out:
        out["items"] = as_json_schema(out["items"])
    if "anyOf" in out:
        out["anyOf"] = [as_json_schema(inner) for inner in out["anyOf"]]
    return {"anyOf": [out, {"type": "null"}]} if schema.get("nullable") else out
