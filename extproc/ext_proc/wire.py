"""Fields of protobuf messages, written by hand: a tag and data -> bytes.

What every exchange sends is framed here, since filling protobuf's own messages takes several times as long. Tests hold
what `messages` makes of it against what protobuf writes. Nothing here knows what a field means.
"""

from __future__ import annotations


def varint(number: int) -> bytes:
    """A number, 0 or more, as protobuf writes lengths."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


_LENGTHS = tuple(varint(size) for size in range(1024))
"""Of most fields."""


def field(tag: bytes, data: bytes) -> bytes:
    """A field with a length: text, bytes or a message."""
    size = len(data)
    return tag + (_LENGTHS[size] if size < 1024 else varint(size)) + data
