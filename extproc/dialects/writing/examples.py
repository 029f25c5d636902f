"""Sample arguments for the usage example of a tool: every required parameter, or the first one where none is."""

from __future__ import annotations

from extproc.schemas.references import resolve_pointer

_MAX_DEPTH = 4
_PLAIN: dict[str, object] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}

Schema = dict[str, object]


def example_arguments(parameters: Schema) -> Schema:
    """Arguments that fit the schema as far as its types, enums and defaults tell."""
    return _object(parameters, parameters, 0)


def _object(schema: Schema, root: Schema, depth: int) -> Schema:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    required = schema.get("required")
    shown = [name for name in properties if name in required] if isinstance(required, list) else []
    if not shown and depth == 0:
        shown = list(properties)[:1]
    return {name: _sample(properties[name], root, depth + 1) for name in shown}


def _sample(schema: object, root: Schema, depth: int) -> object:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return "text"
    for value in _given(schema):
        if _harmless(value):
            return value
    if "$ref" in schema:
        return _sample(resolve_pointer(schema["$ref"], root), root, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        branches = schema.get(key)
        if isinstance(branches, list) and branches and "type" not in schema:
            return _sample(branches[0], root, depth + 1)
    named = schema.get("type")
    kind = named[0] if isinstance(named, list) and named else named
    if kind == "array" or (kind is None and "items" in schema):
        return [_sample(schema.get("items"), root, depth + 1)]
    if kind == "object" or (kind is None and "properties" in schema):
        return _object(schema, root, depth)
    return _PLAIN.get(kind, "text") if isinstance(kind, str) else "text"


def _given(schema: Schema) -> list[object]:
    """Values that the schema itself names."""
    named = [schema[key] for key in ("const", "default") if schema.get(key) is not None]
    lists = [values for key in ("examples", "enum") if isinstance(values := schema.get(key), list)]
    return [*named, *(value for values in lists for value in values[:1])]


def _harmless(value: object) -> bool:
    """Short and plain: a long or marked-up value teaches nothing, and nothing in it may look like a tag."""
    if isinstance(value, str):
        return len(value) <= 80 and not any(mark in value for mark in "<>&\n")
    return isinstance(value, (bool, int, float))
