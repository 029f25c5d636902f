"""Headers, bodies and trailers -> encoded `ProcessingResponse` messages.

Both exchanges use this module and `incoming`, and handle protobuf messages nowhere else. Facts about Envoy: it reads a
header's value from `raw_value` and ignores `value`; with FULL_DUPLEX_STREAMED a body must be sent as
`streamed_response`; pseudo-headers and `host` cannot be removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from google.protobuf.struct_pb2 import Struct
from google.protobuf.struct_pb2 import Value as StructValue

from extproc.bounds import BoundedCache
from extproc.ext_proc.incoming import BodyModes
from extproc.ext_proc.pb.external_processor_pb2 import (
    BodyMutation,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    HeaderValue,
    HeaderValueOption,
    HttpStatus,
    ImmediateResponse,
    ProcessingMode,
    ProcessingResponse,
    TrailersResponse,
)

BODY_CHUNK = 256 * 1024
"""The most bytes of a body in one message to Envoy. Envoy needs the least memory between 64 KiB and 1 MiB."""

OUR_DETAILS = "extproc_"
"""The prefix of the response code details of the processor's own replies. Envoy's mappers ignore these replies."""

_FULL_DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED
_MODE_NAMES = {number: name for name, number in ProcessingMode.BodySendMode.items()}

# ---------------------------------------------------------------------------------------------------------------- heads


def request_head(set_headers: Mapping[str, str], remove: Iterable[str] = (), *,
                 clear_route_cache: bool = False) -> bytes:
    """The response to request headers; the body follows in chunks."""
    return ProcessingResponse(request_headers=HeadersResponse(response=CommonResponse(
        header_mutation=_mutation(set_headers, remove), clear_route_cache=clear_route_cache))).SerializeToString()


def response_head(set_headers: Mapping[str, str], remove: Iterable[str] = ()) -> bytes:
    """The response to response headers; the body follows in chunks."""
    return ProcessingResponse(response_headers=HeadersResponse(response=CommonResponse(
        header_mutation=_mutation(set_headers, remove)))).SerializeToString()


def response_head_with_body(set_headers: Mapping[str, str], remove: Iterable[str], body: bytes) -> bytes:
    """The response to the headers of a provider response without a body, if the client gets a body. (Envoy would drop a
    chunk.)"""
    return ProcessingResponse(response_headers=HeadersResponse(response=CommonResponse(
        status=CommonResponse.CONTINUE_AND_REPLACE, header_mutation=_mutation(set_headers, remove),
        body_mutation=BodyMutation(body=body)))).SerializeToString()


def response_trailers(remove: Iterable[str]) -> bytes:
    """The response to response trailers. Trailers do not cross."""
    return ProcessingResponse(response_trailers=TrailersResponse(
        header_mutation=_mutation({}, remove))).SerializeToString()


def immediate_response(status: int, headers: Mapping[str, str], body: bytes, reason: str) -> bytes:
    """Envoy replies to the client itself. `reason` goes to the access log, after `extproc_`."""
    return ProcessingResponse(immediate_response=ImmediateResponse(
        status=HttpStatus(code=status), headers=_mutation(headers), body=body, details=OUR_DETAILS + reason),
    ).SerializeToString()


def _mutation(set_headers: Mapping[str, str], remove: Iterable[str] = ()) -> HeaderMutation:
    """Overwrites `set_headers`. Removes `remove` minus the headers being set, minus `host` and pseudo-headers, which
    Envoy will not remove."""
    return HeaderMutation(
        set_headers=[HeaderValueOption(header=HeaderValue(key=name, raw_value=_header_value(value)))
                     for name, value in set_headers.items()],
        remove_headers=[name for name in remove
                        if name not in set_headers and name != "host" and not name.startswith(":")])


def _header_value(value: str) -> bytes:
    """A control character in a header makes Envoy reply 500. It becomes a space."""
    if value.isprintable():
        return value.encode()
    return "".join(character if character.isprintable() else " " for character in value).encode("utf-8", "replace")


# --------------------------------------------------------------------------------------------------------------- bodies

REQUEST_BODY, RESPONSE_BODY = b"\x1a", b"\x22"
"""Tags of the two fields of a ProcessingResponse that carry a chunk: of the request for the provider, of the response
for the client. The fields inside are `response`, `body_mutation`, `streamed_response` and `body`. Every event of every
stream is framed by these tags; protobuf's own messages would cost 1.5 us more for each. A test compares the bytes with
protobuf's."""
_END = b"\x10\x01"


def body_chunks(part: bytes, data: bytes, *, end: bool) -> list[bytes]:
    """`data` as messages: one, or several for more than `BODY_CHUNK` bytes; none for b"" without `end`. `part`:
    `REQUEST_BODY` or `RESPONSE_BODY`."""
    size = len(data)
    if size < _SMALL:
        if end:
            return [_CHUNK_HEADS[part, size, end] + data + _END]
        return [_CHUNK_HEADS[part, size, end] + data] if size else []
    with memoryview(data) as view:
        return [_large_chunk(part, view[start:start + BODY_CHUNK], end=end and start + BODY_CHUNK >= size)
                for start in range(0, size, BODY_CHUNK)]


def _large_chunk(part: bytes, data: memoryview, *, end: bool) -> bytes:
    return b"".join((_chunk_head((part, len(data), end)), data, _END if end else b""))


def _chunk_head(chunk: tuple[bytes, int, bool]) -> bytes:
    """The bytes before `size` bytes of data. Only the mark of the end may follow the data."""
    part, size, end = chunk
    rest = size + (len(_END) if end else 0)
    head = b"\x0a%b" % _varint(size) if size else b""
    for tag in (b"\x1a", b"\x1a", b"\x0a", part):
        head = b"%b%b%b" % (tag, _varint(len(head) + rest), head)
    return head


def _varint(number: int) -> bytes:
    """A number of 0 or more as protobuf writes lengths."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


_SMALL = 4096
_CHUNK_HEADS = BoundedCache(_chunk_head, entries=4 * _SMALL, longest=_SMALL, size=lambda chunk: chunk[1])

# ------------------------------------------------------------------------------------------------------------- metadata

Value = str | float | None


def append_metadata(message: bytes, namespace: str, values: Mapping[str, Value]) -> bytes:
    """The encoded message with dynamic metadata of one namespace. None values are left out. (Protobuf reads bytes after
    an encoded message as more fields of it.)"""
    fields = {name: _metadata_value(value) for name, value in values.items() if value is not None}
    return message + ProcessingResponse(dynamic_metadata=Struct(fields={
        namespace: StructValue(struct_value=Struct(fields=fields))})).SerializeToString()


def _metadata_value(value: str | float) -> StructValue:
    if isinstance(value, str):
        return StructValue(string_value=value.encode("utf-8", "replace").decode())
    if isinstance(value, bool):
        return StructValue(bool_value=value)
    return StructValue(number_value=value)


# ---------------------------------------------------------------------------------------------------------------- modes


def find_body_mode_error(modes: BodyModes | None, *, response: bool) -> str | None:
    """An error message about the filter's body modes; None if they are right. Only the first message of a stream has
    the modes. `response`: responses pass this filter as well."""
    if modes is None or (modes.request == _FULL_DUPLEX and (modes.response == _FULL_DUPLEX or not response)):
        return None
    setting, mode = (("request_body_mode", modes.request) if modes.request != _FULL_DUPLEX
                     else ("response_body_mode", modes.response))
    return (f"the ext_proc filter has processing_mode.{setting}: {_MODE_NAMES.get(mode, mode)}; "
            "this processor needs FULL_DUPLEX_STREAMED")
