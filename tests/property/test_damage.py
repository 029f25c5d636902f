"""Damaged answers: whatever bytes a provider sends, the exchange ends in an answer or in an error of the client's API,
never in an exception. The same bytes in two pieces give the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc import Translation
from extproc.apis.anthropic.client.grammar import check

Json = dict[str, Any]

LOOK: Json = {"type": "object", "properties": {"path": {"type": "string"}}}
ASKED: dict[str, Json] = {
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],
                  "tools": [{"name": "look", "input_schema": LOOK}]},
    "openai": {"model": "m", "messages": [{"role": "user", "content": "hi"}],
               "tools": [{"type": "function", "function": {"name": "look", "parameters": LOOK}}]}}
MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-4o", "gemini": "gemini-2.5-flash"}
URLS = {"anthropic": "https://api.anthropic.com/v1", "openai": "https://api.openai.com/v1",
        "gemini": "https://generativelanguage.googleapis.com/v1beta"}


def _sse(events: list[Json], *, named: bool = False, end: bytes = b"") -> bytes:
    return b"".join((b"event: %b\n" % event["type"].encode() if named else b"")
                    + b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n" for event in events) + end


def _chunk(delta: Json, finish: str | None = None) -> Json:
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


CALL = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"path": "ä"}'}}
TEXT, INPUT = "Größe: 5", {"path": "ä"}
BLOCKS = [{"type": "text", "text": TEXT}, {"type": "tool_use", "id": "toolu_1", "name": "look", "input": INPUT}]
PARTS = [{"text": TEXT}, {"functionCall": {"name": "look", "args": INPUT}}]
GOOGLES: Json = {"candidates": [{"content": {"role": "model", "parts": PARTS}, "finishReason": "STOP", "index": 0}],
                 "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}}
STREAMS = {
    "openai": _sse([_chunk({"role": "assistant", "content": "Grö"}), _chunk({"content": "ße: 5"}),
                    _chunk({"tool_calls": [{"index": 0, **CALL}]}), _chunk({}, "tool_calls"),
                    {"id": "c", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}],
                   end=b"data: [DONE]\n\n"),
    "anthropic": _sse([
        {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                                              "content": [], "stop_reason": None, "stop_sequence": None,
                                              "usage": {"input_tokens": 3, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {**BLOCKS[1], "input": {}}},
        {"type": "content_block_delta", "index": 1,
         "delta": {"type": "input_json_delta", "partial_json": '{"path": "ä"}'}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None},
         "usage": {"output_tokens": 2}},
        {"type": "message_stop"}], named=True),
    "gemini": _sse([GOOGLES])}
WHOLE = {
    "openai": {"id": "c", "object": "chat.completion", "created": 1, "model": "m",
               "choices": [{"index": 0, "finish_reason": "tool_calls",
                            "message": {"role": "assistant", "content": TEXT, "tool_calls": [CALL]}}],
               "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}},
    "anthropic": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": BLOCKS,
                  "stop_reason": "tool_use", "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 2}},
    "gemini": GOOGLES}

BYTES = st.sampled_from([b"\xff", b"\xc3", b"\xed\xa0\x80", b"\x00", b'"', b"\\", b"{", b"}", b"[", b"\n", b"\\ud800",
                         b",", b"1e999", b"\xef\xbb\xbf"]) | st.binary(max_size=2)
DAMAGE = st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 3), BYTES), min_size=1, max_size=3)
"""(place, how many bytes go, what comes in their place)."""


def damaged(data: bytes, damage: list[tuple[int, int, bytes]]) -> bytes:
    for place, gone, new in damage:
        at = place % len(data)
        data = data[:at] + new + data[at + gone:]
    return data


def answered(client: str, upstream: str, data: bytes, cut: int, *, stream: bool) -> tuple[Translation, bytes]:
    exchange = Translation(client, upstream, MODELS[upstream], url=URLS[upstream])
    exchange.request(json.dumps({**ASKED[client], "stream": stream}).encode())
    exchange.start(200, {"content-type": "text/event-stream" if stream else "application/json"})
    out = exchange.feed(data[:cut]) + exchange.feed(data[cut:]) + exchange.finish()
    return exchange, out


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("upstream", STREAMS)
@pytest.mark.parametrize("client", ASKED)
@given(damage=DAMAGE, cut=st.integers(0, 2000))
def test_rule_2_damage_ends_in_an_answer_or_an_error(client: str, upstream: str, stream: bool,
                                                     damage: list[tuple[int, int, bytes]], cut: int) -> None:
    data = damaged(STREAMS[upstream] if stream else json.dumps(WHOLE[upstream], ensure_ascii=False).encode(), damage)
    exchange, out = answered(client, upstream, data, cut % (len(data) + 1), stream=stream)
    assert exchange.done
    assert exchange.head is not None
    assert answered(client, upstream, data, len(data), stream=stream)[1] == out
    out.decode()
    if exchange.head.status != 200 or not stream:
        json.loads(out)
    elif client == "anthropic":
        events = [json.loads(line.removeprefix(b"data: ")) for line in out.split(b"\n") if line.startswith(b"data: ")]
        assert events[-1]["type"] in ("message_stop", "error")
        if upstream != "anthropic":  # else what is not known passes: it may be new
            check(events)
    else:
        assert out.endswith((b"data: [DONE]\n\n", b"}\n\n"))
