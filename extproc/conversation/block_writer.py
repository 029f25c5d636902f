"""Pieces of text and reasoning -> events in strict order: blocks never overlap, and nothing follows the end.

Base of `BlockSequencer`, which adds tool calls. White space between blocks comes from the model's template and is no
content: it is held back until text of the same kind follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from extproc.bounds import Limits
from extproc.conversation.model import (
    BlockStop,
    Citations,
    Event,
    Finish,
    FinishReason,
    RedactedThinking,
    Refusal,
    SignatureDelta,
    Start,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    Usage,
)
from extproc.errors import Failure

BlockKind = Literal["text", "thinking", "call"]
TextKind = Literal["text", "thinking"]

TEXT: Literal["text"] = "text"
THINKING: Literal["thinking"] = "thinking"
CALL: Literal["call"] = "call"

_STOP = BlockStop()
_TEXT_START = TextStart()
_THINKING_START = ThinkingStart()


class BlockWriter:
    """Collects events; `take_events` returns them. `held_back`: most characters of white space that are held back."""

    def __init__(self, held_back: int = Limits().held_back) -> None:
        self.started = False
        self.closed = False
        """A Finish or a Failure was added: nothing may follow."""
        self.characters = 0
        """Of text, reasoning and arguments so far, sent or held back."""
        self.has_reasoned = False
        """Reasoning came already."""
        self.has_text = False
        """A text that is not blank was sent."""
        self.flush_decoder: Callable[[], None] | None = None
        """Called once, before a failure: the decoder gives up text that it holds back from the scanner."""
        self.flush_scanner: Callable[[], None] = lambda: None
        """Called before a failure, after `flush_decoder`: the scanner gives up text that it holds back."""
        self._held_back = held_back
        self._out: list[Event] = []
        self._open: BlockKind | None = None
        self._block_count = 0
        self._blank_text = ""
        self._blank_thinking = ""
        self._ends_with_call = False
        """The last block is a call."""
        self._end_after_failure: int | None = None
        """The number of events up to and including the failure; later ones are dropped."""

    @property
    def has_blocks(self) -> bool:
        """A block was sent."""
        return self._block_count > 0

    def take_events(self) -> list[Event]:
        """The events since the last call of this method."""
        out, self._out = self._out, []
        if self._end_after_failure is not None:  # whoever reads on has not noticed the failure yet
            out, self._end_after_failure = out[:self._end_after_failure], 0
        return out

    # ------------------------------------------------------------------------------------------------------- content

    def start(self, id: str | None, model: str | None) -> None:
        """The response begins; `id` and `model` are the provider's own."""
        self.started = True
        self._out.append(Start(id, model))

    def text(self, text: str) -> None:
        self.characters += len(text)
        if self._open is TEXT:
            self._out.append(TextDelta(text))
        elif self._defer(TEXT, text):
            return
        elif text.isspace():
            self._hold_blank_text(text)
        else:
            self.has_text = True
            self._open_block(TEXT, _TEXT_START)
            self._out.append(TextDelta(self._blank_text + text if self._blank_text else text))
            self._forget_blanks()

    def thinking(self, text: str) -> None:
        self.has_reasoned = True
        self.characters += len(text)
        if self._open is THINKING:
            self._out.append(ThinkingDelta(text))
        elif self._defer(THINKING, text):
            return
        elif text.isspace():
            self._blank_thinking = (self._blank_thinking + text)[:self._held_back]
        else:
            self._open_block(THINKING, _THINKING_START)
            self._out.append(ThinkingDelta(self._blank_thinking + text if self._blank_thinking else text))
            self._forget_blanks()

    def _defer(self, kind: TextKind, text: str) -> bool:
        """Called for text outside an open block of its kind. True: it is kept for later."""
        return False

    def signature(self, signature: str) -> bool:
        """Adds the signature of the open reasoning block and closes the block. False: no reasoning block is open, so
        there is no place for it."""
        if self._open is not THINKING:
            return False
        self._out.append(SignatureDelta(signature))
        self._close_block()
        return True

    def redacted_thinking(self, data: str) -> None:
        """A whole block of encrypted reasoning."""
        self._open_block(THINKING, RedactedThinking(data))
        self._close_block()

    # ----------------------------------------------------------------------------------------------------- the end

    def finish(self, reason: FinishReason, usage: Usage, stop_sequence: str | None = None,
               citations: Citations | None = None, refusal: Refusal | None = None) -> None:
        """The response is complete; all blocks are closed."""
        if self.closed:
            return
        self.closed = True
        if citations is not None:
            self._out.append(citations)
        self._out.append(Finish(reason, usage, stop_sequence, refusal))

    def fail(self, failure: Failure) -> None:
        """The response failed: no block is closed, and nothing follows."""
        if self.flush_decoder is not None:
            flush, self.flush_decoder = self.flush_decoder, None
            flush()
        if not self.closed:
            self.closed = True  # first: the flush may fail as well, and only one failure is sent
            self.flush_scanner()
            self._out.append(failure)
            self._end_after_failure = len(self._out)

    # ---------------------------------------------------------------------------------------------------- mechanics

    def _open_block(self, kind: BlockKind, start: Event) -> None:
        if self._open is not None:
            self._out.append(_STOP)
        self._open, self._ends_with_call = kind, kind is CALL
        self._block_count += 1
        self._out.append(start)

    def _close_block(self) -> None:
        if self._open is not None:
            self._open = None
            self._out.append(_STOP)

    def _close_last_block(self) -> None:
        """The content is complete. A response of nothing but white space is a text of white space."""
        if self._block_count == 0 and self._blank_text:
            self._open_block(TEXT, _TEXT_START)
            self._out.append(TextDelta(self._blank_text))
        self._close_block()
        self._forget_blanks()

    def _hold_blank_text(self, text: str) -> None:
        self._blank_text += text
        if len(self._blank_text) > self._held_back:
            blank, self._blank_text = self._blank_text, ""
            self.has_text = True  # what follows is not examined any more
            self._open_block(TEXT, _TEXT_START)
            self._out.append(TextDelta(blank))

    def _forget_blanks(self) -> None:
        self._blank_text = self._blank_thinking = ""
