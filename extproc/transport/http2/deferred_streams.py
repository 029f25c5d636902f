"""Streams of a connection that continue later: stopped by the bound of memory, by their calls, or dropped.

The memory for messages that are incomplete or not accepted yet is bounded over all streams. Past the bound, the senders
of long messages continue one after the other. None is refused, and the sum stays near the bound, because a stopped
sender can only use up the window that it has.
"""

from __future__ import annotations

from extproc.transport.http2.send_scheduler import QueuedStream


class ReceiveBudget:
    """The memory of all streams for messages. `bound`: bytes."""

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._size = 0
        self._favoured: QueuedStream | None = None
        """The stream that continues past the bound."""
        self.stopped: dict[int, QueuedStream] = {}
        """Streams that wait for room."""

    def add(self, size: int) -> None:
        """Adds `size` bytes; a negative size releases them."""
        self._size += size

    def may_grow(self, stream: QueuedStream) -> bool:
        """True if the sender of a long message may continue. If not, the stream is remembered."""
        if self._size <= self._bound:
            return True
        if self._favoured is None or not self._favoured.has_partial_message:
            self._favoured = stream
        if self._favoured is not stream:
            self.stopped[stream.id] = stream
        return self._favoured is stream

    def release_one(self) -> bool:
        """Lets one stopped stream continue if there is room now. Returns whether there was."""
        if self._size > self._bound and self._favoured is not None and self._favoured.has_partial_message:
            return False
        self.stopped.pop(next(iter(self.stopped))).grant_window()
        return True

    def forget(self, stream: QueuedStream) -> None:
        """The stream was dropped, with what was kept of it."""
        self.stopped.pop(stream.id, None)


class DeferredStreams:
    """Streams with work that must not happen inside a call. `connection` tests the lists itself: it is the hot path."""

    __slots__ = ("_budget", "dropped", "scheduled")

    def __init__(self, budget: ReceiveBudget) -> None:
        self._budget = budget
        self.scheduled: list[QueuedStream] = []
        """Streams that continue after their call or the windows have stopped them."""
        self.dropped: list[QueuedStream] = []
        """Streams whose calls must be closed."""

    def run(self) -> None:
        """Delivers messages that waited, and closes calls."""
        budget = self._budget
        while self.scheduled or self.dropped or budget.stopped:
            if budget.stopped and not budget.release_one() and not (self.scheduled or self.dropped):
                return
            scheduled, self.scheduled = self.scheduled, []
            for stream in scheduled:
                stream.continue_after_block()
            dropped, self.dropped = self.dropped, []
            for stream in dropped:
                stream.close_call()
