"""One HTTP exchange on a path that no API is translated for: bytes pass, but for the model's name, errors and the end.

`/v1/embeddings`, `/v1/responses` and Anthropic's `count_tokens` go to backends of the same API as they are; the client
reads the name of the model that it asked for. Everything else (errors in the client's shape, withholding, pings, idle
time, codings, headers) is `Translation`'s. A stream that breaks off, a damaged event or a torn body ends in an error,
an error before the first content is a status.
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
from extproc.translation.exchange import Translation

_LAST: dict[str, FinishReason] = {"response.completed": "stop", "response.incomplete": "length"}
"""After one of these a Responses stream is complete."""
_FAILED = ("error", "response.failed")
_QUIET = frozenset({"response.created", "response.queued", "response.in_progress", "ping"})
"""Events that come before the model has said anything."""


class PassThrough(Translation):
    """client: the API of the client and of the backend. model: the provider's name. path: behind the backend's base
    path, such as `/embeddings`. settings: those of `Translation`."""

    __slots__ = ("_path",)

    def __init__(self, client: str, model: str, path: str, **settings: Any) -> None:
        super().__init__(client, client, model, **settings)
        self._path = path

    def _request(self, body: bytes, headers: Mapping[str, str]) -> ProviderRequest:
        """The same body with the provider's name of the model."""
        body = checked(self._plain(body, headers), self._limits.json_depth)
        anthropic = self._client.name == "anthropic"
        fields = fields_to_count(body, self._target, self._limits, self.dropped) if anthropic else None
        fields = fields or fields_of(body) or {}
        asked = _Asked(fields)
        self.conversation = Request(model=asked.model, messages=[], stream=asked.stream, api=self._client.name)
        fields["model"] = encode_raw(self._target.model)
        if anthropic:
            target = self._target
            endpoint = find_anthropic_endpoint(target.endpoint, target.provider, target.model)
            head = sent_headers(headers, endpoint, self.dropped, stream=asked.stream)
            path = messages_path(target.base_path)
            path += self._path.removeprefix("/messages")
        else:
            head, path = _openai_headers(headers), _openai_path(self._target, self._path)
        return ProviderRequest(method="POST", path=path, headers=head, body=encode_fields(fields))

    def _answer_of(self, conversation: Request) -> ResponseCodec:
        reader = _Reader(conversation, self._limits, self._scrubber.body)
        writer = _Writer(reader, self._client, stream=conversation.stream)
        return ResponseCodec(reader, PassThroughEncoder(writer, COMMENT, stream=conversation.stream))


class _Asked:
    """What is read of a request. Raises BadRequest."""

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


# ------------------------------------------------------------------------------------------------------------- answer


class _Told(msgspec.Struct):
    """What is looked at of an event."""

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


class _Counted(msgspec.Struct):
    usage: _Usage | None = None


_told = msgspec.json.Decoder(_Told)
_counted = msgspec.json.Decoder(_Counted)


class _Reader(BodyReader):
    """An `ResponseDecoder` whose events are `RawEvent`. `scrub`: takes keys out of what tells of an error."""

    unoffered_calls = 0
    received_output = False  # nothing is held back: the events tell all

    def __init__(self, request: Request, limits: Limits, scrub: Callable[[bytes], bytes]) -> None:
        super().__init__(limits)
        self.usage = Usage()
        self.next_number = 0
        """Of the event that would come next."""
        self.told_failure = False
        """The provider's own event says that it failed."""
        self._stream = request.stream
        self._model = encode_raw(request.model)
        self._scrub = scrub

    # -------------------------------------------------------------------------------------------------------- events

    def _event(self, name: bytes, payload: bytes) -> None:
        if not payload or payload.isspace():
            return
        payload = valid_utf8(without_line_ends(payload))
        try:
            told = _told.decode(payload)
        except (msgspec.DecodeError, RecursionError) as problem:
            self._odd(name, payload, problem)
            return
        kind = told.type or name.decode("ascii", "replace")
        self.next_number = max(self.next_number, told.sequence_number + 1)
        response = fields_of(told.response) if len(memoryview(told.response)) else None
        if kind in _FAILED or has_value(told.error):
            self._told_failure(name, payload, response)
            return
        if response is not None:
            self._count(told.response)
            if response.get("model", self._model) != self._model:
                response["model"] = self._model
                payload = encode_fields({**(fields_of(payload) or {}),
                                         "response": msgspec.Raw(encode_fields(response))})
        if self._stream:
            self._pass(name, payload, content=kind not in _QUIET)
        elif kind in _LAST and response is not None:
            self._out.append(RawEvent(encode_fields(response), True))  # the client wants the whole, which is in there
        if kind in _LAST:
            self._finish(_LAST[kind])

    def _odd(self, name: bytes, payload: bytes, problem: Exception) -> None:
        if payload.strip() == b"[DONE]":
            self._pass(b"", payload)
            self._finish("stop")
        elif name == b"error":
            self._fail(failure_from_chunk({"error": payload[:2000].decode("utf-8", "replace").strip()}))
        else:
            self._fail(Failure("server", f"The provider sent a damaged event: {problem}."))

    def _told_failure(self, name: bytes, payload: bytes, response: Fields | None) -> None:
        """The event passes where the client is reading events already; before that it becomes a status."""
        payload = self._scrub(payload)
        complaint = complaint_of(bytes(encode_fields(response)) if response is not None else payload)
        self.told_failure = True
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
        self._count(msgspec.Raw(body))
        if "model" in fields:
            fields["model"] = self._model  # the name that the client asked for
        self._out.append(RawEvent(valid_utf8(encode_fields(fields)), True))
        self._finish("stop")

    # ------------------------------------------------------------------------------------------------------ mechanics

    def _count(self, answer: msgspec.Raw) -> None:
        try:
            usage = _counted.decode(answer).usage
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if usage is not None:
            read, thought = usage.input_tokens_details or _Details(), usage.output_tokens_details or _Details()
            self.usage = Usage(
                input=usage.input_tokens or usage.prompt_tokens or 0, cached=read.cached_tokens or 0,
                output=usage.output_tokens or usage.completion_tokens or 0, reasoning=thought.reasoning_tokens or 0)

    def _finish(self, reason: FinishReason) -> None:
        if not self._ended:
            self._ended = True
            self._out.append(Finish(reason, self.usage))


class _Writer:
    """An `ResponseEncoder` for what is not the provider's own: the error at the end of a stream."""

    def __init__(self, reader: _Reader, client: ClientApi, *, stream: bool) -> None:
        self._reader = reader
        self._client = client
        self.content_type = "text/event-stream; charset=utf-8" if stream else "application/json"

    def events(self, events: Iterable[Event]) -> bytes:
        return b"".join(self._error(event) for event in events if isinstance(event, Failure))

    def ping(self) -> bytes:
        return b""

    def _error(self, failure: Failure) -> bytes:
        """As the Responses API has it; SDKs raise on the member `error` that stands beside."""
        if self._reader.told_failure:
            return b""
        told: dict[str, Any] = msgspec.json.decode(self._client.error(failure).body)
        detail = told["error"]
        return b"event: error\ndata: " + msgspec.json.encode({
            "type": "error", "code": detail.get("code"), "message": detail["message"], "param": detail.get("param"),
            "sequence_number": self._reader.next_number, **told}) + b"\n\n"
