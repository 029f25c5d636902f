"""Bare JSON calls that are the whole answer, or its last lines: of models whose marks a server has stripped, and of
unknown models.

Nothing marks such a call, so the name must be that of an offered tool, arguments must be there, and only the end of the
answer decides.
"""

from __future__ import annotations

from extproc.dialects.buffer import Steps
from extproc.dialects.json.body import ARGUMENT_KEYS, NAME_KEYS, read_array, read_call
from extproc.dialects.json.value import raw_value, short_string
from extproc.dialects.parse_context import NotACall, Reading

ENDS = ("<|eom_id|>", "<|eot_id|>", "<|eot|>", "<|eom|>", "<|im_end|>", "<|end|>", "</s>")
"""Tokens that end a message in the templates of several families."""


class BareCallAtEnd:
    """One bare call, or an array of them, that is the whole answer, or its last lines: known only at the end, so
    nothing goes out before. What cannot be one is released at its first foreign member."""

    def __init__(self, opener: str) -> None:
        self.openers: tuple[str, ...] = (opener,)

    def read(self, opener: str, io: Reading) -> Steps[None]:
        tape = io.tape
        tape.push_back(opener[-1])
        tape.hold()
        try:
            yield from self._read(io)
        except NotACall:
            if len(opener) > 1:  # what is handed back begins behind the opener
                tape.hand_back()
                tape.at += 1
                tape.hold()
            raise

    def _read(self, io: Reading) -> Steps[None]:
        tape = io.tape
        is_array = (yield from tape.literal("{", "[")) == "["
        if is_array:
            yield from self._check_array(io)
        else:
            yield from self._check(io)
        yield from tape.space()
        while (yield from tape.literal(*ENDS)):
            yield from tape.space()
        if (yield from tape.peek()) or not tape.clean:
            raise NotACall
        tape.hand_back()
        if is_array:
            yield from tape.literal("[")
            yield from read_array(io)
        else:
            yield from read_call(io, needs_arguments=True)
        tape.at = len(tape.buffer)

    def _check_array(self, io: Reading) -> Steps[None]:
        """Objects as `_check` wants them, through the closing bracket."""
        found = False
        while (mark := (yield from io.tape.behind_commas())) == "{":
            io.tape.at += 1
            yield from self._check(io)
            found = True
        if mark != "]" or not found:
            raise NotACall
        io.tape.at += 1

    def _check(self, io: Reading) -> Steps[None]:
        """One object with a name that is offered, arguments, and nothing that calls do not have."""
        tape = io.tape
        seen: set[str] = set()
        while True:
            mark = yield from tape.behind_commas()
            if mark == "}":
                tape.at += 1
                break
            if mark != '"':
                raise NotACall
            key = yield from short_string(tape)
            kind = "name" if key in NAME_KEYS else "arguments" if key in ARGUMENT_KEYS else key
            yield from tape.space()
            if kind not in ("name", "arguments", "type", "id") or kind in seen or not (yield from tape.literal(":")):
                raise NotACall
            seen.add(kind)
            yield from tape.space()
            mark = yield from tape.peek()
            if kind == "name" and (mark != '"' or io.offered((yield from short_string(tape))) is None):
                raise NotACall
            if (kind == "arguments" and mark not in ("{", '"')) or (kind in ("type", "id") and mark != '"'):
                raise NotACall
            if kind != "name":
                yield from raw_value(io)
        if not {"name", "arguments"} <= seen:
            raise NotACall


BARE_CALL_ONLY = BareCallAtEnd("{")
BARE_ARRAY_ONLY = BareCallAtEnd("[")
LAST_LINE_CALL = BareCallAtEnd("\n{")
