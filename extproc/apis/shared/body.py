"""The body of a request before its fields are read: valid UTF-8, valid JSON, not nested too deep.

Called by the request decoders of the client APIs. Most bodies match an API's records, and `in_one_pass` decodes them at
once. Other bodies go through `checked`, which returns a body that every later decoder accepts, or raises a 400 that
names the place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from extproc.apis.shared.json_text import malformed, position, without_half_pairs
from extproc.errors import BadRequest

_decode = msgspec.json.Decoder().decode
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'"[]{}')

T = TypeVar("T")

LARGE = 8 * 1024 * 1024
"""Bytes. The values in a larger body are counted before it is decoded."""
MAX_CONTAINERS = 1_000_000
"""The most objects and lists in a large body. Each takes a few bytes there, and some sixty once it is decoded."""


def in_one_pass(body: bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    """The body as a record. None: it must be `checked`, which also reports its errors. Parts that the record keeps as
    `msgspec.Raw` are valid JSON, but their depth and their numbers are not checked (`check_parts`)."""
    if len(body) > LARGE:
        _check_containers(body)
    _check_utf8(body)
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def check_parts(parts: Iterable[bytes | msgspec.Raw], level: int, depth: int) -> None:
    """Checks raw parts of a body, which begin `level` levels deep in it. Raises BadRequest."""
    left = depth - level
    for part in parts:
        raw = bytes(part)
        try:
            value = _decode(raw)
        except RecursionError:
            raise _too_deep(depth) from None
        except msgspec.DecodeError as error:  # a number out of range
            raise BadRequest(malformed(raw, str(error))) from None
        # Each level takes two bytes: most parts are too short to be too deep.
        if len(raw) > 2 * left and raw.count(b"{") + raw.count(b"[") > left:
            _check_depth([value], left + 1, depth)


def checked(body: bytes, depth: int) -> bytes:
    """The body itself, or with lone surrogates replaced. Raises BadRequest."""
    if not body.strip():
        raise BadRequest("the body is empty: expected a JSON object")
    _check_utf8(body)
    if len(body) > LARGE:
        _check_containers(body)
    try:
        try:
            tree = _decode(body)
        except msgspec.DecodeError as error:
            body, tree = _repaired(body, error)
    except RecursionError:
        raise _too_deep(depth) from None
    if not isinstance(tree, dict):
        raise BadRequest("the body: expected a JSON object")
    _check_depth([tree], depth, depth)
    return body


def _check_utf8(body: bytes) -> None:
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {position(body, error.start)}") from None


def _check_containers(body: bytes) -> None:
    """Most brackets of a large body are in its texts, so an exact count is only made if there are very many."""
    if body.count(b"[") + body.count(b"{") > MAX_CONTAINERS and containers(body) > MAX_CONTAINERS:
        raise BadRequest(f"the body holds more than {MAX_CONTAINERS} objects and lists: send fewer of them")


def containers(body: bytes) -> int:
    """The number of objects and lists in valid JSON, without decoding it: strings are removed in a few passes in C."""
    if b"\\" in body:  # searching one byte is far faster than two
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = body.translate(_BRACKETS, _NOT_STRUCTURE)
    # Two adjacent quotes can be removed: every bracket stays inside or outside of a string. Most strings go here.
    return sum(part.count(b"[") for part in structure.replace(b'""', b"").split(b'"')[::2])


def _repaired(body: bytes, error: msgspec.DecodeError) -> tuple[bytes, object]:
    fixed = without_half_pairs(body)
    if fixed is not body:
        try:
            return fixed, _decode(fixed)
        except msgspec.DecodeError as other:
            error = other
    raise BadRequest(malformed(body, str(error))) from None


def _check_depth(level: list[Any], levels: int, limit: int) -> None:
    """Level by level, so that no body causes deep recursion. `levels`: the number of levels allowed."""
    for _ in range(levels):
        level = [child for node in level for child in (node.values() if type(node) is dict else node)
                 if type(child) is dict or type(child) is list]
        if not level:
            return
    raise _too_deep(limit)


def _too_deep(limit: int) -> BadRequest:
    return BadRequest(f"the body is nested deeper than {limit} levels: flatten the tool schema or the tool input "
                      "that is nested so deep, or raise limits.json_depth")
