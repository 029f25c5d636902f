"""The text of a parameter and its schema -> the JSON value that the model meant.

Tag dialects carry only text: the tool's schema decides whether `3` is a number or a string. The parsers of all dialects
call this once per parameter; `shapes.py` prepares what depends on the schema alone. The functions are pure: they never
change their input, and the result is always a value that JSON can carry.

The rule: the text is tried as null, integer, number, boolean, object or array, and string, in this order, among the
types that the schema allows. The first success counts. A text that fits none of them is read as JSON, and stays text if
it is not JSON. The text of a parameter that can only be a string is never read.
"""

from __future__ import annotations

import math
import re

from extproc.bounds import JSON_DEPTH
from extproc.dialects.json.lenient import decode_json, read_lenient
from extproc.dialects.shapes import Document, Parameter, Schema, ToolShape, json_types, mapping, parameter, tool_shape

__all__ = ["Parameter", "ToolShape", "coerce_text", "coerce_value", "json_or_text", "parameter", "tool_shape"]

_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_EXACT_FLOATS = float(2**53)
_PLAIN_REPAIRS = frozenset({"quotes", "python_literals", "trailing_comma", "control_characters", "escapes"})


class _Absent:
    """No value: the text is not of the type that was tried."""


_ABSENT = _Absent()


# ------------------------------------------------------------------------------------------------------------- values


def coerce_text(text: str, parameter: Parameter) -> object:
    """The value of a parameter whose text is `text`: None, bool, int, float (finite), str, list or dict."""
    if parameter.streams:
        return text
    bare = text.strip()
    value = _typed(text, bare, parameter.types)
    if parameter.choices is not None and isinstance(value, (str, int, float)):
        value = _chosen(value, text, bare, parameter.choices)
    return _nested(value, parameter, 0)


def coerce_value(value: object, schema: object) -> object:
    """A value that came as JSON, with strings replaced where the schema wants another type. Returns the same object if
    nothing changed. `schema`: a Parameter, or a schema with its own `$defs`."""
    if not isinstance(schema, Parameter):
        if not isinstance(schema, dict):
            return value
        schema = Document(schema).parameter([schema])
    return _member(value, schema, 0)


def json_or_text(text: str) -> object:
    """The value of JSON text, else the text itself. For dialects that mark JSON values."""
    try:
        return decode_json(text.strip())
    except ValueError:
        return text


def _typed(text: str, bare: str, types: frozenset[str]) -> object:
    """The value as the first type that the text fits. If the schema also allows strings, only JSON's own spellings
    count (`007` and `{'a': 1}` stay text)."""
    exact = "string" in types
    if "null" in types and (bare == "None" or bare.lower() == "null"):
        return None
    value: object = _ABSENT
    if "integer" in types or "number" in types:
        value = _number(bare, "number" in types, exact)
    if value is _ABSENT and "boolean" in types:
        value = _BOOLEANS.get(bare.lower(), _ABSENT)
    if value is _ABSENT and ("object" in types or "array" in types):
        value = _container(bare, types, exact)
    if value is not _ABSENT:
        return value
    return text if exact else _untyped(text, bare, types)


def _number(bare: str, fractions: bool, exact: bool) -> object:
    if not bare or bare[0] not in "+-.0123456789" or (exact and not _JSON_NUMBER.fullmatch(bare)):
        return _ABSENT
    try:
        if _INTEGER.fullmatch(bare):
            return int(bare)
        if fractions and _NUMBER.fullmatch(bare):
            number = float(bare)
            return _whole(number) if math.isfinite(number) else _ABSENT
    except ValueError:  # more digits than Python converts
        pass
    return _ABSENT


def _whole(number: float) -> int | float:
    """A whole float becomes an integer while that is exact."""
    return int(number) if abs(number) <= _EXACT_FLOATS and number.is_integer() else number


def _container(bare: str, types: frozenset[str], exact: bool) -> object:
    """An object or array: JSON, JSON in a JSON string, or a Python literal."""
    if bare[:1] not in ("{", "[", "(", '"'):
        return _ABSENT
    try:
        value = decode_json(bare)
        if isinstance(value, str) and not exact:
            value = decode_json(value)
    except ValueError:
        if exact:
            return _ABSENT
        value = _python_literal(bare)
    fits = (isinstance(value, dict) and "object" in types) or (isinstance(value, list) and "array" in types)
    return value if fits else _ABSENT


def _python_literal(bare: str) -> object:
    try:
        reading = read_lenient(bare)
    except ValueError:
        return _ABSENT
    whole = reading.end == len(bare) and _PLAIN_REPAIRS.issuperset(reading.repairs)
    return reading.value if whole else _ABSENT


def _untyped(text: str, bare: str, types: frozenset[str]) -> object:
    """A text that fits none of the types: any JSON value, else the text."""
    try:
        value = decode_json(bare)
    except ValueError:
        return text
    if isinstance(value, float) and "integer" in types:
        return _whole(value)
    # a quoted value although the schema allows no string
    return _typed(value, value.strip(), types) if isinstance(value, str) else value


def _chosen(value: object, text: str, bare: str, choices: tuple[object, ...]) -> object:
    """`value`, unless the schema lists the text, or the text without surrounding space, as a string."""
    if any(type(choice) is type(value) and choice == value for choice in choices):
        return value
    for candidate in (text, bare):
        if candidate in choices:
            return candidate
    return value


# ------------------------------------------------------------------------------------------------------------ members


def _member(value: object, parameter: Parameter, depth: int) -> object:
    """A value inside a JSON value. A string changes only if the schema allows no string there."""
    if isinstance(value, str):
        types = parameter.types
        if not parameter.typed or "string" in types or "any" in types:
            return value
        new = coerce_text(value, parameter)
        return new if _fits(new, types) else value
    return _nested(value, parameter, depth)


def _nested(value: object, parameter: Parameter, depth: int) -> object:
    document = parameter.document
    if depth >= JSON_DEPTH or document is None or not parameter.alternatives:
        return value
    if isinstance(value, dict):
        return _object(value, parameter, document, depth)
    if isinstance(value, list):
        return _array(value, parameter, document, depth)
    return value


def _object(value: dict[str, object], parameter: Parameter, document: Document, depth: int) -> dict[str, object]:
    out = value
    for key, old in value.items():
        if not isinstance(old, (str, dict, list)):
            continue
        schemas = [mapping(part["properties"])[key] for part in parameter.alternatives
                   if key in mapping(part.get("properties"))]
        if not schemas:
            schemas = [part["additionalProperties"] for part in parameter.alternatives
                       if isinstance(part.get("additionalProperties"), dict)]
        new = _member(old, document.parameter(schemas), depth + 1) if schemas else old
        if new is not old:
            out = dict(value) if out is value else out
            out[key] = new
    return out


def _array(value: list[object], parameter: Parameter, document: Document, depth: int) -> list[object]:
    listed = max((len(_tuple(part)) for part in parameter.alternatives), default=0)
    out = value
    for index, old in enumerate(value):
        if not isinstance(old, (str, dict, list)):
            continue
        child = _item(parameter, document, min(index, listed))
        new = old if child is None else _member(old, child, depth + 1)
        if new is not old:
            out = list(value) if out is value else out
            out[index] = new
    return out


def _item(parameter: Parameter, document: Document, index: int) -> Parameter | None:
    schemas: list[object] = []
    for part in parameter.alternatives:
        places = _tuple(part)
        if index < len(places):
            schemas.append(places[index])
        elif isinstance(part.get("items"), dict):
            schemas.append(part["items"])
    return document.parameter(schemas) if schemas else None


def _tuple(schema: Schema) -> list[object]:
    """The schemas of the first items: `prefixItems`, in old drafts a list in `items`."""
    for key in ("prefixItems", "items"):
        found = schema.get(key)
        if isinstance(found, list):
            return found
    return []


def _fits(value: object, types: frozenset[str]) -> bool:
    if isinstance(value, float):
        return "number" in types or ("integer" in types and value.is_integer())
    return not types.isdisjoint(json_types(value))
