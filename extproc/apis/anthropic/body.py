"""The bytes of a request before anyone looks at its fields: valid UTF-8, valid JSON, not nested too deep.

Called by `request`. Turns a body into one that every later decoder accepts, or into a 400 that names the place.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from extproc.errors import BadRequest

_decode = msgspec.json.Decoder().decode

_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
                     rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)


def checked(body: bytes, depth: int) -> bytes:
    """The body itself, or with lone surrogates replaced. Raises BadRequest.

    JavaScript clients cut strings between the halves of an emoji and send `\\ud83d` alone, which no UTF-8 text can
    carry: it becomes U+FFFD, as anywhere else where text is decoded with replacement.
    """
    if not body.strip():
        raise BadRequest("the body is empty: expected a JSON object")
    _check_utf8(body)
    try:
        try:
            tree = _decode(body)
        except msgspec.DecodeError as error:
            body, tree = _repaired(body, error)
    except RecursionError:
        raise _too_deep(depth) from None
    if not isinstance(tree, dict):
        raise BadRequest("the body: expected a JSON object")
    _check_depth(tree, depth)
    return body


def _check_utf8(body: bytes) -> None:
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BadRequest(f"the body is not valid UTF-8: {_position(body, error.start)}") from None


def _repaired(body: bytes, error: msgspec.DecodeError) -> tuple[bytes, object]:
    if b"\\u" in body:
        fixed = _ESCAPE.sub(lambda m: b"\\ufffd" if m.group(1) else m.group(0), body)
        try:
            return fixed, _decode(fixed)
        except msgspec.DecodeError:
            pass
    raise BadRequest(_malformed(body, str(error))) from None


def _malformed(body: bytes, text: str) -> str:
    if match := re.search(r"\(byte (\d+)\)", text):
        what = text[:match.start()].removeprefix("JSON is malformed:").strip()
        return f"the body is not valid JSON: {_position(body, int(match.group(1)))}: {what}"
    return f"the body is not valid JSON: it ends too early, after {_position(body, len(body))}"


def _position(body: bytes, offset: int) -> str:
    line = body.count(b"\n", 0, offset) + 1
    column = offset - (body.rfind(b"\n", 0, offset) + 1) + 1
    return f"line {line}, column {column} (byte {offset})"


def _check_depth(tree: dict[str, object], limit: int) -> None:
    """Level by level, so that a body of any depth costs no recursion."""
    level: list[Any] = [tree]
    for _ in range(limit):
        level = [child for node in level for child in (node.values() if type(node) is dict else node)
                 if type(child) is dict or type(child) is list]
        if not level:
            return
    raise _too_deep(limit)


def _too_deep(limit: int) -> BadRequest:
    return BadRequest(f"the body is nested deeper than {limit} levels: flatten the tool schema or the tool input "
                      "that is nested so deep, or raise limits.json_depth")
