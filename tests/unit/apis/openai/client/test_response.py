"""Responses for chat clients: chunks and whole completions, read by the official SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.openai.client import API
from extproc.apis.openai.client.request import ChatRequest
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Event,
    Finish,
    FinishReason,
    RedactedThinking,
    Signature,
    Start,
    TextDelta,
    TextStart,
    Thinking,
    Tool,
    ToolCall,
    ToolCallStart,
    Usage,
)
from extproc.errors import Failure
from tests.unit.apis.openai.client.helpers import (
    USER,
    accumulated,
    call,
    chunks,
    decode,
    finished,
    request_with,
    stream,
    text,
    thinking,
    whole,
    with_calls,
)

LEGACY = ChatRequest(model="m", messages=[], legacy_functions=True)


def deltas(events: list[Event], request: Any = None) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chunks(stream(events, request)) for choice in chunk["choices"]]


# -------------------------------------------------------------------------------------------------------------- stream


def test_a_text_on_the_wire() -> None:
    def chunk(delta: bytes, reason: bytes = b"null") -> bytes:
        return (b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":0,"model":"m",'
                b'"system_fingerprint":null,"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]}\n\n'
                % (delta, reason))

    assert stream(finished(text("a", "", "\n\u00e9")), request_with(stream=True, want_usage=False)) == (
        chunk(b'{"role":"assistant","content":""}') + chunk(b'{"content":"a"}')
        + chunk(b'{"content":"\\n\xc3\xa9"}') + chunk(b"{}", b'"stop"') + b"data: [DONE]\n\n")


def test_parallel_calls_on_the_wire_each_id_and_name_once() -> None:
    assert deltas(finished(call("a", "f", '{"x"', ":1}"), call("b", "g"), reason="tool_calls")) == [
        {"role": "assistant", "content": ""},
        {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"x"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
        {"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "g", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {}]


@pytest.mark.parametrize("read", [lambda events: accumulated(stream(events)), whole], ids=["stream", "whole"])
def test_the_sdk_assembles_a_response(read: Any) -> None:
    message = read(finished(thinking("hm", "S"), [RedactedThinking("D"), BlockStop()], text("a", "b"),
                          call("a", "f", '{"x":', "1}"), call("b", "g"), reason="tool_calls"))
    assert message["content"] == "ab"
    assert message["reasoning_content"] == "hm"
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "text": "hm", "signature": "S", "id": "thought-0-0-0",
         "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.encrypted", "data": "D", "id": "thought-1-0-0", "format": "anthropic-claude-v1",
         "index": 1}]
    assert [(entry["function"]["name"], entry["function"]["arguments"]) for entry in message["tool_calls"]] == [
        ("f", '{"x":1}'), ("g", "{}")]
    assert message["finish_reason"] == "tool_calls"


def test_p15_the_usage_chunk_comes_last_and_only_when_asked() -> None:
    usage = Usage(1050, 20, cached=800, cache_write=50, reasoning=5)
    *others, last = chunks(stream(finished(text("a"), usage=usage), request_with(stream=True, want_usage=True)))
    assert last["choices"] == []
    assert last["usage"] == {
        "prompt_tokens": 1050, "completion_tokens": 20, "total_tokens": 1070,
        "prompt_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 50},
        "completion_tokens_details": {"reasoning_tokens": 5}}
    assert all(chunk["usage"] is None for chunk in others)
    silent = chunks(stream(finished(text("a")), request_with(stream=True, want_usage=False)))
    assert not any("usage" in chunk for chunk in silent)


def test_p15_missing_usage_is_estimated() -> None:
    assert whole(finished(text("a"), usage=Usage(0, 3)))["usage"]["prompt_tokens"] == 7


@pytest.mark.parametrize(("reason", "plain", "called"), [
    ("stop", "stop", "tool_calls"), ("stop_sequence", "stop", "tool_calls"), ("tool_calls", "stop", "tool_calls"),
    ("length", "length", "length"), ("context_length", "length", "length"), ("pause", "stop", "tool_calls"),
    ("content_filter", "content_filter", "content_filter"), ("refusal", "content_filter", "content_filter")])
def test_p6_finish_reasons_agree_with_the_calls(reason: FinishReason, plain: str, called: str) -> None:
    parts = call("a", "f", "{}")
    for read in (whole, lambda events: accumulated(stream(events))):
        assert read(finished(text("x"), reason=reason))["finish_reason"] == plain  # type: ignore[no-untyped-call]
        assert read(finished(parts, reason=reason))["finish_reason"] == called  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("reason", ["stop", "stop_sequence", "tool_calls", "pause"])
def test_p24_a_call_without_arguments_has_an_empty_object(reason: FinishReason) -> None:
    for read in (whole, lambda events: accumulated(stream(events))):
        message = read(finished(call("a", "f"), call("b", "g"), reason=reason))  # type: ignore[no-untyped-call]
        assert [listed["function"]["arguments"] for listed in message["tool_calls"]] == ["{}", "{}"]


def test_a_response_of_calls_only_has_no_content() -> None:
    assert whole(finished(call("a", "f", "{}")))["content"] is None
    assert whole(finished())["content"] == ""


def test_p1_a_failure_in_a_stream_is_an_error_and_never_an_end() -> None:
    wire = stream([Start(), TextStart(), TextDelta("half"), Failure("overloaded", "too busy", 529), TextDelta("more"),
                   Finish("stop", Usage())])
    *before, last, rest = wire.split(b"\n\n")
    assert rest == b""
    assert json.loads(last.removeprefix(b"data: ")) == {
        "error": {"message": "too busy", "type": "server_error", "param": None, "code": "overloaded"}}
    assert not any(b'"finish_reason":"' in event or b"[DONE]" in event for event in before)
    assert b"more" not in wire


def test_p1_a_failure_writes_no_whole_response() -> None:
    encoder = API.make_response_encoder(request_with(), "msg_1", lambda: 0)
    assert encoder.encode_events([Start(), Failure("server", "x")]) == b""


def test_p12_a_ping_is_a_comment_and_changes_nothing() -> None:
    events = finished(text("a"))
    encoder = API.make_response_encoder(request_with(stream=True), "msg_1", lambda: 0)
    assert encoder.ping() == b": keepalive\n\n"
    wire = b"".join(encoder.encode_events([event]) + encoder.ping() for event in events)
    assert wire.replace(b": keepalive\n\n", b"") == stream(events)
    assert encoder.ping() == b""
    assert API.make_response_encoder(request_with(), "msg_1", lambda: 0).ping() == b""


def test_a_limit_leaves_no_call_that_looks_whole() -> None:
    cut = finished(text("a"), call("a", "f", '{"x":'), reason="length")
    assert "tool_calls" not in whole(cut)
    assert accumulated(stream(cut))["tool_calls"][0]["function"]["arguments"] == '{"x":'
    bare = finished(call("a", "f"), reason="length")
    assert "tool_calls" not in whole(bare)
    assert accumulated(stream(bare))["tool_calls"][0]["function"]["arguments"] == ""


def test_excluded_reasoning_is_not_sent_and_its_signature_still_comes_back() -> None:
    request = ChatRequest(model="m", messages=[], stream=True, show_reasoning=False)
    events = finished(thinking("hm", "S"), call("a", "f", "{}"))
    message = accumulated(stream(events, request))
    assert "reasoning_content" not in message
    assert "reasoning_details" not in message
    request.stream = False
    assert [entry["id"] for entry in whole(events, request)["tool_calls"]] == [message["tool_calls"][0]["id"]]
    again = decode(USER, {key: message[key] for key in ("role", "content", "tool_calls")})
    assert again.messages[1].content[0] == Thinking("", signature="S")


@pytest.mark.parametrize("stray", [TextDelta("x"), ArgumentsDelta("x")])
def test_a_delta_without_its_block_is_a_defect(stray: Event) -> None:
    with pytest.raises(ValueError, match="is not allowed here"):
        stream([Start(), stray])


# ------------------------------------------------------------------------------------------------------ tools of a kind


def test_custom_tools_have_their_own_form_where_it_exists() -> None:
    request = request_with(tools=[Tool("c", None, {}, custom=True)])
    events = finished(call("a", "c", '{"input": "say \\"x\\""}'), reason="tool_calls")
    assert whole(events, request)["tool_calls"] == [
        {"id": "a", "type": "custom", "custom": {"name": "c", "input": 'say "x"'}}]
    request.stream = True
    message = accumulated(stream(events, request))
    assert message["tool_calls"][0]["function"] == {"name": "c", "arguments": '{"input": "say \\"x\\""}'}
    echoed = [decode(USER, {"role": "assistant", "tool_calls": sent["tool_calls"]}).messages[1].content[0]
              for sent in (message, whole(events, request_with(tools=request.tools)))]
    assert [json.loads(block.arguments) for block in echoed] == [{"input": 'say "x"'}] * 2  # type: ignore[union-attr]


def test_legacy_clients_get_one_function_call() -> None:
    events = finished(text("t"), call("a", "f", '{"x"', ":1}"), call("b", "g", "{}"), reason="tool_calls")
    assert deltas(events, ChatRequest(model="m", messages=[], stream=True, legacy_functions=True))[2:] == [
        {"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": '{"x"'}},
        {"function_call": {"arguments": ":1}"}}, {}]
    message = whole(events, LEGACY)
    assert message["function_call"] == {"name": "f", "arguments": '{"x":1}'}
    assert message["finish_reason"] == "function_call"
    assert "tool_calls" not in message


# -------------------------------------------------------------------------------------------- signatures come back (P8)


def echo(message: dict[str, Any], *fields: str) -> list[Any]:
    """The blocks of the next turn's history if a client keeps only these fields of a response."""
    kept = {key: message[key] for key in ("role", "content", "tool_calls", *fields) if key in message}
    results = [{"role": "tool", "tool_call_id": entry["id"], "content": "ok"} for entry in message["tool_calls"]]
    return list(decode(USER, kept, *results).messages[1].content)


READERS: list[Any] = [pytest.param(lambda events: accumulated(stream(events)), id="stream"),
                      pytest.param(whole, id="whole")]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(("fields", "thought"), [
    (("reasoning_content", "reasoning_details"), Thinking("hm", "S=")), (("reasoning_content",), Thinking("hm", "S=")),
    (("reasoning_details",), Thinking("hm", "S=")), ((), Thinking("", "S="))])
def test_p8_a_thinking_signature_survives_whatever_the_client_drops(read: Any, fields: tuple[str, ...],
                                                                   thought: Thinking) -> None:
    message = read(finished(thinking("hm", "S="), text("t"), call("a", "f", "{}"), call("b", "g", "{}")))
    first, words, *calls = echo(message, *fields)
    assert (first, words.text) == (thought, "t")
    assert [(entry.id, entry.signature) for entry in calls] == [("a", None), ("b", None)]


@pytest.mark.parametrize("read", READERS)
def test_p8_several_signed_and_encrypted_blocks_survive(read: Any) -> None:
    message = read(finished(thinking("1", "S1"), [RedactedThinking("D"), BlockStop()], call("a", "f", "{}"),
                          thinking("2", "S2"), call("b", "g", "{}")))
    first, secret, one, second, two = echo(message)
    assert [first, secret, second] == [Thinking("", "S1"), Thinking("", redacted="D"), Thinking("", "S2")]
    assert (one.id, two.id) == ("a", "b")
    whole_again = echo(message, "reasoning_details")
    assert [type(block) for block in whole_again] == [Thinking, Thinking, ToolCall, Thinking, ToolCall]
    assert [block for block in whole_again if isinstance(block, Thinking)] == [
        Thinking("1", "S1"), Thinking("", redacted="D"), Thinking("2", "S2")]


@pytest.mark.parametrize("read", READERS)
def test_p8_the_calls_own_signature_has_precedence_over_that_of_the_thinking(read: Any) -> None:
    own = Signature("own", "abcd")
    message = read(finished(thinking("hm", "S"), [ToolCallStart("a", "f", own), ArgumentsDelta("{}"), BlockStop()]))
    (block,) = echo(message)
    assert (block.id, block.signature) == ("a", own)
    assert echo(message, "reasoning_details")[0] == Thinking("hm", "S")


def test_p8_a_signature_of_another_provider_keeps_its_mark() -> None:
    message = whole(finished(thinking("hm", "xs1.abcd.sig"), call("a", "f", "{}")))
    assert message["reasoning_details"][0]["format"] == "unknown"
    assert echo(message, "reasoning_details")[0] == Thinking("hm", "xs1.abcd.sig")


def test_p8_a_truncated_id_still_pairs() -> None:
    message = whole(finished(thinking("hm", "S" * 200), call("a", "f", "{}")))
    cut = message["tool_calls"][0]["id"][:40]
    (block,) = decode(USER, with_calls((cut, "f")), {"role": "tool", "tool_call_id": cut, "content": "x"}
                      ).messages[1].content
    assert (block.id, block.signature) == ("a", None)  # type: ignore[union-attr]
