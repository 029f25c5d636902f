"""Mistral: `[TOOL_CALLS]` and what follows it, which differs from one tokenizer to the next.

Up to v7 an array of call objects; from v11 on one marker a call, with the name in the open: `[TOOL_CALLS]NAME{...}`,
`NAME[ARGS]{...}`, `NAME[CALL_ID]id[ARGS]{...}`. Servers strip the marker of v3: then the array is the whole answer.
Text after the array or the closing brace is content. Reasoning stands between `[THINK]` and `[/THINK]`.
"""

from __future__ import annotations

from extproc.dialects.buffer import Marks, Steps
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.whole_answer import BARE_ARRAY_ONLY
from extproc.dialects.json.body import read_arguments, read_array, read_call
from extproc.dialects.parse_context import NoMatch, ParseContext

_STOP = Marks(["[TOOL_CALLS]", "</s>"])
_MARKS = Marks(["[CALL_ID]", "[ARGS]"])


class ToolCalls:
    """Behind the marker: an array, an object, or a name with its arguments."""

    openers: tuple[str, ...] = ("[TOOL_CALLS]",)
    blocks = (("[TOOL_CALLS]", "[/TOOL_CALLS]"), ("[TOOL_CALLS]", "[]"))

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        yield from buffer.space()
        mark = yield from buffer.peek()
        if mark == "[":
            buffer.at += 1
            yield from read_array(io, _STOP)
        elif mark == "{":
            yield from read_call(io, _STOP)
        else:
            yield from self._named(opener, io)
        yield from buffer.literal("[/TOOL_CALLS]", "</s>")

    def _named(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        name = yield from buffer.run(lambda char: char.isalnum() or char in "_-.:", 256)
        if io.offered(name) is None:
            raise NoMatch
        yield from buffer.space()
        marked = yield from buffer.literal("[CALL_ID]", "[ARGS]")
        if marked == "[CALL_ID]":
            yield from buffer.space()
            yield from buffer.run(lambda char: char.isalnum() or char in "_-.:", 256)
            yield from buffer.space()
            marked = yield from buffer.literal("[ARGS]")
        yield from buffer.space()
        mark = yield from buffer.peek()
        # without its marker only an object can be told from prose; a name alone ends the answer or the call
        if not marked and mark not in ("{", "") and (yield from buffer.peek(len(opener))) != opener:
            buffer.drop_cut_mark(_MARKS)
            raise NoMatch
        if not mark and not buffer.clean:
            raise NoMatch
        writer = io.call(name)
        if mark and (mark not in ("{", '"') or (yield from read_arguments(io, writer, _STOP))):
            writer.close()


TOOL_CALLS = ToolCalls()

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="mistral", forms=(TOOL_CALLS,), first=(BARE_ARRAY_ONLY,),
            think=(("[THINK]", "[/THINK]"), ("<think>", "</think>"))),
)
