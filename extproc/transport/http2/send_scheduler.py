"""The output of one connection: frames in sending order, and the streams whose messages wait.

A message that fits all windows goes straight into the next write if nothing else waits (`Stream.send` does that itself:
the hot path). Other messages wait with their stream. `cut_frames` then cuts DATA frames from the waiting streams in
turn, as far as the windows, the bound of one write and the socket allow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

from extproc.transport.http2.abuse_budget import TINY
from extproc.transport.http2.headers import NO_TABLE
from extproc.transport.http2.wire import DEFAULT_WINDOW, END_HEADERS, HEADER, HEADER_SIZE, HEADERS, SMALLEST_MAX_FRAME

WRITE = 256 * 1024
"""Bytes of DATA in one write: enough to fill a socket's buffer, small enough that the event loop serves others
meanwhile."""


class QueuedStream(Protocol):
    """A stream, as the queues of its connection see it. `Stream` documents the members."""

    id: int
    urgent: bool
    in_send_queue: bool
    queued_bytes: int
    send_window: int

    @property
    def has_partial_message(self) -> bool: ...
    @property
    def response_started(self) -> bool: ...
    def send_response_headers(self) -> None: ...
    def cut_data_frames(self, size: int, count: int, parts: list[bytes | memoryview]) -> None: ...
    def on_queue_empty(self) -> None: ...
    def grant_window(self) -> None: ...
    def continue_after_block(self) -> None: ...
    def close_call(self) -> None: ...


class SendScheduler:
    """`wake` is called once when output begins to wait and no flush is pending."""

    __slots__ = (
        "_table_size_update",
        "_wake",
        "_window_blocked",
        "control_bytes",
        "flush_pending",
        "frames",
        "granted",
        "initial_window",
        "max_frame",
        "parts",
        "paused",
        "ready",
        "window",
        "write_room",
    )

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self.flush_pending = False
        """`take_output` will be called soon anyway."""
        self.parts: list[bytes | memoryview] = []
        self.control_bytes = 0
        """Bytes of frames other than DATA in `parts`."""
        self.write_room = WRITE
        """Bytes of DATA that still fit into this write. 0 while the socket accepts none."""
        self.paused = False
        self.window = self.granted = DEFAULT_WINDOW
        """The connection's send window: what is left, and the sum of all grants. The difference is what was sent."""
        self.frames = 0
        """The number of DATA frames so far, except those that the peer's windows made tiny."""
        self.initial_window = DEFAULT_WINDOW
        self.max_frame = SMALLEST_MAX_FRAME
        self.ready: deque[QueuedStream] = deque()
        """Streams that only wait for their turn."""
        self._window_blocked: list[QueuedStream] = []
        """Streams that wait for the connection's window."""
        self._table_size_update = NO_TABLE

    @property
    def sent(self) -> int:
        """Bytes of DATA sent so far."""
        return self.granted - self.window

    @property
    def has_output(self) -> bool:
        """True if `take_output` has something to return."""
        return bool(self.parts or self.ready) and not self.paused

    def request_flush(self) -> None:
        """Asks for a call of `take_output`, unless one is pending."""
        if not self.flush_pending:
            self.flush_pending = True
            self._wake()

    # ----------------------------------------------------------------------------------------------------- frames

    def send_control(self, frame: bytes) -> None:
        """Queues a frame that no window holds back."""
        self.parts.append(frame)
        self.control_bytes += len(frame)
        self.request_flush()

    def send_headers(self, stream_id: int, flags: int, block: bytes) -> None:
        """Queues a HEADERS frame with a whole block."""
        if self._table_size_update:
            block, self._table_size_update = self._table_size_update + block, b""
        self.send_control(HEADER.pack(len(block) << 8 | HEADERS, flags | END_HEADERS, stream_id) + block)

    # ------------------------------------------------------------------------------------------------ waiting streams

    def enqueue(self, stream: QueuedStream) -> None:
        """The stream has bytes that could not be sent directly."""
        if not stream.in_send_queue:
            stream.in_send_queue = True
            self.ready.append(stream)
        self.request_flush()

    def forget(self, stream: QueuedStream) -> None:
        """Removes a dropped stream from the queues."""
        if stream.in_send_queue:
            stream.in_send_queue = False
            for waiting in (self.ready, self._window_blocked):
                if stream in waiting:
                    waiting.remove(stream)

    def grow_window(self, increment: int) -> None:
        """The connection's window has grown."""
        self.window += increment
        self.granted += increment
        if self._window_blocked and self.window > 0:
            self.ready.extend(self._window_blocked)
            self._window_blocked.clear()
            self.request_flush()

    def cut_frames(self) -> None:
        """Cuts DATA frames from the waiting streams."""
        ready, parts = self.ready, self.parts
        while ready and self.write_room > 0:
            stream = ready.popleft()
            if not stream.queued_bytes:
                stream.in_send_queue = False
                stream.on_queue_empty()
                continue
            size = min(stream.queued_bytes, self.max_frame, stream.send_window, self.window)
            if size > 0:
                if not stream.response_started:
                    stream.send_response_headers()
                # One frame if other streams wait for their turn, else as many full ones as can leave now.
                whole = min(stream.queued_bytes, stream.send_window, self.window) // size
                count = 1 if ready else min(whole, -(-self.write_room // (size + HEADER_SIZE)))
                if size == stream.queued_bytes or size >= TINY:
                    self.frames += count
                self.window -= size * count
                self.write_room -= (size + HEADER_SIZE) * count
                stream.cut_data_frames(size, count, parts)
                ready.append(stream)
            elif stream.send_window > 0:
                self._window_blocked.append(stream)
            else:
                stream.in_send_queue = False  # until its own window grows

    def take_output(self) -> bytes:
        """All bytes to write now. More may wait: see `has_output`."""
        parts = self.parts
        data = b"".join(parts) if len(parts) != 1 else bytes(parts[0])
        parts.clear()
        self.control_bytes = 0
        if not self.paused:
            self.write_room = WRITE
        return data

    def set_paused(self, paused: bool) -> None:
        """The socket accepts no more data, or accepts it again."""
        self.paused = paused
        self.write_room = 0 if paused else WRITE

    def clear(self) -> None:
        """Empties the queues when the connection ends."""
        self.ready.clear()
        self._window_blocked.clear()
