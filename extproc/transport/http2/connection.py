"""One connection: bytes from the peer -> frames -> the calls of its streams; what they answer -> bytes to write.

No I/O and no clock: whoever owns the socket calls `receive` with what it read, `on_time` when `next_deadline` is over
and `take` after each of them or when `wake` was called, writes what `take` returns, and closes when `finished` is true.
None of these raises. DATA is understood here, this is the hot path; other frames in `control` and `opening`.
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.transport.http2 import control, opening
from extproc.transport.http2.abuse_budget import COST_EMPTY, COST_LATE, COST_REFUSED, AbuseBudget, Limits
from extproc.transport.http2.connection_timers import ConnectionTimers
from extproc.transport.http2.data_runs import run
from extproc.transport.http2.frame_scheduler import FrameScheduler
from extproc.transport.http2.headers import HeaderReader
from extproc.transport.http2.interfaces import HeaderBlock
from extproc.transport.http2.receive_budget import ReceiveBudget
from extproc.transport.http2.send_scheduler import SendScheduler
from extproc.transport.http2.stream import NOBODY, Stream
from extproc.transport.http2.wire import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    END_STREAM,
    HEADER,
    HEADER_SIZE,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    LARGEST_ID,
    MAX_CONCURRENT_STREAMS,
    MAX_HEADER_LIST_SIZE,
    MESSAGE_HEADER,
    PADDED,
    PREFACE,
    PREFIX_SIZE,
    SETTINGS,
    SMALLEST_MAX_FRAME,
    Code,
    ProtocolError,
    StreamError,
    goaway,
    rst_stream,
    settings,
    window_update,
)
from extproc.transport.rpc import Methods, Status

Log = Callable[..., None]
"""A line of the log: what happened, and details by name."""

_MASK = LARGEST_ID
"""The highest bit of a stream's number means nothing."""

_FRAMES: dict[int, Callable[[Connection, int, int, bytes], None]]


class Connection:
    """`now` is any clock in seconds, the same one in all calls. `wake`: there is something to `take`, not called from
    inside the methods of this class."""

    def __init__(self, methods: Methods, limits: Limits, now: float, wake: Callable[[], None], log: Log | None = None
                 ) -> None:
        self.methods = methods
        self.limits = limits
        self.log = log or (lambda _event, **_details: None)
        self.now = self.heard = now
        self.out = SendScheduler(wake)
        self.streams: dict[int, Stream] = {}
        self.calm = 0
        """So many of them are in no hurry."""
        self.last_id = 0
        self.last_served = LARGEST_ID
        """The last stream that is served at all; smaller once we have said goodbye."""
        self.reader = HeaderReader(limits.header_block)
        self.block: HeaderBlock | None = None
        """Headers of which CONTINUATION is still to come."""
        self.plain = False
        """Any frame may come: the first SETTINGS did, and no header block is open."""
        self.deadlines: dict[int, float] = {}
        self.holding = ReceiveBudget(limits.buffered)
        self.life = ConnectionTimers(self)
        self.next_deadline = self.life.due
        self.finished = False
        """Write what is left and close."""
        self._allowance = AbuseBudget(now)
        self._inbox = FrameScheduler()
        self._preface = PREFACE
        """What is still to come of it."""
        self._begun = False
        """The first SETTINGS have come."""
        self._window = limits.connection_window
        self._low = limits.connection_window // 2
        self._stream_low = limits.stream_window // 2
        self._largest_whole = min(SMALLEST_MAX_FRAME - PREFIX_SIZE, limits.message)
        self._stirred: list[Stream] = []
        self._gone: list[Stream] = []
        self.out.parts.append(settings({
            MAX_CONCURRENT_STREAMS: limits.streams, INITIAL_WINDOW_SIZE: limits.stream_window,
            MAX_HEADER_LIST_SIZE: limits.header_list}))
        self.out.parts.append(window_update(0, limits.connection_window - DEFAULT_WINDOW))

    # ------------------------------------------------------------------------------------------------- what I/O calls

    def receive(self, data: bytes, now: float) -> None:
        """What was read from the peer."""
        if self.finished:
            return
        self.now = self.heard = now
        self.out.awake = True
        choosing = self.plain and self.calm > 0
        self._work(self._inbox.received(data, self.streams, self.last_id, self.limits.streams, choosing=choosing))

    def _work(self, data: bytes) -> None:
        try:
            used = self._frames(data, self._skip_preface(data) if self._preface else 0)
            if used < len(data):
                self._inbox.keep(data[used:])
            if self._stirred or self._gone or self.holding.stopped:
                self._settle()
            if self.out.waiting > self.limits.control and self.out.paused:
                raise ProtocolError(Code.ENHANCE_YOUR_CALM, "read what you asked for")
        except ProtocolError as error:
            self._break(error)

    def take(self) -> bytes:
        """What is to be written now, in one piece; empty when there is nothing, or while the transport takes
        nothing."""
        out = self.out
        out.awake = True
        if self._stirred or self._gone or self.holding.stopped:
            self._settle()
        if out.queued:
            out.pump()
            self._settle()
        if self._inbox.more and (data := self._inbox.postponed(silent=not out.parts)):
            self._work(data)
            out.pump()
            self._settle()
        out.awake = False
        return b"" if out.paused and not self.finished else out.take()

    @property
    def more(self) -> bool:
        """Whether `take` would give more at once."""
        return bool(self._stirred) or self._inbox.more or self.out.more

    def on_time(self, now: float) -> None:
        """`next_deadline` is over."""
        if self.finished:
            return
        self.now = now
        self.out.awake = True
        for stream_id, due in list(self.deadlines.items()):
            if due <= now and (stream := self.streams.get(stream_id)) is not None:
                stream.fail(Status.DEADLINE_EXCEEDED, "the deadline is over")
        try:
            self.life.on_time()
        except ProtocolError as error:
            self._break(error)
        self.next_deadline = min([self.life.due, *self.deadlines.values()])
        self._settle()

    def pause(self, paused: bool) -> None:
        """The transport takes nothing more, or takes again (then `take`)."""
        self.out.pause(paused)

    def drain(self, now: float) -> None:
        """Takes no new streams soon; `finished` when the last one has ended."""
        if not self.finished:
            self.now = now
            self.life.drain()
            self.next_deadline = min(self.next_deadline, self.life.due)
            self.out.wake()

    def shut(self) -> None:
        """Ends everything now, as far as the peer listens."""
        if self.finished:
            return
        self.out.awake = True
        for stream in list(self.streams.values()):
            stream.fail(Status.UNAVAILABLE, "the server is stopping")
        self.bid_farewell()
        self.finish()
        self.out.awake = False
        self.out.wake()

    def lost(self) -> None:
        """The connection is gone."""
        self.out.awake = True
        self.finish()
        self._settle()

    # -------------------------------------------------------------------------------------------------------- frames

    def _skip_preface(self, data: bytes) -> int:
        seen = data[:len(self._preface)]
        if not self._preface.startswith(seen):
            raise ProtocolError(Code.PROTOCOL_ERROR, "no HTTP/2 with prior knowledge")
        self._preface = self._preface[len(seen):]
        return len(seen)

    def _frames(self, data: bytes, at: int) -> int:
        """Works on every whole frame from `at` on. Returns where the rest begins."""
        streams, size = self.streams, len(data)
        low, largest = self._stream_low, self._largest_whole
        while size - at >= HEADER_SIZE:
            if size - at >= HEADER_SIZE + PREFIX_SIZE and self.plain:
                # The common cases: one whole message in a frame of an open stream whose call takes it, and, where
                # bodies are large, one frame of a message after the other.
                word, flags, stream_id, compressed, length = MESSAGE_HEADER.unpack_from(data, at)
                stream = streams.get(stream_id)
                if stream is not None and not flags:
                    if (stream.swift and word == length + PREFIX_SIZE << 8 and not compressed
                            and length <= largest):
                        after = at + HEADER_SIZE + PREFIX_SIZE + length
                        if after > size:
                            break
                        self._window -= length + PREFIX_SIZE
                        stream.receive_window -= length + PREFIX_SIZE
                        if self._window < self._low:
                            self._grant()
                        if stream.receive_window < 0:
                            self._stream_error(StreamError(stream_id, Code.FLOW_CONTROL_ERROR, "over the window"))
                        else:
                            stream.hand(data[at + HEADER_SIZE + PREFIX_SIZE:after])
                            if stream.receive_window < low:
                                stream.grant()
                        at = after
                        continue
                    if stream.takes and not word & 0xFF and (after := self._run(stream, data, at)) > at:
                        at = after
                        continue
            if self.finished:
                return size
            word, flags, stream_id = HEADER.unpack_from(data, at)
            length = word >> 8
            if length > SMALLEST_MAX_FRAME:
                raise ProtocolError(Code.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            after = at + HEADER_SIZE + length
            if after > size:
                break
            try:
                self._frame(word & 0xFF, flags, stream_id & _MASK, data, at + HEADER_SIZE, after)
            except StreamError as error:
                self._stream_error(error)
            at = after
        return at

    def _run(self, stream: Stream, data: bytes, at: int) -> int:
        """Takes frames that carry a large body together. Returns where they end: `at`, if there are none."""
        pieces, after = run(data, at, stream.id, stream.receive_window, self._stream_low)
        if pieces:
            used = after - at - HEADER_SIZE * len(pieces)
            self._window -= used
            stream.receive_window -= used
            if self._window < self._low:
                self._grant()
            stream.fill(pieces)
            if stream.receive_window < self._stream_low:
                stream.grant()
        return after

    def _frame(self, kind: int, flags: int, stream_id: int, data: bytes, start: int, end: int) -> None:
        if not self._begun:
            if kind != SETTINGS or flags & ACK:
                raise ProtocolError(Code.PROTOCOL_ERROR, "SETTINGS come first")
            self._begun = self.plain = True
            self.life.begin()
        if self.block is not None and (kind != CONTINUATION or stream_id != self.block.stream_id):
            raise ProtocolError(Code.PROTOCOL_ERROR, "a frame inside a header block")
        if kind == DATA:
            self._data(flags, stream_id, data, start, end)
        elif (work := _FRAMES.get(kind)) is not None:
            work(self, flags, stream_id, data[start:end])
        else:
            self.spend(COST_EMPTY)

    def _data(self, flags: int, stream_id: int, data: bytes, start: int, end: int) -> None:
        """DATA, where it is not the common case."""
        if stream_id == 0:
            raise ProtocolError(Code.PROTOCOL_ERROR, "DATA on stream 0")
        self._window -= end - start
        if self._window < self._low:
            self._grant()
        size = end - start
        if flags & PADDED:
            if start == end or data[start] >= end - start:
                raise ProtocolError(Code.PROTOCOL_ERROR, "more padding than payload")
            end -= data[start]
            start += 1
        if start == end and not flags & END_STREAM:
            self.spend(COST_EMPTY)
        stream = self.streams.get(stream_id)
        if stream is None:
            self.late(stream_id)
            return
        if stream.remote_ended:
            raise StreamError(stream_id, Code.STREAM_CLOSED, "DATA after the end")
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamError(stream_id, Code.FLOW_CONTROL_ERROR, "over the window")
        if flags & END_STREAM:
            stream.remote_ended = True
        stream.feed(data, start, end)
        if stream.receive_window < self._stream_low:
            stream.grant()

    def late(self, stream_id: int) -> None:
        """A frame of a stream that is not open: it may have ended meanwhile, or crossed our GOAWAY. Raises
        ProtocolError."""
        if not stream_id % 2 or self.last_id < stream_id <= self.last_served:
            raise ProtocolError(Code.PROTOCOL_ERROR, "a frame on an idle stream")
        self.spend(COST_LATE)

    def spend(self, cost: int) -> None:
        """The peer did something that brings nothing. Raises ProtocolError."""
        if not self._allowance.spend(cost, self.now, self.out.frames, self.out.sent):
            raise ProtocolError(Code.ENHANCE_YOUR_CALM, "too many frames that bring nothing")

    def _grant(self) -> None:
        if self._window < 0:
            raise ProtocolError(Code.FLOW_CONTROL_ERROR, "over the connection's window")
        whole = self.limits.connection_window
        self.out.control(window_update(0, whole - self._window))
        self._window = whole

    def _stream_error(self, error: StreamError) -> None:
        self.spend(COST_REFUSED)
        self.out.control(rst_stream(error.stream_id, error.code))
        stream = self.streams.get(error.stream_id)
        if stream is not None:
            self.log("http2_stream", reason=str(error), code=error.code.name)
            self.drop(stream)

    def _break(self, error: ProtocolError) -> None:
        """The last frame says why."""
        self.log("http2_connection", reason=str(error), code=error.code.name, streams=len(self.streams))
        self.out.parts.append(goaway(self.last_id, error.code, str(error)))
        self.finish()
        self._settle()

    # ------------------------------------------------------------------------------------------------------- streams

    def stir(self, stream: Stream) -> None:
        """This stream goes on in `settle`."""
        self._stirred.append(stream)
        self.out.wake()

    def drop(self, stream: Stream) -> None:
        """The stream is gone; its call learns it in `settle`."""
        if stream.gone:
            return
        stream.leave()
        self.calm -= not stream.urgent
        self.streams.pop(stream.id, None)
        self.deadlines.pop(stream.id, None)
        self.holding.forget(stream)
        self.out.forget(stream)
        self._gone.append(stream)
        self.out.wake()
        if not self.streams:
            self.life.on_last_stream()

    def crashed(self, stream: Stream, error: Exception) -> None:
        """A call raised, which it must not."""
        self.log("call_crashed", reason=f"{type(error).__name__}: {error}")
        stream.fail(Status.UNKNOWN, "the call failed", Code.INTERNAL_ERROR)

    def _settle(self) -> None:
        """What must not happen inside a call: messages that waited, and farewells."""
        while self._stirred or self._gone or self.holding.stopped:
            if self.holding.stopped and not self.holding.release() and not (self._stirred or self._gone):
                return
            stirred, self._stirred = self._stirred, []
            for stream in stirred:
                stream.settle()
            gone, self._gone = self._gone, []
            for stream in gone:
                call, stream.call = stream.call, NOBODY
                try:
                    call.closed()
                except Exception as error:  # as above
                    self.crashed(stream, error)

    # ---------------------------------------------------------------------------------------------------- the end

    def bid_farewell(self) -> None:
        """The last GOAWAY: what came until now is served."""
        self.last_served = min(self.last_served, self.last_id)
        self.out.control(goaway(self.last_id, Code.NO_ERROR))

    def finish(self) -> None:
        """No stream lives any longer."""
        self.finished = True
        self._inbox.clear()
        self.out.clear()
        for stream in list(self.streams.values()):
            self.drop(stream)


_FRAMES = {HEADERS: opening.headers, CONTINUATION: opening.continuation, **control.FRAMES}
