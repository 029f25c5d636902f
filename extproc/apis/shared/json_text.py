"""The JSON text of a request or an event: the place of an error, and the repair of halves of surrogate pairs.

Called by all decoders of a client's body, so that the edge and the translation accept the same bodies and report the
same errors, and by the decoders of responses. Decodes nothing itself.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
                     rb"|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL)


def without_half_pairs(body: bytes) -> bytes:
    """The body with every lone half of a surrogate pair replaced, at the same length; the same object if there is none.

    JavaScript clients cut strings between the halves of an emoji and send `\\ud83d` alone, which UTF-8 cannot encode.
    It becomes U+FFFD, as in any text that is decoded with replacement.
    """
    if b"\\u" not in body:
        return body
    fixed = _ESCAPE.sub(lambda m: b"\\ufffd" if m.group(1) else m.group(0), body)
    return body if fixed == body else fixed


class HalfPair(Exception):  # noqa: N818 - the state of the bytes
    """A string of an event ends in half of a surrogate pair: the other half may begin a string of the next event."""


def ends_in_half(payload: bytes) -> bool:
    """True if a string of this JSON text ends in the first half of a surrogate pair."""
    return b"\\u" in payload and bool(_halves(payload, at_end=True))


def joined_halves(first: bytes, second: bytes) -> tuple[bytes, bytes]:
    """Joins halves of surrogate pairs at the ends of strings in `first` with those at the beginnings of strings in
    `second`. Returns both events, with the whole pairs in the first. Halves without a partner become U+FFFD."""
    ends, begins = _halves(first, at_end=True), _halves(second, at_end=False)
    if len(ends) != len(begins):  # the pairs are ambiguous
        return without_half_pairs(first), second
    whole: list[bytes] = []
    rest: list[bytes] = []
    at = behind = 0
    for end, begin in zip(ends, begins, strict=True):
        whole += (first[at:end.end()], begin.group())
        rest.append(second[behind:begin.start()])
        at, behind = end.end(), begin.end()
    return b"".join([*whole, first[at:]]), b"".join([*rest, second[behind:]])


def _halves(payload: bytes, *, at_end: bool) -> list[re.Match[bytes]]:
    """The first halves that end a string, or the second halves that begin one."""
    found: list[re.Match[bytes]] = []
    former = 0
    """The end of the previous escape: a quote in it opens no string."""
    for escape in _ESCAPE.finditer(payload):
        half = escape.group(1)
        if half is not None and (half[2:3] in b"89abAB") is at_end:
            start, end = escape.span()
            quote = payload[end:end + 1] if at_end else payload[max(former, start - 1):start]
            if quote == b'"':
                found.append(escape)
        former = escape.end()
    return found


def malformed(body: bytes, problem: str) -> str:
    """The error message for a body that is not JSON, with the place. `problem`: the decoder's text."""
    if match := re.search(r"\(byte (\d+)\)", problem):
        what = problem[:match.start()].removeprefix("JSON is malformed:").strip()
        return f"the body is not valid JSON: {position(body, int(match.group(1)))}: {what}"
    if "out of range" in problem:  # the decoder reports a place only for known fields
        return "the body holds a number that is out of range"
    return f"the body is not valid JSON: it ends too early, after {position(body, len(body))}"


def position(body: bytes, offset: int) -> str:
    """A place in a body, for error messages."""
    line = body.count(b"\n", 0, offset) + 1
    column = offset - (body.rfind(b"\n", 0, offset) + 1) + 1
    return f"line {line}, column {column} (byte {offset})"


def without_surrogates(value: object) -> object:
    """The same value with lone surrogates in its strings replaced by U+FFFD."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {str(without_surrogates(key)): without_surrogates(item) for key, item in value.items()}
    return value
