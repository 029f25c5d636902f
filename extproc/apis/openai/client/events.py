"""Application events: `POST /v1/events` takes the body of a chat completion and responds with `data:` lines of JSON
with a `type`, for web front ends that should not assemble deltas.

| event | members |
|---|---|
| `warning` | `code` (`dropped`), `name`, `message`: a part of the request or the response that could not be carried |
| `content` | `text`: a piece of the answer |
| `reasoning` | `text` and `content`, which are equal: a piece of reasoning |
| `tool_start` | `id`, `name`, `category`, `visibility`: the model begins to write a call |
| `tool_call` | `id`, `name`, `arguments` (an object), `category`, `visibility`; always complete |
| `usage` | `usage` (as in a chat completion), `finish_reason`, and `refusal`: the provider's reason, if any |
| `error` | `error` (as in the OpenAI API); nothing follows |
| `done` | `done: true`; the last event of a complete response |

A call whose arguments were truncated by a limit has a `tool_start` and no `tool_call`; `finish_reason` is then
`length`. Warnings come at the very start, or right before the end. The encoder runs for every event, so a delta costs
one JSON string.

`finalize: true` in the body, or the header of chat completions, asks for the final answer of a conversation
(`finalizing`). The labels of tools and the final note are passed in; this module does not read the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from extproc.apis.base import ClientOptions, ResponseEncoder
from extproc.apis.openai.client.errors import OpenAIConventions, error_detail
from extproc.apis.openai.client.finalizing import finalize, wants_final
from extproc.apis.openai.client.request import ChatRequest, read_body, request_of_record
from extproc.apis.openai.client.response import KEEP_ALIVE, finish_reason, usage_fields, whole_calls
from extproc.apis.openai.client.signatures import PendingSignatures
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
    """How a front end shows the calls of a tool: its category, and its visibility to users. Both are words of the
    configuration."""

    category: str = "tool"
    visibility: str = "visible"


class _OpenCall(msgspec.Struct):
    start: ToolCallStart
    id: str
    pieces: list[str] = []


class EventStreamEncoder:
    """Writes application events. `label` maps the client's name of a tool to the configuration's label."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: Request, label: Callable[[str], ToolLabel],
                 prompt_estimate: Callable[[], int]) -> None:
        self._label = label
        self._shown = not isinstance(request, ChatRequest) or request.show_reasoning
        self._dropped = request.dropped if isinstance(request, ChatRequest) else None
        self._warned = 0
        self._losses_of_request = len(self._dropped.losses) if self._dropped is not None else 0
        """Losses already reported, and losses known before the response is read. The start of the stream reports
        only the latter: pieces of a response have no defined length, so later losses would make the bytes depend on
        the cut."""
        self._estimate = Estimate(prompt_estimate)
        self._signatures = PendingSignatures()
        self._characters = 0
        self._call: _OpenCall | None = None
        self._called = False
        self._ended = False

    def encode_events(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events; the same bytes however the events are grouped."""
        out: list[bytes] = []
        for event in events:
            kind = type(event)
            if self._ended:
                break
            if kind is TextDelta:
                if event.text:  # type: ignore[union-attr]
                    self._characters += len(event.text)  # type: ignore[union-attr]
                    out += (_TEXT, _encode(event.text), _END)  # type: ignore[union-attr]
            elif kind is ThinkingDelta:
                if self._shown and event.text:  # type: ignore[union-attr]
                    piece = _encode(event.text)  # type: ignore[union-attr]
                    out += (_REASONING, piece, _ONCE_MORE, piece, _END)
            elif kind is ArgumentsDelta:
                if self._call is not None:
                    self._call.pieces.append(event.json)  # type: ignore[union-attr]
            else:
                out.append(self._other_event(event))
        return b"".join(out)

    def ping(self) -> bytes:
        """A comment, which keeps the connection alive and which clients skip."""
        return b"" if self._ended else KEEP_ALIVE

    def _other_event(self, event: Event) -> bytes:
        match event:
            case Start():
                return self._warnings(self._losses_of_request)
            case ToolCallStart():
                out = self._flush_call(may_be_cut=False)
                self._call = call = _OpenCall(event, self._signatures.id_with_signature(event))
                return out + _event({"type": "tool_start", "id": call.id, "name": event.name,
                                     **self._label_fields(event)})
            case BlockStop():
                return self._flush_call(may_be_cut=True)
            case SignatureDelta():
                if event.signature:
                    self._signatures.add(Thinking("", signature=event.signature), self._characters)
                return b""
            case RedactedThinking():
                self._signatures.add(Thinking("", redacted=event.data), self._characters)
                return self._flush_call(may_be_cut=False)
            case Finish():
                return self._finish(event)
            case Failure():
                self._ended = True
                return self._warnings() + _event({"type": "error", "error": error_detail(event)})
            case _:
                return self._flush_call(may_be_cut=False)  # a block begins: the previous call was whole

    def _flush_call(self, may_be_cut: bool) -> bytes:
        """The collected call. `may_be_cut`: it may be truncated; then only complete arguments are sent, others wait for
        the next event."""
        call = self._call
        if call is None:
            return b""
        arguments = call_input("".join(call.pieces), may_be_cut, last=True)
        if arguments is None:
            return b""
        self._call, self._called = None, True
        if isinstance(arguments, msgspec.Raw):  # the provider's JSON goes on one line; its strings hold no line ends
            arguments = msgspec.Raw(bytes(arguments).translate(_ONE_LINE))
        return _event({"type": "tool_call", "id": call.id, "name": call.start.name, "arguments": arguments,
                       **self._label_fields(call.start)})

    def _label_fields(self, start: ToolCallStart) -> dict[str, str]:
        label = self._label(start.name)
        return {"category": label.category, "visibility": label.visibility}

    def _warnings(self, most: int | None = None) -> bytes:
        """The losses found since the last report, up to `most` in all."""
        new = self._dropped.losses[self._warned:most] if self._dropped is not None else []
        self._warned += len(new)
        return b"".join(_event({"type": "warning", "code": "dropped", "name": name,
                                "message": f"Could not be carried, and was left out: {name}"}) for name in new)

    def _finish(self, event: Finish) -> bytes:
        out = self._flush_call(may_be_cut=not whole_calls(event.reason))
        self._ended = True
        why = event.refusal.explanation if event.refusal is not None else ""
        return out + self._warnings() + _event({
            "type": "usage", "usage": usage_fields(event.usage, self._estimate),
            "finish_reason": finish_reason(event.reason, self._called), **({"refusal": why} if why else {})}) + _DONE


def _event(members: dict[str, object]) -> bytes:
    return b"data: %b\n\n" % _encode(members)


_DEFAULT = ToolLabel()


class EventsApi(OpenAIConventions):
    """`labels`: names of tools or patterns with `*`; the first match counts. `final_note`: the system note of
    `finalize`; "" for none."""

    name = "events"

    def __init__(self, labels: Mapping[str, ToolLabel] | None = None, final_note: str = FINAL_NOTE) -> None:
        self._labels = dict(labels or {})
        self._final_note = final_note

    def with_options(self, options: ClientOptions) -> EventsApi:
        """The same API with the labels and the final note of a configuration."""
        labels = {pattern: ToolLabel(category, visibility)
                  for pattern, (category, visibility) in options.tool_labels.items()}
        return EventsApi(labels, options.final_note)

    def label(self, name: str) -> ToolLabel:
        """The label of a tool."""
        return next((label for pattern, label in self._labels.items() if matches(pattern, name)), _DEFAULT)

    def decode_request(self, body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
        """Decodes POST /v1/events. Raises BadRequest with the place and what to do."""
        record, extra = read_body(body, limits)
        final = bytes(extra.pop("finalize", msgspec.Raw(b"false")))
        if final not in (b"true", b"false"):
            raise refused("finalize", "expected true or false")
        if record.n is not None and record.n > 1:
            raise refused("n", "application events carry one response: expected 1")
        is_final = final == b"true" or wants_final(headers)
        request = request_of_record(record, extra, dropped, limits, strays=is_final)
        request.stream = request.want_usage = True
        request.legacy_functions = request.cites = False
        request.dropped = dropped
        return finalize(request, self._final_note, dropped) if is_final else request

    def make_response_encoder(self, request: Request, message_id: str,
                              prompt_estimate: Callable[[], int]) -> ResponseEncoder:
        """Always a stream."""
        return EventStreamEncoder(request, self.label, prompt_estimate)
