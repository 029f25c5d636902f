"""JSON values inside schemas: their types, their equality, and their text in a description."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeGuard

import msgspec

_TEXT_LIMIT = 300


def kind_of(value: object) -> str:
    """The JSON Schema type of a value; 1.0 is an "integer", too."""
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
    """True if a value has one of the types; None means all types."""
    kind = kind_of(value)
    return types is None or kind in types or (kind == "integer" and "number" in types)


def common_types(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """The types that both lists allow, in the order of the first list."""
    found = [name for name in first if name in second or (name == "integer" and "number" in second)]
    if "number" in first and "number" not in second and "integer" in second and "integer" not in found:
        found.append("integer")
    return found


def identity(value: object) -> object:
    """A key that is equal for values that JSON Schema calls equal: 1 and 1.0 are, 1 and true are not."""
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
    """The values without those that JSON Schema calls equal to an earlier one."""
    found: dict[object, object] = {}
    for value in values:
        found.setdefault(identity(value), value)
    return list(found.values())


def is_number(value: object) -> TypeGuard[int | float]:
    """True for a number that fits into a double."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def count_of(value: object) -> int | None:
    """The value of a keyword such as `minItems`; None if it is not a count."""
    if not is_number(value) or value < 0 or value != int(value) or value >= 2**63:
        return None
    return int(value)


def json_text(value: object, limit: int = _TEXT_LIMIT) -> str:
    """JSON for a description, cut after `limit` characters."""
    try:
        text = msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return "a value"
    return text if len(text) <= limit else text[:limit] + "..."


def listed(values: Sequence[object], limit: int = _TEXT_LIMIT) -> str:
    """Values separated by commas, as many as fit into `limit` characters."""
    texts: list[str] = []
    room = limit
    for value in values:
        text = json_text(value, limit)
        room -= len(text) + 2
        if room < 0 and texts:
            return ", ".join(texts) + f", ... ({len(values)} in all)"
        texts.append(text)
    return ", ".join(texts)
