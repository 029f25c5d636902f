"""The grammar of a model's text: visible text, reasoning in tags, code fences, regions of calls.

`TextReader` reads the text of one channel as generators in the order of that grammar. At an opener it marks the buffer
and runs the opener's parsers in turn. If none of them finds a call, the buffer is rewound and the opener is text. Text
in a fence is never a call. `scanner.py` feeds the text and decides when a channel ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from extproc.bounds import Limits
from extproc.conversation.call_counts import CallTally
from extproc.conversation.model import Tool
from extproc.conversation.sequencer import BlockSequencer
from extproc.dialects.buffer import Steps, TextBuffer
from extproc.dialects.call_writer import ArgumentsMode
from extproc.dialects.parse_context import EmptyBlock, NoMatch, ParseContext, PlainText, ToolCallParser
from extproc.dialects.scan_plan import ScanPlan, compile_plan
from extproc.dialects.text_marks import (
    FENCE_MARKS,
    FENCES,
    OPENER,
    CodeSpan,
    TrailingText,
    fence_after,
    read_fence,
    read_lone_tag,
    read_run,
    read_span_rest,
    read_turn_end,
    skip_empty_block,
)
from extproc.dialects.text_output import TextOutput


class TextReader:
    """Reads one channel at a time from its buffer; sends text, reasoning and calls to the sequencer."""

    def __init__(self, plan: ScanPlan, sequencer: BlockSequencer, tools: Mapping[str, Tool], *,
                 mode: ArgumentsMode, limits: Limits, tally: CallTally) -> None:
        self._plan = plan
        self._compiled = compiled = compile_plan(plan, tuple(tools) if plan.factories else ())
        self._tally = tally
        self._sequencer = sequencer
        self._tools = tools
        self._mode: ArgumentsMode = mode
        self._limit = limits.held_back
        self._openers, self._content_marks = compiled.openers, compiled.content_marks
        self._reasoning_marks = compiled.reasoning_marks
        self._out = TextOutput(sequencer, self._limit, reads_calls=bool(self._openers),
                               reasoning_assumed=plan.reasoning_assumed)
        self._trailing = TrailingText(compiled.openers, (*plan.template_tokens, *plan.turn_ends))
        self._buffer = TextBuffer()
        self._context: ParseContext | None = None
        """For the parsers of the current channel, from its first opener on."""
        self._fast_content = self._fast_reasoning = False
        """Text without a mark may pass without running the reader."""
        self._opens_in_reasoning = plan.reasoning_open
        self._reasoning_closed = False
        """A closing tag ended the reasoning."""
        self._after_reasoning = False
        """Reasoning is over. The model may repeat a call of the reasoning."""
        self._text_closer = ""
        """The tag that closes the visible text, if a tag opened it."""
        self._parsing = False
        """A parser reads."""
        self._empty_block = False
        """The last parser found a block without calls."""
        self._plain_length = 0
        """Characters after the current opener that are known to be text."""
        self._native_call_came = False
        self._native_behind_opener = False
        """A native call came right after the current opener."""
        self._cut_inside_call = False
        """The text ended inside a call, or where one had begun. That piece is not sent."""

    @property
    def _io(self) -> ParseContext:
        if self._context is None:
            self._context = io = ParseContext(self._buffer, self._sequencer, self._tools, self._mode, self._tally)
            io.emit_text = self._out.write_text
            io.begin_thinking = self._out.begin_line_of_reasoning
            io.emit_thinking = self._out.write_reasoning
            io.before_call = self._before_call
            io.call_ended = self._trailing.end_call
        return self._context

    def _before_call(self) -> None:
        self._trailing.begin_call()
        self._out.begin_call()

    # -------------------------------------------------------------------------------------------------------- content

    def _read_content(self, first: bool) -> Steps[None]:
        compiled, out, buffer = self._compiled, self._out, self._buffer
        if first:
            if self._opens_in_reasoning and not self._sequencer.has_reasoned:
                yield from self._read_tagged_reasoning(None)
                self._check_assumed_reasoning()
            yield from self._read_opening()
        while True:
            self._fast_content = True
            mark = yield from buffer.until(self._content_marks, out.write_text)
            self._fast_content = False
            if not mark:
                return
            if mark in FENCES:
                yield from read_fence(buffer, mark, "", out.on_blank_line, out.write_text)
            elif mark in self._openers:
                yield from self._read_region(mark, thinking=False)
            elif mark in compiled.think_openers and mark not in compiled.think_closers:
                yield from self._read_tagged_reasoning(compiled.think_openers[mark])
            elif mark in compiled.turn_ends and not self._sequencer.ends_with_whole_calls:
                out.write_text((yield from self._read_turn_end(mark)))
            elif mark in compiled.closers:
                out.write_text((yield from self._read_left_over(mark)))
            elif out.span.opens and (quoted := (yield from read_span_rest(buffer, self._limit))):
                out.write_text(mark + quoted)
            elif mark in compiled.think_closers:
                self._after_reasoning = True
                if self._plan.opening_forms or compiled.text_tags:
                    yield from self._read_opening()
            elif mark in compiled.text_tags.values():
                yield from self._read_text_closer(mark)
            # else: a stray closing tag or a token of the template, which is dropped

    def _read_opening(self) -> Steps[None]:
        """The very start: tags of reasoning, and forms that may only stand here."""
        buffer, compiled = self._buffer, self._compiled
        blank = yield from buffer.space(self._limit)
        if self._sequencer.has_reasoned and (yield from buffer.literal(*compiled.think_closers)):
            yield from buffer.space(self._limit)  # the tag ends reasoning that came in a field of its own
            blank = ""
        while compiled.think_openers:
            tag = yield from buffer.literal(*compiled.think_openers)
            if not tag:
                break
            yield from self._read_tagged_reasoning(compiled.think_openers[tag])
            blank = ""
        if compiled.text_tags and (tag := (yield from buffer.literal(*compiled.text_tags))):
            self._text_closer = compiled.text_tags[tag]
            yield from buffer.space(self._limit)
            blank = ""
        self._plain_length = 0
        for parser in self._plan.opening_forms:
            buffer.mark()
            opener = yield from buffer.literal(*parser.openers)
            if opener and ((yield from self._try_parser(parser, opener)) or self._drop_cut_call()):
                return
            buffer.rewind()
            buffer.commit()
        if text := blank + buffer.take(self._plain_length):
            self._out.write_text(text)

    def _read_text_closer(self, mark: str) -> Steps[None]:
        """A tag that closes the whole visible text: dropped at its end, else text."""
        if mark == self._text_closer or self._sequencer.ends_with_whole_calls:
            mark = yield from self._read_turn_end(mark, mark)
            if not mark:
                self._out.deferred = ""
                yield from self._buffer.space(self._limit)
        self._out.write_text(mark)

    def _read_turn_end(self, mark: str, *others: str) -> Steps[str]:
        ends = (*others, *self._compiled.turn_ends)
        return (yield from read_turn_end(self._buffer, mark, ends, self._compiled.behind_turn_end, self._limit))

    # ------------------------------------------------------------------------------------------------------ reasoning

    def _read_tagged_reasoning(self, closer: str | None) -> Steps[None]:
        """Reasoning in the content, up to `closer` (None: any closing tag) or the opener of a call."""
        self._out.begin_tagged_reasoning()
        yield from self._read_reasoning(closer, tagged=True)
        self._out.span = CodeSpan()

    def _read_reasoning(self, closer: str | None, *, tagged: bool) -> Steps[None]:
        """Reasoning up to its end: if `tagged`, a closing tag or a call; else the end of the text."""
        compiled, out, fence = self._compiled, self._out, ""
        while True:
            self._fast_reasoning = not tagged
            mark = yield from self._buffer.until(self._reasoning_marks, out.write_reasoning)
            self._fast_reasoning = False
            if not mark:
                return
            if mark in FENCE_MARKS:
                at_start = not out.reasoning_line.strip()
                run = yield from read_run(self._buffer, mark)
                out.write_reasoning(run)
                fence = fence_after(fence, run) if at_start else fence
            elif fence and mark in self._openers:
                out.write_reasoning(mark)
            elif tagged and mark in compiled.think_closers:
                if closer is None or mark == closer or mark in compiled.text_openers:
                    self._reasoning_closed = True
                    yield from self._buffer.space()
                    out.end_reasoning()
                    return
            elif mark in self._openers:
                called = yield from self._read_region(mark, thinking=True)
                if called and tagged:
                    return
            elif mark in compiled.turn_ends:
                out.write_reasoning((yield from self._read_turn_end(mark)))
            # else: a further opening tag or a token of the template, which is dropped

    def _check_assumed_reasoning(self) -> None:
        """Reasoning that was only assumed and never ended may be the response itself, if the server had removed the
        reasoning. It is then sent as text, too: no response may be lost."""
        if self._out.assumed is not None and not self._reasoning_closed and self._buffer.clean \
                and not (self._context and self._context.calls):
            self._sequencer.text("".join(self._out.assumed))
        self._out.assumed = None

    # ---------------------------------------------------------------------------------------------------------- calls

    def _read_region(self, opener: str, *, thinking: bool) -> Steps[bool]:
        """Tries the parsers of this opener. True if at least one call was read."""
        buffer, out = self._buffer, self._out
        write = out.write_reasoning if thinking else out.write_text
        if out.span.opens and opener[0] not in "\n`~":
            quoted = yield from read_span_rest(buffer, self._limit)
            if quoted:
                write(opener + quoted)
                return False
        self._io.at_line_start = out.on_blank_line()
        self._plain_length, self._native_behind_opener = 0, False
        for parser in self._openers[opener]:
            buffer.mark()
            if (yield from self._try_parser(parser, opener, thinking)):
                self._after_reasoning = self._after_reasoning and not thinking
                return not self._empty_block and not getattr(parser, "inline", False)
            if self._drop_cut_call():
                return False
            buffer.rewind()
            buffer.commit()
        if opener in self._compiled.blocks:
            before = (out.reasoning_line if thinking else out.line) and out.last_text
            if (yield from skip_empty_block(buffer, opener, self._compiled.blocks, before, self._limit)):
                return False
        if opener == OPENER and not self._plain_length and not thinking:
            opener = yield from self._read_left_over(opener, self._native_behind_opener)
        opener += buffer.take(self._plain_length)
        if opener[:3] in FENCE_MARKS and not thinking:
            yield from read_fence(buffer, opener[:3], opener[3:], out.on_blank_line, out.write_text)
        else:
            write(opener)
        return False

    def _read_left_over(self, tag: str, split: bool = False) -> Steps[str]:
        """A tag without a call. Returns its text; "" if it is left over from a native call. `split`: a native call came
        right after it."""
        text, alone = yield from read_lone_tag(self._buffer, tag, self._out.line, self._limit)
        return "" if (alone or split) and self._native_call_came else text

    def _try_parser(self, parser: ToolCallParser, opener: str, thinking: bool = False) -> Steps[bool]:
        """True if the parser read a call or dropped an empty block."""
        before = self._io.calls
        self._io.place = "reasoning" if thinking else "after reasoning" if self._after_reasoning else "text"
        self._io.dialect = partial(self._plan.name_of, self._compiled.factories.get(id(parser), parser))
        self._parsing, self._empty_block = True, False
        try:
            yield from parser.read(opener, self._io)
        except EmptyBlock:
            self._empty_block = True
        except NoMatch as reason:
            if self._io.calls == before:
                if isinstance(reason, PlainText):
                    self._plain_length = max(self._plain_length, self._buffer.consumed)
                return False
        finally:
            self._parsing = False
        self._io.settle_call()
        self._buffer.commit()
        if self._io.calls > before and (closers := self._compiled.call_closers.get(opener)):
            self._buffer.push_back((yield from self._buffer.skip(*closers)))  # repeated closers
        return True

    def _drop_cut_call(self) -> bool:
        """True if a limit or a failure ended the text while a parser read: its text is a piece of a call, which is
        dropped."""
        buffer = self._buffer
        if not (buffer.broke_off and buffer.ran_out):
            return False
        buffer.commit()
        self._cut_inside_call = True
        return True
