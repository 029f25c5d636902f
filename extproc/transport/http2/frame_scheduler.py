"""Bytes of a connection that were read -> the frames to work on now: first those of streams in a hurry.

A request on its way in and the first token of an answer are waited for by a person; a token in the middle of an answer
is not. Where many streams share a connection their frames arrive together, and whoever is in a hurry would wait for the
work of the others, and again for the write that takes all their answers along. Streams are independent (RFC 9113
section 5), so only the order of work changes: the frames of one stream keep theirs, header blocks keep theirs, nobody
is overtaken twice, and where anything unusual is among the frames they stay as they came. No frame is judged here.
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
    """What was read and not worked on yet."""

    __slots__ = ("_rest", "_taken", "more")

    def __init__(self) -> None:
        self._rest = b""
        self.more = False
        """Frames wait here until the answers to those before them have left."""
        self._taken = True
        """They were asked for."""

    def received(self, data: bytes, streams: Mapping[int, QueuedStream], last_id: int, most: int, *,
                 choosing: bool) -> bytes:
        """What to work on now that this was read. `last_id`: the last stream that was opened; `most`: so many may be
        open; `choosing`: some streams are in no hurry, and any frame may come."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        self._taken = False
        if self.more:
            self.more = False
        elif choosing and (found := urgent_first(data, streams, last_id, most - len(streams))) is not None:
            data, self._rest = found
            self.more = True
        return data

    def keep(self, data: bytes) -> None:
        """No whole frame: more of it is to come."""
        self._rest = data + self._rest

    def postponed(self, *, silent: bool) -> bytes:
        """What to work on, asked before each write: b"" in the one that takes the first answers, unless there are
        none."""
        if not self._taken and not silent:
            self._taken = True
            return b""
        data, self._rest, self.more = self._rest, b"", False
        return data

    def clear(self) -> None:
        """The connection ends."""
        self._rest, self.more = b"", False


def urgent_first(data: bytes, streams: Mapping[int, QueuedStream], last_id: int,
                 room: int) -> tuple[bytes, bytes] | None:
    """The frames of `data` that are worked on first, and the rest of it; None when there is nothing to choose.
    `last_id`: the last stream that was opened; `room`: so many more may be."""
    size, at = len(data), 0
    if size < HEADER_SIZE or HEADER.unpack_from(data)[0] >> 8 >= size - HEADER_SIZE:
        return None  # one frame
    turns: list[int] = []
    """Where the hurry changes: frames of others are before the first, those in a hurry behind it, and so on."""
    opened: set[int] = set()
    urgent = False
    while size - at >= HEADER_SIZE:
        word, flags, number = HEADER.unpack_from(data, at)
        after = at + HEADER_SIZE + (word >> 8)
        if after > size:
            break
        kind, stream = word & 0xFF, streams.get(number)
        if kind in _OF_A_STREAM and (stream is not None or number <= last_id):
            # The connection's window first: it holds back everybody.
            hurries = stream.urgent if stream is not None else not number or number in opened
        elif kind == HEADERS and flags & END_HEADERS and last_id < number <= LARGEST_ID and room > 0:
            hurries, last_id, room = True, number, room - 1
            opened.add(number)
        else:
            return None
        if hurries is not urgent:
            urgent = hurries
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
