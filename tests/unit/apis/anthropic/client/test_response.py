"""Responses for Messages clients: conversation events in, wire bytes out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import pytest

from extproc.apis.anthropic.client import API, grammar
from extproc.apis.base import ResponseEncoder
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Event,
    Finish,
    FinishReason,
    Message,
    RedactedThinking,
    Request,
    SignatureDelta,
    Start,
    Text,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from extproc.errors import Failure

USAGE = Usage(input=1000, output=7, cached=800)


def encoder(stream: bool, estimate: Callable[[], int] = lambda: 42) -> ResponseEncoder:
    request = Request(model="claude-x", messages=[Message("user", [Text("hi")])], stream=stream)
    return API.make_response_encoder(request, "msg_1", estimate)


def streamed(*events: Event) -> list[dict[str, Any]]:
    """The data objects of a stream, each checked against its `event:` line."""
    return parse(encoder(True).encode_events(events))


def parse(wire: bytes) -> list[dict[str, Any]]:
    assert wire.endswith(b"\n\n")
    decoded = []
    for part in wire[:-2].split(b"\n\n"):
        name, data = part.split(b"\n")
        assert data.startswith(b'data: {"type":"' + name.removeprefix(b"event: ") + b'"')
        decoded.append(json.loads(data.removeprefix(b"data: ")))
    return decoded


def whole(*events: Event) -> dict[str, Any]:
    return json.loads(encoder(False).encode_events(events))


def call(arguments: str, call_id: str = "toolu_1") -> list[Event]:
    return [ToolCallStart(call_id, "f"), ArgumentsDelta(arguments), BlockStop()]


def text(value: str) -> list[Event]:
    return [TextStart(), TextDelta(value), BlockStop()]


# ----------------------------------------------------------------------------------------------------------- streamed


def test_a_text_response_byte_for_byte() -> None:
    wire = encoder(True).encode_events([Start("gen-1", "qwen"), *text('a"ü'), Finish("stop", USAGE)])
    assert wire.decode() == (
        'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
        '"role":"assistant","model":"claude-x","content":[],"stop_reason":null,"stop_sequence":null,'
        '"usage":{"input_tokens":42,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}\n\n'
        'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
        '"content_block":{"type":"text","text":""}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        '"delta":{"type":"text_delta","text":"a\\"ü"}}\n\n'
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
        '"usage":{"input_tokens":200,"cache_creation_input_tokens":0,"cache_read_input_tokens":800,'
        '"output_tokens":7}}\n\n'
        'event: message_stop\ndata: {"type":"message_stop"}\n\n')


def test_p2_blocks_have_dense_indexes_and_only_their_own_deltas() -> None:
    events = streamed(Start(), ThinkingStart(), ThinkingDelta("hm"), SignatureDelta("sig="), BlockStop(), *text("a"),
                      ThinkingStart(), ThinkingDelta("more"), BlockStop(), RedactedThinking("enc"), BlockStop(),
                      *call('{"a":1}'), Finish("tool_calls", USAGE))
    grammar.check(events)
    assert [e["content_block"] for e in events if e["type"] == "content_block_start"] == [
        {"type": "thinking", "thinking": "", "signature": ""}, {"type": "text", "text": ""},
        {"type": "thinking", "thinking": "", "signature": ""}, {"type": "redacted_thinking", "data": "enc"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]
    assert [(e["index"], e["delta"]) for e in events if e["type"] == "content_block_delta"] == [
        (0, {"type": "thinking_delta", "thinking": "hm"}), (0, {"type": "signature_delta", "signature": "sig="}),
        (1, {"type": "text_delta", "text": "a"}), (2, {"type": "thinking_delta", "thinking": "more"}),
        (4, {"type": "input_json_delta", "partial_json": '{"a":1}'})]


def test_empty_deltas_are_not_sent() -> None:
    events = streamed(Start(), TextStart(), TextDelta(""), BlockStop(), Finish("stop", USAGE))
    assert [e["type"] for e in events] == ["message_start", "content_block_start", "content_block_stop",
                                           "message_delta", "message_stop"]


def test_p12_a_ping_is_a_whole_event_and_never_comes_before_the_message() -> None:
    stream = encoder(True)
    early = stream.ping()
    rest = stream.encode_events([Start(), TextStart()]) + stream.ping()
    rest += stream.encode_events([TextDelta("a"), BlockStop(), Finish("stop", USAGE)])
    events = parse(early + rest)
    grammar.check(events)
    assert [e["type"] for e in events].count("message_start") == 1
    assert [e["type"] for e in events][:4] == ["message_start", "ping", "content_block_start", "ping"]
    assert stream.ping() == b""


def test_a_broken_stream_ends_in_an_error_and_never_looks_finished() -> None:
    stream = encoder(True)
    broken = Failure("overloaded", "provider went away", 529)
    wire = stream.encode_events([Start(), TextStart(), TextDelta("half"), broken])
    events = parse(wire)
    grammar.check(events)
    assert events[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "provider went away"}}
    assert stream.encode_events([BlockStop(), Finish("stop", USAGE)]) == b""


def test_a_failure_before_the_first_event_is_an_error_event_alone() -> None:
    assert [e["type"] for e in streamed(Failure("server", "x"))] == ["error"]


@pytest.mark.parametrize("events", [
    [Start(), TextDelta("a")],
    [Start(), TextStart(), ThinkingDelta("a")],
    [Start(), TextStart(), TextStart()],
    [Start(), ThinkingStart(), SignatureDelta("s"), ThinkingDelta("late")],
    [Start(), TextStart(), Finish("stop", USAGE)],
    [Start(), BlockStop()],
    [TextStart()],
])
def test_events_out_of_order_are_refused(events: list[Event]) -> None:
    with pytest.raises(grammar.GrammarError):
        encoder(True).encode_events(events)


def test_the_prompt_is_estimated_at_most_once() -> None:
    asked = []
    for stream in (True, False):
        coder = encoder(stream, lambda: asked.append(1) or 9)
        out = coder.encode_events([Start(), Finish("stop", Usage(input=0, output=3))])
        assert b'"input_tokens":9,' in out
    assert len(asked) == 2


# ------------------------------------------------------------------------------------------------ finish and usage


@pytest.mark.parametrize(("reason", "expected"), [
    ("stop", "end_turn"), ("stop_sequence", "stop_sequence"), ("length", "max_tokens"), ("tool_calls", "tool_use"),
    ("content_filter", "refusal"), ("refusal", "refusal"), ("pause", "pause_turn"),
    ("context_length", "model_context_window_exceeded")])
def test_finish_reasons(reason: FinishReason, expected: str) -> None:
    events: list[Event] = [Start(), *(call("{}") if reason == "tool_calls" else text("a")),
                           Finish(reason, USAGE, stop_sequence="END")]
    delta = {"stop_reason": expected, "stop_sequence": "END" if reason == "stop_sequence" else None}
    assert streamed(*events)[-2]["delta"] == delta
    message = whole(*events)
    assert {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]} == delta


def test_tool_use_is_the_stop_reason_only_with_a_call() -> None:
    assert whole(Start(), *call("{}"), Finish("stop", USAGE))["stop_reason"] == "tool_use"
    assert whole(Start(), *text("a"), Finish("tool_calls", USAGE))["stop_reason"] == "end_turn"
    assert streamed(Start(), *call("{}"), Finish("stop", USAGE))[-2]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.parametrize(("usage", "fields"), [
    (Usage(1000, 5, cached=800), (200, 0, 800, 5)),
    (Usage(1000, 5, cached=800, cache_write=150), (50, 150, 800, 5)),
    (Usage(100, 5, cached=800), (0, 0, 800, 5)),
    (Usage(10, -1, cached=-5), (15, 0, 0, 0)),
])
def test_p15_p16_cached_tokens_are_counted_once_and_never_below_zero(usage: Usage,
                                                                     fields: tuple[int, ...]) -> None:
    expected = dict(zip(("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"),
                        fields, strict=True))
    assert streamed(Start(), Finish("stop", usage))[-2]["usage"] == expected
    assert whole(Start(), Finish("stop", usage))["usage"] == expected


def test_reasoning_is_a_detail_of_the_output() -> None:
    usage = whole(Start(), Finish("stop", Usage(10, 30, reasoning=20)))["usage"]
    assert usage["output_tokens"] == 30
    assert usage["output_tokens_details"] == {"thinking_tokens": 20}


# -------------------------------------------------------------------------------------------------------------- whole


def test_a_whole_message() -> None:
    coder = encoder(False)
    assert coder.content_type == "application/json"
    begun = [Start("gen-1", "qwen"), ThinkingStart(), ThinkingDelta("h"), ThinkingDelta("m"), BlockStop()]
    assert coder.encode_events(begun) == b""
    assert coder.ping() == b""
    message = json.loads(coder.encode_events([*text("a"), *call('{"z":1,"a":2}'), Finish("tool_calls", USAGE)]))
    assert message == {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
        "content": [{"type": "thinking", "thinking": "hm", "signature": ""}, {"type": "text", "text": "a"},
                    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"z": 1, "a": 2}}],
        "stop_reason": "tool_use", "stop_sequence": None,
        "usage": {"input_tokens": 200, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 800,
                  "output_tokens": 7}}


def test_a_response_without_content_is_legal() -> None:
    assert whole(Start(), Finish("stop", USAGE))["content"] == []
    grammar.check(streamed(Start(), Finish("stop", USAGE)))


@pytest.mark.parametrize(("arguments", "reason", "given"), [
    ("", "tool_calls", {}),
    ('{"a":1}', "tool_calls", {"a": 1}),
    ('{"a":', "tool_calls", {"INVALID_JSON": '{"a":'}),
    ("[1]", "tool_calls", {"INVALID_JSON": "[1]"}),
    ("[" * 5000, "tool_calls", {"INVALID_JSON": "[" * 5000}),
    ('{"a":1}', "length", {"a": 1}),
    ('{"a":', "length", None),
    ("", "length", None),
])
def test_a_truncated_call_is_never_presented_as_complete(arguments: str, reason: FinishReason,
                                                         given: dict[str, object] | None) -> None:
    message = whole(Start(), *text("a"), *call(arguments), Finish(reason, USAGE))
    inputs = [block["input"] for block in message["content"] if block["type"] == "tool_use"]
    assert inputs == ([] if given is None else [given])


def test_a_failed_whole_response_writes_nothing() -> None:
    assert encoder(False).encode_events([Start(), *text("a"), Failure("server", "x"), Finish("stop", USAGE)]) == b""


# -------------------------------------------------------------------------------------------------- the official SDK

CONVERSATION: list[Event] = [
    Start(), ThinkingStart(), ThinkingDelta("let "), ThinkingDelta("me"), SignatureDelta("sig"), BlockStop(),
    TextStart(), TextDelta("I "), TextDelta("look."), BlockStop(), ToolCallStart("toolu_1", "read"),
    ArgumentsDelta('{"path":'), ArgumentsDelta('"a"}'), BlockStop(), ToolCallStart("toolu_2", "list"), BlockStop(),
    Finish("tool_calls", Usage(100, 20, cached=60))]


def sdk(stream: bool) -> anthropic.Anthropic:
    """The official client, served by an encoder instead of a network."""
    coder = encoder(stream)
    head = coder.ping()
    wire = head + coder.encode_events(CONVERSATION)
    response = httpx2.Response(200, headers={"content-type": coder.content_type}, content=wire)
    return anthropic.Anthropic(api_key="k", base_url="http://test", max_retries=0, http_client=httpx2.Client(
        transport=httpx2.MockTransport(lambda _: response)))


def expect_conversation(message: anthropic.types.Message) -> None:
    thinking, said, read, listed = message.content
    assert (thinking.thinking, thinking.signature) == ("let me", "sig")
    assert said.text == "I look."
    assert (read.id, read.input) == ("toolu_1", {"path": "a"})
    assert (listed.id, listed.input) == ("toolu_2", {})
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (40, 60, 20)


def test_the_official_client_reads_the_stream() -> None:
    with sdk(True).messages.stream(model="claude-x", max_tokens=9, messages=[{"role": "user", "content": "x"}]) as got:
        expect_conversation(got.get_final_message())


def test_the_official_client_reads_the_whole_message() -> None:
    expect_conversation(sdk(False).messages.create(model="claude-x", max_tokens=9,
                                                   messages=[{"role": "user", "content": "x"}]))
