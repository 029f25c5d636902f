"""A `ProcessingRequest` as bytes -> a head, a piece of a body, trailers: what the exchanges are written against.

Nearly all messages of Envoy are heads as it has always written them and pieces of bodies, and somebody waits for the
first token behind each of them. So these are read by hand, a piece with one copy of its bytes; protobuf reads whatever
looks otherwise, and says what is no message at all. A test holds the one against the other. Nothing here knows what
headers or bytes mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import msgspec
from google.protobuf.message import DecodeError

from extproc.bounds import BoundedCache
from extproc.ext_proc.pb.external_processor_pb2 import HeaderMap, HttpBody, HttpHeaders, HttpTrailers, ProcessingRequest


@final
class Chunk(msgspec.Struct, frozen=True, gc=False):
    """A piece of a body, of the request or of the `response`. `end`: nothing of it follows."""

    data: bytes
    end: bool
    response: bool


class Modes(msgspec.Struct, frozen=True, gc=False):
    """How the filter is told to send bodies, in the numbers of `ProcessingMode.BodySendMode`."""

    request: int
    response: int


@final
class Head(msgspec.Struct, frozen=True):
    """The head of the request or of the `response`."""

    headers: dict[str, str]
    """Names (lower case, pseudo-headers included) -> values; repeated headers are joined by a comma."""
    end: bool
    """No body follows."""
    response: bool
    modes: Modes | None = None
    """Told with the first message of a stream only."""
    attributes: Mapping[str, str] = {}
    """The Envoy attributes that the filter was told to send and that are text, such as `request.path`."""


@final
class Trailers(msgspec.Struct, frozen=True):
    """What follows a body; nothing comes behind it."""

    headers: dict[str, str]
    response: bool


@final
class Other(msgspec.Struct, frozen=True):
    """Anything else. `shown`: whatever it is, Envoy only shows what passes and waits for no answer
    (`observability_mode`)."""

    shown: bool


Incoming = Chunk | Head | Trailers | Other
"""What Envoy says."""

_REQUEST_HEADERS, _RESPONSE_HEADERS, _REQUEST_BODY, _RESPONSE_BODY = 0x12, 0x1A, 0x22, 0x2A
_BODIES, _HEADS = (_RESPONSE_BODY, _REQUEST_BODY), (_REQUEST_HEADERS, _RESPONSE_HEADERS)
_DATA = 0x0A
_END = b"\x10\x01"
_NO_METADATA = b"\x42\x00"
"""Tags of the parts of a message; inside a body those of `body` and, with its value, `end_of_stream`; and the empty
`metadata_context` that Envoy puts behind every part."""
_HEADER_MAP, _HEADER, _NAME, _RAW_VALUE = 0x0A, 0x0A, 0x0A, 0x1A
_HEAD_ENDS = b"\x18\x01"
"""The same inside a head, from the outside in; and its `end_of_stream` with its value."""


def read(message: bytes) -> Incoming:
    """Raises protobuf's DecodeError."""
    size = len(message)
    if size < _SMALL:
        # Nearly always an event: what stands before its data is the same for all messages of a size.
        begins = _EVENTS.get(size) or _EVENTS[size]
        if message.startswith(begins) and message.endswith(_NO_METADATA):
            return Chunk(message[len(begins):-2], False, True)
    try:
        tag = message[0]
        if tag in _BODIES:
            found: Incoming | None = _chunk(message, tag == _RESPONSE_BODY)
        elif tag in _HEADS:
            found = _head(message, tag == _RESPONSE_HEADERS)
        else:
            found = None
    except IndexError:
        found = None  # it ends too soon: protobuf's affair
    return _by_protobuf(message) if found is None else found


def _before_event(size: int) -> bytes:
    """What stands before the data in a message of `size` bytes that is a piece of a response, as Envoy writes it; where
    no such message has this size, more than it holds."""
    for taken in (6, 7, 8):  # by tags and lengths and by what follows the data
        data = bytes(max(size - taken, 0))
        message = ProcessingRequest(response_body=HttpBody(body=data)).SerializeToString() + _NO_METADATA
        if data and len(message) == size:
            return message[:-len(data) - len(_NO_METADATA)]
    return bytes(size + 1)


_SMALL = 4096
_EVENTS = BoundedCache(_before_event, entries=_SMALL, longest=_SMALL, size=lambda size: size)


def _chunk(message: bytes, response: bool) -> Chunk | None:
    size, at = _length(message, 1)
    end = at + size
    if end != len(message) and message[end:] != _NO_METADATA:
        return None
    if message[at] == _DATA:
        size, at = _length(message, at + 1)
        after = at + size
        if after == end:
            return Chunk(message[at:after], False, response)
        if message[after:end] == _END:
            return Chunk(message[at:after], True, response)
    elif message[at:end] == _END:
        return Chunk(b"", True, response)
    return None


def _head(message: bytes, response: bool) -> Head | None:
    size, at = _length(message, 1)
    end = at + size
    if message[at] != _HEADER_MAP:
        return None
    size, at = _length(message, at + 1)
    after = at + size
    ends = message[after:end]
    if not after <= end <= len(message) or (ends and ends != _HEAD_ENDS):
        return None
    headers, rest = _headers(message, at, after), _RESTS[message[end:]]
    return None if headers is None or rest is None else Head(headers, bool(ends), response, rest.modes, rest.attributes)


def _headers(message: bytes, at: int, end: int) -> dict[str, str] | None:
    """The `HeaderMap` in `message[at:end]`; None for one that Envoy does not write, or not in ASCII."""
    found: dict[str, str] = {}
    text = message.decode("latin-1")  # cut as text, so that no header is copied twice
    plain = message[at:end].isascii()  # else every header is looked at: lengths past 127 are no ASCII either
    while at < end:
        # Nearly all are short: tag, size, tag, length, name, tag, length, value, with one byte for each number.
        start = at + 4 + message[at + 3]
        after = start + 2 + message[start + 1]
        if (message[at + 1] == after - at - 2 < 128 and message[at] == _HEADER and message[at + 2] == _NAME
                and message[start] == _RAW_VALUE):
            name, value = text[at + 4:start], text[start + 2:after]
        else:
            odd = _odd_header(message, text, at)
            if odd is None:
                return None
            name, value, after = odd
        if not (plain or (name.isascii() and value.isascii())):
            return None
        found[name] = f"{found[name]}, {value}" if name in found else value
        at = after
    return found if at == end else None


def _odd_header(message: bytes, text: str, at: int) -> tuple[str, str, int] | None:
    """A long header, or one without a value: its name, its value and where it ends."""
    if message[at] != _HEADER:
        return None
    size, at = _length(message, at + 1)
    after = at + size
    length = message[at + 1]
    if message[at] != _NAME or length > 127:
        return None
    start = at + 2 + length
    name = text[at + 2:start]
    if start != after:
        if message[start] != _RAW_VALUE:
            return None
        length, start = _length(message, start + 1)
        if start + length != after:
            return None
    return name, text[start:after], after


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


class _Rest(msgspec.Struct, frozen=True, gc=False):
    """What stands behind a head, where it is nothing that matters."""

    modes: Modes | None
    attributes: Mapping[str, str]


def _read_rest(data: bytes) -> _Rest | None:
    try:
        rest = ProcessingRequest.FromString(data)
    except DecodeError:
        return None
    if rest.observability_mode or rest.WhichOneof("request") is not None:
        return None
    return _Rest(_modes(rest), _attributes(rest))


_RESTS = BoundedCache(_read_rest, entries=64, longest=100)
"""All that Envoy says behind a head: the same from one request to the next."""


# ------------------------------------------------------------------------------------------------------- by protobuf

def _by_protobuf(message: bytes) -> Incoming:
    found = ProcessingRequest.FromString(message)
    part = found.WhichOneof("request")
    if found.observability_mode or part is None:
        return Other(found.observability_mode)
    response = part.startswith("response")
    content = getattr(found, part)
    if isinstance(content, HttpHeaders):
        return Head(_read_map(content.headers), content.end_of_stream, response, _modes(found), _attributes(found))
    if isinstance(content, HttpTrailers):
        return Trailers(_read_map(content.trailers), response)
    return Chunk(content.body, content.end_of_stream, response)


def _modes(message: ProcessingRequest) -> Modes | None:
    if not message.HasField("protocol_config"):
        return None
    config = message.protocol_config
    return Modes(config.request_body_mode, config.response_body_mode)


def _attributes(message: ProcessingRequest) -> dict[str, str]:
    return {name: value.string_value for attributes in message.attributes.values()
            for name, value in attributes.fields.items() if value.HasField("string_value")}


def _read_map(headers: HeaderMap) -> dict[str, str]:
    """A header's value travels in `raw_value`."""
    found: dict[str, str] = {}
    for header in headers.headers:
        name, raw = header.key, header.raw_value
        value = raw.decode("utf-8", "replace") if raw else header.value
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
