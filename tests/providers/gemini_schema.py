"""What Gemini refuses of a schema: a tool's or a response's, as OpenAPI subset (`parameters`) or as JSON Schema.

`check_schema` is the whole interface; it needs no request around the schema. Sources: the `Schema` message and the
keywords that the API reference lists for `responseJsonSchema`. Stricter than the service on purpose: of JSON Schema
only what is documented is taken, references must end, and the functions of old endpoints may not be empty objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.providers.gemini_fields import Json, Refusal, check_fields

JSON_KEYWORDS = frozenset({
    "$id", "$defs", "$ref", "$anchor", "type", "format", "title", "description", "enum", "items", "prefixItems",
    "minItems", "maxItems", "minimum", "maximum", "anyOf", "oneOf", "properties", "additionalProperties", "required",
    "propertyOrdering",
})
JSON_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
FORMATS = {"STRING": ("enum", "date-time"), "NUMBER": ("float", "double"), "INTEGER": ("int32", "int64")}
DEPTH = 64
"""Schemas inside schemas: Google's parser stops somewhere, with "Message too deep"."""


def check_schema(schema: Json, *, json_schema: bool, vertex: bool = False, top: bool = True,
                 at: str = "parameters") -> str | None:
    """The first rule that the schema breaks, None for a good one. `top`: it must describe an object, as functions'
    parameters do; a response's schema may be anything."""
    try:
        if json_schema:
            JsonSchema(at).check(schema, top=top)
        else:
            check_openapi(schema, at, vertex=vertex, top=top)
    except Refusal as refused:
        return refused.message
    return None


# ------------------------------------------------------------------------------------------------ the OpenAPI subset
def check_openapi(schema: Json, at: str, *, vertex: bool, top: bool) -> None:
    if depth(schema) > DEPTH:
        raise Refusal(f"Message too deep. Max recursion depth reached for key '{at}'")
    check_fields(schema, "Schema", at, vertex=vertex)
    assert isinstance(schema, dict)
    if top and str(schema.get("type")).upper() != "OBJECT":
        raise Refusal(f"* {at}.type: should be OBJECT type\n")
    if top and not schema.get("properties"):
        raise Refusal(f"* {at}.properties: should be non-empty for OBJECT type\n")
    waiting = [(schema, at)]
    while waiting:
        node, here = waiting.pop()
        check_openapi_node(node, here, vertex=vertex)
        waiting += [(inner, f"{here}.properties[{name}]") for name, inner in (node.get("properties") or {}).items()]
        waiting += [(inner, f"{here}.any_of[{i}]") for i, inner in enumerate(node.get("anyOf") or [])]
        if node.get("items") is not None:
            waiting.append((node["items"], f"{here}.items"))


def check_openapi_node(node: dict[str, Json], at: str, *, vertex: bool) -> None:
    kind = str(node.get("type") or "").upper()
    names = node.get("enum") or []
    assert isinstance(names, list)
    if names and kind != "STRING":
        raise Refusal(f"* {at}.enum: only allowed for STRING type\n")
    if "" in names:
        raise Refusal(f"* {at}.enum[{names.index('')}]: cannot be empty\n")
    if len(set(names)) != len(names):
        raise Refusal(f"* {at}.enum: duplicate values\n")
    form = node.get("format")
    if form and form not in FORMATS.get(kind, ()):
        listed = " and ".join(f"'{f}'" for f in FORMATS.get(kind, ())) or "none"
        raise Refusal(f"* {at}.format: only {listed} are supported for {kind} type\n")
    if node.get("items") is not None and kind != "ARRAY":
        raise Refusal(f"* {at}.items: field predicate failed: $type == Type.ARRAY\n")
    if kind == "ARRAY" and node.get("items") is None:
        raise Refusal(f"* {at}.items: missing field.\n")
    properties = node.get("properties") or {}
    assert isinstance(properties, dict)
    if properties and kind != "OBJECT":
        raise Refusal(f"* {at}.properties: only allowed for OBJECT type\n")
    for key in ("required", "propertyOrdering"):
        for i, name in enumerate(node.get(key) or []):  # type: ignore[arg-type,var-annotated]
            if name not in properties:
                raise Refusal(f"* {at}.{key}[{i}]: property is not defined\n")
    for key in ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"):
        count = node.get(key)
        if isinstance(count, int) and count < 0:
            raise Refusal(f"* {at}.{key}: must not be negative\n")
    if vertex:
        check_vertex_node(node, at)


def check_vertex_node(node: dict[str, Json], at: str) -> None:
    if node.get("anyOf") is not None:
        if node.keys() - {"anyOf"}:
            raise Refusal(f"Unable to submit request because `{at}` schema specified other fields alongside any_of. "
                          "When using any_of, it must be the only field set.")
    elif not node.get("type"):
        raise Refusal(f"Unable to submit request because `{at}` schema didn't specify the schema type field.")


def depth(schema: Json) -> int:
    """How many objects and lists stand inside each other; far too deep ones are not walked to their end."""
    level, count = [schema], 0
    while level and count <= 4 * DEPTH:
        level = [inner for node in level for inner in children(node)]
        count += 1
    return count // 2  # a schema's keyword and its map of names are two levels


def children(node: Json) -> list[Json]:
    if isinstance(node, dict):
        return list(node.values())
    return list(node) if isinstance(node, list) else []


# ------------------------------------------------------------------------------------------------------- JSON Schema
class JsonSchema:
    """One schema with its definitions."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.root: Json = None

    def check(self, schema: Json, *, top: bool) -> None:
        self.root = schema
        if depth(schema) > DEPTH:
            raise Refusal(f"Message too deep. Max recursion depth reached for key '{self.at}'")
        if not isinstance(schema, dict):
            raise self.bad(self.at, "a schema must be an object.")
        if top and schema.get("type") != "object":
            raise self.bad(self.at, "the schema must describe an object: type must be 'object'.")
        waiting: list[tuple[Json, str]] = [(schema, self.at)]
        while waiting:
            node, here = waiting.pop()
            if not isinstance(node, dict):
                raise self.bad(here, "a schema must be an object.")
            self.check_node(node, here)
            waiting += self.inner(node, here)

    def bad(self, at: str, why: str) -> Refusal:
        return Refusal(f"Invalid JSON schema at '{at}': {why}")

    def check_node(self, node: dict[str, Json], at: str) -> None:
        for key, value in node.items():
            if key not in JSON_KEYWORDS:
                raise self.bad(at, f"keyword '{key}' is not supported.")
            if key in CHECKS and not CHECKS[key](value):
                raise self.bad(at, f"invalid value of '{key}': {str(value)[:60]}")
        if "$ref" in node:
            if any(not key.startswith("$") for key in node):
                raise self.bad(at, "no other properties may be set beside '$ref', except those starting with '$'.")
            self.check_reference(node, at)

    def check_reference(self, node: dict[str, Json], at: str) -> None:
        """A reference must lead somewhere, and must not come round to itself."""
        path: list[Json] = []
        waiting: list[tuple[Json, tuple[int, ...]]] = [(node, ())]
        while waiting:
            one, trail = waiting.pop()
            if not isinstance(one, dict):
                continue
            if "$ref" in one:
                target = self.resolved(str(one["$ref"]))
                if target is None:
                    raise self.bad(at, f"'$ref' {one['$ref']!r} is not a definition of this schema.")
                if id(target) in trail:
                    raise self.bad(at, "(stricter than the service) a cyclic '$ref'.")
                path.append(target)
                waiting.append((target, (*trail, id(target))))
            waiting += [(inner, trail) for inner, _ in self.inner(one, at)]
            if len(path) > 10_000:
                raise self.bad(at, "too many references.")

    def resolved(self, reference: str) -> Json:
        found: Json = self.root
        if not re.fullmatch(r"#(/.*)?", reference):
            return None
        for step in reference[2:].split("/") if len(reference) > 2 else []:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                return None
            found = found[key]
        return found

    def inner(self, node: dict[str, Json], at: str) -> list[tuple[Json, str]]:
        found: list[tuple[Json, str]] = []
        for key in ("properties", "$defs"):
            named = node.get(key)
            if isinstance(named, dict):
                found += [(value, f"{at}.{key}.{name}") for name, value in named.items()]
        for key in ("anyOf", "oneOf", "prefixItems"):
            listed = node.get(key)
            if isinstance(listed, list):
                found += [(value, f"{at}.{key}[{i}]") for i, value in enumerate(listed)]
        found += [(node[key], f"{at}.{key}") for key in ("items", "additionalProperties")
                  if key in node and not isinstance(node[key], bool)]
        return found


def is_type(value: Json) -> bool:
    kinds = value if isinstance(value, list) else [value]
    return bool(kinds) and all(isinstance(k, str) and k in JSON_TYPES for k in kinds) and len(set(kinds)) == len(kinds)


def is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_text(value: Json) -> bool:
    return isinstance(value, str)


def is_map(value: Json) -> bool:
    return isinstance(value, dict)


def is_names(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def is_enum(value: Json) -> bool:
    """Documented for strings and numbers only."""
    return isinstance(value, list) and bool(value) and all(is_text(one) or is_number(one) for one in value)


def is_filled(value: Json) -> bool:
    return isinstance(value, list) and bool(value)


CHECKS: dict[str, Callable[[Json], bool]] = {
    "type": is_type, "format": is_text, "title": is_text, "description": is_text, "enum": is_enum, "$ref": is_text,
    "$id": is_text, "$anchor": is_text, "$defs": is_map, "properties": is_map, "required": is_names,
    "propertyOrdering": is_names, "minItems": is_count, "maxItems": is_count, "minimum": is_number,
    "maximum": is_number, "anyOf": is_filled, "oneOf": is_filled, "prefixItems": is_filled,
}
