"""Answers in which text and native calls stand beside each other, in the wire of each provider API, and what an
Anthropic client gets of them."""

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
Native = tuple[str, Json]
"""A call told by the API; text is a str."""

_TOOL = {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": "object"},
                                          "x": {"type": "number"}}}
REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "hi"}],
           "tools": [{"name": name, "input_schema": _TOOL} for name in ("read", "ping")]}


def written(name: str, arguments: Json) -> str:
    """The call as a model writes it."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@dataclass
class Got:
    """What the client got. `order` tells text and calls apart as they came."""

    text: str
    calls: list[Native]
    ids: list[str]
    stop: str | None
    order: list[str]


def body_of(upstream: str, items: Sequence[str | Native], *, stream: bool = True, size: int = 5,
            finish: str | None = "calls") -> bytes:
    """The provider's response; `size` is that of the pieces of text and arguments, `finish` "calls", "length" or None
    (it breaks off)."""
    reply = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}[upstream](items, stream, size, finish)
    return b"".join(piece for piece in reply.body if isinstance(piece, bytes))


def _openai(items: Sequence[str | Native], stream: bool, size: int, finish: str | None) -> Any:
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


def _anthropic(items: Sequence[str | Native], stream: bool, size: int, finish: str | None) -> Any:
    reason = {"calls": "tool_use", "length": "max_tokens", None: None}[finish]
    blocks = [claude.text_block(item) if isinstance(item, str) else claude.tool_use_block(f"call_{at}", *item)
              for at, item in enumerate(items)]
    if stream:
        return claude.sse(claude.events(blocks, stop=reason, pieces=size))
    return claude.json({**claude.head(), "content": blocks, "usage": claude.USAGE, "stop_reason": reason})


def _gemini(items: Sequence[str | Native], stream: bool, size: int, finish: str | None) -> Any:
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


def talk_to(upstream: str, *, stream: bool = True, **settings: Any) -> Translation:
    """An exchange with a server of unknown make whose answer begins."""
    talk = Translation("anthropic", upstream, settings.pop("model", "m"), url="http://127.0.0.1:8000/v1", **settings)
    talk.request(json.dumps({**REQUEST, "stream": stream}).encode())
    talk.start(200, {"content-type": "text/event-stream" if stream else "application/json"})
    return talk


def sent(upstream: str, body: bytes, *, stream: bool = True, cuts: Iterable[int] = (), **settings: Any) -> bytes:
    """The client's bytes, of a body that came in pieces."""
    talk = talk_to(upstream, stream=stream, **settings)
    at = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    return b"".join(talk.feed(body[a:b]) for a, b in pairwise(at)) + talk.finish()


def got(upstream: str, items: Sequence[str | Native], *, stream: bool = True, finish: str = "calls", size: int = 5,
        **settings: Any) -> Got:
    return heard(sent(upstream, body_of(upstream, items, stream=stream, size=size, finish=finish), stream=stream,
                      **settings), stream=stream)


def heard(out: bytes, *, stream: bool = True) -> Got:
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
    return Got("".join(block["text"] for block in blocks if block["type"] == "text"),
               [(block["name"], json.loads(block["json"] or "{}")) for block in calls],
               [block["id"] for block in calls], stop,
               [block["name"] if block["type"] == "tool_use" else block["type"] for block in blocks])


def interleaved(texts: Sequence[str], natives: Sequence[tuple[int, str | None, str]], order: Iterable[bool], *,
                finish: str | None = "calls") -> bytes:
    """A Chat Completions stream in which pieces of text and of native calls (which, its name, arguments) come in turns:
    `order` says which way the next piece comes (True: native), then come those that are left."""
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


def in_pieces(at: int, native: Native, size: int) -> list[tuple[int, str | None, str]]:
    """A native call for `interleaved`."""
    return [(at, native[0], ""), *[(at, None, piece) for piece in gpt.cut(json.dumps(native[1]), size)]]


def tokens(text: str, size: int) -> list[str]:
    """Pieces of a model's text: its tags come whole."""
    pieces: list[str] = []
    for part in re.split(r"(<tool_call>)", text):
        pieces += [part] if part == "<tool_call>" else gpt.cut(part, size)
    return [piece for piece in pieces if piece]


def talk(upstream: str, items: list[str | Native], *, stream: bool = True, **settings: Any) -> Translation:
    """The exchange at its end."""
    made = talk_to(upstream, stream=stream, **settings)
    made.feed(body_of(upstream, items, stream=stream))
    made.finish()
    return made
