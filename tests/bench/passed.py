"""Client and provider speak one API: CPU of one passed event, and of a large request that passes, beside what the same
costs when it is translated."""

from __future__ import annotations

import json
import time

import extproc

URLS = {"anthropic": "https://api.anthropic.com/v1", "openai": "https://api.openai.com/v1"}
MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-4o"}
WORDS = 'a line of code with "quotes"\n' * 40


def microseconds_per_event(client: str, upstream: str, count: int, rounds: int = 3) -> float:
    """The best of `rounds` answers of `count` text events, each in a feed of its own."""
    events = _events(upstream, count)
    return min(_answer(client, upstream, events) for _ in range(rounds)) * 1e6 / count


def milliseconds_per_request(client: str, upstream: str, size: int, rounds: int = 10) -> float:
    """The best of `rounds` requests of about `size` bytes: a long tool loop."""
    body = _request(client, size)
    return min(_ask(client, upstream, body) for _ in range(rounds)) * 1e3


def _answer(client: str, upstream: str, events: list[bytes]) -> float:
    translation = _translation(client, upstream)
    translation.request(_request(client, 0))
    translation.start(200, {"content-type": "text/event-stream"})
    feed = translation.feed
    started = time.process_time()
    written = sum(len(feed(one)) for one in events)
    spent = time.process_time() - started
    if written < len(events):
        raise RuntimeError("nothing was passed")
    return spent


def _ask(client: str, upstream: str, body: bytes) -> float:
    started = time.process_time()
    _translation(client, upstream).request(body)
    return time.process_time() - started


def _translation(client: str, upstream: str) -> extproc.Translation:
    return extproc.Translation(client, upstream, MODELS[upstream], url=URLS[upstream])


def _events(upstream: str, count: int) -> list[bytes]:
    if upstream == "openai":
        return [_sse({"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-2024",
                      "choices": [{"index": 0, "delta": {"content": f" word{i % 10}"}, "logprobs": None,
                                   "finish_reason": None}], "usage": None}) for i in range(count)]
    head: list[dict[str, object]] = [
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "x",
                                              "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}]
    return [_sse(one, named=True) for one in head] + [
        _sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f" word{i % 10}"}},
             named=True) for i in range(count - 2)]


def _sse(value: dict[str, object], *, named: bool = False) -> bytes:
    name = f"event: {value['type']}\n" if named else ""
    return f"{name}data: {json.dumps(value, separators=(',', ':'))}\n\n".encode()


def _request(client: str, size: int) -> bytes:
    """A conversation whose tool calls go on until it has that size."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    messages: list[dict[str, object]] = [{"role": "user", "content": "go"}]
    for number in range(size // 1600):
        id, arguments = f"toolu_{number:024d}", {"path": f"/a/{number}"}
        if client == "anthropic":
            messages += [
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln" * 20},
                                                  {"type": "tool_use", "id": id, "name": "read", "input": arguments}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": WORDS}]}]
        else:
            function = {"name": "read", "arguments": json.dumps(arguments)}
            messages += [{"role": "assistant", "content": None, "tool_calls": [
                {"id": id, "type": "function", "function": function}]},
                {"role": "tool", "tool_call_id": id, "content": WORDS}]
    tool = ({"name": "read", "input_schema": schema} if client == "anthropic" else
            {"type": "function", "function": {"name": "read", "parameters": schema}})
    return json.dumps({"model": MODELS[client], "max_tokens": 1000, "stream": True, "messages": messages,
                       "tools": [tool]}).encode()
