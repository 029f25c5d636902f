"""Bytes that were read on a connection -> the frames to process now: first those of urgent streams.

A person waits for a request on its way in and for the first token of a response, but not for a token in the middle of a
response. If many streams share a connection, their frames arrive together, and an urgent one would wait for the work on
the others and for the write of all their output. Streams are independent (RFC 9113 section 5), so only the order of
work changes: the frames of one stream keep their order, header blocks keep theirs, and no frame is overtaken twice. If
there is anything unusual among the frames, they stay as they came. No frame is validated here.
"""

from __future__ import annotations

from collections.abc import Mapping

from extproc.transport.http2.send_scheduler import QueuedStream
from extproc.transport.http2.wire import (
    DATA,
    END_HEADERS,
    HEADER,
    HEADER_SIZE,
    HEADERS,
    LARGEST_ID,
    RST_STREAM,
    WINDOW_UPDATE,
)

_OF_A_STREAM = frozenset((DATA, RST_STREAM, WINDOW_UPDATE))


class FrameScheduler:
    """Bytes that were read and not processed yet."""

    __slots__ = ("_pending", "_postponed_asked", "has_postponed")

    def __init__(self) -> None:
        self._pending = b""
        self.has_postponed = False
        """Frames wait here until the output of those before them has left."""
        self._postponed_asked = True
        """`take_postponed` was called since the last read."""

    def schedule_frames(self, data: bytes, streams: Mapping[int, QueuedStream], last_id: int, most: int, *,
                 reorder: bool) -> bytes:
        """The bytes to process now, after `data` was read.

        `last_id`: the last stream that was opened. `most`: how many may be open. `reorder`: some streams have low
        priority, and any frame is allowed.
        """
        if self._pending:
            data, self._pending = self._pending + data, b""
        self._postponed_asked = False
        if self.has_postponed:
            self.has_postponed = False
        elif reorder and (found := urgent_first(data, streams, last_id, most - len(streams))) is not None:
            data, self._pending = found
            self.has_postponed = True
        return data

    def keep_partial_frame(self, data: bytes) -> None:
        """Keeps the beginning of a frame until the rest arrives."""
        self._pending = data + self._pending

    def take_postponed(self, *, nothing_to_send: bool) -> bytes:
        """The postponed bytes, asked for before each write. b"" before the write that carries the first output, unless
        there is nothing to send."""
        if not self._postponed_asked and not nothing_to_send:
            self._postponed_asked = True
            return b""
        data, self._pending, self.has_postponed = self._pending, b"", False
        return data

    def clear(self) -> None:
        """The connection ends."""
        self._pending, self.has_postponed = b"", False


def urgent_first(data: bytes, streams: Mapping[int, QueuedStream], last_id: int,
                 room: int) -> tuple[bytes, bytes] | None:
    """Splits `data` into the frames to process first and the rest. None if there is nothing to choose.

    `last_id`: the last stream that was opened. `room`: how many more may be.
    """
    size, at = len(data), 0
    if size < HEADER_SIZE or HEADER.unpack_from(data)[0] >> 8 >= size - HEADER_SIZE:
        return None  # one frame
    # Offsets at which the priority changes: low before the first, urgent behind it, and so on.
    turns: list[int] = []
    opened: set[int] = set()
    urgent = False
    while size - at >= HEADER_SIZE:
        word, flags, number = HEADER.unpack_from(data, at)
        after = at + HEADER_SIZE + (word >> 8)
        if after > size:
            break
        kind, stream = word & 0xFF, streams.get(number)
        if kind in _OF_A_STREAM and (stream is not None or number <= last_id):
            # Stream 0 is urgent: the connection's window holds back all streams.
            is_urgent = stream.urgent if stream is not None else not number or number in opened
        elif kind == HEADERS and flags & END_HEADERS and last_id < number <= LARGEST_ID and room > 0:
            is_urgent, last_id, room = True, number, room - 1
            opened.add(number)
        else:
            return None
        if is_urgent is not urgent:
            urgent = is_urgent
            turns.append(at)
        at = after
    if not turns or turns == [0]:
        return None
    pieces: tuple[list[bytes], list[bytes]] = ([], [])
    start = 0
    for turn, end in enumerate([*turns, at]):
        pieces[turn % 2].append(data[start:end])
        start = end
    return b"".join(pieces[1]), b"".join(pieces[0]) + data[at:]
