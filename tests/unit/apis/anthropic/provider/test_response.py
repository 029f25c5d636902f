"""Messages responses, streamed and whole: what is read, when a response is complete, when it is broken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.anthropic.provider.response import AnthropicResponseDecoder
from extproc.apis.base import DecodeContext
from extproc.conversation.model import ArgumentsDelta, Event, Finish, SignatureDelta, Start, Usage
from extproc.conversation.signatures import extract_from_text
from extproc.errors import Failure
from tests.playbook import call_ids, script
from tests.unit.apis.anthropic.provider.helpers import context, event, stream, text, thinking, tool_use

CALL = tool_use("toolu_1", "lookup_tide", "", '{"harbor": "B', 'rest"}')
CALL_SCRIPT = ["call lookup_tide", 'args: {"harbor": "Brest"}', "stop"]


def read(body: bytes, made: DecodeContext | None = None, size: int | None = None) -> list[Event]:
    decoder = AnthropicResponseDecoder(made or context())
    size = size or max(1, len(body))
    return [one for at in range(0, len(body), size) for one in decoder.feed(body[at:at + size])] + decoder.finish()


def whole(*content: dict[str, Any], stop: str | None = "end_turn", **fields: Any) -> bytes:
    return json.dumps({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude",
                       "content": list(content), "stop_reason": stop, "stop_sequence": None,
                       "usage": {"input_tokens": 9, "output_tokens": 20}, **fields}).encode()


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("named", [True, False])
def test_a_turn_with_everything(size: int, named: bool) -> None:
    body = stream(thinking("Hm."), "Let me look.", CALL, tool_use("toolu_2", "ping"), stop="tool_use", named=named)
    assert script(read(body, size=size)) == [
        "start", "think", "think: Hm.", "signature c2ln", "stop", "text", "text: Let me look.", "stop", *CALL_SCRIPT,
        "call ping", "stop", "finish tool_calls"]


def test_new_ids_of_the_provider_pass() -> None:
    events = read(stream(CALL, tool_use("toolu_1", "ping"), tool_use("bad id", "ping"), stop="tool_use"))
    first, second, third = call_ids(events)
    assert first == "toolu_1"
    assert second.startswith("toolu_")
    assert len({first, second, third}) == 3
    assert isinstance(events[0], Start)
    assert (events[0].id, events[0].model) == ("msg_1", "claude")


def test_arguments_stream_without_delay() -> None:
    decoder = AnthropicResponseDecoder(context())
    body = stream(CALL, stop="tool_use")
    at = body.index(b"rest")
    early = decoder.feed(body[:body.rindex(b"event:", 0, at)])
    assert any(isinstance(one, ArgumentsDelta) for one in early)


def test_the_whole_input_may_come_with_the_start_of_a_call() -> None:
    body = stream(tool_use("toolu_1", "lookup_tide", given={"harbor": "Brest"}), stop="tool_use")
    assert script(read(body))[1:] == ['call lookup_tide', 'args: {"harbor": "Brest"}', "stop", "finish tool_calls"]
    repeated = stream(tool_use("toolu_1", "lookup_tide", '{"harbor": "Brest"}', given={"harbor": "Brest"}),
                      stop="tool_use")
    assert script(read(repeated))[1:] == [*CALL_SCRIPT, "finish tool_calls"]


def test_reasoning_without_text_keeps_its_signature() -> None:
    assert script(read(stream(thinking(""), "ok"))) == [
        "start", "think", "think: ", "signature c2ln", "stop", "text", "text: ok", "stop", "finish stop"]


def test_each_reasoning_block_keeps_its_own_signature() -> None:
    events = read(stream(thinking("a", "c2lnMQ=="), thinking("b", "c2lnMg=="), "ok"))
    assert [one.signature for one in events if isinstance(one, SignatureDelta)] == ["c2lnMQ==", "c2lnMg=="]


def test_redacted_reasoning() -> None:
    assert "redacted ZGF0YQ==" in script(read(stream([{"type": "redacted_thinking", "data": "ZGF0YQ=="}], "ok")))


def test_a_signature_of_another_endpoint_is_marked_as_its_own() -> None:
    made = context(model="deepseek-v4", endpoint="api.deepseek.com")
    [signature] = [one.signature for one in read(stream(thinking("a", "s1"), "ok"), made)
                   if isinstance(one, SignatureDelta)]
    carried = extract_from_text(signature)
    assert carried is not None
    assert carried.value == "s1"


@pytest.mark.parametrize("block", [
    [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
     {"type": "input_json_delta", "partial_json": '{"query":"x"}'}],
    [{"type": "web_search_tool_result", "tool_use_id": "s", "content": []}],
    [{"type": "container_upload", "file_id": "f"}]])
def test_rule_4_blocks_of_the_providers_servers_are_named(block: list[dict[str, Any]]) -> None:
    made = context()
    assert script(read(stream(block, "ok"), made)) == ["start", "text", "text: ok", "stop", "finish stop"]
    assert made.dropped.losses == [f"response.{block[0]['type']}"]


def test_citations_are_named() -> None:
    made = context()
    read(stream([*text("so"), {"type": "citations_delta", "citation": {"type": "page_location"}}]), made)
    assert made.dropped.losses == ["response.citations"]


# ------------------------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize(("stop", "finish"), [
    ("end_turn", "stop"), ("max_tokens", "length"), ("pause_turn", "pause"), ("refusal", "refusal"),
    ("model_context_window_exceeded", "context_length"), ("tool_use", "stop"), ("what_comes_next", "stop")])
def test_stop_reasons(stop: str, finish: str) -> None:
    assert script(read(stream("ok", stop=stop)))[-1] == f"finish {finish}"


def test_the_stop_sequence_is_reported() -> None:
    assert script(read(stream("ok", stop="stop_sequence", stop_sequence="END")))[-1] == "finish stop_sequence END"


def test_the_usage_is_cumulative_and_the_prompt_whole() -> None:
    body = stream("ok", usage={"output_tokens": 30, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7,
                               "input_tokens": 0, "output_tokens_details": {"thinking_tokens": 12}})
    [finish] = [one for one in read(body) if isinstance(one, Finish)]
    assert finish.usage == Usage(input=116, output=30, cached=100, cache_write=7, reasoning=12)


def test_missing_usage_is_estimated() -> None:
    body = stream("four", usage={}).replace(b'"usage": {"input_tokens": 9, "output_tokens": 1}', b'"usage": null')
    [finish] = [one for one in read(body) if isinstance(one, Finish)]
    assert finish.usage == Usage(input=42, output=1, estimated=True)


@pytest.mark.parametrize("body", [
    stream("par", stop=None, end=False), stream(CALL, stop=None, end=False), stream(stop=None, end=False),
    stream(CALL, stop="tool_use")[:200], b"event: ping\ndata: {\"type\": \"ping\"}\n\n"])
def test_rule_2_a_stream_without_an_end_is_broken(body: bytes) -> None:
    assert isinstance(read(body)[-1], Failure)


def test_a_stop_reason_is_an_end_even_without_message_stop() -> None:
    assert script(read(stream(CALL, stop="tool_use", end=False)))[-1] == "finish tool_calls"
    assert script(read(stream("ok", end=False) + b"data: [DONE]\n\n"))[-1] == "finish stop"


def test_a_call_that_broke_off_is_never_whole() -> None:
    """max_tokens in the middle of the JSON, and an end that claims to be clean."""
    half = tool_use("toolu_1", "lookup_tide", '{"harbor": "Br')
    assert script(read(stream(half, stop="max_tokens")))[1:] == [
        "call lookup_tide", 'args: {"harbor": "Br', "stop", "finish length"]
    assert script(read(stream(half, stop="tool_use")))[-1] == "finish length"
    open_call = stream(CALL, stop="tool_use").replace(b'event: content_block_stop\n', b"").replace(
        b'data: {"type": "content_block_stop", "index": 0}\n\n', b"")
    assert script(read(open_call))[-1] == "finish length"


@pytest.mark.parametrize(("kind", "failure", "status"), [
    ("overloaded_error", "overloaded", 529), ("rate_limit_error", "rate_limit", 429), ("api_error", "server", 502),
    ("timeout_error", "timeout", 504), ("authentication_error", "authentication", 401),
    ("invalid_request_error", "invalid_request", 400)])
def test_an_error_event_ends_the_stream(kind: str, failure: str, status: int) -> None:
    broken = stream("Par", stop=None, end=False) + event(
        {"type": "error", "error": {"type": kind, "message": "Broken."}, "request_id": "req_1"}) + stream("more")
    last = read(broken)[-1]
    assert isinstance(last, Failure)
    assert (last.kind, last.status, last.message) == (failure, status, "Broken.")


@pytest.mark.parametrize("extra", [
    b"event: ping\ndata: {\"type\": \"ping\"}\n\n", b": keep-alive\n\n", b"data: \n\n",
    b"event: new_thing\ndata: {\"type\": \"new_thing\", \"delta\": 5}\n\n",
    b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta", "x": 1}}\n\n'])
def test_unknown_events_are_ignored(extra: bytes) -> None:
    body = stream("Hello you")
    at = body.index(b"event: content_block_delta", body.index(b"content_block_delta") + 30)
    assert read(body[:at] + extra + body[at:]) == read(body)


def test_odd_shapes_are_read_field_by_field() -> None:
    body = stream("ok").replace(b'"text": ""', b'"text": "", "citations": null, "id": 5').replace(
        b'"index": 0, "delta"', b'"index": null, "delta"')
    assert script(read(body))[1:] == ["text", "text: ok", "stop", "finish stop"]


def test_p20_invalid_utf8_becomes_replacement_characters() -> None:
    body = stream("AA", tool_use("toolu_1", "ping", given={"a": "BB"}), stop="tool_use", usage={"note": "CC"})
    for plain, odd in ((b"AA", b"A\xff"), (b"BB", b"B\xe2\x82"), (b"CC", b"C\xff"), (b'"claude"', b'"\xc3"')):
        body = body.replace(plain, odd)
    assert script(read(body, size=3)) == [
        "start", "text", "text: A\ufffd", "stop", "call ping", 'args: {"a": "B\ufffd"}', "stop", "finish tool_calls"]


def test_p20_arguments_with_half_a_surrogate_pair_are_no_whole_call() -> None:
    body = stream(tool_use("toolu_1", "ping", given="XX"), stop="tool_use").replace(b"XX", b"\\ud800")
    assert script(read(body))[-1] == "finish length"


@pytest.mark.parametrize("stop", ["end_turn", "tool_use", "stop_sequence", "pause_turn"])
def test_rule_2_a_call_that_broke_off_ends_in_length_whatever_the_reason_says(stop: str) -> None:
    """A stop sequence may occur in the middle of arguments."""
    assert script(read(stream(tool_use("toolu_1", "ping", '{"a": "EN'), stop=stop)))[-1] == "finish length"


def test_a_damaged_event_is_a_failure() -> None:
    assert script(read(stream("ok", stop=None, end=False) + b'data: {"type": "mess\n\n'))[-1] == "failure server"


# --------------------------------------------------------------------------------------------------------------- whole


def test_a_whole_message() -> None:
    body = whole({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}, {"type": "text", "text": "Look."},
                 {"type": "tool_use", "id": "toolu_1", "name": "lookup_tide", "input": {"harbor": "Brest"}},
                 {"type": "tool_use", "id": "toolu_2", "name": "ping", "input": {}}, stop="tool_use")
    for size in (1, 5000):
        assert script(read(body, size=size)) == [
            "start", "think", "think: Hm.", "signature c2ln", "stop", "text", "text: Look.", "stop", *CALL_SCRIPT,
            "call ping", "stop", "finish tool_calls"]


def test_a_truncated_whole_message() -> None:
    assert script(read(whole({"type": "text", "text": "Look."})[:-20]))[-1] == "failure server"


@pytest.mark.parametrize(("body", "kind"), [
    (b'{"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}', "overloaded"),
    (b"<html><title>Bad gateway</title></html>", "server"), (b'{"id": "x"}', "server"), (b"", "server"),
    (b"[]", "server")])
def test_a_body_that_is_no_message(body: bytes, kind: str) -> None:
    assert script(read(body)) == [f"failure {kind}"]
