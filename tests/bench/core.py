"""The translation core alone: CPU microseconds per streamed event when every event comes in a feed of its own."""

from __future__ import annotations

import json
import time

import extproc

REQUEST = json.dumps({
    "model": "claude", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"name": "write", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}}}],
}).encode()


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "bench",
             "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def text_events(count: int) -> list[bytes]:
    return [event({"content": f" word{i % 10}"}) for i in range(count)]


def call_events(count: int) -> list[bytes]:
    start = event({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                                   "function": {"name": "write", "arguments": '{"text":"'}}]})
    return [start, *(event({"tool_calls": [{"index": 0, "function": {"arguments": f"word{i % 10} "}}]})
                     for i in range(count - 1))]


def microseconds_per_event(events: list[bytes], rounds: int = 3) -> float:
    """The best of `rounds` runs, process CPU time."""
    return min(run(events) for _ in range(rounds)) * 1e6 / len(events)


def run(events: list[bytes]) -> float:
    translation = extproc.Translation(client="anthropic", upstream="openai", model="bench")
    translation.request(REQUEST, {})
    translation.start(200, {"content-type": "text/event-stream"})
    feed = translation.feed
    started = time.process_time()
    written = sum(len(feed(one)) for one in events)
    spent = time.process_time() - started
    if written < len(events):
        raise RuntimeError("the translation wrote nothing")
    return spent
