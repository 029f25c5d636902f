"""One HTTP exchange on a path that is not translated: bytes are forwarded, except the model's name, errors and the end.

`/v1/embeddings`, `/v1/responses` and Anthropic's `count_tokens` are sent unchanged to backends of the same API; the
client reads the name of the model that it asked for. `Translation` does everything else (errors in the client's shape,
withholding, keep-alives, idle time, codings, headers). A stream that breaks off or a damaged event ends in an error; an
error before the first content is a status.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from extproc.apis.anthropic.passthrough import fields_to_count
from extproc.apis.anthropic.passthrough.request import sent_headers
from extproc.apis.base import ClientApi, ProviderRequest
from extproc.apis.shared.body import checked
from extproc.apis.shared.body_reader import BodyReader
from extproc.apis.shared.endings import EndFacts, failure_at_end
from extproc.apis.shared.json_fields import Fields, encode_fields, encode_raw, fields_of, has_value
from extproc.apis.shared.passthrough import COMMENT, PassThroughEncoder, valid_utf8, without_line_ends
from extproc.apis.shared.provider_errors import complaint_of, decode_error, failure_from_chunk
from extproc.apis.shared.wire import refused
from extproc.bounds import Limits
from extproc.conversation.model import Event, Finish, FinishReason, RawEvent, Request, Usage
from extproc.errors import Failure
from extproc.headers import PASSED_THROUGH
from extproc.profiles.anthropic import find_anthropic_endpoint, messages_path
from extproc.profiles.target import Target
from extproc.translation.client_response import ResponseCodec
from extproc.translation.encoding import plain_request_body
from extproc.translation.exchange import Translation

_END_EVENTS: dict[str, FinishReason] = {"response.completed": "stop", "response.incomplete": "length"}
"""Events that complete a Responses stream, with its finish reason."""
_FAILURE_EVENTS = ("error", "response.failed")
_EVENTS_BEFORE_CONTENT = frozenset({"response.created", "response.queued", "response.in_progress", "ping"})
"""Events before any output of the model."""


class UntranslatedExchange(Translation):
    """client: the API of the client and of the backend. model: the provider's name of it. path: after the backend's
    base path, such as `/embeddings`. settings: as for `Translation`."""

    __slots__ = ("_path",)

    def __init__(self, client: str, model: str, path: str, **settings: Any) -> None:
        super().__init__(client, client, model, **settings)
        self._path = path

    def _request(self, body: bytes, headers: Mapping[str, str]) -> ProviderRequest:
        """The client's body with the provider's name of the model."""
        body = checked(plain_request_body(body, headers, self._limits.body), self._limits.json_depth)
        anthropic = self._client.name == "anthropic"
        fields = fields_to_count(body, self._target, self._limits, self.dropped) if anthropic else None
        fields = fields or fields_of(body) or {}
        routing = _RoutingFields(fields)
        self.conversation = Request(model=routing.model, messages=[], stream=routing.stream, api=self._client.name)
        fields["model"] = encode_raw(self._target.model)
        if anthropic:
            target = self._target
            endpoint = find_anthropic_endpoint(target.endpoint, target.provider, target.model)
            head = sent_headers(headers, endpoint, self.dropped, stream=routing.stream)
            path = messages_path(target.base_path)
            path += self._path.removeprefix("/messages")
        else:
            head, path = _openai_headers(headers), _openai_path(self._target, self._path)
        return ProviderRequest(method="POST", path=path, headers=head, body=encode_fields(fields))

    def _make_codec(self, conversation: Request) -> ResponseCodec:
        decoder = _UntranslatedDecoder(conversation, self._limits, self._scrubber.body)
        errors = _ErrorEncoder(decoder, self._client, stream=conversation.stream)
        return ResponseCodec(decoder, PassThroughEncoder(errors, COMMENT, stream=conversation.stream))


class _RoutingFields:
    """The members of a request that are read. Raises BadRequest if there is no model."""

    def __init__(self, fields: Fields) -> None:
        name = msgspec.json.decode(fields["model"]) if "model" in fields else None
        if not isinstance(name, str) or not name:
            raise refused("model", "the name of a model is required")
        self.model = name
        self.stream = fields.get("stream") == encode_raw(True)


def _openai_headers(headers: Mapping[str, str]) -> dict[str, str]:
    head = {"content-type": "application/json", "accept-encoding": "identity"}
    head.update({name: headers[name] for name in PASSED_THROUGH if headers.get(name)})
    return head


def _openai_path(target: Target, path: str) -> str:
    """Azure's classic endpoint names the deployment in the path of embeddings, but not in that of responses (source:
    its API reference)."""
    version, base = target.profile.deployment_api_version, target.base_path
    if version is None or base.endswith("/v1"):
        return base + path
    root, _, deployment = base.partition("/deployments/")
    root = root.removesuffix("/openai") + "/openai"
    if path != "/responses":
        root += f"/deployments/{deployment or quote(target.model, safe='')}"
    return f"{root}{path}?api-version={version}"


# ----------------------------------------------------------------------------------------------------------- response


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


class _UntranslatedDecoder(BodyReader):
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
                       Failure("server", "The provider's answer is not valid JSON."))
            return
        if has_value(fields.get("error")) and not fields.keys() & {"output", "data"}:
            self._fail(failure_from_chunk(complaint_of(body) or {}))
            return
        if self._stream:
            self._fail(Failure("server", "The provider sent no stream, which was asked for."))
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


class _ErrorEncoder:
    """A `ResponseEncoder` for the gateway's own error at the end of a stream."""

    def __init__(self, decoder: _UntranslatedDecoder, client: ClientApi, *, stream: bool) -> None:
        self._decoder = decoder
        self._client = client
        self.content_type = "text/event-stream; charset=utf-8" if stream else "application/json"

    def events(self, events: Iterable[Event]) -> bytes:
        return b"".join(self._error(event) for event in events if isinstance(event, Failure))

    def ping(self) -> bytes:
        return b""

    def _error(self, failure: Failure) -> bytes:
        """The error event of the Responses API. It also has the member `error`, for which SDKs raise."""
        if self._decoder.failure_sent:
            return b""
        body: dict[str, Any] = msgspec.json.decode(self._client.error(failure).body)
        detail = body["error"]
        return b"event: error\ndata: " + msgspec.json.encode({
            "type": "error", "code": detail.get("code"), "message": detail["message"], "param": detail.get("param"),
            "sequence_number": self._decoder.next_number, **body}) + b"\n\n"
