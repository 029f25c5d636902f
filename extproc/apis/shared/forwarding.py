"""Paths that are forwarded, not translated: what their requests and responses have in common.

Used by the pass-throughs and by `UntranslatedExchange`. Everything passes but the model's name (the client reads the
name that it asked for), usage is read, and a stream that breaks off or a damaged event ends in an error. Streams are
those of the Responses API; the responses of the other paths are whole bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from extproc.apis.base import ClientApi, ForwardedRequest, ProviderRequest
from extproc.apis.shared.body_reader import BodyReader
from extproc.apis.shared.endings import EndFacts, failure_at_end
from extproc.apis.shared.json_fields import Fields, encode_fields, encode_raw, fields_of, has_value
from extproc.apis.shared.passthrough import valid_utf8, without_line_ends
from extproc.apis.shared.provider_errors import complaint_of, decode_error, failure_from_chunk
from extproc.apis.shared.wire import refused
from extproc.bounds import Limits
from extproc.conversation.model import Event, Finish, FinishReason, RawEvent, Request, Usage
from extproc.errors import Failure
from extproc.profiles.target import Target

_END_EVENTS: dict[str, FinishReason] = {"response.completed": "stop", "response.incomplete": "length"}
"""Events that complete a Responses stream, with its finish reason."""
_FAILURE_EVENTS = ("error", "response.failed")
_EVENTS_BEFORE_CONTENT = frozenset({"response.created", "response.queued", "response.in_progress", "ping"})
"""Events before any output of the model."""


def forward_fields(fields: Fields, path: str, headers: Mapping[str, str], target: Target) -> ForwardedRequest:
    """The request with these members and the provider's name of the model. Raises BadRequest if they name no model."""
    name = msgspec.json.decode(fields["model"]) if "model" in fields else None
    if not isinstance(name, str) or not name:
        raise refused("model", "the name of a model is required")
    stream = fields.get("stream") == encode_raw(True)
    fields["model"] = encode_raw(target.model)
    request = ProviderRequest(method="POST", path=path, headers=dict(headers), body=encode_fields(fields))
    return ForwardedRequest(request, name, stream)


class _EventFields(msgspec.Struct):
    """The members of an event that are read."""

    type: str = ""
    sequence_number: int = -1
    response: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


class _Details(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _WithUsage(msgspec.Struct):
    usage: _Usage | None = None


_event_fields = msgspec.json.Decoder(_EventFields)
_with_usage = msgspec.json.Decoder(_WithUsage)


class ForwardedResponseDecoder(BodyReader):
    """A `ResponseDecoder` whose events are `RawEvent`. `scrub`: removes keys from an error body."""

    unoffered_calls = 0
    received_output = False  # nothing is held back

    def __init__(self, request: Request, limits: Limits, scrub: Callable[[bytes], bytes]) -> None:
        super().__init__(limits)
        self.usage = Usage()
        self.next_number = 0
        """The sequence number of the next event."""
        self.failure_sent = False
        """The provider's own failure event was forwarded."""
        self._stream = request.stream
        self._model = encode_raw(request.model)
        self._scrub = scrub

    # -------------------------------------------------------------------------------------------------------- events

    def _event(self, name: bytes, payload: bytes) -> None:
        if not payload or payload.isspace():
            return
        payload = valid_utf8(without_line_ends(payload))
        try:
            fields = _event_fields.decode(payload)
        except (msgspec.DecodeError, RecursionError) as problem:
            self._not_json(name, payload, problem)
            return
        kind = fields.type or name.decode("ascii", "replace")
        self.next_number = max(self.next_number, fields.sequence_number + 1)
        response = fields_of(fields.response) if len(memoryview(fields.response)) else None
        if kind in _FAILURE_EVENTS or has_value(fields.error):
            self._pass_failure(name, payload, response)
            return
        if response is not None:
            self._take_usage(fields.response)
            if response.get("model", self._model) != self._model:
                response["model"] = self._model
                payload = encode_fields({**(fields_of(payload) or {}),
                                         "response": msgspec.Raw(encode_fields(response))})
        if self._stream:
            self._pass(name, payload, content=kind not in _EVENTS_BEFORE_CONTENT)
        elif kind in _END_EVENTS and response is not None:
            # The client wants a whole body, which this event contains.
            self._out.append(RawEvent(encode_fields(response), True))
        if kind in _END_EVENTS:
            self._finish(_END_EVENTS[kind])

    def _not_json(self, name: bytes, payload: bytes, problem: Exception) -> None:
        if payload.strip() == b"[DONE]":
            self._pass(b"", payload)
            self._finish("stop")
        elif name == b"error":
            self._fail(failure_from_chunk({"error": payload[:2000].decode("utf-8", "replace").strip()}))
        else:
            self._fail(Failure("server", f"The provider sent a damaged event: {problem}."))

    def _pass_failure(self, name: bytes, payload: bytes, response: Fields | None) -> None:
        """Forwards the event if the client reads events already; before that the failure becomes a status."""
        payload = self._scrub(payload)
        complaint = complaint_of(bytes(encode_fields(response)) if response is not None else payload)
        self.failure_sent = True
        self._pass(name, payload)
        self._fail(failure_from_chunk(complaint or {}))

    def _pass(self, name: bytes, payload: bytes, *, content: bool = False) -> None:
        head = b"event: %b\n" % name if name else b""
        self._out.append(RawEvent(b"%bdata: %b\n\n" % (head, payload), content))

    def _end_of_stream(self) -> None:
        nothing_came = not self._out and not self.next_number
        if failure := failure_at_end("end of stream", EndFacts(finish_reason=False, nothing_came=nothing_came)):
            self._fail(failure)

    # --------------------------------------------------------------------------------------------------------- whole

    def _whole(self, body: bytes) -> None:
        fields = fields_of(body)
        if fields is None:
            self._fail(decode_error(200, {}, body) if body[:1] == b"<" else
                       Failure("server", "The provider's response is not valid JSON."))
            return
        if has_value(fields.get("error")) and not fields.keys() & {"output", "data"}:
            self._fail(failure_from_chunk(complaint_of(body) or {}))
            return
        if self._stream:
            self._fail(Failure("server", "The provider sent no stream, although the request asked for one."))
            return
        self._take_usage(msgspec.Raw(body))
        if "model" in fields:
            fields["model"] = self._model  # the name that the client asked for
        self._out.append(RawEvent(valid_utf8(encode_fields(fields)), True))
        self._finish("stop")

    # ------------------------------------------------------------------------------------------------------ mechanics

    def _take_usage(self, response: msgspec.Raw) -> None:
        try:
            usage = _with_usage.decode(response).usage
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if usage is not None:
            prompt, output = usage.input_tokens_details or _Details(), usage.output_tokens_details or _Details()
            self.usage = Usage(
                input=usage.input_tokens or usage.prompt_tokens or 0, cached=prompt.cached_tokens or 0,
                output=usage.output_tokens or usage.completion_tokens or 0, reasoning=output.reasoning_tokens or 0)

    def _finish(self, reason: FinishReason) -> None:
        if not self._ended:
            self._ended = True
            self._out.append(Finish(reason, self.usage))


class ForwardedErrorEncoder:
    """A `ResponseEncoder` for the gateway's own error at the end of a stream."""

    def __init__(self, decoder: ForwardedResponseDecoder, client: ClientApi, *, stream: bool) -> None:
        self._decoder = decoder
        self._client = client
        self.content_type = "text/event-stream; charset=utf-8" if stream else "application/json"

    def encode_events(self, events: Iterable[Event]) -> bytes:
        return b"".join(self._error(event) for event in events if isinstance(event, Failure))

    def ping(self) -> bytes:
        return b""

    def _error(self, failure: Failure) -> bytes:
        """The error event of the Responses API. It also has the member `error`, for which SDKs raise."""
        if self._decoder.failure_sent:
            return b""
        body: dict[str, Any] = msgspec.json.decode(self._client.encode_error(failure).body)
        detail = body["error"]
        return b"event: error\ndata: " + msgspec.json.encode({
            "type": "error", "code": detail.get("code"), "message": detail["message"], "param": detail.get("param"),
            "sequence_number": self._decoder.next_number, **body}) + b"\n\n"
