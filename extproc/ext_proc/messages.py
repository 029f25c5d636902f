"""Answers in words of HTTP -> ext_proc messages in what Envoy takes.

Both exchanges are written against this module and `incoming`, and touch protobuf messages nowhere else. Answers are
bytes: each is a whole `ProcessingResponse`, encoded once. It decides nothing.
Facts it encodes: a header's value travels in `raw_value` (a `value` that we set arrives empty); in the mode
FULL_DUPLEX_STREAMED a body goes back only as `streamed_response`; pseudo-headers and `host` cannot be removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct

from extproc.bounds import BoundedCache
from extproc.ext_proc.incoming import Modes
from extproc.ext_proc.pb.external_processor_pb2 import (
    BodyMutation,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    HttpStatus,
    ImmediateResponse,
    ProcessingMode,
    ProcessingResponse,
    TrailersResponse,
)
from extproc.ext_proc.wire import field, varint

BODY_CHUNK = 256 * 1024
"""Size of the pieces of a body on the way to Envoy: between 64 KiB and 1 MiB Envoy needs least memory."""

OUR_DETAILS = "extproc_"
"""Response code details of the processor's own replies begin with this, so that Envoy's mappers leave them alone."""

_FULL_DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED
_MODE_NAMES = {number: name for name, number in ProcessingMode.BodySendMode.items()}


def mutation(set_headers: Mapping[str, str], remove: Iterable[str] = ()) -> bytes:
    """A `HeaderMutation`: overwrites `set_headers` and removes `remove`, as far as a header can be removed at all."""
    parts = []
    for name, value in set_headers.items():
        raw = value.encode() if value.isprintable() else _printable(value)
        parts.append(_SET_HEADS[name, len(raw)] + raw)
    parts.append(_REMOVALS[tuple(set_headers), tuple(remove)])
    return b"".join(parts)


def _printable(value: str) -> bytes:
    """A control character in a header makes Envoy answer 500: it becomes a blank."""
    return "".join(character if character.isprintable() else " " for character in value).encode("utf-8", "replace")


def _set_head(header: tuple[str, int]) -> bytes:
    """What stands before a value of so many bytes of the header of this name."""
    name, size = header
    value = _RAW_VALUE + varint(size)
    inner = field(_HEADER, field(_KEY, name.encode()) + value + bytes(size))
    return field(_SET_HEADERS, inner)[:-size or None]


def _removals(names: tuple[tuple[str, ...], tuple[str, ...]]) -> bytes:
    """Of the second names, but those that are set, the first ones."""
    set_names, removed = names
    return b"".join([field(_REMOVE_HEADERS, name.encode()) for name in removed
                     if name not in set_names and name != "host" and not name.startswith(":")])


def _characters(names: tuple[tuple[str, ...], tuple[str, ...]]) -> int:
    return sum(map(len, names[0])) + sum(map(len, names[1]))


_SET_HEADERS, _REMOVE_HEADERS = b"\x0a", b"\x12"
_HEADER, _KEY, _RAW_VALUE = b"\x0a", b"\x0a", b"\x1a"
"""Tags inside a `HeaderMutation`; of the header inside `set_headers`; of its key and its value."""

_SET_HEADS: BoundedCache[tuple[str, int], bytes] = BoundedCache(
    _set_head, entries=4096, longest=100, size=lambda header: len(header[0]))
_REMOVALS: BoundedCache[tuple[tuple[str, ...], tuple[str, ...]], bytes] = BoundedCache(
    _removals, entries=256, longest=2000, size=_characters)
"""Names of a provider's headers cross as they are, and a client may send some that nobody knows. Most send the same
ones with each request."""


def request_head(set_headers: Mapping[str, str], remove: Iterable[str] = (), *,
                 clear_route_cache: bool = False) -> bytes:
    """The answer to request headers; the body follows as chunks."""
    return _head(_REQUEST_HEADERS, mutation(set_headers, remove), _CLEAR_ROUTE_CACHE if clear_route_cache else b"")


def response_head(set_headers: Mapping[str, str], remove: Iterable[str] = ()) -> bytes:
    """The answer to response headers; the body follows as chunks."""
    return _head(_RESPONSE_HEADERS, mutation(set_headers, remove))


def _head(part: bytes, changes: bytes, more: bytes = b"") -> bytes:
    return field(part, field(_RESPONSE, field(_HEADER_MUTATION, changes) + more))


_REQUEST_HEADERS, _RESPONSE_HEADERS = b"\x0a", b"\x12"
_RESPONSE, _HEADER_MUTATION, _CLEAR_ROUTE_CACHE = b"\x0a", b"\x12", b"\x28\x01"
"""Tags of the two parts of a ProcessingResponse that a head travels in; inside both of `response`; inside that of
`header_mutation` and, with its value, `clear_route_cache`."""


def response_head_with_body(set_headers: Mapping[str, str], remove: Iterable[str], body: bytes) -> bytes:
    """The answer to the headers of a response without a body, when the client is due one. (A chunk would be dropped
    by Envoy there.)"""
    return ProcessingResponse(response_headers=HeadersResponse(response=CommonResponse(
        status=CommonResponse.CONTINUE_AND_REPLACE, header_mutation=_message(set_headers, remove),
        body_mutation=BodyMutation(body=body)))).SerializeToString()


def _message(set_headers: Mapping[str, str], remove: Iterable[str] = ()) -> HeaderMutation:
    return HeaderMutation.FromString(mutation(set_headers, remove))


REQUEST_BODY, RESPONSE_BODY = b"\x1a", b"\x22"
"""Tags of the two parts of a ProcessingResponse that a piece of a body travels in: of the request for upstream, of the
response for the client. Inside both, tag by tag: `response`, `body_mutation`, `streamed_response`, `body`; every event
of every stream is framed by these, so they are written out by hand. A test holds them against what protobuf writes."""
_END = b"\x10\x01"


def chunks(part: bytes, data: bytes, *, end: bool) -> list[bytes]:
    """A body, or more of it, in pieces: one, unless it is large; none for b"" without `end`."""
    size = len(data)
    if size < _SMALL:
        if end:
            return [_CHUNK_HEADS[part, size, end] + data + _END]
        return [_CHUNK_HEADS[part, size, end] + data] if size else []
    with memoryview(data) as view:
        return [_large(part, view[start:start + BODY_CHUNK], end=end and start + BODY_CHUNK >= size)
                for start in range(0, size, BODY_CHUNK)]


def _large(part: bytes, data: memoryview, *, end: bool) -> bytes:
    return b"".join((_chunk_head((part, len(data), end)), data, _END if end else b""))


def _chunk_head(chunk: tuple[bytes, int, bool]) -> bytes:
    """Everything before the data, of this size; after it comes only the mark of the end."""
    part, size, end = chunk
    rest = size + (len(_END) if end else 0)
    head = b"\x0a%b" % varint(size) if size else b""
    for tag in (b"\x1a", b"\x1a", b"\x0a", part):
        head = b"%b%b%b" % (tag, varint(len(head) + rest), head)
    return head


_SMALL = 4096
_CHUNK_HEADS = BoundedCache(_chunk_head, entries=4 * _SMALL, longest=_SMALL, size=lambda chunk: chunk[1])


Value = str | float | None


def with_metadata(message: bytes, namespace: str, values: Mapping[str, Value], more: bytes = b"") -> bytes:
    """The message with dynamic metadata of one namespace; None values are left out; `more`: of `named`. Protobuf reads
    what follows an encoded message as more fields of it. By hand, since filling a `Struct` takes longer than all else
    of a message."""
    fields = more + _fields(values.items())
    return message + _namespace_head(namespace, len(fields)) + fields


def named(*names: str) -> BoundedCache[tuple[Value, ...], bytes]:
    """`named(*names)[values]`: metadata that is the same for many requests, put together once. The values of a name are
    of one kind."""
    return BoundedCache(lambda values: _fields(zip(names, values, strict=True)), entries=1024, longest=1000,
                      size=lambda values: sum(len(value) for value in values if isinstance(value, str)))


def _fields(values: Iterable[tuple[str, Value]]) -> bytes:
    return b"".join([_number_head(name) + _DOUBLE(value) if type(value) is int or type(value) is float
                     else _flag(name, value) if type(value) is bool else _entry(name, _word(value))
                     for name, value in values if value is not None])


_METADATA = b"\x42"
_FIELD, _VALUE = b"\x0a", b"\x12"
_NUMBER, _STRING, _BOOL, _STRUCT = b"\x11", b"\x1a", b"\x20", b"\x2a"
"""Tags of `dynamic_metadata`; inside a `Struct` of a field and its value, beside its key; of the kinds of a value."""


def _entry(name: str, value: bytes) -> bytes:
    return field(_FIELD, field(_KEY, name.encode()) + field(_VALUE, value))


@lru_cache(maxsize=1024)
def _namespace_head(name: str, size: int) -> bytes:
    """What stands before the fields of this namespace that take so many bytes."""
    head = b""
    for tag, before in ((_STRUCT, b""), (_VALUE, field(_KEY, name.encode())), (_FIELD, b""), (_METADATA, b"")):
        head = before + tag + varint(len(head) + size) + head
    return head


@lru_cache(maxsize=256)
def _flag(name: str, value: bool) -> bytes:
    return _entry(name, _word(value))


_DOUBLE = Struct("<d").pack


@lru_cache(maxsize=256)
def _number_head(name: str) -> bytes:
    """What stands before the eight bytes of a number of this name."""
    return _entry(name, _NUMBER + bytes(8))[:-8]


def _word(value: str | float) -> bytes:
    """A text or a truth value; numbers are written whole (`_number_head`)."""
    if isinstance(value, str):
        return field(_STRING, value.encode("utf-8", "replace"))
    return _BOOL + (b"\x01" if value else b"\x00")


def response_trailers(remove: Iterable[str]) -> bytes:
    """The answer to response trailers; those that came do not cross."""
    return ProcessingResponse(response_trailers=TrailersResponse(
        header_mutation=_message({}, remove))).SerializeToString()


def immediate(status: int, headers: Mapping[str, str], body: bytes, reason: str) -> bytes:
    """Envoy answers the client itself. `reason` goes to the access log, after `extproc_`."""
    return ProcessingResponse(immediate_response=ImmediateResponse(
        status=HttpStatus(code=status), headers=_message(headers), body=body, details=OUR_DETAILS + reason),
    ).SerializeToString()


def wrong_body_mode(modes: Modes | None, *, response: bool) -> str | None:
    """What is wrong with the filter's body modes, for people; None when all is well. Only the first message of a
    stream says the modes. `response`: the answers pass this filter as well."""
    if modes is None or (modes.request == _FULL_DUPLEX and (modes.response == _FULL_DUPLEX or not response)):
        return None
    setting, mode = (("request_body_mode", modes.request) if modes.request != _FULL_DUPLEX
                     else ("response_body_mode", modes.response))
    return (f"the ext_proc filter has processing_mode.{setting}: {_MODE_NAMES.get(mode, mode)}; "
            "this processor needs FULL_DUPLEX_STREAMED")
