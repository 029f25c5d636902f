"""Provider responses that mix text with native calls, in the wire format of each provider API, and the response that
an Anthropic client gets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from extproc.translation.exchange import Translation
from tests.providers import anthropic as claude
from tests.providers import gemini_wire
from tests.providers import openai as gpt

UPSTREAMS = ("openai", "anthropic", "gemini")
Json = dict[str, Any]
NativeCall = tuple[str, Json]
"""The name and the arguments of a call in a field of the API. Text is a str."""

_TOOL = {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"},
                                          "x": {"type": "number"}}}
REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}],
                           "tools": [{"name": name, "input_schema": _TOOL} for name in ("read", "ping")]}


def hermes_call(name: str, arguments: Json) -> str:
    """The call as text, in the form of Hermes."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@dataclass
class Received:
    """The client's response. `order`: "text" or the name of the tool, for each block."""

    text: str
    calls: list[NativeCall]
    ids: list[str]
    stop: str | None
    order: list[str]


def provider_body(upstream: str, items: Sequence[str | NativeCall], *, stream: bool = True, size: int = 5,
                  finish: str | None = "calls") -> bytes:
    """The provider's response. `size`: of the pieces of text and arguments. `finish`: "calls", "length" or None (the
    response breaks off)."""
    reply = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}[upstream](items, stream, size, finish)
    return b"".join(piece for piece in reply.body if isinstance(piece, bytes))


def _openai(items: Sequence[str | NativeCall], stream: bool, size: int, finish: str | None) -> Any:
    reason = {"calls": "tool_calls", "length": "length", None: None}[finish]
    calls = [item for item in items if not isinstance(item, str)]
    if not stream:
        return gpt.completion({"role": "assistant", "content": "".join(i for i in items if isinstance(i, str)),
                               "tool_calls": [{"id": f"call_{at}", "type": "function", "function": {
                                   "name": name, "arguments": json.dumps(arguments)}}
                                   for at, (name, arguments) in enumerate(calls)]}, finish=reason)
    deltas: list[Json] = []
    at = 0
    for item in items:
        if isinstance(item, str):
            deltas += [{"content": piece} for piece in gpt.cut(item, size)]
        else:
            deltas.append(gpt.call_start(at, f"call_{at}", item[0]))
            deltas += [gpt.call_arguments(at, piece) for piece in gpt.cut(json.dumps(item[1]), size)]
            at += 1
    return gpt.stream(deltas, finish=reason, done=finish is not None)


def _anthropic(items: Sequence[str | NativeCall], stream: bool, size: int, finish: str | None) -> Any:
    reason = {"calls": "tool_use", "length": "max_tokens", None: None}[finish]
    blocks = [claude.text_block(item) if isinstance(item, str) else claude.tool_use_block(f"call_{at}", *item)
              for at, item in enumerate(items)]
    if stream:
        return claude.sse(claude.events(blocks, stop=reason, pieces=size))
    return claude.json({**claude.head(), "content": blocks, "usage": claude.USAGE, "stop_reason": reason})


def _gemini(items: Sequence[str | NativeCall], stream: bool, size: int, finish: str | None) -> Any:
    reason = {"calls": "STOP", "length": "MAX_TOKENS", None: None}[finish]
    parts: list[Json] = []
    for item in items:
        if isinstance(item, str):
            parts += [{"text": piece} for piece in gemini_wire.cut(item, size)]
        else:
            parts.append({"functionCall": {"name": item[0], "args": item[1]}})
    if not stream:
        return gemini_wire.json(gemini_wire.response(parts, finish=reason))
    return gemini_wire.sse([gemini_wire.response([part]) for part in parts]
                           + ([gemini_wire.response([], finish=reason)] if reason else []))


def begin_exchange(upstream: str, *, stream: bool = True, **settings: Any) -> Translation:
    """An exchange with a server of unknown make, up to the head of the response."""
    model = settings.pop("model", "m")
    exchange = Translation("anthropic", upstream, model, url="http://127.0.0.1:8000/v1", **settings)
    exchange.request(json.dumps({**REQUEST, "stream": stream}).encode())
    exchange.start(200, {"content-type": "text/event-stream" if stream else "application/json"})
    return exchange


def client_bytes(upstream: str, body: bytes, *, stream: bool = True, cuts: Iterable[int] = (),
                 **settings: Any) -> bytes:
    """The client's bytes for a provider's body that arrives in pieces."""
    exchange = begin_exchange(upstream, stream=stream, **settings)
    at = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return b"".join(exchange.feed(body[a:b]) for a, b in pairwise(at)) + exchange.finish()


def received(upstream: str, items: Sequence[str | NativeCall], *, stream: bool = True, finish: str = "calls",
             size: int = 5, **settings: Any) -> Received:
    """The client's response to `provider_body` of these arguments."""
    body = provider_body(upstream, items, stream=stream, size=size, finish=finish)
    return parse_messages(client_bytes(upstream, body, stream=stream, **settings), stream=stream)


def parse_messages(out: bytes, *, stream: bool = True) -> Received:
    """The response in the bytes of the Messages API."""
    blocks: list[Json] = []
    stop = None
    if not stream:
        message = json.loads(out)
        blocks, stop = message["content"], message["stop_reason"]
        blocks = [{**block, "json": json.dumps(block.get("input"))} for block in blocks]
    else:
        for event in (json.loads(part.split("data: ", 1)[1]) for part in out.decode().split("\n\n") if part):
            if event["type"] == "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            elif event["type"] == "content_block_delta":
                blocks[-1]["text"] = blocks[-1].get("text", "") + event["delta"].get("text", "")
                blocks[-1]["json"] += event["delta"].get("partial_json", "")
            elif event["type"] == "message_delta":
                stop = event["delta"]["stop_reason"]
    calls = [block for block in blocks if block["type"] == "tool_use"]
    return Received("".join(block["text"] for block in blocks if block["type"] == "text"),
                    [(block["name"], json.loads(block["json"] or "{}")) for block in calls],
                    [block["id"] for block in calls], stop,
                    [block["name"] if block["type"] == "tool_use" else block["type"] for block in blocks])


def interleaved_stream(texts: Sequence[str], natives: Sequence[tuple[int, str | None, str]], order: Iterable[bool], *,
                       finish: str | None = "calls") -> bytes:
    """A Chat Completions stream in which pieces of text alternate with pieces of native calls (index, name,
    arguments). `order`: True for a native piece, False for text; the pieces that are left follow."""
    words, calls = list(texts), list(natives)
    deltas: list[Json] = []
    for native in [*order, *[False] * len(texts), *[True] * len(natives)]:
        if native and calls:
            at, name, piece = calls.pop(0)
            deltas.append(gpt.call_start(at, f"call_{at}", name, piece) if name else gpt.call_arguments(at, piece))
        elif not native and words:
            deltas.append({"content": words.pop(0)})
    reply: Any = gpt.stream(deltas, finish={"calls": "tool_calls", "length": "length", None: None}[finish],
                            done=finish is not None)
    return b"".join(piece for piece in reply.body if isinstance(piece, bytes))


def call_pieces(at: int, native: NativeCall, size: int) -> list[tuple[int, str | None, str]]:
    """A native call for `interleaved_stream`."""
    return [(at, native[0], ""), *[(at, None, piece) for piece in gpt.cut(json.dumps(native[1]), size)]]


def text_pieces(text: str, size: int) -> list[str]:
    """Pieces of a model's text. The tag of a call stays whole."""
    pieces: list[str] = []
    for part in re.split(r"(<tool_call>)", text):
        pieces += [part] if part == "<tool_call>" else gpt.cut(part, size)
    return [piece for piece in pieces if piece]


def finished_exchange(upstream: str, items: list[str | NativeCall], *, stream: bool = True,
                      **settings: Any) -> Translation:
    """An exchange after `provider_body` of these items."""
    exchange = begin_exchange(upstream, stream=stream, **settings)
    exchange.feed(provider_body(upstream, items, stream=stream))
    exchange.finish()
    return exchange
