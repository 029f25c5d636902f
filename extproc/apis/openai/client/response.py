"""Events of the conversation model -> the bytes of a Chat Completions stream; finish reasons and usage for all encoders
of this package.

The encoder runs for every event of every response, so a delta costs one lookup, one JSON string and one concatenation:
the bytes before and after the text are prepared when its block opens. Events after the end are ignored. Each id and
name is written exactly once (the official SDK joins repetitions). A truncated call is never completed.

The format has no field for some events:
- Reasoning is sent as `reasoning_content`, the name that coding clients read and echo. Signatures and encrypted blocks
  are sent as items of `reasoning_details` (OpenRouter's form) with the text they sign, and in the id of the next call.
- A call of a custom tool streams as a function with the arguments `{"input": ...}`: chunks know functions only.
- Legacy functions know one call: only the first is sent.
- `created` is always 0: the core has no clock, and the same response is the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from extproc.apis.openai.client.errors import error_chunk
from extproc.apis.openai.client.reasoning import OTHER_FORMAT, SIGNED_FORMAT
from extproc.apis.openai.client.request import ChatRequest
from extproc.apis.openai.client.signatures import BlockPosition, PendingSignatures
from extproc.apis.shared.client_responses import Estimate
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Citations,
    Event,
    Finish,
    FinishReason,
    RedactedThinking,
    Request,
    SignatureDelta,
    Start,
    TextDelta,
    TextStart,
    Thinking,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from extproc.conversation.signatures import extract_from_text
from extproc.errors import Failure

FINISH_REASONS: dict[FinishReason, str] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "pause": "stop",
    "context_length": "length",
}


def finish_reason(reason: FinishReason, called: bool) -> str:
    """`called`: the response holds a tool call. Clients rely on tool_calls to announce one, and stop reading calls when
    the reason is stop."""
    word = FINISH_REASONS[reason]
    if word in ("stop", "tool_calls"):
        return "tool_calls" if called else "stop"
    return word


def whole_calls(reason: FinishReason) -> bool:
    """True if a call at the end of the response is whole: no limit and no filter truncated it."""
    return reason in ("stop", "stop_sequence", "tool_calls", "pause")


def usage_fields(usage: Usage, prompt_estimate: Callable[[], int]) -> dict[str, object]:
    """`prompt_tokens` is the whole prompt including cached tokens. A provider's figure of 0 counts as missing: the
    estimate is used."""
    prompt = usage.input if usage.input > 0 else prompt_estimate()
    output = max(0, usage.output)
    prompt_details = {"cached_tokens": max(0, usage.cached)}
    if usage.cache_write > 0:
        prompt_details["cache_write_tokens"] = usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": prompt_details,
        "completion_tokens_details": {"reasoning_tokens": max(0, usage.reasoning)},
    }


CREATED = 0
KEEP_ALIVE = b": keepalive\n\n"
DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


def completion_id(message_id: str) -> str:
    """The id of the response in this API's form."""
    return "chatcmpl-" + message_id.removeprefix("msg_")


def reasoning_detail(block: Thinking, index: int, place: BlockPosition) -> dict[str, object]:
    """The item of `reasoning_details` for a signed or encrypted block. Accumulators require the index."""
    opaque = block.redacted or block.signature or ""
    kind = SIGNED_FORMAT if extract_from_text(opaque) is None else OTHER_FORMAT
    item: dict[str, object]
    if block.redacted is not None:
        item = {"type": "reasoning.encrypted", "data": opaque}
    else:
        item = {"type": "reasoning.text", "text": block.text, "signature": opaque}
    return {**item, "id": place.item_id(index), "format": kind, "index": index}


class ChunkEncoder:
    """Writes a stream of server-sent events."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, request: Request, message_id: str, prompt_estimate: Callable[[], int]) -> None:
        chat = request if isinstance(request, ChatRequest) else None
        self._legacy = chat is not None and chat.legacy_functions
        self._shown = chat is None or chat.show_reasoning
        self._want_usage = request.want_usage
        self._estimate = Estimate(prompt_estimate)
        self._top = (b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,'
                     b'"system_fingerprint":null,"choices":' % (_encode(completion_id(message_id)), CREATED,
                                                                _encode(request.model)))
        self._head = self._top + b'[{"index":0,"delta":'
        self._end = b',"usage":null}\n\n' if request.want_usage else b"}\n\n"
        self._tail = b',"logprobs":null,"finish_reason":null}]' + self._end
        self._started = False
        self._ended = False
        self._calls = 0
        self._characters = 0      # characters of text
        self._bare_call = False     # the last call has no arguments yet
        self._signatures = PendingSignatures()
        self._details = 0
        self._reasoning: list[str] | None = None      # the open reasoning, for its signature
        self._delta: type | None = None     # the delta event with a fast path, and the bytes around its string
        self._prefix = b""
        self._suffix = b""

    def encode_events(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events; the same bytes however the events are grouped."""
        out: list[bytes] = []
        for event in events:
            kind = type(event)
            if kind is self._delta:
                if kind is ArgumentsDelta:
                    text = event.json  # type: ignore[union-attr]
                    self._bare_call = self._bare_call and not text
                else:
                    text = event.text  # type: ignore[union-attr]
                    if self._reasoning is not None:
                        self._reasoning.append(text)
                    else:
                        self._characters += len(text)
                if text:
                    out += (self._prefix, _encode(text), self._suffix)
            elif not self._ended:
                out.append(self._other_event(event))
        return b"".join(out)

    def ping(self) -> bytes:
        """A comment, which keeps the connection alive and which clients skip."""
        return b"" if self._ended else KEEP_ALIVE

    def _other_event(self, event: Event) -> bytes:
        match event:
            case Start():
                if self._started:
                    return b""
                self._started = True
                return self._chunk(b'{"role":"assistant","content":""}')
            case TextStart():
                return self._open_block(TextDelta, b'{"content":', b"}")
            case ThinkingStart():
                self._reasoning = []
                return self._open_block(ThinkingDelta if self._shown else None, b'{"reasoning_content":', b"}")
            case SignatureDelta():
                block = Thinking("".join(self._reasoning or ()), signature=event.signature)
                return self._write_signed_block(block) if event.signature else b""
            case RedactedThinking():
                return self._complete_bare_call() + self._write_signed_block(Thinking("", redacted=event.data))
            case ToolCallStart():
                return self._start_call(event)
            case BlockStop():
                self._delta = self._reasoning = None
                return b""
            case Citations():
                return self._write_citations(event)
            case Finish():
                return self._finish(event)
            case Failure():
                self._ended, self._delta = True, None
                return error_chunk(event)
            case ThinkingDelta() if not self._shown:
                return b""
            case ArgumentsDelta() if self._legacy and self._calls > 1:
                return b""
            case _:
                raise ValueError(f"{type(event).__name__} is not allowed here")

    def _chunk(self, delta: bytes) -> bytes:
        return self._head + delta + self._tail

    def _open_block(self, delta: type | None, before: bytes, after: bytes) -> bytes:
        """A block begins: its deltas now take the fast path."""
        settled = self._complete_bare_call()
        self._delta = delta
        self._prefix, self._suffix = self._head + before, after + self._tail
        return settled

    def _write_signed_block(self, block: Thinking) -> bytes:
        self._delta = self._reasoning = None
        self._signatures.add(block, self._characters)
        if not self._shown:
            return b""
        item = reasoning_detail(block, self._details, BlockPosition(self._calls, self._characters))
        self._details += 1
        return self._chunk(b'{"reasoning_details":[%b]}' % _encode(item))

    def _start_call(self, event: ToolCallStart) -> bytes:
        index, self._calls = self._calls, self._calls + 1
        call_id, name = _encode(self._signatures.id_with_signature(event)), _encode(event.name)
        if self._legacy:
            if index > 0:
                return self._open_block(None, b"", b"")
            opening = b'{"function_call":{"name":%b,"arguments":""}}' % name
            settled = self._open_block(ArgumentsDelta, b'{"function_call":{"arguments":', b"}}")
        else:
            opening = (b'{"tool_calls":[{"index":%d,"id":%b,"type":"function","function":{"name":%b,"arguments":""}}]}'
                       % (index, call_id, name))
            settled = self._open_block(ArgumentsDelta, b'{"tool_calls":[{"index":%d,"function":{"arguments":' % index,
                                 b"}}]}")
        self._bare_call = True
        return settled + self._chunk(opening)

    def _complete_bare_call(self) -> bytes:
        """The next event shows that the last call was whole. Empty arguments are sent as `{}`, since clients parse
        them."""
        if not self._bare_call:
            return b""
        self._bare_call = False
        return b'%b"{}"%b' % (self._prefix, self._suffix)

    def _write_citations(self, event: Citations) -> bytes:
        """A chunk of its own with `annotations` as its delta. Other fields stand beside the choices."""
        delta = b'{"annotations":[%b]}' % b",".join(map(bytes, event.annotations)) if event.annotations else b"{}"
        extra = b"".join(b",%b:%b" % (_encode(name), bytes(value)) for name, value in event.extra.items())
        return b'%b%b,"logprobs":null,"finish_reason":null}]%b%b' % (self._head, delta, extra, self._end)

    def _finish(self, event: Finish) -> bytes:
        out = self._complete_bare_call() if whole_calls(event.reason) else b""
        self._ended, self._delta = True, None
        if event.refusal is not None and event.refusal.explanation:
            out += self._chunk(b'{"refusal":%b}' % _encode(event.refusal.explanation))
        word = finish_reason(event.reason, self._calls > 0)
        if word == "tool_calls" and self._legacy:
            word = "function_call"
        out += b'%b{},"logprobs":null,"finish_reason":"%b"}]%b' % (self._head, word.encode(), self._end)
        if self._want_usage:
            usage = _encode(usage_fields(event.usage, self._estimate))
            out += b'%b[],"usage":%b}\n\n' % (self._top, usage)
        return out + DONE
