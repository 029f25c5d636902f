"""What a connection keeps of messages that are not whole yet, or not taken: bounded over all of its streams.

Past the bound the senders of long messages go on one after the other: none is refused, and the sum stays near the bound
because a sender that was stopped can only use up the window that it has.
"""

from __future__ import annotations

from extproc.transport.http2.send_scheduler import QueuedStream


class ReceiveBudget:
    """`bound`: bytes."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._size = 0
        self._favoured: QueuedStream | None = None
        """The one that goes on past the bound."""
        self.stopped: dict[int, QueuedStream] = {}
        """Those that wait until there is room."""

    def add(self, size: int) -> None:
        """So many bytes more, or less."""
        self._size += size

    def may_grow(self, stream: QueuedStream) -> bool:
        """Whether the sender of a long message may go on. If not, it is remembered."""
        if self._size <= self._bound:
            return True
        if self._favoured is None or not self._favoured.unfinished:
            self._favoured = stream
        if self._favoured is not stream:
            self.stopped[stream.id] = stream
        return self._favoured is stream

    def release(self) -> bool:
        """Lets one go on that was stopped, if there is room now. Whether there was."""
        if self._size > self._bound and self._favoured is not None and self._favoured.unfinished:
            return False
        self.stopped.pop(next(iter(self.stopped))).grant()
        return True

    def forget(self, stream: QueuedStream) -> None:
        """The stream is gone, and what was kept of it."""
        self.stopped.pop(stream.id, None)
