"""Application events as a client API: `POST /v1/events` takes the body of a chat completion and always answers with a
stream of plain events (`event_stream`).

`finalize: true` in the body (or the header of chat completions) asks for the final answer of a conversation
(`finalizing`). What the configuration says of
tools and of the final note is handed in; this module knows no configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from extproc.apis.base import ClientOptions, HttpError, ResponseEncoder
from extproc.apis.openai.client.errors import error_detail, http_error
from extproc.apis.openai.client.finalizing import finalized, wants_final
from extproc.apis.openai.client.request import ChatRequest, of_wire, read_body
from extproc.apis.openai.client.response import KEEP_ALIVE, finish_reason, usage_fields, whole_calls
from extproc.apis.openai.client.signatures import Riders
from extproc.apis.shared.client_responses import Estimate, call_input
from extproc.apis.shared.wire import refused
from extproc.bounds import Limits
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Event,
    Finish,
    RedactedThinking,
    Request,
    SignatureDelta,
    Start,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCallStart,
)
from extproc.conversation.notes import FINAL_NOTE
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure
from extproc.globs import matches

__all__ = ["EventsApi", "ToolLabel"]

_encode = msgspec.json.Encoder().encode

_TEXT = b'data: {"type":"content","text":'
_REASONING, _ONCE_MORE = b'data: {"type":"reasoning","text":', b',"content":'
_END = b"}\n\n"
_DONE = b'data: {"type":"done","done":true}\n\n'
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")


class ToolLabel(msgspec.Struct, frozen=True):
    """How a front end shows the calls of a tool: what it is, and whether users see it. The words are the
    configuration's own."""

    category: str = "tool"
    visibility: str = "visible"


class _Call(msgspec.Struct):
    start: ToolCallStart
    id: str
    pieces: list[str] = []


class EventStreamEncoder:
    """Writes application events. `label` gives what the configuration says of a tool, by the client's name."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: Request, label: Callable[[str], ToolLabel],
                 prompt_estimate: Callable[[], int]) -> None:
        self._label = label
        self._shown = not isinstance(request, ChatRequest) or request.show_reasoning
        self._dropped = request.dropped if isinstance(request, ChatRequest) else None
        self._warned = 0
        self._losses_of_request = len(self._dropped.losses) if self._dropped is not None else 0
        """So many losses were told, and so many there are before the answer is read. What a piece of the answer adds,
        its start must not tell: how long a piece is, nobody knows."""
        self._estimate = Estimate(prompt_estimate)
        self._riders = Riders()
        self._said = 0
        self._call: _Call | None = None
        self._called = False
        self._ended = False

    def events(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events; the same bytes however the events are grouped."""
        out: list[bytes] = []
        for event in events:
            kind = type(event)
            if self._ended:
                break
            if kind is TextDelta:
                if event.text:  # type: ignore[union-attr]
                    self._said += len(event.text)  # type: ignore[union-attr]
                    out += (_TEXT, _encode(event.text), _END)  # type: ignore[union-attr]
            elif kind is ThinkingDelta:
                if self._shown and event.text:  # type: ignore[union-attr]
                    piece = _encode(event.text)  # type: ignore[union-attr]
                    out += (_REASONING, piece, _ONCE_MORE, piece, _END)
            elif kind is ArgumentsDelta:
                if self._call is not None:
                    self._call.pieces.append(event.json)  # type: ignore[union-attr]
            else:
                out.append(self._other(event))
        return b"".join(out)

    def ping(self) -> bytes:
        """Keeps the connection alive: a comment, which clients skip."""
        return b"" if self._ended else KEEP_ALIVE

    def _other(self, event: Event) -> bytes:
        match event:
            case Start():
                return self._warnings(self._losses_of_request)
            case ToolCallStart():
                out = self._told(at_limit=False)
                self._call = call = _Call(event, self._riders.load(event))
                return out + _event({"type": "tool_start", "id": call.id, "name": event.name, **self._labelled(event)})
            case BlockStop():
                return self._told(at_limit=True)
            case SignatureDelta():
                if event.signature:
                    self._riders.add(Thinking("", signature=event.signature), self._said)
                return b""
            case RedactedThinking():
                self._riders.add(Thinking("", redacted=event.data), self._said)
                return self._told(at_limit=False)
            case Finish():
                return self._finish(event)
            case Failure():
                self._ended = True
                return self._warnings() + _event({"type": "error", "error": error_detail(event)})
            case _:
                return self._told(at_limit=False)  # a block begins: the call before it was whole

    def _told(self, at_limit: bool) -> bytes:
        """The call that was collected. `at_limit`: it may have been cut off; then only complete arguments are told,
        others wait for what follows."""
        call = self._call
        if call is None:
            return b""
        arguments = call_input("".join(call.pieces), at_limit, last=True)
        if arguments is None:
            return b""
        self._call, self._called = None, True
        if isinstance(arguments, msgspec.Raw):  # the provider's own JSON, on one line: strings hold no line ends
            arguments = msgspec.Raw(bytes(arguments).translate(_ONE_LINE))
        return _event({"type": "tool_call", "id": call.id, "name": call.start.name, "arguments": arguments,
                       **self._labelled(call.start)})

    def _labelled(self, start: ToolCallStart) -> dict[str, str]:
        label = self._label(start.name)
        return {"category": label.category, "visibility": label.visibility}

    def _warnings(self, most: int | None = None) -> bytes:
        """The losses that were found since the last time, up to `most` in all."""
        new = self._dropped.losses[self._warned:most] if self._dropped is not None else []
        self._warned += len(new)
        return b"".join(_event({"type": "warning", "code": "dropped", "name": name,
                                "message": f"Could not be carried, and was left out: {name}"}) for name in new)

    def _finish(self, event: Finish) -> bytes:
        out = self._told(at_limit=not whole_calls(event.reason))
        self._ended = True
        why = event.refusal.explanation if event.refusal is not None else ""
        return out + self._warnings() + _event({
            "type": "usage", "usage": usage_fields(event.usage, self._estimate),
            "finish_reason": finish_reason(event.reason, self._called), **({"refusal": why} if why else {})}) + _DONE


def _event(members: dict[str, object]) -> bytes:
    return b"data: %b\n\n" % _encode(members)


_DEFAULT = ToolLabel()


class EventsApi:
    """`labels`: names of tools, or patterns with `*`, the first that matches counts. `final_note`: the system note of
    `finalize`, "" for none."""

    name = "events"
    call_prefix = "call_"

    def __init__(self, labels: Mapping[str, ToolLabel] | None = None, final_note: str = FINAL_NOTE) -> None:
        self._labels = dict(labels or {})
        self._final_note = final_note

    def with_options(self, options: ClientOptions) -> EventsApi:
        """The same API with the labels and the final note of a configuration."""
        labels = {pattern: ToolLabel(category, visibility)
                  for pattern, (category, visibility) in options.tool_labels.items()}
        return EventsApi(labels, options.final_note)

    def label(self, name: str) -> ToolLabel:
        """What the table says of a tool."""
        return next((label for pattern, label in self._labels.items() if matches(pattern, name)), _DEFAULT)

    def decode_request(self, body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
        """POST /v1/events. Raises BadRequest (the place and what to do)."""
        wired, extra = read_body(body, limits)
        final = bytes(extra.pop("finalize", msgspec.Raw(b"false")))
        if final not in (b"true", b"false"):
            raise refused("finalize", "expected true or false")
        if wired.n is not None and wired.n > 1:
            raise refused("n", "application events carry one answer: expected 1")
        is_final = final == b"true" or wants_final(headers)
        request = of_wire(wired, extra, dropped, limits, strays=is_final)
        request.stream = request.want_usage = True
        request.legacy_functions = request.cites = False
        request.dropped = dropped
        return finalized(request, self._final_note, dropped) if is_final else request

    def response_encoder(self, request: Request, message_id: str, prompt_estimate: Callable[[],
                                                                                            int]) -> ResponseEncoder:
        """Always a stream."""
        return EventStreamEncoder(request, self.label, prompt_estimate)

    def error(self, failure: Failure, request_id: str | None = None) -> HttpError:
        """The error response in the OpenAI API's shape."""
        return http_error(failure, request_id)
