"""Damaged argument JSON -> the object that was meant, with the name of each repair; an object and its schema -> what is
wrong with it.

Called by the readers when a call's arguments do not parse, and for `arguments: strict`. Damage with one plain reading
is repaired here exactly; the rest goes to the json_repair library, whose result counts only when it kept what the model
wrote. A string is never closed and a value never invented: text that breaks off inside a string is no object. Nothing
is fetched, and no client's schema or pattern can make a check run long.
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
"""Share of the letters and digits of a text that must come back from json_repair: below it, it dropped content."""

_UNICODE_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{4}")
_NOT_WORD = re.compile(r"[\W_]+")
_TRAILING_CLOSERS = " \t\r\n}]),;"


class Repaired(msgspec.Struct, frozen=True):
    """An arguments object. `repairs` names what was repaired: `stray_prefix`, `code_fence`, `double_encoded`,
    `extra_brackets`, `repeated`, `json_repair`, and those of `relaxed.Reading`; empty for valid JSON."""

    value: dict[str, object]
    repairs: tuple[str, ...]


def problems(schema: Schema, value: object) -> list[str]:
    """What is wrong with the value, as `validation.problems` tells it. Only `arguments: strict` asks, and what it takes
    is a large library: the other processes of the gateway need not load it."""
    from extproc.dialects import validation

    return validation.problems(schema, value)


def read_object(text: str) -> Repaired | None:
    """The object that `text` is or was meant to be. None: no object (prose, another JSON value, a string that never
    ends), or one that cannot be read without guessing what it said. Missing brackets at the end are supplied: check
    `parse_context.is_closed` first where the text may have been cut."""
    return _read(text.strip().removeprefix("\ufeff"), 0)


def _read(text: str, depth: int) -> Repaired | None:
    try:
        value = decode_json(text)
    except ValueError:
        return _mended(text, depth) if text else None
    if isinstance(value, dict):
        return Repaired(value, ())
    if isinstance(value, str):
        return _inner(value, "double_encoded", depth)
    return None


def _mended(text: str, depth: int) -> Repaired | None:
    if text.startswith("```"):
        return _inner(_unfenced(text), "code_fence", depth)
    if text.startswith("{}") and text[2:].lstrip().startswith("{"):
        return _inner(text[2:].lstrip(), "stray_prefix", depth)
    if text.startswith('{\\"'):
        return _escaped_object(text, depth)
    if text[0] not in '{"':
        return None
    if text[0] == "{":
        return _plain(text) or _by_library(text)
    # the opening bracket got lost: `"a": 1}`
    found = _plain("{" + text) if text.endswith("}") else None
    return found and Repaired(found.value, _with("missing_brackets", found.repairs))


def _inner(text: str, repair: str, depth: int) -> Repaired | None:
    """What is left when one layer is taken off."""
    found = _read(text.strip(), depth + 1) if depth < 3 else None
    return found and Repaired(found.value, _with(repair, found.repairs))


def _with(first: str, others: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((first, *others)))


def _unfenced(text: str) -> str:
    """The inside of a Markdown code fence, with or without its closing line."""
    inside = text[3:].lstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789").strip()
    return inside.removesuffix("```").rstrip("`") if inside.endswith("```") else inside


def _escaped_object(text: str, depth: int) -> Repaired | None:
    """An object whose quotes are all escaped, as it stands inside a JSON string, but without the string's quotes."""
    try:
        inner = decode_json(f'"{text}"')
    except ValueError:
        return _by_library(text)
    return _inner(inner, "double_encoded", depth) if isinstance(inner, str) else None


def _plain(text: str) -> Repaired | None:
    """The exact repairs."""
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


def _by_library(text: str) -> Repaired | None:
    if len(text) > _LIBRARY_TEXT or not _looks_closed(text) or _nesting(text) > JSON_DEPTH:
        return None
    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except Exception:
        # a parser of arbitrary damage, which may stumble over it in any way
        return None
    if not isinstance(value, dict) or not _sound(value) or not _kept(text, value):
        return None
    return Repaired(value, ("json_repair",))


def _looks_closed(text: str) -> bool:
    """True if the text comes to an end: the last bracket closes, and what stands before it is not inside of a string
    that was opened and never closed. Quotes inside of strings may confuse the count, so the last one is looked at: a
    string that ended has it right before the brackets."""
    whole = text.rstrip(" \t\r\n;`")
    if not whole.endswith("}"):
        return False
    balance = JsonBalance()
    balance.feed(whole)
    return not balance.in_string or _ends_with_quote(whole.rstrip(_TRAILING_CLOSERS))


def _ends_with_quote(text: str) -> bool:
    """True if the last character is a quote that closes: not escaped, and not one that opens."""
    if not text.endswith('"') or text.endswith('\\"'):
        return False
    return not text[:-1].rstrip().endswith((":", "{", "[", ","))


def _nesting(text: str) -> int:
    """An upper bound of the nesting: brackets inside of strings count too."""
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
    """True if the letters and digits of the text are all still there (but for a slack), and none besides."""
    written = msgspec.json.encode(value).decode()
    before, after = _count_letters(text), _count_letters(written)
    return _KEPT * before <= after <= before and text.count("`") == written.count("`")


def _count_letters(text: str) -> int:
    return len(_NOT_WORD.sub("", _UNICODE_ESCAPE.sub("x", text)))
