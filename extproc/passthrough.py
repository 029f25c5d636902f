"""One HTTP exchange on a path that no API is translated for: bytes pass, but for the model's name, errors and the end.

`/v1/embeddings`, `/v1/responses` and Anthropic's `count_tokens` go to backends of the same API as they are. The
provider's errors take the client's shape like everywhere, usage is read on the way, and a stream of events that breaks
off before its last event ends in an error event, behind the last whole line. Sans-IO, with the methods of
`Translation`; it never decodes what it does not need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from extproc.apis import CLIENT_APIS, PROVIDER_APIS
from extproc.apis.base import Dropped, ProviderRequest
from extproc.conversation import Failure, Usage
from extproc.dialects.reading import Repair
from extproc.errors import BadRequest, RequestError
from extproc.head import Head, advised, completed
from extproc.profiles.anthropic import VERSION
from extproc.relays.base import fields_of, joined, raw
from extproc.scrubbing import Scrubber
from extproc.sse import SseEvent, SseReader

_MAX_ERROR_BODY = 1 << 20
_LAST_EVENTS = frozenset({b"response.completed", b"response.incomplete", b"response.failed", b"error"})
"""After one of these a Responses stream is complete."""
_FORWARDED = ("accept", "anthropic-version", "anthropic-beta", "openai-beta")


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Answer(msgspec.Struct):
    usage: _Usage | None = None
    response: _Answer | None = None


class _Event(msgspec.Struct):
    type: str = ""
    sequence_number: int = -1


_answer = msgspec.json.Decoder(_Answer)
_event = msgspec.json.Decoder(_Event)


class PassThrough:
    """client: the API of the client and of the backend. path: behind the backend's base path, such as `/embeddings`.
    model: the provider's name."""

    def __init__(self, client: str, model: str, base_path: str, path: str, *, idle_timeout: float = 240.0,
                 request_id: str | None = None, secrets: Sequence[str] = ()) -> None:
        self._client = CLIENT_APIS[client]
        self._provider = PROVIDER_APIS[client]
        self._model = model
        self._path = base_path + path
        self._idle_timeout = idle_timeout
        self._request_id = request_id
        self._scrubber = Scrubber(secrets)
        self._stream = False
        self._status = 0
        self._headers: dict[str, str] = {}
        self._error_body: bytearray | None = None
        self._events: SseReader | None = None
        self._whole: bytearray | None = None
        self._open_line: list[bytes] = []
        self._last_event = b""
        self._ended = False
        self._last_in: float | None = None
        self.head: Head | None = None
        self.dropped = Dropped()
        self.failure: Failure | None = None
        self.finish_reason: str | None = None
        self.tool_calls = self.unoffered_calls = self.text_calls = 0
        self.content_began = False
        self.done = False
        self.usage = Usage()

    @property
    def repairs(self) -> list[Repair]:
        """Nothing is repaired here."""
        return []

    def request(self, body: bytes, headers: Mapping[str, str] | None = None) -> ProviderRequest:
        """The same body with the provider's name of the model. Raises RequestError."""
        fields = fields_of(body)
        if fields is None:
            error = self._client.error(BadRequest("the body: expected a JSON object").failure, self._request_id)
            raise RequestError(error.status, error.headers, error.body, BadRequest("the body").failure)
        self._stream = fields.get("stream") == msgspec.Raw(b"true")
        fields["model"] = raw(self._model)
        given = {name.lower(): value for name, value in (headers or {}).items()}
        head = {"content-type": "application/json", "accept-encoding": "identity"}
        if self._client.name == "anthropic":
            head["anthropic-version"] = VERSION
        head.update({name: given[name] for name in _FORWARDED if given.get(name)})
        return ProviderRequest(method="POST", path=self._path, headers=head, body=joined(fields))

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The provider's response head: it goes out at once, unless it is an error."""
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._status = status
        if not 200 <= status < 300:
            self._error_body = bytearray()
            return
        kind = self._headers.get("content-type", "application/json")
        sent = {"content-type": kind}
        if coding := self._headers.get("content-encoding"):
            sent["content-encoding"] = coding  # nobody asked for it, and nobody here reads the body
        elif kind.startswith("text/event-stream"):
            sent["cache-control"] = "no-cache"
            self._events = SseReader()
        else:
            self._whole = bytearray()
        self._show(Head(status, sent))

    def feed(self, data: bytes, now: float | None = None) -> bytes:
        """The same bytes for the client."""
        self._last_in = now
        if self.done:
            return b""
        if self._error_body is not None:
            self._error_body += data[:_MAX_ERROR_BODY - len(self._error_body)]
            return b""
        self.content_began = True
        if self._events is not None:
            return self._feed_events(self._events, data)
        if self._whole is not None and len(self._whole) < _MAX_ERROR_BODY:
            self._whole += data
        return data

    def _feed_events(self, events: SseReader, data: bytes) -> bytes:
        """Whole lines of a stream: where it breaks off inside one, the client never sees torn JSON."""
        self._read(events.feed(data))
        if events.too_long:
            return self._fail(Failure("server", "The provider sent an event that is too long."))
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end == 0:
            self._open_line.append(data)
            return b""
        out = b"".join((*self._open_line, data[:end]))
        self._open_line = [data[end:]]
        return out

    def _read(self, events: Iterable[SseEvent]) -> None:
        for name, payload in events:
            self._last_event = payload
            if (name or _read_event(payload).type.encode()) in _LAST_EVENTS or payload == b"[DONE]":
                self._ended = True
                self._count(payload)

    def _last_of(self, events: SseReader) -> bytes:
        """What the closed stream still held; an event without its blank line gets one."""
        pending = [event for event in events.finish() if _is_json(event[1])]
        self._read(pending)
        rest = b"".join((*self._open_line, b"\n\n")) if pending else b""
        if not self._ended:
            failure = Failure("server", "The provider's stream ended before the answer was complete.")
            return rest + self._fail(failure)
        return rest

    def finish(self) -> bytes:
        """The provider closed: the last bytes for the client."""
        if self.done:
            return b""
        if self._error_body is not None:
            body = self._scrubber.body(bytes(self._error_body))
            return self._fail(self._provider.decode_error(self._status, self._headers, body))
        out = b""
        if self._events is not None:
            out = self._last_of(self._events)
        elif self._whole is not None:
            self._count(bytes(self._whole))
        if not self.done:
            self.done = True
            self.finish_reason = "stop"
        return out

    def fail(self, failure: Failure) -> bytes:
        """Ends the exchange from outside."""
        return b"" if self.done else self._fail(failure)

    def commit(self) -> None:
        """Nothing is withheld."""

    def tick(self, now: float) -> bytes:
        """An error after too long a silence."""
        if self._last_in is None:
            self._last_in = now
        if self.done or now - self._last_in < self._idle_timeout:
            return b""
        return self._fail(Failure("timeout", f"The provider sent nothing for {self._idle_timeout:g} seconds.", 504))

    def _count(self, payload: bytes) -> None:
        try:
            answer = _answer.decode(payload)
        except (msgspec.DecodeError, RecursionError):
            return
        usage = answer.usage or (answer.response.usage if answer.response is not None else None)
        if usage is not None:
            self.usage = Usage(input=usage.input_tokens or usage.prompt_tokens or 0,
                               output=usage.output_tokens or usage.completion_tokens or 0)

    def _fail(self, failure: Failure) -> bytes:
        failure = msgspec.structs.replace(failure, message=self._scrubber.text(failure.message))
        self.failure = failure
        self.done = True
        error = self._client.error(failure, self._request_id)
        if self.head is None:
            by_provider = self._error_body is not None
            self._show(Head(error.status, advised(error.headers, failure, by_provider=by_provider)))
            return error.body
        if self._events is None:
            return b""  # a body that ends early says so by its length
        return b"\n\nevent: error\ndata: " + self._error_event(error.body) + b"\n\n"

    def _error_event(self, body: bytes) -> bytes:
        """As the Responses API has it; SDKs raise on the member `error` that stands beside."""
        told: dict[str, Any] = msgspec.json.decode(body)
        detail = told["error"]
        return msgspec.json.encode({
            "type": "error", "code": detail.get("code"), "message": detail["message"], "param": detail.get("param"),
            "sequence_number": _read_event(self._last_event).sequence_number + 1, **told})

    def _show(self, head: Head) -> None:
        self.head = completed(head, self._headers, self._scrubber, self._request_id, self.dropped, self._client.name)


def _read_event(payload: bytes) -> _Event:
    try:
        return _event.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return _Event()


def _is_json(payload: bytes) -> bool:
    """Whether the last event of a closed stream is whole."""
    try:
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return payload == b"[DONE]"
    return True
