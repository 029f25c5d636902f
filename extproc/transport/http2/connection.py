"""One connection: bytes from the peer -> frames -> calls of its streams; messages of the calls -> bytes to write.

No I/O and no clock. The owner of the socket calls `receive` with what it has read, `on_timer` when `next_deadline` is
over, and `take_output` after each of them or when `wake` was called. It writes what `take_output` returns and closes
the socket when `finished` is true. None of these methods raises. DATA is handled here because it is the hot path; other
frames are handled in `control` and `opening`.
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.transport.http2 import control, opening
from extproc.transport.http2.abuse_budget import COST_EMPTY, COST_LATE, COST_REFUSED, AbuseBudget, ConnectionLimits
from extproc.transport.http2.connection_timers import ConnectionTimers
from extproc.transport.http2.deferred_streams import DeferredStreams, ReceiveBudget
from extproc.transport.http2.frame_scheduler import FrameScheduler
from extproc.transport.http2.headers import HeaderReader
from extproc.transport.http2.interfaces import HeaderBlock
from extproc.transport.http2.send_scheduler import SendScheduler
from extproc.transport.http2.stream import Stream
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
    read_data_run,
    rst_stream,
    settings,
    window_update,
)
from extproc.transport.rpc import Methods, Status

Log = Callable[..., None]
"""Writes one line of the log: an event name, then details by keyword."""

_MASK = LARGEST_ID
"""The highest bit of a stream id is reserved (RFC 9113 section 4.1)."""

_FRAMES: dict[int, Callable[[Connection, int, int, bytes], None]]


class Connection:
    """`now` is any clock in seconds, the same one in all calls. `wake` is called when there is output to take, never
    from inside the methods of this class."""

    def __init__(self, methods: Methods, limits: ConnectionLimits, now: float, wake: Callable[[], None],
                 log: Log | None = None) -> None:
        self.methods = methods
        self.limits = limits
        self.log = log or (lambda _event, **_details: None)
        self.now = self.last_received = now
        self.out = SendScheduler(wake)
        self.streams: dict[int, Stream] = {}
        self.low_priority_streams = 0
        """The number of streams whose client no longer waits for a first response."""
        self.last_id = 0
        self.last_served = LARGEST_ID
        """The last stream that is served at all. Smaller once the final GOAWAY was sent."""
        self.reader = HeaderReader(limits.header_block)
        self.header_block: HeaderBlock | None = None
        """A header block whose CONTINUATION frames are still to come."""
        self.accepts_any_frame = False
        """The first SETTINGS frame has arrived and no header block is open."""
        self.deadlines: dict[int, float] = {}
        self.receive_budget = ReceiveBudget(limits.buffered)
        self.timers = ConnectionTimers(self)
        self.next_deadline = self.timers.due
        self.finished = False
        """The owner must write the remaining output and close the socket."""
        self._abuse_budget = AbuseBudget(now)
        self._frame_scheduler = FrameScheduler()
        self._preface = PREFACE
        """The part of the connection preface that is still to come."""
        self._settings_received = False
        """The first SETTINGS have come."""
        self._receive_window = limits.connection_window
        self._window_threshold = limits.connection_window // 2
        self._stream_window_threshold = limits.stream_window // 2
        self._max_fast_message = min(SMALLEST_MAX_FRAME - PREFIX_SIZE, limits.message)
        self._deferred = DeferredStreams(self.receive_budget)
        self.out.parts.append(settings({
            MAX_CONCURRENT_STREAMS: limits.streams, INITIAL_WINDOW_SIZE: limits.stream_window,
            MAX_HEADER_LIST_SIZE: limits.header_list}))
        self.out.parts.append(window_update(0, limits.connection_window - DEFAULT_WINDOW))

    # ------------------------------------------------------------------------------------ called by the socket's owner

    def receive(self, data: bytes, now: float) -> None:
        """Processes bytes that were read from the peer."""
        if self.finished:
            return
        self.now = self.last_received = now
        self.out.flush_pending = True
        reorder = self.accepts_any_frame and self.low_priority_streams > 0
        self._process_data(self._frame_scheduler.schedule_frames(
            data, self.streams, self.last_id, self.limits.streams, reorder=reorder))

    def _process_data(self, data: bytes) -> None:
        try:
            used = self._process_frames(data, self._skip_preface(data) if self._preface else 0)
            if used < len(data):
                self._frame_scheduler.keep_partial_frame(data[used:])
            deferred = self._deferred
            if deferred.scheduled or deferred.dropped or self.receive_budget.stopped:
                deferred.run()
            if self.out.control_bytes > self.limits.control and self.out.paused:
                raise ProtocolError(Code.ENHANCE_YOUR_CALM, "read what you asked for")
        except ProtocolError as error:
            self._close_on_error(error)

    def take_output(self) -> bytes:
        """The bytes to write now, in one piece. Empty if there are none or the socket accepts none."""
        out = self.out
        out.flush_pending = True
        deferred = self._deferred
        if deferred.scheduled or deferred.dropped or self.receive_budget.stopped:
            deferred.run()
        if out.ready:
            out.cut_frames()
            deferred.run()
        frames = self._frame_scheduler
        if frames.has_postponed and (data := frames.take_postponed(nothing_to_send=not out.parts)):
            self._process_data(data)
            out.cut_frames()
            deferred.run()
        out.flush_pending = False
        return b"" if out.paused and not self.finished else out.take_output()

    @property
    def has_output(self) -> bool:
        """True if `take_output` would return more at once."""
        return bool(self._deferred.scheduled) or self._frame_scheduler.has_postponed or self.out.has_output

    def on_timer(self, now: float) -> None:
        """`next_deadline` is over."""
        if self.finished:
            return
        self.now = now
        self.out.flush_pending = True
        for stream_id, due in list(self.deadlines.items()):
            if due <= now and (stream := self.streams.get(stream_id)) is not None:
                stream.fail(Status.DEADLINE_EXCEEDED, "the deadline is over")
        try:
            self.timers.on_timer()
        except ProtocolError as error:
            self._close_on_error(error)
        self.next_deadline = min([self.timers.due, *self.deadlines.values()])
        self._deferred.run()

    def set_write_paused(self, paused: bool) -> None:
        """The socket's write buffer is full, or accepts data again (then call `take_output`)."""
        self.out.set_paused(paused)

    def drain(self, now: float) -> None:
        """Announces that no new streams are accepted. `finished` becomes true with the end of the last stream."""
        if not self.finished:
            self.now = now
            self.timers.drain()
            self.next_deadline = min(self.next_deadline, self.timers.due)
            self.out.request_flush()

    def shut_down(self) -> None:
        """Ends all streams and the connection now."""
        if self.finished:
            return
        self.out.flush_pending = True
        for stream in list(self.streams.values()):
            stream.fail(Status.UNAVAILABLE, "the server is stopping")
        self.send_goaway()
        self.finish()
        self.out.flush_pending = False
        self.out.request_flush()

    def on_connection_lost(self) -> None:
        """The socket is closed."""
        self.out.flush_pending = True
        self.finish()
        self._deferred.run()

    # -------------------------------------------------------------------------------------------------------- frames

    def _skip_preface(self, data: bytes) -> int:
        seen = data[:len(self._preface)]
        if not self._preface.startswith(seen):
            raise ProtocolError(Code.PROTOCOL_ERROR, "no HTTP/2 with prior knowledge")
        self._preface = self._preface[len(seen):]
        return len(seen)

    def _process_frames(self, data: bytes, at: int) -> int:
        """Processes every whole frame from `at` on. Returns the offset of the rest."""
        streams, size = self.streams, len(data)
        threshold, largest = self._stream_window_threshold, self._max_fast_message
        while size - at >= HEADER_SIZE:
            if size - at >= HEADER_SIZE + PREFIX_SIZE and self.accepts_any_frame:
                # The common cases: a frame of an open stream that holds one whole message which its call accepts,
                # and consecutive frames of one large message.
                word, flags, stream_id, compressed, length = MESSAGE_HEADER.unpack_from(data, at)
                stream = streams.get(stream_id)
                if stream is not None and not flags:
                    if (stream.fast_path and word == length + PREFIX_SIZE << 8 and not compressed
                            and length <= largest):
                        after = at + HEADER_SIZE + PREFIX_SIZE + length
                        if after > size:
                            break
                        self._receive_window -= length + PREFIX_SIZE
                        stream.receive_window -= length + PREFIX_SIZE
                        if self._receive_window < self._window_threshold:
                            self._grant_window()
                        if stream.receive_window < 0:
                            self._stream_error(StreamError(stream_id, Code.FLOW_CONTROL_ERROR, "over the window"))
                        else:
                            stream.deliver_message(data[at + HEADER_SIZE + PREFIX_SIZE:after])
                            if stream.receive_window < threshold:
                                stream.grant_window()
                        at = after
                        continue
                    if (stream.accepts_messages and not word & 0xFF
                            and (after := self._process_data_run(stream, data, at)) > at):
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
                self._process_frame(word & 0xFF, flags, stream_id & _MASK, data, at + HEADER_SIZE, after)
            except StreamError as error:
                self._stream_error(error)
            at = after
        return at

    def _process_data_run(self, stream: Stream, data: bytes, at: int) -> int:
        """Delivers consecutive frames of a large body together. Returns the offset behind them: `at` if there are none.
        """
        pieces, after = read_data_run(data, at, stream.id, stream.receive_window, self._stream_window_threshold)
        if pieces:
            used = after - at - HEADER_SIZE * len(pieces)
            self._receive_window -= used
            stream.receive_window -= used
            if self._receive_window < self._window_threshold:
                self._grant_window()
            stream.append_payloads(pieces)
            if stream.receive_window < self._stream_window_threshold:
                stream.grant_window()
        return after

    def _process_frame(self, kind: int, flags: int, stream_id: int, data: bytes, start: int, end: int) -> None:
        if not self._settings_received:
            if kind != SETTINGS or flags & ACK:
                raise ProtocolError(Code.PROTOCOL_ERROR, "SETTINGS come first")
            self._settings_received = self.accepts_any_frame = True
            self.timers.on_settings_received()
        if self.header_block is not None and (kind != CONTINUATION or stream_id != self.header_block.stream_id):
            raise ProtocolError(Code.PROTOCOL_ERROR, "a frame inside a header block")
        if kind == DATA:
            self._process_data_frame(flags, stream_id, data, start, end)
        elif (work := _FRAMES.get(kind)) is not None:
            work(self, flags, stream_id, data[start:end])
        else:
            self.spend(COST_EMPTY)

    def _process_data_frame(self, flags: int, stream_id: int, data: bytes, start: int, end: int) -> None:
        """A DATA frame outside the fast path."""
        if stream_id == 0:
            raise ProtocolError(Code.PROTOCOL_ERROR, "DATA on stream 0")
        self._receive_window -= end - start
        if self._receive_window < self._window_threshold:
            self._grant_window()
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
            self.spend_on_closed_stream(stream_id)
            return
        if stream.remote_ended:
            raise StreamError(stream_id, Code.STREAM_CLOSED, "DATA after the end")
        stream.receive_window -= size
        if stream.receive_window < 0:
            raise StreamError(stream_id, Code.FLOW_CONTROL_ERROR, "over the window")
        if flags & END_STREAM:
            stream.remote_ended = True
        stream.feed(data, start, end)
        if stream.receive_window < self._stream_window_threshold:
            stream.grant_window()

    def spend_on_closed_stream(self, stream_id: int) -> None:
        """Accounts for a frame of a stream that is not open: the stream may have ended meanwhile, or the frame may have
        crossed our GOAWAY. Raises ProtocolError for a stream that never was open."""
        if not stream_id % 2 or self.last_id < stream_id <= self.last_served:
            raise ProtocolError(Code.PROTOCOL_ERROR, "a frame on an idle stream")
        self.spend(COST_LATE)

    def spend(self, cost: int) -> None:
        """Accounts for a frame that costs work and achieves nothing. Raises ProtocolError past the abuse budget."""
        if not self._abuse_budget.spend(cost, self.now, self.out.frames, self.out.sent):
            raise ProtocolError(Code.ENHANCE_YOUR_CALM, "too many frames that bring nothing")

    def _grant_window(self) -> None:
        if self._receive_window < 0:
            raise ProtocolError(Code.FLOW_CONTROL_ERROR, "over the connection's window")
        whole = self.limits.connection_window
        self.out.send_control(window_update(0, whole - self._receive_window))
        self._receive_window = whole

    def _stream_error(self, error: StreamError) -> None:
        self.spend(COST_REFUSED)
        self.out.send_control(rst_stream(error.stream_id, error.code))
        stream = self.streams.get(error.stream_id)
        if stream is not None:
            self.log("http2_stream", reason=str(error), code=error.code.name)
            self.drop(stream)

    def _close_on_error(self, error: ProtocolError) -> None:
        """Ends the connection. The GOAWAY frame carries the reason."""
        self.log("http2_connection", reason=str(error), code=error.code.name, streams=len(self.streams))
        self.out.parts.append(goaway(self.last_id, error.code, str(error)))
        self.finish()
        self._deferred.run()

    # ------------------------------------------------------------------------------------------------------- streams

    def schedule(self, stream: Stream) -> None:
        """The stream continues after the current step."""
        self._deferred.scheduled.append(stream)
        self.out.request_flush()

    def drop(self, stream: Stream) -> None:
        """Removes the stream. Its call is closed after the current step."""
        if stream.dropped:
            return
        stream.release()
        self.low_priority_streams -= not stream.urgent
        self.streams.pop(stream.id, None)
        self.deadlines.pop(stream.id, None)
        self.receive_budget.forget(stream)
        self.out.forget(stream)
        self._deferred.dropped.append(stream)
        self.out.request_flush()
        if not self.streams:
            self.timers.on_last_stream()

    def on_call_crashed(self, stream: Stream, error: Exception) -> None:
        """A call has raised, which its contract forbids."""
        self.log("call_crashed", reason=f"{type(error).__name__}: {error}")
        stream.fail(Status.UNKNOWN, "the call failed", Code.INTERNAL_ERROR)

    # ---------------------------------------------------------------------------------------------------- the end

    def send_goaway(self) -> None:
        """Sends the final GOAWAY. Streams up to this moment are served."""
        self.last_served = min(self.last_served, self.last_id)
        self.out.send_control(goaway(self.last_id, Code.NO_ERROR))

    def finish(self) -> None:
        """Ends all streams and the connection."""
        self.finished = True
        self._frame_scheduler.clear()
        self.out.clear()
        for stream in list(self.streams.values()):
            self.drop(stream)


_FRAMES = {HEADERS: opening.headers, CONTINUATION: opening.continuation, **control.FRAMES}
