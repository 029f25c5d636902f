"""ext_proc messages in words of HTTP: headers and body chunks out of what Envoy sends, answers in what it takes.

Both exchanges are written against this module and touch protobuf messages nowhere else in detail. It decides nothing.
Facts it encodes: a header's value travels in `raw_value` (a `value` that we set arrives empty); in the mode
FULL_DUPLEX_STREAMED a body goes back only as `streamed_response`; pseudo-headers and `host` cannot be removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from extproc.exchange.pb.external_processor_pb2 import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMap,
    HeaderMutation,
    HeadersResponse,
    HeaderValue,
    HeaderValueOption,
    HttpHeaders,
    HttpStatus,
    ImmediateResponse,
    ProcessingMode,
    ProcessingRequest,
    ProcessingResponse,
    ProtocolConfiguration,
    StreamedBodyResponse,
    TrailersResponse,
)

BODY_CHUNK = 256 * 1024
"""Size of the pieces of a body on the way to Envoy: between 64 KiB and 1 MiB Envoy needs least memory."""

OUR_DETAILS = "extproc_"
"""Response code details of the processor's own replies begin with this, so that Envoy's mappers leave them alone."""

_FULL_DUPLEX = ProcessingMode.FULL_DUPLEX_STREAMED
_MODE_NAMES = {number: name for name, number in ProcessingMode.BodySendMode.items()}


def read_headers(headers: HttpHeaders) -> dict[str, str]:
    """Header names (lower case, pseudo-headers included) -> values; repeated headers are joined by a comma."""
    return read_map(headers.headers)


def read_map(headers: HeaderMap) -> dict[str, str]:
    """The same of a bare map, as trailers are."""
    found: dict[str, str] = {}
    for header in headers.headers:
        value = header.raw_value.decode("utf-8", "replace") if header.raw_value else header.value
        found[header.key] = f"{found[header.key]}, {value}" if header.key in found else value
    return found


def mutation(set_headers: Mapping[str, str], remove: Iterable[str] = ()) -> HeaderMutation:
    """Overwrites `set_headers` and removes `remove`, as far as a header can be removed at all."""
    return HeaderMutation(
        set_headers=[HeaderValueOption(header=HeaderValue(key=name, raw_value=_header_bytes(value)))
                     for name, value in set_headers.items()],
        remove_headers=[name for name in remove
                        if name not in set_headers and name != "host" and not name.startswith(":")])


def _header_bytes(value: str) -> bytes:
    """A control character in a header makes Envoy answer 500: it becomes a blank."""
    if not value.isprintable():
        value = "".join(character if character.isprintable() else " " for character in value)
    return value.encode("utf-8", "replace")


def request_head(set_headers: Mapping[str, str], remove: Iterable[str] = (), *,
                 clear_route_cache: bool = False) -> ProcessingResponse:
    """The answer to request headers; the body follows as chunks."""
    return ProcessingResponse(request_headers=HeadersResponse(response=CommonResponse(
        header_mutation=mutation(set_headers, remove), clear_route_cache=clear_route_cache)))


def response_head(set_headers: Mapping[str, str], remove: Iterable[str] = ()) -> ProcessingResponse:
    """The answer to response headers; the body follows as chunks."""
    return ProcessingResponse(response_headers=HeadersResponse(response=CommonResponse(
        header_mutation=mutation(set_headers, remove))))


def response_head_with_body(set_headers: Mapping[str, str], remove: Iterable[str], body: bytes) -> ProcessingResponse:
    """The answer to the headers of a response without a body, when the client is due one. (A chunk would be dropped
    by Envoy there.)"""
    return ProcessingResponse(response_headers=HeadersResponse(response=CommonResponse(
        status=CommonResponse.CONTINUE_AND_REPLACE, header_mutation=mutation(set_headers, remove),
        body_mutation=BodyMutation(body=body))))


def request_chunk(data: bytes, *, end: bool = False) -> ProcessingResponse:
    """A piece of the request body for upstream."""
    return ProcessingResponse(request_body=_chunk(data, end))


def response_chunk(data: bytes, *, end: bool = False) -> ProcessingResponse:
    """A piece of the response body for the client."""
    return ProcessingResponse(response_body=_chunk(data, end))


def _chunk(data: bytes, end: bool) -> BodyResponse:
    return BodyResponse(response=CommonResponse(body_mutation=BodyMutation(
        streamed_response=StreamedBodyResponse(body=data, end_of_stream=end))))


def chunks(make: Callable[..., ProcessingResponse], data: bytes, *, end: bool) -> Iterator[ProcessingResponse]:
    """Cuts `data` into pieces made by `request_chunk` or `response_chunk`. Nothing at all for b"" without `end`."""
    if len(data) <= BODY_CHUNK:
        if data or end:
            yield make(data, end=end)
        return
    for start in range(0, len(data), BODY_CHUNK):
        piece = data[start:start + BODY_CHUNK]
        yield make(piece, end=end and start + BODY_CHUNK >= len(data))


def response_trailers(remove: Iterable[str]) -> ProcessingResponse:
    """The answer to response trailers; those that came do not cross."""
    return ProcessingResponse(response_trailers=TrailersResponse(header_mutation=mutation({}, remove)))


def immediate(status: int, headers: Mapping[str, str], body: bytes, reason: str) -> ProcessingResponse:
    """Envoy answers the client itself. `reason` goes to the access log, after `extproc_`."""
    return ProcessingResponse(immediate_response=ImmediateResponse(
        status=HttpStatus(code=status), headers=mutation(headers), body=body, details=OUR_DETAILS + reason))


def wrong_body_mode(message: ProcessingRequest, *, response: bool) -> str | None:
    """What is wrong with the filter's body modes, for people; None when all is well. Only the first message of a
    stream says the modes. `response`: the answers pass this filter as well."""
    if not message.HasField("protocol_config"):
        return None
    config: ProtocolConfiguration = message.protocol_config
    modes = {"request_body_mode": config.request_body_mode}
    if response:
        modes["response_body_mode"] = config.response_body_mode
    for setting, mode in modes.items():
        if mode != _FULL_DUPLEX:
            return (f"the ext_proc filter has processing_mode.{setting}: {_MODE_NAMES.get(mode, mode)}; "
                    "this processor needs FULL_DUPLEX_STREAMED")
    return None
