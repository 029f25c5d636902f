"""Events of the conversation model -> the bytes of a Messages response, as a stream or as one message.

The encoder runs for every event of every response, so a delta costs one lookup, one JSON string and one concatenation:
the bytes before and after the text are prepared when its block opens. `grammar` defines the order of events; an event
out of order raises GrammarError, an event after the end is ignored. No signature is forged, and a truncated call is
never completed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

import msgspec

from extproc.apis.anthropic.client import grammar
from extproc.apis.anthropic.client.errors import error_event
from extproc.apis.shared.client_responses import Estimate, WholeResponse, call_input
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Event,
    Finish,
    FinishReason,
    RedactedThinking,
    SignatureDelta,
    Start,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from extproc.conversation.signatures import embed_in_id
from extproc.errors import Failure

STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "stop_sequence": "stop_sequence",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
    "refusal": "refusal",
    "pause": "pause_turn",
    "context_length": "model_context_window_exceeded",
}

PING = b'event: ping\ndata: {"type":"ping"}\n\n'

_encode = msgspec.json.Encoder().encode


def stop_reason(reason: FinishReason, called: bool) -> str:
    """`called`: the response holds a tool call. Clients rely on tool_use to announce one, and providers are careless
    about it in both directions."""
    if reason == "stop" and called:
        return "tool_use"
    if reason == "tool_calls" and not called:
        return "end_turn"
    return STOP_REASONS[reason]


def stop_details(finish: Finish) -> dict[str, object]:
    """The details of a refusal, where the provider has this API."""
    return {} if finish.refusal is None else {"stop_details": finish.refusal.details}


def usage_fields(usage: Usage, prompt_estimate: Callable[[], int]) -> dict[str, object]:
    """`input_tokens` excludes cached tokens: the three input counts together are the prompt. A provider's figure of 0
    counts as missing: the estimate is used."""
    uncached = usage.input - usage.cached - usage.cache_write if usage.input > 0 else prompt_estimate()
    fields: dict[str, object] = {
        "input_tokens": max(0, uncached),
        "cache_creation_input_tokens": max(0, usage.cache_write),
        "cache_read_input_tokens": max(0, usage.cached),
        "output_tokens": max(0, usage.output),
    }
    if usage.reasoning > 0:
        fields["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return fields


def _sse(name: str, rest: bytes) -> bytes:
    """One event. `rest`: the members after the type, each with its leading comma."""
    return b'event: %b\ndata: {"type":"%b"%b}\n\n' % (name.encode(), name.encode(), rest)


# ----------------------------------------------------------------------------------------------------------- streamed

_DELTAS: dict[type, tuple[str, bytes]] = {
    TextDelta: ("text_delta", b"text"),
    ThinkingDelta: ("thinking_delta", b"thinking"),
    SignatureDelta: ("signature_delta", b"signature"),
    ArgumentsDelta: ("input_json_delta", b"partial_json"),
}
"""The wire type of each delta event and the name of its text member."""

_DELTA_END = b"}}\n\n"

_EMPTY_BLOCKS: dict[type, bytes] = {
    TextDelta: b'{"type":"text","text":""}',
    ThinkingDelta: b'{"type":"thinking","thinking":"","signature":""}',
}
"""The content block at the start of a block with these deltas."""


def _block_start(index: int, block: bytes) -> bytes:
    return _sse("content_block_start", b',"index":%d,"content_block":%b' % (index, block))


# The first blocks of all responses are alike.

@lru_cache(maxsize=64)
def _empty_block(index: int, delta: type) -> bytes:
    return _block_start(index, _EMPTY_BLOCKS[delta])


@lru_cache(maxsize=64)
def _delta_start(index: int, delta: type) -> bytes:
    """A delta up to its string."""
    wire_type, member = _DELTAS[delta]
    return (b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":'
            b'{"type":"%b","%b":' % (index, wire_type.encode(), member))


@lru_cache(maxsize=64)
def _block_stop(index: int) -> bytes:
    return _sse("content_block_stop", b',"index":%d' % index)


def _message_start(model: str, message_id: str, prompt_tokens: int) -> bytes:
    return b"".join((
        b'event: message_start\ndata: {"type":"message_start","message":{"id":', _encode(message_id),
        b',"type":"message","role":"assistant","model":', _encode(model),
        b',"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":', _encode(prompt_tokens),
        b',"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}\n\n'))


class StreamEncoder:
    """Writes a stream of server-sent events."""

    content_type = "text/event-stream; charset=utf-8"

    def __init__(self, model: str, message_id: str, prompt_estimate: Callable[[], int]) -> None:
        self._estimate = Estimate(prompt_estimate)
        self._beginning = _message_start(model, message_id, self._estimate())
        """Prepared before the response arrives: any later work would delay its first token."""
        self._state: str = grammar.BEGIN
        self._index = -1
        self._called = False
        self._delta: type | None = None     # the delta event with a fast path, and the bytes before its string
        self._prefix = b""

    def encode_events(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events; the same bytes however the events are grouped."""
        out: list[bytes] = []
        for event in events:
            kind = type(event)
            if kind is self._delta:
                text = event.text if kind is not ArgumentsDelta else event.json  # type: ignore[union-attr]
                if text:
                    out += (self._prefix, _encode(text), _DELTA_END)
            elif self._state is not grammar.END:
                out.append(self._other_event(event))
        return b"".join(out)

    def ping(self) -> bytes:
        """Keeps the connection alive. The grammar requires the start of the message first."""
        if self._state is grammar.END:
            return b""
        if self._state is grammar.BEGIN:
            return self._start() + PING
        return PING

    def _other_event(self, event: Event) -> bytes:
        match event:
            case Start():
                # A ping may have started the message already.
                return self._start() if self._state is grammar.BEGIN else b""
            case TextStart():
                self._open_block("start text", TextDelta)
                return _empty_block(self._index, TextDelta)
            case ThinkingStart():
                self._open_block("start thinking", ThinkingDelta)
                return _empty_block(self._index, ThinkingDelta)
            case BlockStop():
                self._advance("stop")
                return _block_stop(self._index)
            case ToolCallStart():
                self._open_block("start tool_use", ArgumentsDelta)
                self._called = True
                return _block_start(self._index, b'{"type":"tool_use","id":%b,"name":%b,"input":{}}' % (
                    _encode(embed_in_id(event.id, event.signature)), _encode(event.name)))
            case RedactedThinking():
                self._open_block("start complete", None)
                return _block_start(self._index, b'{"type":"redacted_thinking","data":%b}' % _encode(event.data))
            case Finish():
                return self._finish(event)
            case Failure():
                self._advance("error")
                return error_event(event)
            case SignatureDelta():
                self._advance("signature_delta")
                if not event.signature:
                    return b""
                return _delta_start(self._index, SignatureDelta) + _encode(event.signature) + _DELTA_END
            case _:
                self._advance(_DELTAS[type(event)][0])     # a delta that does not fit the open block
                return b""

    def _advance(self, symbol: str) -> None:
        """Advances in the grammar. Every step but a plain delta disables the fast path until a block opens."""
        self._state = grammar.step(self._state, symbol)
        self._delta = None

    def _start(self) -> bytes:
        self._state = grammar.step(self._state, "message_start")
        return self._beginning

    def _open_block(self, symbol: str, delta: type | None) -> None:
        """A block begins: its deltas now take the fast path."""
        self._state = grammar.step(self._state, symbol)
        self._index += 1
        self._delta = delta
        if delta is not None:
            self._prefix = _delta_start(self._index, delta)

    def _finish(self, event: Finish) -> bytes:
        self._advance("message_delta")
        self._advance("message_stop")
        reason = stop_reason(event.reason, self._called)
        delta = {"stop_reason": reason, "stop_sequence": event.stop_sequence if reason == "stop_sequence" else None,
                 **stop_details(event)}
        usage = usage_fields(event.usage, self._estimate)
        return (_sse("message_delta", b',"delta":%b,"usage":%b' % (_encode(delta), _encode(usage)))
                + _sse("message_stop", b""))


# -------------------------------------------------------------------------------------------------------------- whole


class _OpenBlock(msgspec.Struct):
    """The block that is being collected: its opening event, its pieces, its signature."""

    event: TextStart | ThinkingStart | ToolCallStart | RedactedThinking
    pieces: list[str] = []
    signature: str = ""


class MessageEncoder(WholeResponse):
    """Collects the response and writes one message at its end. A failure writes nothing: the caller sends `API.error`
    instead."""

    content_type = "application/json"

    def __init__(self, model: str, message_id: str, prompt_estimate: Callable[[], int]) -> None:
        self._model = model
        self._message_id = message_id
        self._estimate = Estimate(prompt_estimate)
        self._blocks: list[_OpenBlock] = []

    def _event(self, event: Event) -> bytes:
        match event:
            case TextDelta() | ThinkingDelta():
                self._blocks[-1].pieces.append(event.text)
            case ArgumentsDelta():
                self._blocks[-1].pieces.append(event.json)
            case SignatureDelta():
                self._blocks[-1].signature = event.signature
            case TextStart() | ThinkingStart() | ToolCallStart() | RedactedThinking():
                self._blocks.append(_OpenBlock(event))
            case Finish():
                self._ended = True
                return self._message(event)
            case Failure():
                self._ended = True
            case Start() | BlockStop():
                pass
        return b""

    def _message(self, finish: Finish) -> bytes:
        content = [block for block in (self._content(open_block, finish) for open_block in self._blocks) if block]
        reason = stop_reason(finish.reason, any(block["type"] == "tool_use" for block in content))
        return _encode({
            "id": self._message_id, "type": "message", "role": "assistant", "model": self._model, "content": content,
            "stop_reason": reason, "stop_sequence": finish.stop_sequence if reason == "stop_sequence" else None,
            **stop_details(finish),
            "usage": usage_fields(finish.usage, self._estimate)})

    def _content(self, block: _OpenBlock, finish: Finish) -> dict[str, object] | None:
        text = "".join(block.pieces)
        match block.event:
            case TextStart():
                return {"type": "text", "text": text}
            case ThinkingStart():
                return {"type": "thinking", "thinking": text, "signature": block.signature}
            case RedactedThinking(data=data):
                return {"type": "redacted_thinking", "data": data}
            case ToolCallStart(id=call_id, name=name, signature=signature):
                at_limit = finish.reason not in ("stop", "stop_sequence", "tool_calls")
                arguments = call_input(text, at_limit, last=block is self._blocks[-1])
                return None if arguments is None else {
                    "type": "tool_use", "id": embed_in_id(call_id, signature), "name": name, "input": arguments}
