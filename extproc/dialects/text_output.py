"""The visible text and the reasoning that a scanner found, on their way to the block sequencer.

White space at the end of a text waits: it is framing where a call follows, and text where more text follows. The same
holds for white space at both ends of reasoning between tags. Also keeps what the scanner must know of the current line:
whether it is blank, and whether a code span stands open on it.
"""

from __future__ import annotations

from extproc.conversation.sequencer import BlockSequencer
from extproc.dialects.text_marks import CodeSpan

_LINE_START = 8
"""Characters of the current line that are kept: enough to tell a blank line and its indentation."""


class TextOutput:
    """`text` and `think` send what they are given; `flush` sends the white space that waits, at most `limit`
    characters. `reads_calls`: calls may follow."""

    __slots__ = ("_deferred_reasoning", "_limit", "_reads_calls", "_sequencer", "assumed", "deferred", "last_text",
                 "line", "reasoning_line", "span", "trim_next")

    def __init__(self, sequencer: BlockSequencer, limit: int, *, reads_calls: bool, reasoning_assumed: bool) -> None:
        self._sequencer = sequencer
        self._limit = limit
        self._reads_calls = reads_calls
        self.line = ""
        """The beginning of the current line of the visible text."""
        self.reasoning_line = ""
        """The same of the reasoning."""
        self.last_text = ""
        """The last piece of text or reasoning that was more than white space."""
        self.deferred = ""
        """White space behind the text."""
        self._deferred_reasoning = ""
        self.span = CodeSpan()
        self.trim_next = False
        """Reasoning has begun, and nothing of it came but white space."""
        self.assumed: list[str] | None = [] if reasoning_assumed else None
        """The reasoning so far, while nobody said that it is reasoning."""

    def on_blank_line(self) -> bool:
        return not self.line.strip()

    def text(self, text: str) -> None:
        """Sends visible text."""
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

    def think(self, text: str) -> None:
        """Sends reasoning."""
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
        """Further reasoning begins on a line of its own."""
        self.trim_next = True
        self._deferred_reasoning = "\n" if self._sequencer.has_reasoned else ""

    def end_reasoning(self) -> None:
        """Drops the white space behind the reasoning."""
        self._deferred_reasoning = ""

    def begin_call(self) -> None:
        """A call begins: white space before it was framing."""
        self.deferred = self._deferred_reasoning = ""
        self.line = ""
        self.span = CodeSpan()

    def flush(self, *, reasoning: bool = False) -> None:
        """Sends the white space that waits; behind `reasoning` only where no tags mark it."""
        deferred, self.deferred = self.deferred, ""
        if deferred:
            self._sequencer.text(deferred)
        deferred, self._deferred_reasoning = self._deferred_reasoning, ""
        if deferred and reasoning:
            self._sequencer.thinking(deferred)

    def note_line(self, text: str) -> None:
        """Keeps the current line, and its code spans, up to date."""
        if self._reads_calls:
            self.span.note(text)
        if not text.isspace():
            self.last_text = text
        at = text.rfind("\n")
        self.line = (text[at + 1:] if at >= 0 else self.line + text)[:_LINE_START]
