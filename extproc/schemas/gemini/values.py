"""JSON values inside schemas: which type each has, which are equal, and how they are told in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeGuard

import msgspec

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
_TEXT_LIMIT = 300


def kind_of(value: object) -> str:
    """The JSON Schema type of a value; "integer" for 1.0 as well."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) or value.is_integer() else "number"
    return "array" if isinstance(value, list) else "object"


def admits(types: Sequence[str] | None, value: object) -> bool:
    kind = kind_of(value)
    return types is None or kind in types or (kind == "integer" and "number" in types)


def common_types(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The types that both allow, in the order of the first."""
    found = [name for name in first if name in second or (name == "integer" and "number" in second)]
    if "number" in first and "number" not in second and "integer" in second and "integer" not in found:
        found.append("integer")
    return found


def identity(value: object) -> object:
    """Equal for values that JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return (type(value).__name__, value)
    if isinstance(value, (int, float)):
        return ("number", value)
    if isinstance(value, list):
        return ("array", tuple(identity(item) for item in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, identity(item)) for name, item in value.items()))
    return ("other", repr(value))


def distinct(values: Iterable[object]) -> list[object]:
    found: dict[object, object] = {}
    for value in values:
        found.setdefault(identity(value), value)
    return list(found.values())


def is_number(value: object) -> TypeGuard[int | float]:
    """A number that a double holds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def count_of(value: object) -> int | None:
    """A length or a count, None for what is none."""
    if not is_number(value) or value < 0 or value != int(value) or value >= 2**63:
        return None
    return int(value)


def json_text(value: object, limit: int = _TEXT_LIMIT) -> str:
    """JSON for a description; a long one is cut."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return "a value"
    return text if len(text) <= limit else text[:limit] + "..."


def listed(values: Sequence[object], limit: int = _TEXT_LIMIT) -> str:
    """Values side by side, as many as have room."""
    texts: list[str] = []
    room = limit
    for value in values:
        text = json_text(value, limit)
        room -= len(text) + 2
        if room < 0 and texts:
            return ", ".join(texts) + f", ... ({len(values)} in all)"
        texts.append(text)
    return ", ".join(texts)
