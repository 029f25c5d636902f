"""Hermes JSON: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

Hermes 2 Pro to 4, Qwen2.5, QwQ, Qwen3, Granite 4; LongCat and LM Studio's default have the same body between other
tags. Newlines around the JSON are usual, not required. Several calls are several blocks, or a JSON array in one block.
The closing tag may be missing: before the next opener, or at the end of the text. Text after a block is content.
"""

from __future__ import annotations

from extproc.dialects.buffer import Marks, Steps
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.roo import make_line_forms
from extproc.dialects.json.body import read_array, read_call
from extproc.dialects.json.value import raw_value
from extproc.dialects.parse_context import NoMatch, ParseContext


class TaggedJson:
    """Call objects, or an array of them, between an opener and a closer. `others`: further openers, or tags around
    several of these regions, and what closes them."""

    def __init__(self, opener: str, closer: str, *others: tuple[str, str]) -> None:
        pairs = ((opener, closer), *others)
        self.openers: tuple[str, ...] = tuple(dict.fromkeys(begin for begin, _ in pairs))
        self.blocks = pairs
        self._closers = tuple(dict.fromkeys(end for _, end in pairs))
        self._ends = Marks([*self._closers, *self.openers])

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        yield from buffer.space()
        if (yield from buffer.literal(*self.openers)):  # models double the tags
            yield from buffer.space()
        fenced = yield from buffer.literal("```json", "```")
        yield from buffer.space()
        first = yield from buffer.peek()
        if first == "[":
            buffer.at += 1
            yield from read_array(io, self._ends)
        else:
            yield from read_call(io, self._ends)
        yield from self._more(io)
        yield from self._close(io, fenced)

    def _more(self, io: ParseContext) -> Steps[None]:
        """Further call objects in the same tags; behind stray brackets that models add."""
        buffer = io.buffer
        while True:
            buffer.mark()
            yield from buffer.space()
            while (yield from buffer.literal("}", "]")):
                yield from buffer.space()
                buffer.commit()
                buffer.mark()
            yield from buffer.literal(",", ";")
            yield from buffer.space()
            try:
                yield from read_call(io, self._ends)
            except NoMatch:
                buffer.rewind()
                buffer.commit()
                if not (yield from self._skips(io)):
                    return

    def _skips(self, io: ParseContext) -> Steps[bool]:
        """Behind a call an object that is none, or calls no offered tool: text where a further object follows it."""
        buffer = io.buffer
        buffer.mark()
        blank = yield from buffer.space()
        raw = ""
        if (yield from buffer.peek()) == "{":
            raw = yield from raw_value(io, self._ends)
            yield from buffer.space()
        if not raw or (yield from buffer.peek()) != "{":
            buffer.rewind()
            buffer.commit()
            return False
        buffer.commit()
        io.emit_text(blank + raw)
        return True

    def _close(self, io: ParseContext, fenced: str) -> Steps[None]:
        """The closing tags, however many there are; anything else is text again."""
        buffer = io.buffer
        if fenced:
            blank = yield from buffer.space()
            if not (yield from buffer.literal("```")):
                buffer.push_back(blank)
        blank = yield from buffer.skip(*self._closers)
        buffer.drop_cut_mark(self._ends)
        buffer.push_back(blank)


HERMES = TaggedJson("<tool_call>", "</tool_call>")
LONGCAT = TaggedJson("<longcat_tool_call>", "</longcat_tool_call>")
LM_STUDIO = TaggedJson("[TOOL_REQUEST]", "[END_TOOL_REQUEST]")

DIALECTS = (
    Dialect(name="hermes", forms=(HERMES,), ends=("<|im_end|>",)),
    Dialect(name="qwen3-hermes", forms=(HERMES,), makers=(make_line_forms,), ends=("<|im_end|>",)),
    Dialect(name="granite4", forms=(HERMES,), ends=("<|end_of_text|>",)),
    Dialect(name="lmstudio-default", forms=(LM_STUDIO,)),
)
