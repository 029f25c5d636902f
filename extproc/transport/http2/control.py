"""The frames that carry no request: SETTINGS, PING, WINDOW_UPDATE, RST_STREAM, GOAWAY, PRIORITY and PUSH_PROMISE.

Each function validates one type as RFC 9113 section 6 requires, and handles it. They raise ProtocolError or
StreamError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from extproc.transport.http2.abuse_budget import (
    COST_EMPTY,
    COST_PING,
    COST_RESET,
    COST_RESET_BUSY,
    COST_SETTINGS,
    COST_TINY,
    SETTINGS_ENTRIES,
    TINY,
)
from extproc.transport.http2.interfaces import ConnectionState
from extproc.transport.http2.wire import (
    ACK,
    ENABLE_CONNECT_PROTOCOL,
    ENABLE_PUSH,
    GOAWAY,
    INITIAL_WINDOW_SIZE,
    LARGEST_MAX_FRAME,
    LARGEST_WINDOW,
    MAX_FRAME_SIZE,
    PING,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    SETTINGS_ACK,
    SMALLEST_MAX_FRAME,
    WINDOW_UPDATE,
    Code,
    ProtocolError,
    StreamError,
    frame,
)

_ENTRIES = struct.Struct(">HI")


def settings(connection: ConnectionState, flags: int, stream_id: int, payload: bytes) -> None:
    """Checks all known settings. Those that do not concern a server without HPACK table and push are ignored."""
    _require(stream_id == 0, "SETTINGS on a stream")
    if flags & ACK:
        _require(not payload, "SETTINGS ACK with a payload", Code.FRAME_SIZE_ERROR)
        connection.spend(COST_EMPTY)
        return
    _require(len(payload) % 6 == 0, "SETTINGS of an odd length", Code.FRAME_SIZE_ERROR)
    _require(len(payload) <= 6 * SETTINGS_ENTRIES, "too many settings", Code.ENHANCE_YOUR_CALM)
    connection.spend(COST_SETTINGS)
    window = connection.out.initial_window
    for key, value in _ENTRIES.iter_unpack(payload):
        if key in (ENABLE_PUSH, ENABLE_CONNECT_PROTOCOL):
            _require(value <= 1, "a switch is 0 or 1")
        elif key == INITIAL_WINDOW_SIZE:
            _require(value <= LARGEST_WINDOW, "the initial window is too large", Code.FLOW_CONTROL_ERROR)
            window = value
        elif key == MAX_FRAME_SIZE:
            _require(SMALLEST_MAX_FRAME <= value <= LARGEST_MAX_FRAME, "the frame size is out of bounds")
            connection.out.max_frame = value
    if window != connection.out.initial_window:
        _resize_windows(connection, window)
    connection.out.send_control(SETTINGS_ACK)


def _resize_windows(connection: ConnectionState, window: int) -> None:
    """Applies the difference to all open streams, possibly below zero (section 6.9.2)."""
    difference = window - connection.out.initial_window
    connection.out.initial_window = window
    for stream in connection.streams.values():
        _require(stream.send_window + difference <= LARGEST_WINDOW, "a window is too large", Code.FLOW_CONTROL_ERROR)
        stream.grow_send_window(difference)


def window_update(connection: ConnectionState, _flags: int, stream_id: int, payload: bytes) -> None:
    """The peer grants more window."""
    _require(len(payload) == 4, "WINDOW_UPDATE of an odd length", Code.FRAME_SIZE_ERROR)
    increment = int.from_bytes(payload) & LARGEST_WINDOW
    if increment < TINY:
        connection.spend(COST_TINY)
    if stream_id == 0:
        _require(increment > 0, "an increment of 0")
        _require(connection.out.window + increment <= LARGEST_WINDOW, "the window is too large",
                 Code.FLOW_CONTROL_ERROR)
        connection.out.grow_window(increment)
        return
    stream = connection.streams.get(stream_id)
    if stream is None:
        connection.spend_on_closed_stream(stream_id)
        return
    if not increment:
        raise StreamError(stream_id, Code.PROTOCOL_ERROR, "an increment of 0")
    if stream.send_window + increment > LARGEST_WINDOW:
        raise StreamError(stream_id, Code.FLOW_CONTROL_ERROR, "the window is too large")
    stream.grow_send_window(increment)


def rst_stream(connection: ConnectionState, _flags: int, stream_id: int, payload: bytes) -> None:
    """The peer cancels a stream."""
    _require(len(payload) == 4, "RST_STREAM of an odd length", Code.FRAME_SIZE_ERROR)
    stream = connection.streams.get(stream_id)
    if stream is None:
        connection.spend_on_closed_stream(stream_id)
        return
    cost = COST_RESET_BUSY if stream.call_busy else 0 if stream.response_started else COST_RESET
    connection.drop(stream)
    if cost:
        connection.spend(cost)


def ping(connection: ConnectionState, flags: int, stream_id: int, payload: bytes) -> None:
    """Replies, also on a silent connection: Envoy considers a server dead that does not reply."""
    _require(stream_id == 0, "PING on a stream")
    _require(len(payload) == 8, "PING of an odd length", Code.FRAME_SIZE_ERROR)
    connection.spend(COST_PING)
    if flags & ACK:
        connection.timers.on_ping_answered(payload)
    else:
        connection.out.send_control(frame(PING, ACK, 0, payload))


def goaway(connection: ConnectionState, _flags: int, stream_id: int, payload: bytes) -> None:
    """The peer opens no further stream. Open ones end as usual."""
    _require(stream_id == 0, "GOAWAY on a stream")
    _require(len(payload) >= 8, "GOAWAY of an odd length", Code.FRAME_SIZE_ERROR)
    connection.spend(COST_EMPTY)
    connection.timers.on_peer_goaway()


def priority(connection: ConnectionState, _flags: int, stream_id: int, payload: bytes) -> None:
    """Ignored (section 5.3)."""
    _require(stream_id != 0, "PRIORITY on stream 0")
    connection.spend(COST_EMPTY)
    if len(payload) != 5:
        raise StreamError(stream_id, Code.FRAME_SIZE_ERROR, "PRIORITY of an odd length")


def push_promise(_connection: ConnectionState, _flags: int, _stream_id: int, _payload: bytes) -> None:
    """Not allowed for clients."""
    raise ProtocolError(Code.PROTOCOL_ERROR, "PUSH_PROMISE from a client")


def _require(condition: bool, text: str, code: Code = Code.PROTOCOL_ERROR) -> None:
    if not condition:
        raise ProtocolError(code, text)


FRAMES: dict[int, Callable[[ConnectionState, int, int, bytes], None]] = {
    PRIORITY: priority, RST_STREAM: rst_stream, SETTINGS: settings, PUSH_PROMISE: push_promise, PING: ping,
    GOAWAY: goaway, WINDOW_UPDATE: window_update,
}
