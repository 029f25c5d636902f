"""Bare JSON calls that are the whole answer, or its last lines: of models whose marks a server has stripped, and of
unknown models.

Nothing marks such a call, so the name must be that of an offered tool, arguments must be there, and only the end of the
answer decides.
"""

from __future__ import annotations

from extproc.dialects.buffer import Steps
from extproc.dialects.json.body import ARGUMENT_KEYS, NAME_KEYS, read_array, read_call
from extproc.dialects.json.value import raw_value, short_string
from extproc.dialects.parse_context import NoMatch, ParseContext

ENDS = ("<|eom_id|>", "<|eot_id|>", "<|eot|>", "<|eom|>", "<|im_end|>", "<|end|>", "</s>")
"""Tokens that end a message in the templates of several families."""


class BareCallAtEnd:
    """One bare call, or an array of them, that is the whole answer, or its last lines: known only at the end, so
    nothing goes out before. What cannot be one is released at its first foreign member."""

    def __init__(self, opener: str) -> None:
        self.openers: tuple[str, ...] = (opener,)

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        buffer.push_back(opener[-1])
        buffer.mark()
        try:
            yield from self._read(io)
        except NoMatch:
            if len(opener) > 1:  # what is handed back begins behind the opener
                buffer.rewind()
                buffer.at += 1
                buffer.mark()
            raise

    def _read(self, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        is_array = (yield from buffer.literal("{", "[")) == "["
        if is_array:
            yield from self._check_array(io)
        else:
            yield from self._check(io)
        yield from buffer.space()
        while (yield from buffer.literal(*ENDS)):
            yield from buffer.space()
        if (yield from buffer.peek()) or not buffer.clean:
            raise NoMatch
        buffer.rewind()
        if is_array:
            yield from buffer.literal("[")
            yield from read_array(io)
        else:
            yield from read_call(io, needs_arguments=True)
        buffer.at = len(buffer.buffer)

    def _check_array(self, io: ParseContext) -> Steps[None]:
        """Objects as `_check` wants them, through the closing bracket."""
        found = False
        while (mark := (yield from io.buffer.behind_commas())) == "{":
            io.buffer.at += 1
            yield from self._check(io)
            found = True
        if mark != "]" or not found:
            raise NoMatch
        io.buffer.at += 1

    def _check(self, io: ParseContext) -> Steps[None]:
        """One object with a name that is offered, arguments, and nothing that calls do not have."""
        buffer = io.buffer
        seen: set[str] = set()
        while True:
            mark = yield from buffer.behind_commas()
            if mark == "}":
                buffer.at += 1
                break
            if mark != '"':
                raise NoMatch
            key = yield from short_string(buffer)
            kind = "name" if key in NAME_KEYS else "arguments" if key in ARGUMENT_KEYS else key
            yield from buffer.space()
            if kind not in ("name", "arguments", "type", "id") or kind in seen or not (yield from buffer.literal(":")):
                raise NoMatch
            seen.add(kind)
            yield from buffer.space()
            mark = yield from buffer.peek()
            if kind == "name" and (mark != '"' or io.offered((yield from short_string(buffer))) is None):
                raise NoMatch
            if (kind == "arguments" and mark not in ("{", '"')) or (kind in ("type", "id") and mark != '"'):
                raise NoMatch
            if kind != "name":
                yield from raw_value(io)
        if not {"name", "arguments"} <= seen:
            raise NoMatch


BARE_CALL_ONLY = BareCallAtEnd("{")
BARE_ARRAY_ONLY = BareCallAtEnd("[")
LAST_LINE_CALL = BareCallAtEnd("\n{")
