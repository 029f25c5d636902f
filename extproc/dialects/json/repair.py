"""Damaged argument JSON -> the object that was meant, with the name of each repair.

Damage with only one possible meaning is repaired here. Other damage goes to the json_repair library, whose result
counts only if it kept the model's words. No string is closed and no value invented: text that breaks off inside a
string is no object. `problems` validates an object for `arguments: strict`.
"""

from __future__ import annotations

import math
import re

import json_repair
import msgspec

from extproc.bounds import JSON_DEPTH
from extproc.conversation.pending_call import JsonBalance
from extproc.dialects.json.lenient import decode_json, read_lenient
from extproc.schemas.visitor import Schema

_LIBRARY_TEXT = 128 * 1024
"""Longest text, in characters, that goes to json_repair: it takes 0.4 s for this much, and more than twice that for
twice as much."""
_KEPT = 0.9
"""Share of a text's letters and digits that json_repair must keep. Below it, content is lost."""

_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}")
_NOT_WORD = re.compile(r"[\W_]+")
_TRAILING_CLOSERS = " \t\r\n}]),;"


class Repaired(msgspec.Struct, frozen=True):
    """An arguments object. `repairs`: `stray_prefix`, `code_fence`, `double_encoded`, `extra_brackets`, `repeated`,
    `json_repair` and those of `LenientValue`; empty for valid JSON."""

    value: dict[str, object]
    repairs: tuple[str, ...]


def problems(schema: Schema, value: object) -> list[str]:
    """`validation.problems`. Its large library is imported only for `arguments: strict`."""
    from extproc.dialects import validation

    return validation.problems(schema, value)


def read_object(text: str) -> Repaired | None:
    """The object that `text` is or was meant to be; None if it is no object (ordinary text, another JSON value, a
    string that never ends), or if its meaning would have to be guessed. Missing brackets at the end are added: if the
    text may have been cut off, check `call_writer.is_closed` first."""
    return _read(text.strip().removeprefix("\ufeff"), 0)


def _read(text: str, depth: int) -> Repaired | None:
    try:
        value = decode_json(text)
    except ValueError:
        return _repair(text, depth) if text else None
    if isinstance(value, dict):
        return Repaired(value, ())
    if isinstance(value, str):
        return _inner(value, "double_encoded", depth)
    return None


def _repair(text: str, depth: int) -> Repaired | None:
    if text.startswith("```"):
        return _inner(_unfenced(text), "code_fence", depth)
    if text.startswith("{}") and text[2:].lstrip().startswith("{"):
        return _inner(text[2:].lstrip(), "stray_prefix", depth)
    if text.startswith('{\\"'):
        return _escaped_object(text, depth)
    if text[0] not in '{"':
        return None
    if text[0] == "{":
        return _read_lenient_object(text) or _repair_by_library(text)
    # the opening bracket got lost: `"a": 1}`
    found = _read_lenient_object("{" + text) if text.endswith("}") else None
    return found and Repaired(found.value, _with("missing_brackets", found.repairs))


def _inner(text: str, repair: str, depth: int) -> Repaired | None:
    """Reads the text without one outer layer."""
    found = _read(text.strip(), depth + 1) if depth < 3 else None
    return found and Repaired(found.value, _with(repair, found.repairs))


def _with(first: str, others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((first, *others)))


def _unfenced(text: str) -> str:
    """The inside of a Markdown code fence, with or without its closing line."""
    inside = text[3:].lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789").strip()
    return inside.removesuffix("```").rstrip("`") if inside.endswith("```") else inside


def _escaped_object(text: str, depth: int) -> Repaired | None:
    """Reads an object whose quotes are all escaped: the inside of a JSON string without the string's quotes."""
    try:
        inner = decode_json(f'"{text}"')
    except ValueError:
        return _repair_by_library(text)
    return _inner(inner, "double_encoded", depth) if isinstance(inner, str) else None


def _read_lenient_object(text: str) -> Repaired | None:
    """Reads an object with deviations that have only one possible meaning."""
    try:
        reading = read_lenient(text)
    except ValueError:
        return None
    if not isinstance(reading.value, dict):
        return None
    rest = text[reading.end:].strip()
    if not rest:
        return Repaired(reading.value, reading.repairs)
    if not rest.strip(_TRAILING_CLOSERS):
        return Repaired(reading.value, _with("extra_brackets", reading.repairs))
    if not rest.replace(text[:reading.end], "").strip():
        # some servers send the whole arguments once more
        return Repaired(reading.value, _with("repeated", reading.repairs))
    return None


# ------------------------------------------------------------------------------------------------------------ library


def _repair_by_library(text: str) -> Repaired | None:
    if len(text) > _LIBRARY_TEXT or not _looks_closed(text) or _nesting(text) > JSON_DEPTH:
        return None
    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except Exception:
        # a parser of arbitrary damage, which can fail in any way
        return None
    if not isinstance(value, dict) or not _sound(value) or not _kept(text, value):
        return None
    return Repaired(value, ("json_repair",))


def _looks_closed(text: str) -> bool:
    """True if the text ends with a closing bracket that is not inside an open string. Unescaped quotes in strings can
    confuse the balance; then the text counts as closed if a quote stands right before the brackets."""
    whole = text.rstrip(" \t\r\n;`")
    if not whole.endswith("}"):
        return False
    balance = JsonBalance()
    balance.feed(whole)
    return not balance.in_string or _ends_with_quote(whole.rstrip(_TRAILING_CLOSERS))


def _ends_with_quote(text: str) -> bool:
    """True if the last character is a closing quote: not escaped, and not an opening one."""
    if not text.endswith('"') or text.endswith('\\"'):
        return False
    return not text[:-1].rstrip().endswith((":", "{", "[", ","))


def _nesting(text: str) -> int:
    """An upper bound of the nesting: brackets inside strings count as well."""
    deepest = depth = 0
    for mark in re.finditer(r"[{}\[\]()]", text):
        depth += 1 if mark.group() in "{[(" else -1
        deepest = max(deepest, depth)
    return deepest


def _sound(value: object) -> bool:
    """True if JSON can carry the value."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        keys = all(isinstance(key, str) and key and _encodable(key) for key in value)
        return keys and all(map(_sound, value.values()))
    if isinstance(value, list):
        return all(map(_sound, value))
    return not isinstance(value, str) or _encodable(value)


def _encodable(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)


def _kept(text: str, value: dict[str, object]) -> bool:
    """True if almost all letters and digits of the text were kept, and none added."""
    written = msgspec.json.encode(value).decode()
    before, after = _count_letters(text), _count_letters(written)
    return _KEPT * before <= after <= before and text.count("`") == written.count("`")


def _count_letters(text: str) -> int:
    return len(_NOT_WORD.sub("", _UNICODE_ESCAPE.sub("x", text)))
