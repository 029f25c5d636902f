"""DATA frames of one stream that stand one after the other -> what they carry, in pieces that are not copied.

So comes a large body: it would be slow to do for each of its frames what one frame needs. Nothing is decided here: what
is not plain ends the run, and the connection sees to it.
"""

from __future__ import annotations

from extproc.transport.http2.wire import HEADER, HEADER_SIZE, SMALLEST_MAX_FRAME


def run(data: bytes, at: int, stream_id: int, window: int, low: int) -> tuple[list[memoryview], int]:
    """The payloads of the frames from `at` on, and where the last of them ends. It is the one after which less than
    `low` is left of the stream's `window`, if they are so many: then the sender is to be granted more."""
    pieces: list[memoryview] = []
    size = len(data)
    with memoryview(data) as view:
        while window >= low and size - at >= HEADER_SIZE:
            word, flags, number = HEADER.unpack_from(data, at)
            length = word >> 8
            after = at + HEADER_SIZE + length
            # A word without its length is the kind of the frame, and that of DATA is 0.
            if (number != stream_id or flags or word & 0xFF or not 0 < length <= SMALLEST_MAX_FRAME
                    or length > window or after > size):
                break
            pieces.append(view[at + HEADER_SIZE:after])
            window -= length
            at = after
    return pieces, at
