"""One stream and its RPC: bytes of DATA -> messages for the call, messages of the call -> DATA and trailers.

It is the call's `Peer`. Messages are handed over while the call takes them and its answers get away; meanwhile the
sender is granted nothing, so what waits here is bounded by the stream's window.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from extproc.transport.http2.abuse_budget import Limits
from extproc.transport.http2.headers import RESPONSE, trailers
from extproc.transport.http2.receive_budget import ReceiveBudget
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
from extproc.transport.rpc import Call, Status

_WHOLE = 16 * 1024
"""Larger messages are queued without a copy."""


_NO_PIECES: deque[memoryview] = deque(maxlen=0)
"""Of a stream whose answers go straight out, as most do: a queue of its own takes 600 bytes."""


class _Nobody:
    """The call of a stream that has none yet, or no longer."""

    def message(self, data: bytes) -> bool:
        return True

    def half_closed(self) -> None:
        """Nobody hears."""

    def closed(self) -> None:
        """Nobody hears."""


NOBODY: Call = _Nobody()


class StreamOwner(Protocol):
    """The connection, as its streams see it. `Connection` says what each member means."""

    calm: int
    limits: Limits
    holding: ReceiveBudget

    def stir(self, stream: Stream) -> None: ...
    def drop(self, stream: Stream) -> None: ...
    def crashed(self, stream: Stream, error: Exception) -> None: ...


class Stream:
    """From its HEADERS until both sides have ended it. Public attributes are for `Connection` and `SendScheduler`
    alone."""

    __slots__ = ("_answered", "_buffer", "_busy", "_clogged", "_connection", "_needed", "_out", "_pieces", "_resumed",
                 "_told_half", "_trailers", "call", "ended", "gone", "id", "queued", "receive_window", "remote_ended",
                 "send_window", "stirred", "swift", "takes", "urgent", "waits")

    def __init__(self, stream_id: int, connection: StreamOwner, out: SendScheduler, receive_window: int) -> None:
        self.id = stream_id
        self.call = NOBODY
        self._connection = connection
        self._out = out
        # incoming
        self.swift = False
        """A whole message may go to the call at once: nothing is before it and the call takes it."""
        self.takes = False
        """The call takes messages: what waits here is a part of one."""
        self.receive_window = receive_window
        self.remote_ended = False
        self._buffer = bytearray()
        self._needed = 0
        """Bytes of it before which looking at it again brings nothing."""
        self._busy = False
        """The call said that it takes no message now."""
        self._clogged = False
        """Too many of its answers wait."""
        self._resumed = False
        self._told_half = False
        # outgoing
        self.send_window = out.initial_window
        self.queued = 0
        self.waits = False
        """It is in the outbox's queue."""
        self._pieces = _NO_PIECES
        self._answered = False
        self.ended = False
        """The call has ended the RPC; only what it sent is still to go."""
        self._trailers = b""
        # life
        self.urgent = True
        """Somebody waits for its first answers (`urgent_first`)."""
        self.stirred = False
        """It waits for `settle`."""
        self.gone = False

    # ------------------------------------------------------------------------------------------------ what a call calls

    def send(self, message: bytes) -> None:
        """See `rpc.Peer`."""
        if self.ended:
            return
        out = self._out
        size = len(message) + PREFIX_SIZE
        if (size <= self.send_window and size <= out.window and size <= out.room and size <= out.max_frame
                and not out.queued):  # with windows that are open our own would be queued there
            self.send_window -= size
            out.window -= size
            out.room -= size
            out.frames += 1
            if not self._answered:
                self.begin()
            parts = out.parts
            parts.append(MESSAGE_HEADER.pack(size << 8 | DATA, 0, self.id, 0, size - PREFIX_SIZE))
            parts.append(message)
            if not out.awake:
                out.wake()
            return
        prefix = PREFIX.pack(0, len(message))
        if self._pieces is _NO_PIECES:
            self._pieces = deque()
        if size > _WHOLE:
            self._pieces.append(memoryview(prefix))
            self._pieces.append(memoryview(message))
        else:
            self._pieces.append(memoryview(prefix + message))
        self.queued += size
        if self.queued > self._connection.limits.unsent:
            self._clogged, self.swift, self.takes = True, False, False
        out.queue(self)

    def end(self, status: Status = Status.OK, text: str = "") -> None:
        """See `rpc.Peer`."""
        if self.ended:
            return
        self.ended, self.swift, self.takes = True, False, False
        self._trailers = trailers(status, text)
        self._discard()
        if self.queued or self._out.room <= 0:
            self._out.queue(self)
        else:
            self._conclude()

    def calm(self) -> None:
        """See `rpc.Peer`."""
        if self.urgent and not self.gone:
            self.urgent = False
            self._connection.calm += 1

    def resume(self) -> None:
        """See `rpc.Peer`. What waits comes in a moment, never from inside the call."""
        if not self.ended:
            self._resumed = True
            self._stir()

    # ------------------------------------------------------------------------------------------------------- incoming

    def feed(self, data: bytes, start: int, end: int) -> None:
        """A piece of the stream's bytes, `data[start:end]`, and what can be handed over is."""
        if self.ended:
            return
        if self._buffer or self._busy or self._clogged:
            self._keep(data, start, end)
            if len(self._buffer) >= self._needed or self.remote_ended:
                self.deliver()
            return
        start = self._hand_over(data, start, end)
        if start < end and not self.ended:
            self._keep(data, start, end)
        self._after()

    def fill(self, pieces: list[memoryview]) -> None:
        """The same of a run of frames, where the call takes messages."""
        buffer = self._buffer
        before = len(buffer)
        for piece in pieces:
            buffer += piece
        self._connection.holding.add(len(buffer) - before)
        if len(buffer) >= self._needed:
            self.deliver()

    def deliver(self) -> None:
        """Hands over what waits, as far as the call takes it."""
        buffer = self._buffer
        if buffer:
            taken = self._hand_over(buffer, 0, len(buffer))
            if taken and not self.ended:
                del buffer[:taken]
                self._connection.holding.add(-taken)
        self._after()

    def _hand_over(self, data: bytes | bytearray, start: int, end: int) -> int:
        """Whole messages, in order. Returns where the rest begins."""
        largest = self._connection.limits.message
        self._needed = 0
        while end - start >= PREFIX_SIZE and not (self._busy or self._clogged or self.ended):
            compressed, size = PREFIX.unpack_from(data, start)
            if compressed:
                self._refuse(compressed)
                break
            if size > largest:
                self.end(Status.RESOURCE_EXHAUSTED, f"a message of {size} bytes; at most {largest} are taken")
                break
            after = start + PREFIX_SIZE + size
            if after > end:
                self._needed = PREFIX_SIZE + size
                break
            if type(data) is bytes:
                message = data[start + PREFIX_SIZE:after]
            else:
                with memoryview(data) as view:
                    message = bytes(view[start + PREFIX_SIZE:after])
            start = after
            self.hand(message)
        return start

    def hand(self, message: bytes) -> None:
        """One whole message, which the call takes now."""
        try:
            if not self.call.message(message):  # and no further one until `resume`
                self._busy, self.swift, self.takes = True, False, False
        except Exception as error:  # the contract forbids it; other streams must not pay for it
            self._connection.crashed(self, error)

    def _refuse(self, compressed: int) -> None:
        if compressed == 1:
            self.end(Status.UNIMPLEMENTED, "compressed messages are not taken; grpc-encoding must be identity")
        else:
            self.end(Status.INTERNAL, "no gRPC message")

    def _after(self) -> None:
        """Messages were handed over, as far as that goes."""
        held = self._busy or self._clogged or self.ended
        takes = not (held or self.remote_ended)
        self.swift, self.takes = takes and not self._buffer, takes
        if held or not self.remote_ended or self._told_half:
            return
        if self._buffer:
            self.end(Status.INTERNAL, "the stream ended inside a message")
            return
        self._told_half = True
        try:
            self.call.half_closed()
        except Exception as error:  # as above
            self._connection.crashed(self, error)

    def grant(self) -> None:
        """Gives the sender its window back, unless what came last still waits here."""
        if self._busy or self._clogged or self.ended or self.remote_ended:
            return
        whole = self._connection.limits.stream_window
        increment = whole - self.receive_window
        if increment < whole // 2 or (self._buffer and not self._connection.holding.may_grow(self)):
            return
        self.receive_window = whole
        self._out.control(window_update(self.id, increment))

    def _keep(self, data: bytes, start: int, end: int) -> None:
        with memoryview(data) as view:
            self._buffer += view[start:end]
        self._connection.holding.add(end - start)

    def _discard(self) -> None:
        if self._buffer:
            self._connection.holding.add(-len(self._buffer))
            self._buffer = bytearray()

    def settle(self) -> None:
        """Goes on where the call or the windows stopped it."""
        self.stirred = False
        if self.ended:
            return
        if self._resumed:
            self._resumed = self._busy = False
        self.deliver()
        self.grant()

    def _stir(self) -> None:
        if not self.stirred:
            self.stirred = True
            self._connection.stir(self)

    @property
    def busy(self) -> bool:
        """The call is at work."""
        return self._busy

    @property
    def unfinished(self) -> bool:
        """A message has come in part."""
        return bool(self._buffer)

    @property
    def answered(self) -> bool:
        """Something was sent."""
        return self._answered

    # ------------------------------------------------------------------------------------------------------- outgoing

    def begin(self) -> None:
        """The head of the answer, before the first message."""
        if not self._answered:
            self._answered = True
            self._out.headers(self.id, 0, RESPONSE)

    def cut(self, size: int, count: int, parts: list[bytes | memoryview]) -> None:
        """Moves queued bytes to `parts`, as so many frames of this size."""
        pieces = self._pieces
        self.queued -= size * count
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
        if self._clogged and self.queued <= self._connection.limits.unsent // 2:
            self._clogged = False
            self._stir()

    def sent_all(self) -> None:
        """Nothing is queued: the trailers follow when the call has ended."""
        if self.ended:
            self._conclude()

    def widen(self, increment: int) -> None:
        """The peer takes more on this stream, or less."""
        self.send_window += increment
        if self.queued and self.send_window > 0:
            self._out.queue(self)

    def _conclude(self) -> None:
        """The trailers; both sides have ended the stream then, if need be by a reset (RFC 9113 section 8.1)."""
        self._out.headers(self.id, END_STREAM, self._trailers if self._answered else RESPONSE + self._trailers)
        if not self.remote_ended:
            self._out.control(rst_stream(self.id, Code.NO_ERROR))
        self._connection.drop(self)

    def fail(self, status: Status, text: str, code: Code = Code.CANCEL) -> None:
        """Ends it at once and without what is still queued. Trailers cannot follow half a message, a reset can."""
        if self.gone:
            return
        if self.queued or self._out.paused:
            self._out.control(rst_stream(self.id, code))
            self._connection.drop(self)
            return
        self.ended = False
        self.end(status, text)

    def leave(self) -> None:
        """Nothing comes or goes any more (`Connection.drop`)."""
        self.gone = self.ended = True
        self.swift = self.takes = False
        self._discard()
        self._pieces = _NO_PIECES
        self.queued = 0
