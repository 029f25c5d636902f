"""The numbers of RFC 9113 and how single frames are written. No state, no decisions."""

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
"""Bytes that either side may send before it hears about windows."""
LARGEST_WINDOW = 2**31 - 1
SMALLEST_MAX_FRAME, LARGEST_MAX_FRAME = 2**14, 2**24 - 1
LARGEST_ID = 2**31 - 1

HEADER = struct.Struct(">IBI")
"""The head of a frame: length << 8 | type, flags, stream."""

HEADER_SIZE = 9

MESSAGE_HEADER = struct.Struct(">IBIBI")
"""The head of a DATA frame and of the gRPC message at its beginning: length << 8 | type, flags, stream, compressed,
length of the message."""

PREFIX = struct.Struct(">BI")
"""The head of a gRPC message: compressed, length."""

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
    """The peer broke a rule in a way that ends the connection (section 5.4.1)."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


class StreamError(Exception):
    """The peer broke a rule in a way that ends one stream (section 5.4.2)."""

    def __init__(self, stream_id: int, code: Code, text: str) -> None:
        super().__init__(text)
        self.stream_id = stream_id
        self.code = code


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Any frame."""
    return HEADER.pack(len(payload) << 8 | kind, flags, stream_id) + payload


def settings(values: dict[int, int]) -> bytes:
    """SETTINGS of these values."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", key, value) for key, value in values.items()))


SETTINGS_ACK = frame(SETTINGS, ACK, 0)


def rst_stream(stream_id: int, code: Code) -> bytes:
    """RST_STREAM."""
    return frame(RST_STREAM, 0, stream_id, code.to_bytes(4))


def window_update(stream_id: int, increment: int) -> bytes:
    """WINDOW_UPDATE; stream 0 is the connection."""
    return frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4))


def goaway(last_id: int, code: Code, text: str = "") -> bytes:
    """GOAWAY; `text` helps a person who reads the peer's log."""
    return frame(GOAWAY, 0, 0, struct.pack(">II", last_id, code) + text.encode()[:200])
