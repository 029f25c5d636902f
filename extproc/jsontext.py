"""The JSON text of a request: where it is malformed, and the one damage that is put right.

Called by everyone who decodes a client's body, so that the edge and the translation take the same bodies and complain
in the same words. Decodes nothing itself.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
                     rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)


def without_half_pairs(body: bytes) -> bytes:
    """The body with every lone half of a surrogate pair replaced, at its length; the same object when there is none.

    JavaScript clients cut strings between the halves of an emoji and send `\\ud83d` alone, which no UTF-8 text can
    carry: it becomes U+FFFD, as anywhere else where text is decoded with replacement.
    """
    if b"\\u" not in body:
        return body
    fixed = _ESCAPE.sub(lambda m: b"\\ufffd" if m.group(1) else m.group(0), body)
    return body if fixed == body else fixed


def malformed(body: bytes, problem: str) -> str:
    """What is wrong with a body that is no JSON, and where. `problem` is the decoder's text."""
    if match := re.search(r"\(byte (\d+)\)", problem):
        what = problem[:match.start()].removeprefix("JSON is malformed:").strip()
        return f"the body is not valid JSON: {position(body, int(match.group(1)))}: {what}"
    if "out of range" in problem:  # the decoder tells no place, but for a field that it knows
        return "the body holds a number that is out of range"
    return f"the body is not valid JSON: it ends too early, after {position(body, len(body))}"


def position(body: bytes, offset: int) -> str:
    """A place in a body for people."""
    line = body.count(b"\n", 0, offset) + 1
    column = offset - (body.rfind(b"\n", 0, offset) + 1) + 1
    return f"line {line}, column {column} (byte {offset})"
