"""A `ProcessingRequest` as bytes -> a piece of a body, or any other message of Envoy.

All but a few messages of an exchange are pieces of bodies: every event of every stream, and all of a large request.
These hold nothing but the piece, so they are read by hand, with one copy of its bytes; protobuf reads whatever looks
otherwise. A test holds the one against the other. Nothing here knows what the bytes mean.
"""

from __future__ import annotations

from typing import final

import msgspec

from extproc.exchange.pb.external_processor_pb2 import ProcessingRequest

_REQUEST_BODY, _RESPONSE_BODY = 0x22, 0x2A
_BODIES = (_RESPONSE_BODY, _REQUEST_BODY)
_DATA = 0x0A
_END = b"\x10\x01"
"""Tags of `request_body` and `response_body`; inside both those of `body` and, with its value, `end_of_stream`."""


@final
class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A piece of a body, of the request or of the `response`. `end`: nothing of it follows."""

    data: bytes
    end: bool
    response: bool


Incoming = Chunk | ProcessingRequest
"""What Envoy says. A body comes as a `Chunk`, unless Envoy only watches (`observability_mode`)."""


def read(message: bytes) -> Incoming:
    """Raises protobuf's DecodeError."""
    tag = message[0] if len(message) > _HEADS else 0
    if tag in _BODIES:
        size, at = _length(message, 1)
        whole = len(message)
        if at + size == whole and message[at] == _DATA:
            size, at = _length(message, at + 1)
            after = at + size
            if after == whole:
                return Chunk(message[at:], False, tag == _RESPONSE_BODY)
            if after == whole - 2 and message[after:] == _END:
                return Chunk(message[at:after], True, tag == _RESPONSE_BODY)
    return _by_protobuf(message)


_HEADS = 12
"""At least so many bytes are there to be looked at; protobuf reads what is shorter."""


def _length(message: bytes, at: int) -> tuple[int, int]:
    """A length and where it ends; of more than four bytes one that fits nowhere."""
    first = message[at]
    if first < 128:
        return first, at + 1
    second = message[at + 1]
    if second < 128:
        return first & 127 | second << 7, at + 2
    third = message[at + 2]
    if third < 128:
        return first & 127 | (second & 127) << 7 | third << 14, at + 3
    fourth = message[at + 3]
    if fourth < 128:
        return first & 127 | (second & 127) << 7 | (third & 127) << 14 | fourth << 21, at + 4
    return len(message), at


def _by_protobuf(message: bytes) -> Incoming:
    found = ProcessingRequest.FromString(message)
    part = found.WhichOneof("request")
    if found.observability_mode or part not in ("request_body", "response_body"):
        return found
    body = getattr(found, part)
    return Chunk(body.body, body.end_of_stream, part == "response_body")
