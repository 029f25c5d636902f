"""What leaves on one connection: frames in the order in which they go, and the streams whose answers wait.

A message that fits all windows goes straight into the next write where nobody waits for a turn (`Stream.send` does that
itself, this is the hot path). What does not fit waits with its stream; `pump` then cuts DATA frames, one of each stream
in turn, as far as the windows, the bound of one write and the transport allow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from extproc.transport.http2.abuse_budget import TINY
from extproc.transport.http2.headers import NO_TABLE
from extproc.transport.http2.wire import DEFAULT_WINDOW, END_HEADERS, HEADER, HEADER_SIZE, HEADERS, SMALLEST_MAX_FRAME

WRITE = 256 * 1024
"""Bytes of DATA in one write: enough to fill a socket's buffer, little enough that the loop sees to others."""


class QueuedStream(Protocol):
    """A stream, as the queues of its connection see it. `Stream` says what each member means."""

    id: int
    urgent: bool
    waits: bool
    queued: int
    send_window: int

    @property
    def unfinished(self) -> bool: ...
    @property
    def answered(self) -> bool: ...
    def begin(self) -> None: ...
    def cut(self, size: int, count: int, parts: list[bytes | memoryview]) -> None: ...
    def sent_all(self) -> None: ...
    def grant(self) -> None: ...


class SendScheduler:
    """`wake` is called once when something begins to wait while nobody is about to `take` it."""

    __slots__ = ("_lead", "_parked", "_wake", "awake", "frames", "granted", "initial_window", "max_frame", "parts",
                 "paused", "queued", "room", "waiting", "window")

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.awake = False
        """Somebody is about to `take`."""
        self.parts: list[bytes | memoryview] = []
        self.waiting = 0
        """Bytes of frames other than DATA in `parts`."""
        self.room = WRITE
        """Bytes of DATA that still go into this write; 0 while the transport takes nothing."""
        self.paused = False
        self.window = self.granted = DEFAULT_WINDOW
        """What the peer takes on the connection: left, and ever. The difference is what it was sent."""
        self.frames = 0
        """Frames of DATA since the beginning, without those that the peer's windows made tiny."""
        self.initial_window = DEFAULT_WINDOW
        self.max_frame = SMALLEST_MAX_FRAME
        self.queued: deque[QueuedStream] = deque()
        """Those whose answers wait for nothing but their turn."""
        self._parked: list[QueuedStream] = []
        """Those that wait for the connection's window."""
        self._lead = NO_TABLE

    @property
    def sent(self) -> int:
        """Bytes of DATA since the beginning."""
        return self.granted - self.window

    @property
    def more(self) -> bool:
        """Whether `take` has something to give."""
        return bool(self.parts or self.queued) and not self.paused

    def wake(self) -> None:
        """There is something to take."""
        if not self.awake:
            self.awake = True
            self._wake()

    # ----------------------------------------------------------------------------------------------------- frames

    def control(self, frame: bytes) -> None:
        """Any frame that no window holds back."""
        self.parts.append(frame)
        self.waiting += len(frame)
        self.wake()

    def headers(self, stream_id: int, flags: int, block: bytes) -> None:
        """HEADERS of a whole block."""
        if self._lead:
            block, self._lead = self._lead + block, b""
        self.control(HEADER.pack(len(block) << 8 | HEADERS, flags | END_HEADERS, stream_id) + block)

    # ------------------------------------------------------------------------------------------------ waiting streams

    def queue(self, stream: QueuedStream) -> None:
        """This stream has something that did not go straight out."""
        if not stream.waits:
            stream.waits = True
            self.queued.append(stream)
        self.wake()

    def forget(self, stream: QueuedStream) -> None:
        """The stream is gone: what the peer does not let go must not pile up."""
        if stream.waits:
            stream.waits = False
            for waiting in (self.queued, self._parked):
                if stream in waiting:
                    waiting.remove(stream)

    def widen(self, increment: int) -> None:
        """The connection's window has grown."""
        self.window += increment
        self.granted += increment
        if self._parked and self.window > 0:
            self.queued.extend(self._parked)
            self._parked.clear()
            self.wake()

    def pump(self) -> None:
        """Cuts frames of what waits."""
        ready, parts = self.queued, self.parts
        while ready and self.room > 0:
            stream = ready.popleft()
            if not stream.queued:
                stream.waits = False
                stream.sent_all()
                continue
            size = min(stream.queued, self.max_frame, stream.send_window, self.window)
            if size > 0:
                if not stream.answered:
                    stream.begin()
                # One frame where others wait for their turn, else as many full ones as go out now.
                whole = min(stream.queued, stream.send_window, self.window) // size
                count = 1 if ready else min(whole, -(-self.room // (size + HEADER_SIZE)))
                if size == stream.queued or size >= TINY:
                    self.frames += count
                self.window -= size * count
                self.room -= (size + HEADER_SIZE) * count
                stream.cut(size, count, parts)
                ready.append(stream)
            elif stream.send_window > 0:
                self._parked.append(stream)
            else:
                stream.waits = False  # until its own window grows

    def take(self) -> bytes:
        """All that is to be written now. More of it may wait: see `more`."""
        parts = self.parts
        data = b"".join(parts) if len(parts) != 1 else bytes(parts[0])
        parts.clear()
        self.waiting = 0
        if not self.paused:
            self.room = WRITE
        return data

    def pause(self, paused: bool) -> None:
        """The transport takes nothing more, or takes again."""
        self.paused = paused
        self.room = 0 if paused else WRITE

    def clear(self) -> None:
        """Nothing waits any more: the connection ends."""
        self.queued.clear()
        self._parked.clear()
