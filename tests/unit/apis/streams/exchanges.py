"""One provider response as every client gets it: Messages API, Chat Completions and application events, streamed and
whole, in any cut. Everything goes through the public `Translation`."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from extproc import Translation

Json = dict[str, Any]
CITY: Json = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
TOOLS = {"get_weather": CITY, "get_time": CITY, "ping": {"type": "object", "properties": {}}}
STREAM, JSON = {"content-type": "text/event-stream"}, {"content-type": "application/json"}
WAYS = [("anthropic", True), ("anthropic", False), ("openai", True), ("openai", False), ("events", True)]
"""Each client API with whether it asks for a stream."""

_STOPS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter",
          "model_context_window_exceeded": "length"}


class Heard(NamedTuple):
    """A response as a client understands it. `error`: the words of an error that came instead of an end. `blocks` are
    the kinds of the blocks of a Messages response, in order."""

    thinking: str = ""
    text: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    finish: str | None = None
    error: str | None = None
    blocks: tuple[str, ...] = ()


def request(client: str, stream: bool, tools: dict[str, Json] | None = None, **fields: Any) -> bytes:
    """A request of this client that offers tools."""
    offered = TOOLS if tools is None else tools
    body: Json = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "go"}], **fields}
    if client == "anthropic":
        body |= {"max_tokens": 1000, "tools": [{"name": n, "input_schema": s} for n, s in offered.items()]}
    else:
        body["tools"] = [{"type": "function", "function": {"name": n, "parameters": s}} for n, s in offered.items()]
    return json.dumps(body).encode()


def talk(client: str, upstream: str, *, stream: bool = True, model: str = "some-model", body: bytes | None = None,
         tools: dict[str, Json] | None = None, fields: Json | None = None, **settings: Any) -> Translation:
    """An exchange whose request has gone out."""
    translation = Translation(client, upstream, model, **settings)
    translation.request(request(client, stream, tools, **(fields or {})) if body is None else body)
    return translation


def answered(translation: Translation, provider: bytes, size: int | None = None) -> bytes:
    """What the client gets of these bytes, cut in pieces of `size`."""
    translation.start(200, JSON if provider[:1] in (b"{", b"[") else STREAM)
    cut = size or max(1, len(provider))
    out = b"".join(translation.feed(provider[at:at + cut]) for at in range(0, len(provider), cut))
    return out + translation.finish()


def every_way(provider: bytes, upstream: str = "openai", *, ways: Any = WAYS, sizes: Any = (None, 1, 7),
              **settings: Any) -> Heard:
    """The response, which all clients understand alike; and no cut changes a byte. The blocks are those of the streamed
    Messages response."""
    heard: dict[tuple[str, bool], Heard] = {}
    for client, stream in ways:
        outs = {answered(talk(client, upstream, stream=stream, **settings), provider, size) for size in sizes}
        assert len(outs) == 1, (client, stream, outs)
        heard[client, stream] = understood(client, stream, outs.pop())
    first = heard[ways[0]]
    for way, other in heard.items():
        assert other._replace(blocks=()) == first._replace(blocks=()), (way, other, first)
    return first


def understood(client: str, stream: bool, out: bytes) -> Heard:
    """The response in these bytes."""
    if out[:1] == b"{":  # a whole response, or an error with a status
        return _whole(client, json.loads(out))
    events = [json.loads(block.split("data: ", 1)[1]) for block in out.decode().split("\n\n")
              if block.strip() and "[DONE]" not in block and not block.startswith(":")]
    return {"anthropic": _messages, "openai": _chat, "events": _events}[client](events)


def _arguments(text: str, finish: str | None) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        assert finish == "length", f"a call with the arguments {text!r} looks whole"
        return None  # cut off


def _messages(events: list[Json]) -> Heard:
    thinking = text = ""
    calls: list[list[str]] = []
    blocks: list[str] = []
    finish = error = None
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(event["content_block"]["type"])
            if blocks[-1] == "tool_use":
                calls.append([event["content_block"]["name"], ""])
        elif event["type"] == "content_block_delta":
            thinking += event["delta"].get("thinking", "")
            text += event["delta"].get("text", "")
            if "partial_json" in event["delta"]:
                calls[-1][1] += event["delta"]["partial_json"]
        elif event["type"] == "message_delta":
            finish = _STOPS[event["delta"]["stop_reason"]]
        elif event["type"] == "error":
            error = event["error"]["message"]
    return Heard(thinking, text, tuple((n, _arguments(a, finish)) for n, a in calls), finish, error, tuple(blocks))


def _chat(events: list[Json]) -> Heard:
    thinking = text = ""
    calls: dict[int, list[str]] = {}
    finish = error = None
    for event in events:
        if "error" in event:
            error = event["error"]["message"]
            continue
        for choice in event["choices"]:
            delta = choice["delta"]
            thinking += delta.get("reasoning_content") or ""
            text += delta.get("content") or ""
            for entry in delta.get("tool_calls", ()):
                call = calls.setdefault(entry["index"], ["", ""])
                call[0] += entry["function"].get("name") or ""
                call[1] += entry["function"].get("arguments") or ""
            finish = choice["finish_reason"] or finish
    return Heard(thinking, text, tuple((n, _arguments(a, finish)) for n, a in calls.values()), finish, error)


def _events(events: list[Json]) -> Heard:
    def joined(kind: str) -> str:
        return "".join(event["text"] for event in events if event["type"] == kind)

    calls = tuple((event["name"], event["arguments"]) for event in events if event["type"] == "tool_call")
    finish = next((event["finish_reason"] for event in events if event["type"] == "usage"), None)
    error = next((event["error"]["message"] for event in events if event["type"] == "error"), None)
    return Heard(joined("reasoning"), joined("content"), calls, finish, error)


def _whole(client: str, body: Json) -> Heard:
    if "error" in body:
        return Heard(error=body["error"]["message"])
    if client == "anthropic":
        blocks = body["content"]
        calls = tuple((block["name"], block["input"]) for block in blocks if block["type"] == "tool_use")
        return Heard("".join(block.get("thinking", "") for block in blocks),
                     "".join(block.get("text", "") for block in blocks), calls, _STOPS[body["stop_reason"]],
                     blocks=tuple(block["type"] for block in blocks))
    choice = body["choices"][0]
    message = choice["message"]
    calls = tuple((call["function"]["name"], json.loads(call["function"]["arguments"]))
                  for call in message.get("tool_calls", ()))
    return Heard(message.get("reasoning_content", ""), message["content"] or "", calls, choice["finish_reason"])
