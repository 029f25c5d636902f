"""Whole responses made of thousands of small parts: the time they take grows with their size, and no faster."""

from __future__ import annotations

import json
import time

import pytest

from extproc import Translation

GEMINI_PARTS = '{"candidates":[{"finishReason":"STOP","content":{"role":"model","parts":[%s]}}]}'
GEMINI_CHUNKS = '[%s,{"candidates":[{"finishReason":"STOP","content":{"role":"model","parts":[{"text":"a"}]}}]}]'
ANTHROPIC = '{"type":"message","role":"assistant","stop_reason":"end_turn","content":[%s]}'
OPENAI_PARTS = '{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":[%s]}}]}'
OPENAI_CALLS = '{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","tool_calls":[%s]}}]}'

ANSWERS = {
    "odd parts": ("gemini", GEMINI_PARTS, '{"x":1}'),
    "empty parts": ("gemini", GEMINI_PARTS, "{}"),
    "texts of Gemini": ("gemini", GEMINI_PARTS, '{"text":"a"}'),
    "signed thoughts": ("gemini", GEMINI_PARTS, '{"text":"a","thought":true,"thoughtSignature":"x"}'),
    "media": ("gemini", GEMINI_PARTS, '{"inlineData":{"mimeType":"a/b","data":"xx"}}'),
    "empty chunks": ("gemini", GEMINI_CHUNKS, "{}"),
    "odd chunks": ("gemini", GEMINI_CHUNKS, '{"x":1}'),
    "odd parts in chunks": ("gemini", GEMINI_CHUNKS, '{"candidates":[{"content":{"parts":[{"x":1}]}}]}'),
    "signed blocks": ("anthropic", ANTHROPIC, '{"type":"thinking","thinking":"a","signature":"b"}'),
    "redacted blocks": ("anthropic", ANTHROPIC, '{"type":"redacted_thinking","data":"x"}'),
    "odd blocks": ("anthropic", ANTHROPIC, '{"type":"x"}'),
    "texts of Anthropic": ("anthropic", ANTHROPIC, '{"type":"text","text":"a"}'),
    "texts of OpenAI": ("openai", OPENAI_PARTS, '{"type":"text","text":"a"}'),
    "calls": ("openai", OPENAI_CALLS, '{"id":"a","function":{"name":"f","arguments":"{}"}}'),
}


@pytest.mark.parametrize("client", ["anthropic", "openai"])
@pytest.mark.parametrize("what", ANSWERS)
def test_the_cost_grows_with_the_response(what: str, client: str) -> None:
    """A fifth of a second of CPU or less; quadratic time would be ten times this bound at the least."""
    upstream, whole, part = ANSWERS[what]
    response = whole % ",".join([part] * (300_000 // len(part)))
    translation = Translation(client=client, upstream=upstream, model="m")
    request = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "go"}]}
    translation.request(json.dumps(request).encode(), {})
    started = time.process_time()
    translation.start(200, {"content-type": "application/json"})
    told = translation.feed(response.encode()) + translation.finish()
    assert time.process_time() - started < 2
    assert told
    assert translation.head is not None
    assert translation.head.status == 200


def test_the_names_of_all_odd_parts_are_told_once() -> None:
    translation = Translation(client="anthropic", upstream="gemini", model="m")
    translation.request(b'{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"go"}]}', {})
    translation.start(200, {"content-type": "application/json"})
    translation.feed((GEMINI_PARTS % '{"x":1},{"text":"a"},{"y":1},{"x":2}').encode())
    translation.finish()
    assert translation.dropped.losses == ["response.x", "response.y"]
