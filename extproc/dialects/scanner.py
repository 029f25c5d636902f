"""The text of a model -> visible text, reasoning and tool calls. It connects an API's decoder with the block sequencer.

One scanner serves one response, whose text comes in two channels: content and reasoning. Text that may be the beginning
of a mark waits for the next character. All waiting text is sent when its channel ends, except a piece of a call.
`text_reader.py` has the grammar of the text.

`feed_content` and `feed_reasoning` run per streamed event: text without marks passes without running the generator.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from extproc.bounds import Limits
from extproc.conversation.call_counts import CallTally
from extproc.conversation.model import Tool
from extproc.conversation.sequencer import BlockSequencer
from extproc.dialects.buffer import Channel, TextBuffer, TooMuch
from extproc.dialects.call_writer import ArgumentsMode, Repair
from extproc.dialects.parse_context import PlainText
from extproc.dialects.scan_plan import ScanPlan
from extproc.dialects.text_marks import CodeSpan
from extproc.dialects.text_reader import TextReader
from extproc.errors import Failure


class Scanner(TextReader):
    """Takes the provider's text with `feed_content` and `feed_reasoning`; `finish` sends what waits."""

    def __init__(self, plan: ScanPlan, sequencer: BlockSequencer, tools: Mapping[str, Tool], *,
                 mode: ArgumentsMode = "repair", limits: Limits | None = None, tally: CallTally | None = None) -> None:
        super().__init__(plan, sequencer, tools, mode=mode, limits=limits or Limits(), tally=tally or CallTally())
        sequencer.flush_scanner = self._release
        self._channel: Channel | None = None
        self._reader: Generator[None, None, None] | None = None
        """Reads the current channel."""
        self._content_began = False
        self._calls = 0
        """Calls of earlier channels."""
        self._repairs: list[Repair] = []
        """Repairs of earlier channels."""

    # ---------------------------------------------------------------------------------------------------------- input

    def feed_content(self, text: str) -> None:
        out = self._out
        if not self._fast_content and self._channel is not Channel.CONTENT:
            self._switch_to(Channel.CONTENT, first=not self._content_began and not self._starts_with_text(text))
        if self._fast_content and text and self._buffer.at == len(self._buffer.buffer) and not out.deferred \
                and self._content_marks.absent(text) and not (self._openers and text[-1:].isspace()):
            out.note_line(text)
            self._sequencer.text(text)
        else:
            self._read(text)

    def feed_reasoning(self, text: str) -> None:
        if not self._fast_reasoning and self._channel is not Channel.REASONING:
            self._switch_to(Channel.REASONING)
        if self._fast_reasoning and self._buffer.at == len(self._buffer.buffer) and self._reasoning_marks.absent(text):
            self._out.write_reasoning(text)
        else:
            self._read(text)

    def expect_whole_text(self, text: str) -> None:
        """For a response that is not streamed: `text` is all of its content. Reasoning that was only assumed counts
        only if a closing tag or a call ends it."""
        marks = (*self._compiled.think_closers, *self._openers)
        if self._out.assumed is not None and not any(mark in text for mark in marks):
            self._out.assumed, self._opens_in_reasoning = None, False

    def _starts_with_text(self, text: str) -> bool:
        """True if the content starts with none of the marks that may stand there. White space may be framing."""
        return (self._compiled.opening_marks.absent(text) and text.strip() != "" and not self._native_call_came
                and (not self._opens_in_reasoning or self._sequencer.has_reasoned))

    def pause(self, *, for_call: bool = False, between: bool = False) -> None:
        """Sends what waits, since other output follows. `for_call`: it is a native call. `between`: the text may
        continue afterwards; inside a written call it then stays open, since ending it would change the call."""
        if for_call:
            self._native_call_came = True
            self._trailing.note_native_call()
        if between and self._parsing:
            self._native_behind_opener |= self._io.at_line_start and self._buffer.only_space_since_mark
            return
        if self._channel is not None:
            self._end_channel(True)
            self._channel = None
        if for_call:  # what follows stands on a line of its own
            self._out.line = ""

    def finish(self, clean: bool) -> None:
        """The text is over. `clean`: the model finished; False: a limit or a failure ended the text."""
        self._end_channel(clean)

    def close(self) -> None:
        """Breaks the references between scanner, sequencer and parsers. No other method may be called afterwards."""
        if self._reader is not None:
            self._reader.close()
        vars(self).clear()

    @property
    def received_output(self) -> bool:
        """True if text came, whether sent or waiting."""
        return self._channel is not None

    @property
    def cut_off(self) -> bool:
        """For a text that ended without a finish reason: True if it ended inside a call, or where one had begun, even
        if nothing of that call was sent."""
        return self._cut_inside_call or not self._trailing.closes

    @property
    def calls(self) -> int:
        """Calls that have begun."""
        return self._calls + (0 if self._context is None else self._context.calls)

    @property
    def repairs(self) -> list[Repair]:
        return self._repairs if self._context is None else [*self._repairs, *self._context.repairs]

    # ------------------------------------------------------------------------------------------------------- channels

    def _read(self, text: str) -> None:
        self._trailing.feed(text)
        self._buffer.feed(text)
        self._step()

    def _switch_to(self, channel: Channel, *, first: bool = False) -> None:
        """`first`: also looks for what may only stand at the very start of the content."""
        if self._channel is not None:
            if self._parsing:
                self._cut_inside_call = self.cut_off  # ending the channel completes the call
            self._end_channel(True)
        self._channel = channel
        if self._buffer.ended:  # not the first channel
            self._out.span = CodeSpan()
            self._calls, self._repairs, self._context = self.calls, self.repairs, None
            self._buffer = TextBuffer()
        if channel is Channel.REASONING:
            self._reader = self._read_reasoning(None, tagged=False)  # it may hold calls as well
            self._out.reasoning_line = ""
            self._fast_reasoning = not self._sequencer.closed
        else:
            self._after_reasoning = True
            self._reader = self._read_content(first)
            self._content_began = True
            self._fast_content = not first and not self._sequencer.closed

    def _end_channel(self, clean: bool) -> None:
        self._buffer.end(clean)
        self._step()
        self._reader = None
        self._fast_content = self._fast_reasoning = False
        self._flush()

    def _release(self) -> None:
        """The response fails: waiting text is sent, a piece of a call is not."""
        buffer = self._buffer
        if self._fast_content and buffer.at < len(buffer.buffer):
            rest, buffer.at = buffer.buffer[buffer.at:], len(buffer.buffer)
            self._out.write_text(rest)
        self._flush()
        self._fast_content = self._fast_reasoning = False  # nothing follows a failure

    def _flush(self) -> None:
        self._out.flush(reasoning=self._channel is Channel.REASONING)

    def _step(self) -> None:
        """Runs the reader until it needs more text."""
        if self._reader is None or self._sequencer.closed:
            return
        try:
            next(self._reader)
            while self._buffer.kept > self._limit:
                self._reader.throw(PlainText())
        except StopIteration:
            self._reader = None
        except TooMuch:
            self._sequencer.fail(Failure("server", "The model wrote a tool call whose value is larger than can be "
                                                   "held back."))
