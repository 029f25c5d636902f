"""Arrays of call objects: `[{"name": ..., "arguments": {...}}, ...]` behind a marker, in a code fence or all alone.

xLAM writes the bare array at the start of the answer, in a fence, or in the tags of other families. Phi-4-mini writes
`functools[...]`, at times with one object in place of the array. Apertus makes the name the key of the arguments,
`<|tools_prefix|>[{"N": {...}}]<|tools_suffix|>`, and thinks between tokens of its own. The array ends the region; what
follows it is content. What is no array of calls of offered tools is text.
"""

from __future__ import annotations

from collections.abc import Iterable

from extproc.dialects.buffer import Marks, Steps
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.hermes import HERMES
from extproc.dialects.forms.mistral import TOOL_CALLS
from extproc.dialects.json.body import ReadCall, read_array, read_call, read_keyed_call
from extproc.dialects.parse_context import NoMatch, ParseContext


class TaggedArray:
    """An array of calls between one of several openers and its closer, if it has one. An opener that ends with the
    bracket has begun the array; one that ends with a brace has begun a single call object."""

    def __init__(self, openers: Iterable[str], closer: str = "", *, single: bool = False,
                 read: ReadCall = read_call) -> None:
        self.openers: tuple[str, ...] = tuple(openers)
        marks = [opener for opener in self.openers if opener[0] not in "[`"]
        self.blocks = tuple((opener, _CLOSING.get(opener[-1]) or closer or "[]") for opener in marks)
        self._closer = closer
        self._single = single
        self._read = read
        self._stop = Marks([*([closer] if closer else []), *(o for o in self.openers if len(o) > 1)])

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        if opener.endswith("{"):
            yield from read_call(io, self._stop, needs_arguments=True, opened=True)
            return
        if not opener.endswith("["):
            yield from buffer.space()
            mark = yield from buffer.peek()
            if mark == "{" and self._single:
                yield from read_call(io, self._stop, needs_arguments=True)
                yield from self._close(io)
                return
            if mark != "[":
                raise NoMatch
            buffer.at += 1
        yield from read_array(io, self._stop, self._read)
        yield from self._close(io)

    def _close(self, io: ParseContext) -> Steps[None]:
        if not self._closer:
            return
        yield from io.buffer.space()
        yield from io.buffer.literal(self._closer)


_CLOSING = {"[": "]", "{": "}"}
BARE_ARRAY = TaggedArray(["["])
FENCED = TaggedArray(["```json", "```"], "```", single=True)
FENCED_JSON = TaggedArray(["```json"], "```")

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="xlam", forms=(TOOL_CALLS, HERMES), loose=(FENCED_JSON,), first=(BARE_ARRAY, FENCED)),
    Dialect(name="phi-4-mini",
            forms=(TaggedArray(["functools[", "functools{"]), TaggedArray(["<|tool_call|>"], "<|/tool_call|>")),
            ends=("<|end|>",)),
    Dialect(name="apertus", forms=(TaggedArray(["<|tools_prefix|>"], "<|tools_suffix|>", read=read_keyed_call),),
            think=(("<|inner_prefix|>", "<|inner_suffix|>"), ("<think>", "</think>")), strays=("<|tools_suffix|>",),
            ends=("<|assistant_end|>",)),
)
