"""What the parser of a dialect works with: the text, the offered tools, and where text and calls go.

A parser reads one way of writing calls (a form). It starts right after its opener, with the buffer marked there. Until
it calls `ParseContext.begin_call` it may raise `NoMatch`: the buffer is rewound and the text after the opener is read
again. From the first call on it is committed. `CallWriter` writes the JSON text of a call's arguments and sends it as
far as it is certain. Nothing here knows marks or wire formats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from extproc.conversation.call_counts import CallTally
from extproc.conversation.model import Tool
from extproc.conversation.sequencer import BlockSequencer
from extproc.dialects.buffer import Steps, TextBuffer
from extproc.dialects.call_writer import ArgumentsMode, CallSettings, CallWriter
from extproc.dialects.coercion import ToolShape, tool_shape
from extproc.errors import Failure

LOOK_AHEAD = 1024 * 1024
"""Characters of one response that may be read twice to tell markup inside a value from markup that counts."""

OmissionReason = Literal["skipped_call", "dropped_call"]
"""Why a call is not sent: it names no offered tool; its name is unreadable."""


class NoMatch(Exception):  # noqa: N818
    """The text is no call."""


class PlainText(NoMatch):
    """Everything consumed since the opener is text and is not scanned again. For example, a region that only calls
    tools which are not offered keeps all its marks."""


class EmptyBlock(NoMatch):
    """Everything consumed since the opener is a block without calls. It is dropped."""


class ToolCallParser(Protocol):
    """Reads one way of writing calls. `openers`: the marks it starts at; several parsers may share one.

    Optional attributes: `inline` (True: it reads marks inside a text but no calls, so reasoning continues after it),
    `blocks` (pairs of opener and closer; the scanner drops blocks that hold nothing) and `closers`. After a call the
    scanner drops the closers of blocks and `closers`, however often they are repeated."""

    openers: tuple[str, ...]

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        """Reads from after the opener to the end of the region. May raise NoMatch before its first call."""


ParserFactory = Callable[[Sequence[str]], tuple[ToolCallParser, ...]]
"""Makes the parsers that depend on the names of the offered tools."""


class ParseContext(CallSettings):
    """One channel of a response as a parser sees it."""

    def __init__(self, buffer: TextBuffer, sequencer: BlockSequencer, tools: Mapping[str, Tool],
                 mode: ArgumentsMode = "repair", tally: CallTally | None = None) -> None:
        super().__init__(buffer, sequencer, tools, mode, tally)
        self.calls = 0
        """Calls that have begun."""
        self.look_ahead = LOOK_AHEAD
        self.at_line_start = True
        """Only white space precedes the opener on its line."""
        self.emit_text: Callable[[str], None] = sequencer.text
        self.begin_thinking: Callable[[], None] = lambda: None
        """Starts further reasoning on a line of its own."""
        self.emit_thinking: Callable[[str], None] = sequencer.thinking
        self.before_call: Callable[[], None] = lambda: None
        self._writer: CallWriter | None = None
        """The writer of the last call, until `settle_call`."""

    def find_tool(self, name: str) -> str | None:
        """The offered tool that `name` means, also with the namespace that some models prepend; None if there is no
        such tool."""
        if name in self.tools:
            return name
        plain = name.removeprefix("functions.")
        space, dot, inner = plain.partition(".")
        if dot and space == inner:  # a prompt that shows each tool as a namespace
            plain = inner
        if plain in self.tools:
            return plain
        # the provider's name may be an adapted spelling; the model may know the client's own
        return next((key for key, tool in self.tools.items() if tool.name in (name, plain)), None)

    def leave_out(self, reason: OmissionReason) -> None:
        """Counts a call that is not sent. In strict mode a call of a tool that is not offered fails the response."""
        self.note_repair(reason)
        if not self.buffer.broke_off:
            self.call_ended(self.buffer.buffer, self.buffer.at)
        counts = self.counts
        counts.total += 1
        if reason == "skipped_call":
            counts.unoffered += 1
            if self.mode == "strict":
                counts.refused += 1
                self.sequencer.fail(Failure("server", "The model called a tool that the request does not offer."))
        else:
            counts.unreadable += 1

    def begin_call(self, name: str) -> CallWriter:
        """Commits the buffer and starts a call. Raises NoMatch if no such tool is offered."""
        known = self.find_tool(name)
        if known is None:
            raise NoMatch
        self.settle_call()
        self.buffer.commit()
        self.before_call()
        self.calls += 1
        self.counts.total += 1
        self.buffer.in_call = True
        self._writer = writer = CallWriter(self, known, tool_shape(self.tools[known].schema))
        return writer

    def settle_call(self) -> None:
        """Decides about the last call if the parser did not close it: it is complete if only closing markup is
        missing."""
        writer, self._writer = self._writer, None
        if writer is not None and not writer.closed:
            writer.settle()
        self.buffer.in_call = False

    def shape(self, name: str) -> ToolShape:
        return tool_shape(self.tools[name].schema)
