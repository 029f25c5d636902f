"""The visible text and the reasoning that a scanner found, on their way to the block sequencer.

White space at the end of the text waits: before a call it is framing, before more text it is text. The same holds for
both ends of reasoning between tags. Also tracks the current line: whether it is blank, and whether a code span is open.
"""

from __future__ import annotations

from extproc.conversation.sequencer import BlockSequencer
from extproc.dialects.text_marks import CodeSpan

_LINE_START = 8
"""Characters of the current line that are kept. They show whether it is blank, and its indentation."""


class TextOutput:
    """`write_text` and `write_reasoning` send their text except white space at its end, at most `limit` characters of
    which wait; `flush` sends these. `reads_calls`: calls may follow."""

    __slots__ = ("_deferred_reasoning", "_limit", "_reads_calls", "_sequencer", "assumed", "deferred", "last_text",
                 "line", "reasoning_line", "span", "trim_next")

    def __init__(self, sequencer: BlockSequencer, limit: int, *, reads_calls: bool, reasoning_assumed: bool) -> None:
        self._sequencer = sequencer
        self._limit = limit
        self._reads_calls = reads_calls
        self.line = ""
        """The beginning of the current line of the visible text."""
        self.reasoning_line = ""
        """The beginning of the current line of the reasoning."""
        self.last_text = ""
        """The last piece of text or reasoning that is not white space."""
        self.deferred = ""
        """White space at the end of the text, which waits."""
        self._deferred_reasoning = ""
        self.span = CodeSpan()
        self.trim_next = False
        """Reasoning has begun, and only white space of it came."""
        self.assumed: list[str] | None = [] if reasoning_assumed else None
        """The reasoning so far if it is only assumed to be reasoning, else None."""

    def on_blank_line(self) -> bool:
        return not self.line.strip()

    def write_text(self, text: str) -> None:
        self.note_line(text)
        if self.deferred:
            text = self.deferred + text
            self.deferred = ""
        if shown := text.rstrip() if self._reads_calls else text:
            self._sequencer.text(shown)
        self.deferred = text[len(shown):]
        if len(self.deferred) > self._limit:
            self._sequencer.text(self.deferred)
            self.deferred = ""

    def write_reasoning(self, text: str) -> None:
        if self._reads_calls:
            self.span.note(text)
        if not text.isspace():
            self.last_text = text
        at = text.rfind("\n")
        self.reasoning_line = (text[at + 1:] if at >= 0 else self.reasoning_line + text)[:_LINE_START]
        if self.trim_next:
            text = text.lstrip()
            if not text:
                return
            self.trim_next = False
        text = self._deferred_reasoning + text
        if self.assumed is not None:
            self.assumed.append(text[len(self._deferred_reasoning):])
        stripped = text.rstrip()
        self._deferred_reasoning = text[len(stripped):][:self._limit]
        if stripped:
            self._sequencer.thinking(stripped)

    def begin_tagged_reasoning(self) -> None:
        self.trim_next = True
        self.reasoning_line = ""

    def begin_line_of_reasoning(self) -> None:
        """Starts further reasoning on a line of its own."""
        self.trim_next = True
        self._deferred_reasoning = "\n" if self._sequencer.has_reasoned else ""

    def end_reasoning(self) -> None:
        """Drops the white space at the end of the reasoning."""
        self._deferred_reasoning = ""

    def begin_call(self) -> None:
        """Drops the white space before a call."""
        self.deferred = self._deferred_reasoning = ""
        self.line = ""
        self.span = CodeSpan()

    def flush(self, *, reasoning: bool = False) -> None:
        """Sends the white space that waits. `reasoning`: the reasoning has no tags, so its white space counts."""
        deferred, self.deferred = self.deferred, ""
        if deferred:
            self._sequencer.text(deferred)
        deferred, self._deferred_reasoning = self._deferred_reasoning, ""
        if deferred and reasoning:
            self._sequencer.thinking(deferred)

    def note_line(self, text: str) -> None:
        """Updates the current line and its code spans."""
        if self._reads_calls:
            self.span.note(text)
        if not text.isspace():
            self.last_text = text
        at = text.rfind("\n")
        self.line = (text[at + 1:] if at >= 0 else self.line + text)[:_LINE_START]
