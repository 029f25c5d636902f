"""Parameters of a tool in a prompt: the names of their types, and sample arguments for a usage example."""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.dialects.shapes import STRING, Parameter, json_types
from extproc.schemas.references import resolve_pointer

_ORDER = ("string", "number", "integer", "boolean", "array", "object", "null")
_WORDS = frozenset({"null", "none", "nil", "undefined", "true", "false", "yes", "no", "on", "off", "nan", "inf",
                    "infinity"})
_JSON_BEGINS = frozenset("+-.0123456789{[(\"'")
_BEGINNINGS = {b'"': "string", b"{": "object", b"[": "array", b"t": "boolean", b"f": "boolean", b"n": "null"}


def type_words(parameter: Parameter) -> str:
    """The names of the types that a parameter accepts; "any" if its schema has none."""
    known = [kind for kind in _ORDER if kind in parameter.types] if parameter.typed else []
    return " or ".join(known) or "any"


def needs_type(value: object, parameter: Parameter) -> Literal["string", "json"] | None:
    """The type that must be written with a value so that it is read back unchanged; None if the schema is enough. A
    value that is not among the schema's choices always needs it: a reader could take it for a misspelt choice."""
    says_enough = parameter.choices is None or _plain(value) in parameter.choices
    if isinstance(value, str):
        as_text = parameter.types == STRING or ("string" in parameter.types and not _looks_typed(value))
        return None if as_text and says_enough else "string"
    kind = _kind(value)
    fits = kind in parameter.types or (kind == "integer" and "number" in parameter.types)
    return None if fits and parameter.types != STRING and says_enough else "json"


def _plain(value: object) -> object:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else value


def _kind(value: object) -> str:
    """The JSON type of a value or of JSON text."""
    if not isinstance(value, msgspec.Raw):
        return json_types(value)[0]
    text = bytes(value)
    if text[:1] in _BEGINNINGS:
        return _BEGINNINGS[text[:1]]
    return "number" if any(mark in text for mark in (b".", b"e", b"E")) else "integer"


def _looks_typed(text: str) -> bool:
    plain = text.strip().lower()
    return plain in _WORDS or plain[:1] in _JSON_BEGINS


_MAX_DEPTH = 4
_SAMPLES: dict[str, object] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}

Schema = dict[str, object]


def example_arguments(parameters: Schema) -> Schema:
    """Sample arguments by the schema's types, enums and defaults."""
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
    return _SAMPLES.get(kind, "text") if isinstance(kind, str) else "text"


def _given(schema: Schema) -> list[object]:
    """Values in the schema itself."""
    named = [schema[key] for key in ("const", "default") if schema.get(key) is not None]
    lists = [values for key in ("examples", "enum") if isinstance(values := schema.get(key), list)]
    return [*named, *(value for values in lists for value in values[:1])]


def _harmless(value: object) -> bool:
    """True for a short value without characters that look like markup."""
    if isinstance(value, str):
        return len(value) <= 80 and not any(mark in value for mark in "<>&\n")
    return isinstance(value, (bool, int, float))
