"""The numbers of RFC 9113, how single frames are written, and how consecutive DATA frames are read. No state."""

from __future__ import annotations

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# Types of frames (RFC 9113 section 6)
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

# Flags
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

# Settings (RFC 9113 section 6.5.2; 8: RFC 8441)
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    range(1, 7))
ENABLE_CONNECT_PROTOCOL = 8

DEFAULT_WINDOW = 65_535
"""Bytes that either side may send before it learns of other windows."""
LARGEST_WINDOW = 2**31 - 1
SMALLEST_MAX_FRAME, LARGEST_MAX_FRAME = 2**14, 2**24 - 1
LARGEST_ID = 2**31 - 1

HEADER = struct.Struct(">IBI")
"""The header of a frame: length << 8 | type, flags, stream."""

HEADER_SIZE = 9

MESSAGE_HEADER = struct.Struct(">IBIBI")
"""The header of a DATA frame and of the gRPC message at its beginning: length << 8 | type, flags, stream, compressed
flag, length of the message."""

PREFIX = struct.Struct(">BI")
"""The header of a gRPC message: compressed flag, length."""

PREFIX_SIZE = 5


class Code(IntEnum):
    """Error codes (RFC 9113 section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class ProtocolError(Exception):
    """The peer broke a rule in a way that ends the connection (RFC 9113 section 5.4.1)."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


class StreamError(Exception):
    """The peer broke a rule in a way that ends one stream (RFC 9113 section 5.4.2)."""

    def __init__(self, stream_id: int, code: Code, text: str) -> None:
        super().__init__(text)
        self.stream_id = stream_id
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Any frame."""
    return HEADER.pack(len(payload) << 8 | kind, flags, stream_id) + payload


def settings(values: dict[int, int]) -> bytes:
    """A SETTINGS frame with these values."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", key, value) for key, value in values.items()))


SETTINGS_ACK = frame(SETTINGS, ACK, 0)


def rst_stream(stream_id: int, code: Code) -> bytes:
    """A RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream_id, code.to_bytes(4))


def window_update(stream_id: int, increment: int) -> bytes:
    """A WINDOW_UPDATE frame. Stream 0 is the connection."""
    return frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4))


def goaway(last_id: int, code: Code, text: str = "") -> bytes:
    """A GOAWAY frame. `text` is for people who read the peer's log."""
    return frame(GOAWAY, 0, 0, struct.pack(">II", last_id, code) + text.encode()[:200])


def read_data_run(data: bytes, at: int, stream_id: int, window: int, low: int) -> tuple[list[memoryview], int]:
    """The payloads of consecutive DATA frames of one stream from `at` on, without copies, and the offset behind them.

    Large bodies arrive as such runs, for which per-frame processing would be slow. The run ends before any other frame,
    and behind the frame that leaves less than `low` of the stream's `window`: then the sender needs a new window.
    """
    pieces: list[memoryview] = []
    size = len(data)
    with memoryview(data) as view:
        while window >= low and size - at >= HEADER_SIZE:
            word, flags, number = HEADER.unpack_from(data, at)
            length = word >> 8
            after = at + HEADER_SIZE + length
            # The low byte of the word is the frame type; that of DATA is 0.
            if (number != stream_id or flags or word & 0xFF or not 0 < length <= SMALLEST_MAX_FRAME
                    or length > window or after > size):
                break
            pieces.append(view[at + HEADER_SIZE:after])
            window -= length
            at = after
    return pieces, at
