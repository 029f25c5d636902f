"""One stream and its RPC: bytes of DATA -> messages for the call; messages of the call -> DATA and trailers.

The stream is the call's `Peer`. Messages are delivered while the call accepts them and its own messages can leave.
Otherwise the sender gets no new window, so what waits here is bounded by the stream's window.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from extproc.transport.http2.abuse_budget import ConnectionLimits
from extproc.transport.http2.deferred_streams import ReceiveBudget
from extproc.transport.http2.headers import RESPONSE, trailers
from extproc.transport.http2.send_scheduler import SendScheduler
from extproc.transport.http2.wire import (
    DATA,
    END_STREAM,
    HEADER,
    MESSAGE_HEADER,
    PREFIX,
    PREFIX_SIZE,
    Code,
    rst_stream,
    window_update,
)
from extproc.transport.rpc import NO_CALL, Status

_COPY_LIMIT = 16 * 1024
"""Larger messages are queued without a copy."""

_NO_PIECES: deque[memoryview] = deque(maxlen=0)
"""Shared by all streams with nothing queued, which is the common case: a queue of its own takes 600 bytes."""


class StreamOwner(Protocol):
    """The connection, as its streams see it. `Connection` documents the members."""

    low_priority_streams: int
    limits: ConnectionLimits
    receive_budget: ReceiveBudget

    def schedule(self, stream: Stream) -> None: ...
    def drop(self, stream: Stream) -> None: ...
    def on_call_crashed(self, stream: Stream, error: Exception) -> None: ...


class Stream:
    """A stream from its HEADERS until both sides have ended it. Public attributes are for `Connection` and
    `SendScheduler` only."""

    __slots__ = (
        "_backpressured",
        "_buffer",
        "_call_busy",
        "_connection",
        "_half_close_delivered",
        "_needed_bytes",
        "_out",
        "_pieces",
        "_response_started",
        "_resumed",
        "_trailers",
        "accepts_messages",
        "call",
        "dropped",
        "ended",
        "fast_path",
        "id",
        "in_send_queue",
        "queued_bytes",
        "receive_window",
        "remote_ended",
        "scheduled",
        "send_window",
        "urgent",
    )

    def __init__(self, stream_id: int, connection: StreamOwner, out: SendScheduler, receive_window: int) -> None:
        self.id = stream_id
        self.call = NO_CALL
        self._connection = connection
        self._out = out
        # incoming
        self.fast_path = False
        """A whole message may go to the call at once: none is before it, and the call accepts it."""
        self.accepts_messages = False
        """The call accepts messages. What waits in the buffer is a part of one."""
        self.receive_window = receive_window
        self.remote_ended = False
        self._buffer = bytearray()
        self._needed_bytes = 0
        """Size of the buffer below which it cannot hold a whole message."""
        self._call_busy = False
        """The call has returned False: it accepts no message now."""
        self._backpressured = False
        """Too many bytes of the call wait for the peer's windows."""
        self._resumed = False
        self._half_close_delivered = False
        # outgoing
        self.send_window = out.initial_window
        self.queued_bytes = 0
        self.in_send_queue = False
        """The stream is in a queue of the send scheduler."""
        self._pieces = _NO_PIECES
        self._response_started = False
        self.ended = False
        """The call has ended the RPC. Only what it has sent is still to leave."""
        self._trailers = b""
        # lifetime
        self.urgent = True
        """The client still waits for the first response (see `urgent_first`)."""
        self.scheduled = False
        """The stream waits for `continue_after_block`."""
        self.dropped = False

    # --------------------------------------------------------------------------------------------- the interface `Peer`

    def send(self, message: bytes) -> None:
        """See `rpc.Peer`."""
        if self.ended:
            return
        out = self._out
        size = len(message) + PREFIX_SIZE
        if (size <= self.send_window and size <= out.window and size <= out.write_room and size <= out.max_frame
                and not out.ready):  # else it must keep its place in the queue
            self.send_window -= size
            out.window -= size
            out.write_room -= size
            out.frames += 1
            if not self._response_started:
                self.send_response_headers()
            parts = out.parts
            parts.append(MESSAGE_HEADER.pack(size << 8 | DATA, 0, self.id, 0, size - PREFIX_SIZE))
            parts.append(message)
            if not out.flush_pending:
                out.request_flush()
            return
        prefix = PREFIX.pack(0, len(message))
        if self._pieces is _NO_PIECES:
            self._pieces = deque()
        if size > _COPY_LIMIT:
            self._pieces.append(memoryview(prefix))
            self._pieces.append(memoryview(message))
        else:
            self._pieces.append(memoryview(prefix + message))
        self.queued_bytes += size
        if self.queued_bytes > self._connection.limits.unsent:
            self._backpressured, self.fast_path, self.accepts_messages = True, False, False
        out.enqueue(self)

    def end(self, status: Status = Status.OK, text: str = "") -> None:
        """See `rpc.Peer`."""
        if self.ended:
            return
        self.ended, self.fast_path, self.accepts_messages = True, False, False
        self._trailers = trailers(status, text)
        self._discard_buffer()
        if self.queued_bytes or self._out.write_room <= 0:
            self._out.enqueue(self)
        else:
            self._send_trailers()

    def lower_priority(self) -> None:
        """See `rpc.Peer`."""
        if self.urgent and not self.dropped:
            self.urgent = False
            self._connection.low_priority_streams += 1

    def resume(self) -> None:
        """See `rpc.Peer`. Waiting messages are delivered soon, never from inside the call."""
        if not self.ended:
            self._resumed = True
            self._schedule()

    # ------------------------------------------------------------------------------------------------------- incoming

    def feed(self, data: bytes, start: int, end: int) -> None:
        """Takes the stream's bytes `data[start:end]` and delivers whole messages."""
        if self.ended:
            return
        if self._buffer or self._call_busy or self._backpressured:
            self._buffer_data(data, start, end)
            if len(self._buffer) >= self._needed_bytes or self.remote_ended:
                self.deliver_messages()
            return
        start = self._deliver_whole_messages(data, start, end)
        if start < end and not self.ended:
            self._buffer_data(data, start, end)
        self._update_acceptance()

    def append_payloads(self, pieces: list[memoryview]) -> None:
        """Takes the payloads of consecutive frames. Only while the call accepts messages."""
        buffer = self._buffer
        before = len(buffer)
        for piece in pieces:
            buffer += piece
        self._connection.receive_budget.add(len(buffer) - before)
        if len(buffer) >= self._needed_bytes:
            self.deliver_messages()

    def deliver_messages(self) -> None:
        """Delivers what waits, as far as the call accepts it."""
        buffer = self._buffer
        if buffer:
            taken = self._deliver_whole_messages(buffer, 0, len(buffer))
            if taken and not self.ended:
                del buffer[:taken]
                self._connection.receive_budget.add(-taken)
        self._update_acceptance()

    def _deliver_whole_messages(self, data: bytes | bytearray, start: int, end: int) -> int:
        """Delivers whole messages in order. Returns the offset of the rest."""
        largest = self._connection.limits.message
        self._needed_bytes = 0
        while end - start >= PREFIX_SIZE and not (self._call_busy or self._backpressured or self.ended):
            compressed, size = PREFIX.unpack_from(data, start)
            if compressed:
                self._refuse_prefix(compressed)
                break
            if size > largest:
                self.end(Status.RESOURCE_EXHAUSTED, f"a message of {size} bytes; at most {largest} are taken")
                break
            after = start + PREFIX_SIZE + size
            if after > end:
                self._needed_bytes = PREFIX_SIZE + size
                break
            if type(data) is bytes:
                message = data[start + PREFIX_SIZE:after]
            else:
                with memoryview(data) as view:
                    message = bytes(view[start + PREFIX_SIZE:after])
            start = after
            self.deliver_message(message)
        return start

    def deliver_message(self, message: bytes) -> None:
        """Delivers one whole message. Only while the call accepts messages."""
        try:
            if not self.call.message(message):  # and no further one until `resume`
                self._call_busy, self.fast_path, self.accepts_messages = True, False, False
        except Exception as error:  # its contract forbids it; other streams must not suffer from it
            self._connection.on_call_crashed(self, error)

    def _refuse_prefix(self, compressed: int) -> None:
        if compressed == 1:
            self.end(Status.UNIMPLEMENTED, "compressed messages are not taken; grpc-encoding must be identity")
        else:
            self.end(Status.INTERNAL, "not a gRPC message")

    def _update_acceptance(self) -> None:
        """Updates the state after a delivery, and reports the end of the client's messages."""
        held = self._call_busy or self._backpressured or self.ended
        accepts_messages = not (held or self.remote_ended)
        self.fast_path, self.accepts_messages = accepts_messages and not self._buffer, accepts_messages
        if held or not self.remote_ended or self._half_close_delivered:
            return
        if self._buffer:
            self.end(Status.INTERNAL, "the stream ended inside a message")
            return
        self._half_close_delivered = True
        try:
            self.call.half_closed()
        except Exception as error:  # other streams must not suffer from it
            self._connection.on_call_crashed(self, error)

    def grant_window(self) -> None:
        """Restores the sender's window, unless what came last still waits here."""
        if self._call_busy or self._backpressured or self.ended or self.remote_ended:
            return
        whole = self._connection.limits.stream_window
        increment = whole - self.receive_window
        if increment < whole // 2 or (self._buffer and not self._connection.receive_budget.may_grow(self)):
            return
        self.receive_window = whole
        self._out.send_control(window_update(self.id, increment))

    def _buffer_data(self, data: bytes, start: int, end: int) -> None:
        with memoryview(data) as view:
            self._buffer += view[start:end]
        self._connection.receive_budget.add(end - start)

    def _discard_buffer(self) -> None:
        if self._buffer:
            self._connection.receive_budget.add(-len(self._buffer))
            self._buffer = bytearray()

    def continue_after_block(self) -> None:
        """Continues after the call or the windows have stopped the stream."""
        self.scheduled = False
        if self.ended:
            return
        if self._resumed:
            self._resumed = self._call_busy = False
        self.deliver_messages()
        self.grant_window()

    def close_call(self) -> None:
        """Tells the call of a dropped stream that it is gone."""
        call, self.call = self.call, NO_CALL
        try:
            call.closed()
        except Exception as error:  # other streams must not suffer from it
            self._connection.on_call_crashed(self, error)

    def _schedule(self) -> None:
        if not self.scheduled:
            self.scheduled = True
            self._connection.schedule(self)

    @property
    def call_busy(self) -> bool:
        """True while the call works on a message."""
        return self._call_busy

    @property
    def has_partial_message(self) -> bool:
        """True if a part of a message has arrived."""
        return bool(self._buffer)

    @property
    def response_started(self) -> bool:
        """True if anything was sent."""
        return self._response_started

    # ------------------------------------------------------------------------------------------------------- outgoing

    def send_response_headers(self) -> None:
        """Sends the response headers before the first message."""
        if not self._response_started:
            self._response_started = True
            self._out.send_headers(self.id, 0, RESPONSE)

    def cut_data_frames(self, size: int, count: int, parts: list[bytes | memoryview]) -> None:
        """Moves queued bytes to `parts`, as `count` frames of `size` bytes."""
        pieces = self._pieces
        self.queued_bytes -= size * count
        self.send_window -= size * count
        head = HEADER.pack(size << 8 | DATA, 0, self.id)
        for _ in range(count):
            parts.append(head)
            left = size
            while left:
                piece = pieces[0]
                if len(piece) <= left:
                    left -= len(piece)
                    parts.append(pieces.popleft())
                else:
                    parts.append(piece[:left])
                    pieces[0] = piece[left:]
                    left = 0
        if self._backpressured and self.queued_bytes <= self._connection.limits.unsent // 2:
            self._backpressured = False
            self._schedule()

    def on_queue_empty(self) -> None:
        """Nothing is queued any more. The trailers follow if the call has ended."""
        if self.ended:
            self._send_trailers()

    def grow_send_window(self, increment: int) -> None:
        """The peer changes the window of this stream, possibly downwards."""
        self.send_window += increment
        if self.queued_bytes and self.send_window > 0:
            self._out.enqueue(self)

    def _send_trailers(self) -> None:
        """Sends the trailers and ends the stream on both sides, if necessary by a reset (RFC 9113 section 8.1)."""
        block = self._trailers if self._response_started else RESPONSE + self._trailers
        self._out.send_headers(self.id, END_STREAM, block)
        if not self.remote_ended:
            self._out.send_control(rst_stream(self.id, Code.NO_ERROR))
        self._connection.drop(self)

    def fail(self, status: Status, text: str, code: Code = Code.CANCEL) -> None:
        """Ends the stream at once, without what is still queued. Trailers cannot follow half a message; a reset can."""
        if self.dropped:
            return
        if self.queued_bytes or self._out.paused:
            self._out.send_control(rst_stream(self.id, code))
            self._connection.drop(self)
            return
        self.ended = False
        self.end(status, text)

    def release(self) -> None:
        """Frees the buffers of a dropped stream (`Connection.drop`)."""
        self.dropped = self.ended = True
        self.fast_path = self.accepts_messages = False
        self._discard_buffer()
        self._pieces = _NO_PIECES
        self.queued_bytes = 0
