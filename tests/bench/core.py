"""The translation core alone: CPU microseconds per streamed event when every event comes in a feed of its own, and per
character of text in which calls of every dialect are looked for."""

from __future__ import annotations

import json
import time

import extproc
from extproc.conversation.model import Tool
from extproc.conversation.sequencer import BlockSequencer
from extproc.dialects.registry import DIALECTS, find_scan_plan
from extproc.dialects.scanner import Scanner

NATIVE, UNKNOWN = "gpt-5", "bench"
"""Model names: what the first one writes is not looked at, in the second one's text calls are looked for."""
PROSE = "Some text with a < b, a[0], {braces} and `code`; then\na line more. "
CALL = '<tool_call>\n{"name": "write", "arguments": {"text": "'

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


def microseconds_per_event(events: list[bytes], rounds: int = 3, model: str = NATIVE) -> float:
    """The best of `rounds` runs, process CPU time."""
    return min(run(events, model) for _ in range(rounds)) * 1e6 / len(events)


def run(events: list[bytes], model: str) -> float:
    translation = extproc.Translation(client="anthropic", upstream="openai", model=model)
    translation.request(REQUEST, {})
    translation.start(200, {"content-type": "text/event-stream"})
    feed = translation.feed
    started = time.process_time()
    written = sum(len(feed(one)) for one in events)
    spent = time.process_time() - started
    if written < len(events):
        raise RuntimeError("the translation wrote nothing")
    return spent


def microseconds_per_character(size: int, *, in_call: bool) -> float:
    """An answer of `size` characters that arrives one by one, every dialect looked for: prose, or one long argument of
    a call."""
    text = PROSE * (size // len(PROSE))
    if in_call:
        text = CALL + text.replace("\n", "\\n") + '"}}\n</tool_call>'
    tools = {"write": Tool("write", None, {"type": "object", "properties": {"text": {"type": "string"}}})}
    look = find_scan_plan(UNKNOWN, read=sorted(DIALECTS), tools=True)
    assert look is not None
    sequencer = BlockSequencer(lambda number, _: f"c{number}", str, frozenset(tools))
    scanner = Scanner(look, sequencer, tools)
    started = time.process_time()
    written = 0
    for char in text:
        scanner.feed_content(char)
        written += len(sequencer.take_events())
    scanner.finish(clean=True)
    spent = time.process_time() - started
    if written < size // 2 or scanner.calls != in_call:
        raise RuntimeError("the scanner lost something")
    return spent * 1e6 / len(text)
