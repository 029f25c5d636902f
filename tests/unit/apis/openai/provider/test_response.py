"""Chat Completions streams: chunks in, events out. Each deviation of real servers is one short conversation."""

from __future__ import annotations

import json

import pytest

from extproc.apis.openai.provider.response import OpenAIResponseDecoder
from extproc.bounds import Limits
from extproc.conversation.model import Event, Finish
from extproc.errors import Failure
from tests.playbook import call, call_ids, context, delta, script, sse


def decode(body: bytes, **more: object) -> list[Event]:
    decoder = OpenAIResponseDecoder(context(**more))  # type: ignore[arg-type]
    return decoder.feed(body) + decoder.finish()


def tool_deltas(*calls: dict[str, object]) -> list[dict[str, object]]:
    return [delta(tool_calls=[c]) for c in calls]


TIDE = ["call lookup_tide", 'args: {"harbor":"Brest"}', "stop"]
PING = ["call ping", "args: {}", "stop"]


def test_text() -> None:
    assert script(decode(sse(delta(role="assistant", content=""), delta(content="Hel"), delta(content="lo"),
                             delta("stop")))) == ["start", "text", "text: Hello", "stop", "finish stop"]


def test_a_call_as_openai_streams_it() -> None:
    events = decode(sse(*tool_deltas(call(id="call_a", name="lookup_tide", arguments=""), call(arguments='{"har'),
                                     call(arguments='bor":"Brest"}')), delta("tool_calls")))
    assert script(events) == ["start", *TIDE, "finish tool_calls"]
    assert call_ids(events) == ["call_a"]


@pytest.mark.parametrize("chunks", [
    pytest.param(tool_deltas(call(None, "a", "lookup_tide", '{"harbor":"Brest"}'), call(None, "b", "ping", "{}")),
                 id="no index, new id"),
    pytest.param(tool_deltas(call(None, None, "lookup_tide", '{"harbor":"Brest"}'), call(None, None, "ping", "{}")),
                 id="neither index nor id"),
    pytest.param(tool_deltas(call(0, "a", "lookup_tide", '{"harbor":"Brest"}'), call(0, "b", "ping", "{}")),
                 id="index 0 for all, ids differ"),
    pytest.param(tool_deltas(call(0, None, "lookup_tide", '{"harbor":"Brest"}'), call(0, None, "ping", "{}")),
                 id="index 0 for all, no ids"),
    pytest.param(tool_deltas(call(4, "a", "lookup_tide", '{"harbor":"Brest"}'), call(9, "b", "ping", "{}")),
                 id="sparse indexes"),
    pytest.param([delta(tool_calls=[call(0, "a", "lookup_tide", '{"harbor":"Brest"}'), call(1, "b", "ping", "{}")])],
                 id="all in one chunk"),
    pytest.param(tool_deltas(call(0, "a", "lookup_tide", ""), call(1, "b", "ping", ""), call(0, arguments='{"harbor":'),
                             call(1, arguments="{"), call(0, arguments='"Brest"}'), call(1, arguments="}")),
                 id="P5 interleaved"),
    pytest.param(tool_deltas(*[call(0, "a", "lookup_tide", p) for p in ('{"harb', 'or":', '"Brest"}')],
                             call(1, "b", "ping", "{}")), id="id and name in every chunk"),
    pytest.param(tool_deltas(call(0, "a", "lookup_tide", ""), call(0, "", "", '{"harbor":"Brest"}'),
                             call(1, "b", "ping", "{}")), id="empty id and name later"),
    pytest.param(tool_deltas(call(0, "a", "look"), call(0, name="up_tide"), call(0, arguments='{"harbor":"Brest"}'),
                             call(1, "b", "ping", "{}")), id="name in two pieces"),
    pytest.param(tool_deltas(call(0, "null", "lookup_tide", '{"harbor":"Brest"}'), call(1, "null", "ping", "{}")),
                 id="the id 'null'"),
    pytest.param(tool_deltas(call(0, None, "lookup_tide", '{"har'), call(0, "late", None, 'bor":"Brest"}'),
                             call(1, "b", "ping", "{}")), id="id after the name"),
    pytest.param(tool_deltas(call(0, "a", "lookup_tide", {"harbor": "Brest"}), call(1, "b", "ping", {})),
                 id="arguments as an object"),
    pytest.param([*tool_deltas(call(0, "a", "lookup_tide", '{"harbor":"Brest"}')), delta(content="\n"),
                  *tool_deltas(call(1, "b", "ping", "{}"))], id="P3 newline between calls"),
])
def test_parallel_calls_however_they_are_sent(chunks: list[dict[str, object]]) -> None:
    events = decode(sse(*chunks, delta("tool_calls")))
    assert script(events) == ["start", *TIDE, *PING, "finish tool_calls"]
    assert len(set(call_ids(events))) == 2
    assert "null" not in call_ids(events)


@pytest.mark.parametrize("arguments", [None, "", "{}"])
def test_no_arguments(arguments: str | None) -> None:
    lines = script(decode(sse(*tool_deltas(call(0, "a", "ping", arguments)), delta("tool_calls"))))
    assert [line for line in lines if line != "args: {}"] == ["start", "call ping", "stop", "finish tool_calls"]


def test_p4_text_and_call_in_one_chunk_loses_nothing() -> None:
    calls = [call(0, "a", "lookup_tide", '{"harbor":'), call(1, "b", "ping", "{}")]
    chunk = delta(content="Looking.", tool_calls=calls)
    assert script(decode(sse(chunk, *tool_deltas(call(0, arguments='"Brest"}')), delta("tool_calls")))) == [
        "start", "text", "text: Looking.", "stop", *TIDE, *PING, "finish tool_calls"]


def test_p2_reasoning_and_text_never_share_a_block() -> None:
    assert script(decode(sse(delta(reasoning_content="Hm"), delta(content="A"), delta(reasoning_content="Again"),
                             delta(content="B"), delta("stop")))) == [
        "start", "think", "think: Hm", "stop", "text", "text: A", "stop", "think", "think: Again", "stop", "text",
        "text: B", "stop", "finish stop"]


@pytest.mark.parametrize("fields", [
    {"reasoning_content": "Why"}, {"reasoning": "Why"}, {"reasoning": "Why", "reasoning_content": "Why"},
    {"reasoning_details": [{"type": "reasoning.text", "text": "Why", "index": 0}]},
    {"reasoning": "Why", "reasoning_details": [{"type": "reasoning.text", "text": "Why"}]},
    {"reasoning_details": [{"type": "reasoning.summary", "summary": "Why"}]},
    {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Why"}]}]},
])
def test_reasoning_in_every_field_counts_once(fields: dict[str, object]) -> None:
    assert script(decode(sse(delta(**fields), delta(content="x"), delta("stop")))) == [
        "start", "think", "think: Why", "stop", "text", "text: x", "stop", "finish stop"]


def test_text_after_a_whole_call_gets_a_block_of_its_own() -> None:
    assert script(decode(sse(*tool_deltas(call(0, "a", "lookup_tide", '{"harbor":"Brest"}')), delta(content="Wait."),
                             delta("tool_calls")))) == ["start", *TIDE, "text", "text: Wait.", "stop",
                                                        "finish tool_calls"]


def test_text_inside_an_unfinished_call_waits_for_its_end() -> None:
    assert script(decode(sse(*tool_deltas(call(0, "a", "lookup_tide", '{"harbor":')), delta(content="So "),
                             delta(content="then"), *tool_deltas(call(0, arguments='"Brest"}')),
                             delta("tool_calls")))) == ["start", *TIDE, "text", "text: So then", "stop",
                                                        "finish tool_calls"]


@pytest.mark.parametrize("reason", ["stop", "", None, "function_call", "tool_calls"])
def test_p6_a_call_means_tool_calls(reason: str | None) -> None:
    assert script(decode(sse(*tool_deltas(call(0, "a", "ping", "{}")), delta(reason))))[-1] == "finish tool_calls"


def test_p6_tool_calls_without_a_call_is_stop() -> None:
    assert script(decode(sse(delta(content="x"), delta("tool_calls"))))[-1] == "finish stop"


@pytest.mark.parametrize(("reason", "expected"), [
    ("eos", "stop"), ("length", "length"), ("content_filter", "content_filter"), ("sensitive", "content_filter"),
    ("model_context_window_exceeded", "context_length"), ("something_new", "stop")])
def test_finish_reasons(reason: str, expected: str) -> None:
    assert script(decode(sse(delta(content="x"), delta(reason))))[-1] == f"finish {expected}"


@pytest.mark.parametrize("reason", ["error", "network_error", "abort", "insufficient_system_resource"])
def test_finish_reasons_that_are_failures(reason: str) -> None:
    assert script(decode(sse(delta(content="x"), delta(reason))))[-1].startswith("failure")


def test_a_refusal_is_text_and_its_own_reason() -> None:
    assert script(decode(sse(delta(refusal="I can"), delta(refusal="not."), delta("stop")))) == [
        "start", "text", "text: I cannot.", "stop", "finish refusal"]


def test_legacy_function_call() -> None:
    assert script(decode(sse(delta(function_call={"name": "lookup_tide", "arguments": ""}),
                             delta(function_call={"arguments": '{"harbor":"Brest"}'}),
                             delta("function_call")))) == ["start", *TIDE, "finish tool_calls"]


def test_a_namespace_before_the_name_is_removed() -> None:
    assert "call ping" in script(decode(sse(*tool_deltas(call(0, "functions.ping:0", "functions.ping", "{}")),
                                            delta("tool_calls"))))


@pytest.mark.parametrize("name", ["functions.ping:0", "ping:12", "ping<|channel|>commentary"])
def test_remains_of_markup_around_a_name_are_removed(name: str) -> None:
    assert "call ping" in script(decode(sse(*tool_deltas(call(0, "a", name, "{}")), delta("tool_calls"))))


def test_ids_illegal_or_seen_in_the_conversation_are_replaced() -> None:
    chunks = tool_deltas(call(0, "functions.ping:0", "ping", "{}"), call(1, "call_0", "ping", "{}"),
                         call(2, "fresh", "ping", "{}"), call(3, "x", "ping", "{}"))
    ids = call_ids(decode(sse(*chunks, delta("tool_calls")), seen={"call_0"}))
    assert ids[2] == "fresh"
    assert len(set(ids)) == 4
    assert "functions.ping:0" not in ids
    assert "call_0" not in ids
    again = call_ids(decode(sse(*chunks, delta("tool_calls")), seen={"call_0"}))
    assert ids == again  # reproducible


def test_odd_chunks_are_tolerated() -> None:
    assert script(decode(sse({"choices": None}, {"choices": []}, "null",
                             delta(content=None, tool_calls=None), {"choices": [{"index": 0, "delta": None}]},
                             {"choices": [{"delta": {"content": "b"}}]},
                             {"choices": [{"index": 1, "delta": {"content": "other choice"}}]}, delta("stop")))) == [
        "start", "text", "text: b", "stop", "finish stop"]


def test_a_message_instead_of_deltas() -> None:
    chunk = {"choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}]}
    assert script(decode(sse(chunk))) == ["start", "text", "text: Hi", "stop", "finish stop"]
    assert script(decode(sse(delta(content="Hi"), chunk))) == ["start", "text", "text: Hi", "stop", "finish stop"]


# ------------------------------------------------------------------------------------------------- ends and failures


def test_p1_a_stream_that_just_ends_is_a_failure() -> None:
    for body in (sse(delta(content="Half"), done=False), sse(delta(content="Half"), done=False)[:-9],
                 sse(delta(role="assistant"), done=False), b"", b": comment\n\n"):
        assert script(decode(body))[-1] == "failure server"


def test_p1_error_chunks() -> None:
    for error in ({"error": {"message": "overloaded", "code": 502}, "choices": []},
                  {"object": "error", "message": "boom", "code": 500}, {"error": "boom"}):
        lines = script(decode(sse(delta(content="Half"), error)))
        assert lines[:3] == ["start", "text", "text: Half"]
        assert lines[3].startswith("failure")
        assert len(lines) == 4


@pytest.mark.parametrize("chunk", ['{"id": "x", "choices": [{"delta": {"con', "[1,2]", '"text"', "7", '{"choices": 1}'])
def test_p1_a_damaged_chunk_is_a_failure(chunk: str) -> None:
    assert script(decode(sse(delta(content="Half"), chunk)))[-1] == "failure server"


def test_an_error_wrapped_in_an_array_is_an_error() -> None:
    assert script(decode(sse(delta(content="Half"), [{"error": {"code": 429, "message": "no quota"}}])))[-1] \
        == "failure rate_limit"


def test_the_end_without_done_after_a_finish_reason_is_clean() -> None:
    assert script(decode(sse(delta(content="x"), delta("stop"), done=False)))[-1] == "finish stop"


def test_done_without_a_finish_reason_is_clean() -> None:
    assert script(decode(sse(delta(content="x"))))[-1] == "finish stop"


def test_done_without_content_is_a_failure() -> None:
    assert script(decode(sse()))[-1] == "failure server"


def test_the_end_is_clean_after_whole_calls_and_broken_after_half_a_call() -> None:
    whole = tool_deltas(call(0, "a", "lookup_tide", '{"harbor":"Brest"}'))
    assert script(decode(sse(*whole, done=False)))[-1] == "finish tool_calls"
    half = tool_deltas(call(0, "a", "lookup_tide", '{"harbor":"Br'))
    assert script(decode(sse(*half, done=False)))[-1] == "failure server"
    assert script(decode(sse(*half)))[-1] == "failure server"
    assert script(decode(sse(*whole, *tool_deltas(call(1, "b", "ping", "")), done=False)))[-1] == "failure server"


def test_a_call_cut_by_length_is_never_closed() -> None:
    assert script(decode(sse(*tool_deltas(call(0, "a", "lookup_tide", '{"harbor":"Bre')), delta("length")))) == [
        "start", "call lookup_tide", 'args: {"harbor":"Bre', "stop", "finish length"]


def test_missing_brackets_are_added_after_a_clean_finish() -> None:
    assert script(decode(sse(*tool_deltas(call(0, "a", "lookup_tide", '{"harbor":"Brest"')),
                             delta("tool_calls")))) == ["start", *TIDE, "finish tool_calls"]


def test_nothing_follows_the_end() -> None:
    decoder = OpenAIResponseDecoder(context())
    assert script(decoder.feed(sse(delta(content="x"), delta("stop"))))[-1] == "finish stop"
    assert decoder.feed(sse(delta(content="more"))) == []
    assert decoder.finish() == []


def test_a_line_past_the_limit_is_a_failure() -> None:
    assert script(decode(sse(delta(content="x" * 5000)), limits=Limits(sse_line=1000)))[-1] == "failure server"


def test_the_stop_sequence_is_reported_where_the_server_sends_it() -> None:
    chunk = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}]}
    assert script(decode(sse(delta(content="x"), chunk), stop=["END"]))[-1] == "finish stop_sequence END"


def test_lone_surrogates_do_not_break_the_response() -> None:
    body = b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n' + sse(delta("stop"))
    assert script(decode(body))[2] == "text: a\ufffd"


# -------------------------------------------------------------------------------------------------------------- usage


def usage_after(*chunks: object, done: bool = True) -> tuple[int, int, int, int]:
    last = decode(sse(*chunks, done=done))[-1]
    assert isinstance(last, Finish)
    assert not last.usage.estimated
    return last.usage.input, last.usage.output, last.usage.cached, last.usage.reasoning


FIGURES = {"prompt_tokens": 1000, "completion_tokens": 70, "total_tokens": 1070,
           "prompt_tokens_details": {"cached_tokens": 800}, "completion_tokens_details": {"reasoning_tokens": 30}}
X, END = delta(content="x"), delta("stop")


@pytest.mark.parametrize("chunks", [
    pytest.param([X, END, {"choices": [], "usage": FIGURES}], id="a: usage chunk"),
    pytest.param([X, {**END, "usage": FIGURES}], id="b: finish chunk"),
    pytest.param([{**X, "usage": {**FIGURES, "completion_tokens": 1}}, {**END, "usage": FIGURES}], id="c: cumulative"),
    pytest.param([X, {**END, "usage": FIGURES}, {"choices": [], "usage": FIGURES}], id="twice is not added"),
    pytest.param([X, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": FIGURES}]}],
                 id="f: in the choice"),
    pytest.param([X, {**END, "x_groq": {"usage": FIGURES}}], id="f: x_groq"),
])
def test_p15_usage_in_every_position(chunks: list[object]) -> None:
    assert usage_after(*chunks) == (1000, 70, 800, 30)


def test_p15_usage_after_a_finish_without_done() -> None:
    assert usage_after(X, END, {"choices": [], "usage": FIGURES}, done=False) == (1000, 70, 800, 30)


def test_p15_no_usage_is_an_estimate_with_a_flag() -> None:
    last = decode(sse(delta(content="x" * 40), END))[-1]
    assert isinstance(last, Finish)
    assert last.usage.estimated
    assert last.usage.input == 42
    assert last.usage.output == 10


def test_p16_deepseek_cache_figures() -> None:
    assert usage_after({**X}, {**END, "usage": {"prompt_tokens": 10, "completion_tokens": 2,
                                                "prompt_cache_hit_tokens": 7}}) == (10, 2, 7, 0)


# --------------------------------------------------------------------------------------------------------- whole JSON


def whole(message: dict[str, object], reason: str = "stop") -> bytes:
    return json.dumps({"id": "x", "object": "chat.completion", "model": "m", "usage": FIGURES,
                       "choices": [{"index": 0, "message": message, "finish_reason": reason}]}, indent=1).encode()


def test_a_whole_response() -> None:
    body = whole({"role": "assistant", "content": "Hi", "reasoning_content": "Hm", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "lookup_tide", "arguments": '{"harbor":"Brest"}'}},
        {"id": "b", "type": "function", "function": {"name": "ping", "arguments": {}}}]}, "tool_calls")
    for size in (1, 9, len(body)):
        decoder = OpenAIResponseDecoder(context())
        events = [e for i in range(0, len(body), size) for e in decoder.feed(body[i:i + size])] + decoder.finish()
        assert script(events) == ["start", "think", "think: Hm", "stop", "text", "text: Hi", "stop", *TIDE, *PING,
                                  "finish tool_calls"]


@pytest.mark.parametrize("body", [b'{"error":{"message":"no","code":500}}', b'{"choices":[]}', b'{"choices":[{"mess',
                                  b"[1]", b'{"object":"error","message":"no"}'])
def test_a_body_that_is_no_response(body: bytes) -> None:
    events = decode(body)
    assert isinstance(events[-1], Failure)


@pytest.mark.parametrize(("last", "ends"), [
    (b"", "finish tool_calls"), (b": ping", "finish tool_calls"), (b"data: [DONE]", "finish tool_calls"),
    (b"da", "failure server"), (b"data: ", "failure server")])
def test_calls_are_whole_without_a_finish_reason_unless_more_had_begun(last: bytes, ends: str) -> None:
    body = sse(*tool_deltas(call(0, "a", "lookup_tide", '{"harbor":"Brest"}')), done=False)
    events = decode(body + last)
    assert script(events)[-1] == ends
