"""The text of a model -> visible text, reasoning and tool calls; between an API's decoder and the block sequencer.

One scanner serves one answer. It looks for the openers of the dialects at hand, for the tags of reasoning, and for code
fences (what stands in a fence is text). An opener starts a form under a hold; a form that finds no call hands its text
back and the next form of that opener, or plain text, takes over. Text that may be the beginning of a mark waits for
the next character, never longer; what waits is released when the text ends. No mark that began a call is ever shown.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from functools import partial

from extproc.bounds import Limits
from extproc.conversation.call_counts import CallTally
from extproc.conversation.model import Tool
from extproc.conversation.sequencer import BlockSequencer
from extproc.dialects.buffer import Channel, Steps, TextBuffer, TooMuch
from extproc.dialects.call_writer import ArgumentsMode, Repair
from extproc.dialects.parse_context import EmptyBlock, NoMatch, ParseContext, PlainText, ToolCallParser
from extproc.dialects.scan_plan import ScanPlan, compiled
from extproc.dialects.text_marks import (
    FENCE_MARKS,
    FENCES,
    OPENER,
    CodeSpan,
    TrailingText,
    alone_on_line,
    end_of_turn,
    opened_or_closed,
    rest_of_empty_block,
    rest_of_span,
    through_fence,
    whole_run,
)
from extproc.dialects.text_output import TextOutput
from extproc.errors import Failure


class Scanner:
    """`content` and `reasoning` take the provider's text; `finish` releases what waits."""

    def __init__(self, look: ScanPlan, sequencer: BlockSequencer, tools: Mapping[str, Tool], *,
                 mode: ArgumentsMode = "repair", limits: Limits | None = None, tally: CallTally | None = None) -> None:
        self._look = look
        self._tally = tally or CallTally()
        self._sequencer = sequencer
        sequencer.flush_scanner = self._release
        self._tools = tools
        self._mode: ArgumentsMode = mode
        self._limit = (limits or Limits()).held_back
        self._channel: Channel | None = None
        self._buffer = TextBuffer()
        self._made: ParseContext | None = None
        """What forms work with, for the tape at hand: made when the first opener comes."""
        self._run: Generator[None, None, None] | None = None
        self._began = self._plain = self._plain_thought = False
        """`_plain`: inside plain content (or reasoning): text without a mark may pass without running the generator."""
        self._think_closed = False
        self._reasoning_over = False
        """The reasoning was closed behind a call in it: the model may write that call again."""
        self._was_cut_off = False
        """The text ended inside what was going to be a call; the piece is not shown."""
        self._begins_open = look.reasoning_open
        self._calls = self._prose = 0
        """`_prose`: how many characters behind the opener at hand are known to be text."""
        self._repairs: list[Repair] = []
        layout = compiled(look, tuple(tools) if look.makers else ())
        self._makers, self._openers = layout.makers, layout.openers
        self._out = TextOutput(sequencer, self._limit, reads_calls=bool(self._openers),
                               reasoning_assumed=look.reasoning_assumed)
        self._behind = TrailingText(layout.openers, (*look.noise, *look.ends))
        self._think_openers, self._think_closers = layout.think_openers, layout.think_closers
        self._content_marks, self._reasoning_marks = layout.content_marks, layout.reasoning_marks
        self._opening_marks = layout.opening_marks
        self._answers, self._wraps, self._wrapped = layout.answers, layout.wraps, ""
        """`_wrapped`: the tag that closes the visible text, where one opened it."""
        self._ends, self._behind_end, self._closers = layout.ends, layout.behind_end, layout.closers
        self._blocks, self._call_closers = layout.blocks, layout.call_closers
        self._beside_calls = self._in_call = self._left_alone = self._was_empty = False
        """A native call came, or comes now; a form reads; a native call came right behind its opener; the form that
        read last found an empty block."""

    # ----------------------------------------------------------------------------------------------- what arrives

    def feed_content(self, text: str) -> None:
        out = self._out
        if not self._plain and self._channel is not Channel.CONTENT:
            self._change_to(Channel.CONTENT, first=not self._began and not self._begins_plainly(text))
        if self._plain and text and self._buffer.at == len(self._buffer.buffer) and not out.deferred \
                and self._content_marks.absent(text) and not (self._openers and text[-1:].isspace()):
            out.note_line(text)
            self._sequencer.text(text)
        else:
            self._read(text)

    def expect_whole_text(self, text: str) -> None:
        """The answer did not stream and `text` is all of its content: reasoning that is only assumed must end in it,
        by a closing tag or by a call."""
        if self._out.assumed is not None and not any(mark in text for mark in (*self._think_closers, *self._openers)):
            self._out.assumed, self._begins_open = None, False

    def _begins_plainly(self, text: str) -> bool:
        """This is the very start of the content, and of all that may stand there nothing does. (Blanks before it would
        be framing behind a call.)"""
        return (self._opening_marks.absent(text) and text.strip() != "" and not self._beside_calls
                and (not self._begins_open or self._sequencer.has_reasoned))

    def feed_reasoning(self, text: str) -> None:
        if not self._plain_thought and self._channel is not Channel.REASONING:
            self._change_to(Channel.REASONING)
        if self._plain_thought and self._buffer.at == len(self._buffer.buffer) and self._reasoning_marks.absent(text):
            self._out.think(text)
        else:
            self._read(text)

    def pause(self, *, for_call: bool = False, between: bool = False) -> None:
        """Something else comes: what waits is released. `for_call`: it is a native call. `between`: the text may go on
        where it was, and does inside what looks like a call: ended there it would become another one."""
        if for_call:
            self._beside_calls = True
            self._behind.native_call()
        if between and self._in_call:
            self._left_alone = self._left_alone or (self._io.at_line_start and self._buffer.only_space_held)
            return
        if self._channel is not None:
            self._end_channel(True)
            self._channel = None
        if for_call:  # what follows stands on a line of its own
            self._out.line = ""

    def _release(self) -> None:
        """The answer fails: plain text that waits is shown, a piece of a call is not."""
        buffer = self._buffer
        if self._plain and buffer.at < len(buffer.buffer):
            rest, buffer.at = buffer.buffer[buffer.at:], len(buffer.buffer)
            self._out.text(rest)
        self._flush()
        self._plain = self._plain_thought = False  # nothing may pass behind a failure

    def finish(self, clean: bool) -> None:
        """The text is over. `clean`: the model finished of its own accord."""
        self._end_channel(clean)

    def close(self) -> None:
        """Lets go of everything, in the middle of a call too: scanner, sequencer and forms refer to each other. Nothing
        may be asked any more."""
        if self._run is not None:
            self._run.close()
        vars(self).clear()

    @property
    def received_output(self) -> bool:
        """Text came, shown or held back."""
        return self._channel is not None

    @property
    def cut_off(self) -> bool:
        """Asked once the text is over, and not by a finish of its own: it ended inside of a call, or where one had
        begun. Nothing of that may have gone out, so that nobody else misses it."""
        return self._was_cut_off or not self._behind.closes

    @property
    def calls(self) -> int:
        return self._calls + (0 if self._made is None else self._made.calls)

    @property
    def repairs(self) -> list[Repair]:
        return self._repairs if self._made is None else [*self._repairs, *self._made.repairs]

    # -------------------------------------------------------------------------------------------------- channels

    def _read(self, text: str) -> None:
        self._behind.feed(text)
        self._buffer.feed(text)
        self._step()

    def _change_to(self, channel: Channel, *, first: bool = False) -> None:
        """`first`: what may only stand at the very start of the content is looked for."""
        if self._channel is not None:
            if self._in_call:
                self._was_cut_off = self.cut_off  # what is missing will be made up
            self._end_channel(True)
        self._channel = channel
        if self._buffer.ended:  # else it is the first one
            self._out.span = CodeSpan()
            self._calls, self._repairs, self._made = self.calls, self.repairs, None
            self._buffer = TextBuffer()
        if channel is Channel.REASONING:
            self._run = self._thoughts(None, tagged=False)  # calls may have leaked into it
            self._out.reasoning_line = ""
            self._plain_thought = not self._sequencer.closed
        else:
            self._reasoning_over = True
            self._run = self._in_content(first)
            self._began = True
            self._plain = not first and not self._sequencer.closed

    @property
    def _io(self) -> ParseContext:
        if self._made is None:
            self._made = io = ParseContext(self._buffer, self._sequencer, self._tools, self._mode, self._tally)
            io.emit_text = self._out.text
            io.begin_thinking = self._out.begin_line_of_reasoning
            io.emit_thinking = self._out.think
            io.before_call = self._before_call
            io.call_ended = self._behind.call_over
        return self._made

    def _end_channel(self, clean: bool) -> None:
        self._buffer.end(clean)
        self._step()
        self._run = None
        self._plain = self._plain_thought = False
        self._flush()

    def _step(self) -> None:
        """Lets the readers go on until they need more text."""
        if self._run is None or self._sequencer.closed:
            return
        try:
            next(self._run)
            while self._buffer.held > self._limit:
                self._run.throw(PlainText())
        except StopIteration:
            self._run = None
        except TooMuch:
            self._sequencer.fail(Failure("server", "The model wrote a tool call whose value is larger than can be "
                                                   "held back."))

    # --------------------------------------------------------------------------------------------------- the states

    def _in_content(self, first: bool) -> Steps[None]:
        if first:
            if self._begins_open and not self._sequencer.has_reasoned:
                yield from self._in_think(None)
                self._doubt_reasoning()
            yield from self._beginning()
        while True:
            self._plain = True
            mark = yield from self._buffer.until(self._content_marks, self._out.text)
            self._plain = False
            if not mark:
                return
            if mark in FENCES:
                yield from through_fence(self._buffer, mark, "", self._out.on_blank_line, self._out.text)
            elif mark in self._openers:
                yield from self._region(mark, thinking=False)
            elif mark in self._think_openers and mark not in self._think_closers:
                yield from self._in_think(self._think_openers[mark])
            elif mark in self._ends and not self._sequencer.ends_with_whole_calls:
                self._out.text((yield from end_of_turn(self._buffer, mark, self._ends, self._behind_end, self._limit)))
            elif mark in self._closers:
                self._out.text((yield from self._unless_left_over(mark)))
            elif self._out.span.opens and (quoted := (yield from rest_of_span(self._buffer, self._limit))):
                self._out.text(mark + quoted)
            elif mark in self._think_closers:
                self._reasoning_over = True
                if self._look.first or self._wraps:
                    yield from self._beginning()
            elif mark in self._wraps.values():
                yield from self._wrap_closes(mark)
            # a stray closing tag or a token of the template: dropped

    def _beginning(self) -> Steps[None]:
        """The very start: reasoning tags, and forms that may only stand here."""
        buffer = self._buffer
        blank = yield from buffer.space(self._limit)
        if self._sequencer.has_reasoned and (yield from buffer.literal(*self._think_closers)):
            yield from buffer.space(self._limit)  # it ends reasoning that came in a field of its own
            blank = ""
        while self._think_openers:
            tag = yield from buffer.literal(*self._think_openers)
            if not tag:
                break
            yield from self._in_think(self._think_openers[tag])
            blank = ""
        if self._wraps and (tag := (yield from buffer.literal(*self._wraps))):
            self._wrapped = self._wraps[tag]
            yield from buffer.space(self._limit)
            blank = ""
        self._prose = 0
        for form in self._look.first:
            buffer.mark()
            opener = yield from buffer.literal(*form.openers)
            if opener and ((yield from self._attempt(form, opener)) or self._cut_off()):
                return
            buffer.rewind()
            buffer.commit()
        if text := blank + buffer.take(self._prose):
            self._out.text(text)

    def _wrap_closes(self, mark: str) -> Steps[None]:
        """A tag that closes what may stand around the whole text: framing behind all of it, else text."""
        if mark == self._wrapped or self._sequencer.ends_with_whole_calls:
            mark = yield from end_of_turn(self._buffer, mark, (mark, *self._ends), self._behind_end, self._limit)
            if not mark:
                self._out.deferred = ""
                yield from self._buffer.space(self._limit)
        self._out.text(mark)

    def _in_think(self, closer: str | None) -> Steps[None]:
        """Reasoning in the content. `closer` None: any closing tag ends it. The opener of a call ends it, too."""
        self._out.begin_tagged_reasoning()
        yield from self._thoughts(closer, tagged=True)
        self._out.span = CodeSpan()

    def _thoughts(self, closer: str | None, *, tagged: bool) -> Steps[None]:
        """Reasoning up to its end: `tagged` by a closing tag or a call, else only by the end of the text."""
        fence = ""
        while True:
            self._plain_thought = not tagged
            mark = yield from self._buffer.until(self._reasoning_marks, self._out.think)
            self._plain_thought = False
            if not mark:
                return
            if mark in FENCE_MARKS:
                at_start = not self._out.reasoning_line.strip()
                run = yield from whole_run(self._buffer, mark)
                self._out.think(run)
                fence = fence if not at_start else opened_or_closed(fence, run)
            elif fence and mark in self._openers:
                self._out.think(mark)
            elif tagged and mark in self._think_closers:
                if closer is None or mark == closer or mark in self._answers:
                    self._think_closed = True
                    yield from self._buffer.space()
                    self._out.end_reasoning()
                    return
            elif mark in self._openers:
                called = yield from self._region(mark, thinking=True)
                if called and tagged:
                    return
            elif mark in self._ends:
                self._out.think((yield from end_of_turn(self._buffer, mark, self._ends, self._behind_end, self._limit)))
            # a further opening tag inside reasoning or a token of the template: dropped

    def _doubt_reasoning(self) -> None:
        """The answer ended inside a reasoning that was only assumed: the server had taken the reasoning out, and what
        looked like it was the answer. It is shown, as no answer must be lost."""
        if self._out.assumed is not None and not self._think_closed and self._buffer.clean \
                and not (self._made and self._made.calls):
            self._sequencer.text("".join(self._out.assumed))
        self._out.assumed = None

    def _region(self, opener: str, *, thinking: bool) -> Steps[bool]:
        """Tries the forms of this opener. True: at least one call was read."""
        if self._out.span.opens and opener[0] not in "\n`~":
            quoted = yield from rest_of_span(self._buffer, self._limit)
            if quoted:
                (self._out.think if thinking else self._out.text)(opener + quoted)
                return False
        self._io.at_line_start = self._out.on_blank_line()
        self._prose, self._left_alone = 0, False
        for form in self._openers[opener]:
            self._buffer.mark()
            if (yield from self._attempt(form, opener, thinking)):
                self._reasoning_over = self._reasoning_over and not thinking
                return not self._was_empty and not getattr(form, "inline", False)
            if self._cut_off():
                return False
            self._buffer.rewind()
            self._buffer.commit()
        if opener in self._blocks:
            before = (self._out.reasoning_line if thinking else self._out.line) and self._out.last_text
            if (yield from rest_of_empty_block(self._buffer, opener, self._blocks, before, self._limit)):
                return False
        if opener == OPENER and not self._prose and not thinking:
            opener = yield from self._unless_left_over(opener, self._left_alone)
        opener += self._buffer.take(self._prose)
        if opener[:3] in FENCE_MARKS and not thinking:
            yield from through_fence(self._buffer, opener[:3], opener[3:], self._out.on_blank_line, self._out.text)
        else:
            (self._out.think if thinking else self._out.text)(opener)
        return False

    def _unless_left_over(self, mark: str, split: bool = False) -> Steps[str]:
        """A mark without a call -> its text; "" for what is left of a native one (`split`: it came right behind it)."""
        text, alone = yield from alone_on_line(self._buffer, mark, self._out.line, self._limit)
        return "" if (alone or split) and self._beside_calls else text

    def _attempt(self, form: ToolCallParser, opener: str, thinking: bool = False) -> Steps[bool]:
        before = self._io.calls
        self._io.place = "reasoning" if thinking else "behind reasoning" if self._reasoning_over else "text"
        self._io.dialect = partial(self._look.name_of, self._makers.get(id(form), form))
        self._in_call, self._was_empty = True, False
        try:
            yield from form.read(opener, self._io)
        except EmptyBlock:
            self._was_empty = True
        except NoMatch as reason:
            if self._io.calls == before:
                if isinstance(reason, PlainText):
                    self._prose = max(self._prose, self._buffer.consumed)
                return False
        finally:
            self._in_call = False
        self._io.settle_call()
        self._buffer.commit()
        if self._io.calls > before and (closers := self._call_closers.get(opener)):
            self._buffer.push_back((yield from self._buffer.skip(*closers)))  # closers too many
        return True

    def _cut_off(self) -> bool:
        """The answer was cut off while a form read on: what it had is a piece of a call, which is never shown."""
        buffer = self._buffer
        if not (buffer.broke_off and buffer.ran_out):
            return False
        buffer.commit()
        self._was_cut_off = True
        return True

    def _flush(self) -> None:
        self._out.flush(reasoning=self._channel is Channel.REASONING)

    def _before_call(self) -> None:
        self._behind.call_began()
        self._out.begin_call()
