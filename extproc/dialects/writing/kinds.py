"""Which JSON types a parameter takes in words, and whether a value written as text would be read back as another one.

The reading rule of tagged dialects: a parameter whose schema allows strings only, or says nothing, is text; for others
null, numbers, booleans and JSON are tried before text.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.dialects.shapes import STRING, Parameter, json_types

_ORDER = ("string", "number", "integer", "boolean", "array", "object", "null")
_WORDS = frozenset({"null", "none", "nil", "undefined", "true", "false", "yes", "no", "on", "off", "nan", "inf",
                    "infinity"})
_JSON_BEGINS = frozenset("+-.0123456789{[(\"'")
_BEGINNINGS = {b'"': "string", b"{": "object", b"[": "array", b"t": "boolean", b"f": "boolean", b"n": "null"}


def type_words(parameter: Parameter) -> str:
    """The types that a parameter takes, for people and models; "any" when its schema names none."""
    known = [kind for kind in _ORDER if kind in parameter.types] if parameter.typed else []
    return " or ".join(known) or "any"


def needs_type(value: object, parameter: Parameter) -> Literal["string", "json"] | None:
    """What must be said about a value for it to be read back as it is; None when the schema says enough. A value
    outside the schema's own choices always needs it: a reader could take it for a misspelt one."""
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
    """The JSON type of a value or of JSON text, whose first byte tells but for numbers."""
    if not isinstance(value, msgspec.Raw):
        return json_types(value)[0]
    text = bytes(value)
    if text[:1] in _BEGINNINGS:
        return _BEGINNINGS[text[:1]]
    return "number" if any(mark in text for mark in (b".", b"e", b"E")) else "integer"


def _looks_typed(text: str) -> bool:
    plain = text.strip().lower()
    return plain in _WORDS or plain[:1] in _JSON_BEGINS
