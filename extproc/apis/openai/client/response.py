"""Events of the conversation model -> the bytes of a Chat Completions answer, as a stream of chunks.

Called for every event of every answer, so a delta costs one lookup, one JSON string and one concatenation: what comes
before and after the text is prepared when its block opens. An event after the end is ignored. Each id and name is
written exactly once (the official SDK joins repetitions). Never completes a call that was cut off.

What this format has no field for:
- reasoning goes out as `reasoning_content`, the name that coding clients read and echo; signatures and encrypted blocks
  as items of `reasoning_details` (OpenRouter's form) with the text they sign, and in the id of the call behind them;
- a call of a custom tool streams as a function whose arguments are `{"input": ...}`: chunks know functions only;
- legacy functions know one call: the first one is told, further ones are not;
- `created` is always 0: the core has no clock, and the same answer is the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from extproc.apis.openai.client.errors import error_chunk
from extproc.apis.openai.client.reasoning import OTHER_FORMAT, SIGNED_FORMAT
from extproc.apis.openai.client.request import ChatRequest
from extproc.apis.openai.client.signatures import Place, Riders
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
    """`called`: the answer holds a tool call. Clients take tool_calls as the promise of one, and stop reading calls
    when it says stop."""
    word = FINISH_REASONS[reason]
    if word in ("stop", "tool_calls"):
        return "tool_calls" if called else "stop"
    return word


def whole_calls(reason: FinishReason) -> bool:
    """Whether a call at the end of the answer is whole: no limit and no filter cut it off."""
    return reason in ("stop", "stop_sequence", "tool_calls", "pause")


def usage_fields(usage: Usage, prompt_estimate: Callable[[], int]) -> dict[str, object]:
    """`prompt_tokens` is the whole prompt, with what caches served as a part of it. A provider that says 0 for the
    prompt said nothing: then the estimate stands."""
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
    """The id of the answer in this API's form."""
    return "chatcmpl-" + message_id.removeprefix("msg_")


def detail(block: Thinking, index: int, place: Place) -> dict[str, object]:
    """The item of `reasoning_details` for a signed or encrypted block. Accumulators demand the index."""
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
        self._begun = False
        self._ended = False
        self._calls = 0
        self._said = 0      # characters of text
        self._bare_call = False     # the last call has no arguments yet
        self._riders = Riders()
        self._details = 0
        self._thought: list[str] | None = None      # the open reasoning, for its signature
        self._delta: type | None = None     # the delta event that may pass at once, the bytes around its string
        self._prefix = b""
        self._suffix = b""

    def events(self, events: Iterable[Event]) -> bytes:
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
                    if self._thought is not None:
                        self._thought.append(text)
                    else:
                        self._said += len(text)
                if text:
                    out += (self._prefix, _encode(text), self._suffix)
            elif not self._ended:
                out.append(self._other(event))
        return b"".join(out)

    def ping(self) -> bytes:
        """Keeps the connection alive: a comment, which clients skip."""
        return b"" if self._ended else KEEP_ALIVE

    def _other(self, event: Event) -> bytes:
        match event:
            case Start():
                if self._begun:
                    return b""
                self._begun = True
                return self._chunk(b'{"role":"assistant","content":""}')
            case TextStart():
                return self._open(TextDelta, b'{"content":', b"}")
            case ThinkingStart():
                self._thought = []
                return self._open(ThinkingDelta if self._shown else None, b'{"reasoning_content":', b"}")
            case SignatureDelta():
                block = Thinking("".join(self._thought or ()), signature=event.signature)
                return self._signed(block) if event.signature else b""
            case RedactedThinking():
                return self._settled() + self._signed(Thinking("", redacted=event.data))
            case ToolCallStart():
                return self._call(event)
            case BlockStop():
                self._delta = self._thought = None
                return b""
            case Citations():
                return self._cite(event)
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
                raise ValueError(f"{type(event).__name__} may not stand here")

    def _chunk(self, delta: bytes) -> bytes:
        return self._head + delta + self._tail

    def _open(self, delta: type | None, before: bytes, after: bytes) -> bytes:
        """A block begins: from now on its deltas pass."""
        settled = self._settled()
        self._delta = delta
        self._prefix, self._suffix = self._head + before, after + self._tail
        return settled

    def _signed(self, block: Thinking) -> bytes:
        self._delta = self._thought = None
        self._riders.add(block, self._said)
        if not self._shown:
            return b""
        item = detail(block, self._details, Place(self._calls, self._said))
        self._details += 1
        return self._chunk(b'{"reasoning_details":[%b]}' % _encode(item))

    def _call(self, event: ToolCallStart) -> bytes:
        index, self._calls = self._calls, self._calls + 1
        call_id, name = _encode(self._riders.load(event)), _encode(event.name)
        if self._legacy:
            if index > 0:
                return self._open(None, b"", b"")
            opening = b'{"function_call":{"name":%b,"arguments":""}}' % name
            settled = self._open(ArgumentsDelta, b'{"function_call":{"arguments":', b"}}")
        else:
            opening = (b'{"tool_calls":[{"index":%d,"id":%b,"type":"function","function":{"name":%b,"arguments":""}}]}'
                       % (index, call_id, name))
            settled = self._open(ArgumentsDelta, b'{"tool_calls":[{"index":%d,"function":{"arguments":' % index,
                                 b"}}]}")
        self._bare_call = True
        return settled + self._chunk(opening)

    def _settled(self) -> bytes:
        """What follows shows that the last call was whole: without arguments it is told as `{}`, since clients parse
        what they got."""
        if not self._bare_call:
            return b""
        self._bare_call = False
        return b'%b"{}"%b' % (self._prefix, self._suffix)

    def _cite(self, event: Citations) -> bytes:
        """A chunk of its own, of which `annotations` are the delta. Other fields stand beside the choices."""
        delta = b'{"annotations":[%b]}' % b",".join(map(bytes, event.annotations)) if event.annotations else b"{}"
        extra = b"".join(b",%b:%b" % (_encode(name), bytes(value)) for name, value in event.extra.items())
        return b'%b%b,"logprobs":null,"finish_reason":null}]%b%b' % (self._head, delta, extra, self._end)

    def _finish(self, event: Finish) -> bytes:
        out = self._settled() if whole_calls(event.reason) else b""
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
