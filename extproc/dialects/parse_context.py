"""What a reader of a dialect gets to work with, and the calls it makes.

A *form* reads one way of writing calls. It begins right behind its opener, under a hold. Until it has called
`ParseContext.call` it may raise `NoMatch`: everything since the opener is text then. From the first call on it is
committed.
`CallWriter` turns a call's parameters into the JSON text of its arguments and sends it as far as it is certain.
Nothing here knows markers or wire formats.
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
"""Characters of one answer that may be read twice to tell markup that is data from markup that counts."""

OmissionReason = Literal["skipped_call", "dropped_call"]
"""Why a call does not go out: no offered tool is meant; not even that could be read."""


class NoMatch(Exception):  # noqa: N818
    """What looked like a call is text."""


class PlainText(NoMatch):
    """All that was consumed since the opener is text and is not looked at again (a whole region that calls a tool
    which is not offered, say: none of its marks is dropped)."""


class EmptyBlock(NoMatch):
    """What was consumed since the opener is a block that holds no call: it is dropped."""


class ToolCallParser(Protocol):
    """One way of writing calls. `openers`: the marks it begins with; several forms may share one. A form with `inline`
    reads marks inside a text, no calls: a reasoning goes on behind it.

    A form may also have `blocks`, pairs of an opener and the token that closes it: the scanner drops blocks that hold
    nothing. Behind a call it also drops these tokens, and the further `closers` of a form, however many there are."""

    openers: tuple[str, ...]

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        """Reads from behind the opener to the end of the region. May raise NoMatch before its first call."""


ParserFactory = Callable[[Sequence[str]], tuple[ToolCallParser, ...]]
"""Makes the forms that depend on the names of the tools that are offered."""


class ParseContext(CallSettings):
    """One response as a parser sees it: the buffer, the tools, and where text and calls go."""

    def __init__(self, buffer: TextBuffer, sequencer: BlockSequencer, tools: Mapping[str, Tool],
                 mode: ArgumentsMode = "repair", tally: CallTally | None = None) -> None:
        super().__init__(buffer, sequencer, tools, mode, tally)
        self.calls = 0
        self.look_ahead = LOOK_AHEAD
        self.at_line_start = True
        """Nothing but white space stands before the opener on its line."""
        self.emit_text: Callable[[str], None] = sequencer.text
        self.begin_thinking: Callable[[], None] = lambda: None
        """A piece of reasoning begins: a line of its own."""
        self.emit_thinking: Callable[[str], None] = sequencer.thinking
        self.before_call: Callable[[], None] = lambda: None
        self._writer: CallWriter | None = None
        """Of the call that has begun last."""

    def find_tool(self, name: str) -> str | None:
        """The offered tool that `name` means, also with the namespace some models put before it; None: no such."""
        if name in self.tools:
            return name
        plain = name.removeprefix("functions.")
        space, dot, inner = plain.partition(".")
        if dot and space == inner:  # a prompt that shows each tool as a namespace
            plain = inner
        if plain in self.tools:
            return plain
        # the provider's name may be a spelling that its API takes; the model may know the client's own
        return next((key for key, tool in self.tools.items() if tool.name in (name, plain)), None)

    def leave_out(self, reason: OmissionReason) -> None:
        """Notes a call that does not go out."""
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
        """A call begins for certain; the hold ends. Raises NoMatch when no such tool is offered."""
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
        """The form is done with the call that it began last. One that it did not close is complete only where nothing
        but closing markup is missing."""
        writer, self._writer = self._writer, None
        if writer is not None and not writer.closed:
            writer.settle()
        self.buffer.in_call = False

    def shape(self, name: str) -> ToolShape:
        return tool_shape(self.tools[name].schema)
