"""Design rule 2: a stream that ends anywhere before its end never looks finished, whoever speaks to whom."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.translation.exchange import Translation
from tests.model_text.text_and_calls import REQUEST, UPSTREAMS, NativeCall, provider_body

Json = dict[str, Any]
CLIENTS = ("anthropic", "openai")
CALLS = st.sampled_from([("read", {"path": "a", "n": 1}), ("read", {"n": 2}), ("ping", {"o": {"x": [1, "}"]}})])
TEXTS = st.sampled_from(["Words.", "A `mark`: <", "\n\nMore of them."])
ITEMS = st.lists(st.one_of(CALLS, TEXTS), min_size=1, max_size=4)

ASKED: dict[str, Json] = {"anthropic": {**REQUEST, "stream": True}, "openai": {
    "model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}}
              for tool in REQUEST["tools"]]}}


def answered(client: str, upstream: str, body: bytes) -> bytes:
    talk = Translation(client, upstream, "m", url="http://127.0.0.1:8000/v1")
    talk.request(json.dumps(ASKED[client]).encode())
    talk.start(200, {"content-type": "text/event-stream"})
    return talk.feed(body) + talk.finish()


def received(out: bytes) -> tuple[str, list[tuple[str, str]], bool]:
    """(text, calls, True if the response looks finished) for a client of either API."""
    text, finished = "", False
    names: list[str] = []
    arguments: dict[int, str] = {}
    for part in out.decode().split("\n\n"):
        data = part.rpartition("data: ")[2]
        if data == "[DONE]" or not data:
            continue
        event = json.loads(data)
        delta = event.get("delta", {})
        if event.get("content_block", {}).get("type") == "tool_use":
            names.append(event["content_block"]["name"])
        for choice in event.get("choices", []):
            delta, finished = choice["delta"], finished or choice["finish_reason"] is not None
        for call in delta.get("tool_calls", []):
            if "name" in call["function"]:
                names.append(call["function"]["name"])
            arguments[call["index"]] = arguments.get(call["index"], "") + call["function"].get("arguments", "")
        text += delta.get("text", "") or delta.get("content", "") or ""
        if "partial_json" in delta:
            arguments[len(names) - 1] = arguments.get(len(names) - 1, "") + delta["partial_json"]
        finished = finished or event.get("type") == "message_stop"
    return text, [(name, arguments.get(at, "")) for at, name in enumerate(names)], finished


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
@given(ITEMS, st.integers(0, 100_000))
@settings(max_examples=150, deadline=None)
def test_what_ends_before_its_end_never_looks_finished(client: str, upstream: str, items: list[str | NativeCall],
                                                       upto: int) -> None:
    """Some servers of OpenAI's API never tell how they finish: there an end behind a whole event whose calls are all
    whole counts as one. Nobody can tell it from a stream that broke off between two calls."""
    body = provider_body(upstream, items)
    came = body[:upto % len(body)]
    text, calls, finished = received(answered(client, upstream, came))
    if not finished:
        return
    whole = received(answered(client, upstream, body))
    if upstream == "openai" and came.endswith((b"}", b"\n")) and calls:
        assert calls == whole[1][:len(calls)]
    else:
        assert (text, calls) == whole[:2]
