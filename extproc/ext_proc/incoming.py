"""An encoded `ProcessingRequest` -> a head, a chunk of a body, or trailers.

Protobuf decodes all messages except small chunks of a response: a stream consists of these, so their fixed framing is
compared and removed here. A test compares both decoders. Nothing here interprets headers or bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import msgspec

from extproc.bounds import BoundedCache
from extproc.ext_proc.pb.external_processor_pb2 import HeaderMap, HttpBody, HttpHeaders, HttpTrailers, ProcessingRequest


@final
class BodyChunk(msgspec.Struct, frozen=True, gc=False):
    """A piece of the body of the request or of the `response`. `end`: it is the last one."""

    data: bytes
    end: bool
    response: bool


class BodyModes(msgspec.Struct, frozen=True, gc=False):
    """The filter's body modes, as numbers of `ProcessingMode.BodySendMode`."""

    request: int
    response: int


@final
class HeadersMessage(msgspec.Struct, frozen=True):
    """The head of the request or of the `response`."""

    headers: dict[str, str]
    """Names (lower case, pseudo-headers included) -> values; repeated headers are joined by a comma."""
    end: bool
    """No body follows."""
    response: bool
    modes: BodyModes | None = None
    """Only in the first message of a stream."""
    attributes: Mapping[str, str] = {}
    """The Envoy attributes with text values that the filter is configured to send, such as `request.path`."""


@final
class TrailersMessage(msgspec.Struct, frozen=True):
    """The trailers after a body."""

    headers: dict[str, str]
    response: bool


@final
class OtherMessage(msgspec.Struct, frozen=True):
    """Any other message. `observed_only`: Envoy waits for no reply (`observability_mode`)."""

    observed_only: bool


EnvoyMessage = BodyChunk | HeadersMessage | TrailersMessage | OtherMessage
"""A message of Envoy."""

_NO_METADATA = b"\x42\x00"
"""The empty `metadata_context` that Envoy writes at the end of every message."""


def read_message(message: bytes) -> EnvoyMessage:
    """Decodes a message. Raises protobuf's DecodeError."""
    size = len(message)
    if size < _SMALL:
        framing = _EVENT_FRAMING.get(size) or _EVENT_FRAMING[size]
        if message.startswith(framing) and message.endswith(_NO_METADATA):
            return BodyChunk(message[len(framing):-len(_NO_METADATA)], False, True)
    return _read_by_protobuf(message)


def _event_framing(size: int) -> bytes:
    """The bytes before the data in Envoy's encoding of a response chunk, for a message of `size` bytes. If no such
    message has this size: more bytes than fit into it."""
    for framing in (6, 7, 8):  # bytes of tags, lengths and `_NO_METADATA`
        data = bytes(max(size - framing, 0))
        message = ProcessingRequest(response_body=HttpBody(body=data)).SerializeToString() + _NO_METADATA
        if data and len(message) == size:
            return message[:-len(data) - len(_NO_METADATA)]
    return bytes(size + 1)


_SMALL = 4096
_EVENT_FRAMING = BoundedCache(_event_framing, entries=_SMALL, longest=_SMALL, size=lambda size: size)


def _read_by_protobuf(message: bytes) -> EnvoyMessage:
    found = ProcessingRequest.FromString(message)
    part = found.WhichOneof("request")
    if found.observability_mode or part is None:
        return OtherMessage(found.observability_mode)
    response = part.startswith("response")
    content = getattr(found, part)
    if isinstance(content, HttpHeaders):
        return HeadersMessage(_read_map(content.headers), content.end_of_stream, response, _modes(found),
                              _attributes(found))
    if isinstance(content, HttpTrailers):
        return TrailersMessage(_read_map(content.trailers), response)
    return BodyChunk(content.body, content.end_of_stream, response)


def _modes(message: ProcessingRequest) -> BodyModes | None:
    if not message.HasField("protocol_config"):
        return None
    config = message.protocol_config
    return BodyModes(config.request_body_mode, config.response_body_mode)


def _attributes(message: ProcessingRequest) -> dict[str, str]:
    return {name: value.string_value for attributes in message.attributes.values()
            for name, value in attributes.fields.items() if value.HasField("string_value")}


def _read_map(headers: HeaderMap) -> dict[str, str]:
    """Envoy sends the value of a header in `raw_value`."""
    found: dict[str, str] = {}
    for header in headers.headers:
        name, raw = header.key, header.raw_value
        value = raw.decode("utf-8", "replace") if raw else header.value
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
