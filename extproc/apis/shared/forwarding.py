"""Paths that are forwarded, not translated: what their requests and responses have in common.

Used by the pass-throughs and by `UntranslatedExchange`. Everything passes but the model's name (the client reads the
name that it asked for), and usage is read. Responses are whole bodies: embeddings and token counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from extproc.apis.base import ForwardedRequest, ProviderRequest
from extproc.apis.shared.body_reader import BodyReader
from extproc.apis.shared.endings import EndFacts, failure_at_end
from extproc.apis.shared.json_fields import Fields, encode_fields, encode_raw, fields_of, has_value
from extproc.apis.shared.passthrough import valid_utf8
from extproc.apis.shared.provider_errors import complaint_of, decode_error, failure_from_chunk
from extproc.apis.shared.wire import refused
from extproc.bounds import Limits
from extproc.conversation.model import Event, Finish, RawEvent, Request, Usage
from extproc.errors import Failure
from extproc.profiles.target import Target


def forward_fields(fields: Fields, path: str, headers: Mapping[str, str], target: Target) -> ForwardedRequest:
    """The request with these members and the provider's name of the model. Raises BadRequest if they name no model."""
    name = msgspec.json.decode(fields["model"]) if "model" in fields else None
    if not isinstance(name, str) or not name:
        raise refused("model", "the name of a model is required")
    fields["model"] = encode_raw(target.model)
    request = ProviderRequest(method="POST", path=path, headers=dict(headers), body=encode_fields(fields))
    return ForwardedRequest(request, name)


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens_details: _Details | None = None


class _WithUsage(msgspec.Struct):
    usage: _Usage | None = None


_with_usage = msgspec.json.Decoder(_WithUsage)


class ForwardedResponseDecoder(BodyReader):
    """A `ResponseDecoder` whose only event before the end is a `RawEvent`."""

    unoffered_calls = 0
    received_output = False  # nothing is held back

    def __init__(self, request: Request, limits: Limits) -> None:
        super().__init__(limits)
        self.usage = Usage()
        self._model = encode_raw(request.model)

    def _event(self, name: bytes, payload: bytes) -> None:
        self._fail(Failure("server", "The provider sent a stream; this path has whole responses."))

    def _end_of_stream(self) -> None:
        if failure := failure_at_end("end of stream", EndFacts(finish_reason=False, nothing_came=not self._out)):
            self._fail(failure)

    def _whole(self, body: bytes) -> None:
        fields = fields_of(body)
        if fields is None:
            self._fail(decode_error(200, {}, body) if body[:1] == b"<" else
                       Failure("server", "The provider's response is not valid JSON."))
            return
        if has_value(fields.get("error")) and "data" not in fields:
            self._fail(failure_from_chunk(complaint_of(body) or {}))
            return
        self._take_usage(msgspec.Raw(body))
        if "model" in fields:
            fields["model"] = self._model  # the name that the client asked for
        self._out.append(RawEvent(valid_utf8(encode_fields(fields)), True))
        self._ended = True
        self._out.append(Finish("stop", self.usage))

    def _take_usage(self, response: msgspec.Raw) -> None:
        try:
            usage = _with_usage.decode(response).usage
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if usage is not None:
            prompt = usage.input_tokens_details or _Details()
            self.usage = Usage(
                input=usage.input_tokens or usage.prompt_tokens or 0, cached=prompt.cached_tokens or 0,
                output=usage.output_tokens or usage.completion_tokens or 0)


class ForwardedResponseEncoder:
    """A `ResponseEncoder` for these bytes. An error is a status with a body of its own, never an event."""

    content_type = "application/json"

    def encode_events(self, events: Iterable[Event]) -> bytes:
        return b"".join(event.data for event in events if isinstance(event, RawEvent))

    def ping(self) -> bytes:
        return b""
