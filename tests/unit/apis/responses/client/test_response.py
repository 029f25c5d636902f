"""Responses as the client gets them: items, events, status, usage. R-numbers are those of the reference on this API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.responses.client import API
from extproc.apis.responses.client.envelopes import unpack_thinking
from extproc.bounds import Limits
from extproc.conversation.model import (
    BlockStop,
    Event,
    FinishReason,
    RedactedThinking,
    Refusal,
    Signature,
    Start,
    TextDelta,
    TextStart,
    Thinking,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from extproc.conversation.model import Finish as FinishEvent
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure, FailureKind
from tests.unit.apis.responses.client.grammar import check_stream
from tests.unit.apis.responses.client.helpers import (
    ID,
    call,
    custom,
    decode,
    finish,
    function,
    items,
    namespace,
    stream,
    text,
    thinking,
    whole,
)

PATCH = "*** Begin Patch\n*** Add File: a \"b\" \\ \U0001f600\n+x\n*** End Patch\n"


def types(events: list[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text_is_one_message() -> None:
    events = stream(*text("He", "", "llo"), finish())
    assert types(events) == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed"]
    assert events[-1]["response"]["output"] == [
        {"id": "msg_0123_0", "type": "message", "status": "completed", "role": "assistant",
         "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]}]


def test_neighbouring_texts_are_one_message_and_text_after_a_call_is_another() -> None:
    found = items(*text("a"), *text("b"), *call("f", "{}"), *text("c"), finish(), tools=[function("f")])
    assert [(item["type"], item.get("content", [{}])[0].get("text")) for item in found] == [
        ("message", "ab"), ("function_call", None), ("message", "c")]


def test_r8_the_type_is_in_the_data_and_the_response_is_nested() -> None:
    events = stream(*text("x"), finish())
    assert all("type" in event for event in events)
    for event in (events[0], events[1], events[-1]):
        assert event["response"]["object"] == "response"


def test_r7_a_call_has_its_output_item_done() -> None:
    events = stream(*call("f", '{"a"', ":1}"), finish("tool_calls"), tools=[function("f")])
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == [{"id": "fc_0123_0", "type": "function_call", "status": "completed", "call_id": "call_1",
                     "name": "f", "arguments": '{"a":1}'}]


def test_a_call_without_arguments_gets_an_object() -> None:
    assert items(*call("f"), finish(), tools=[function("f")])[0]["arguments"] == "{}"


def test_r2_the_namespace_is_restored_streaming_and_not() -> None:
    tools = [namespace("multi_agent_v1", function("spawn_agent"))]
    [item] = items(*call("multi_agent_v1__spawn_agent", "{}"), finish(), tools=tools)
    assert (item["name"], item["namespace"]) == ("spawn_agent", "multi_agent_v1")


@pytest.mark.parametrize("written", ["spawn_agent", "multi_agent_v1.spawn_agent"])
def test_a_model_that_leaves_the_namespace_out_still_calls_the_tool(written: str) -> None:
    tools = [namespace("multi_agent_v1", function("spawn_agent"))]
    [item] = items(*call(written, "{}"), finish(), tools=tools)
    assert (item["name"], item["namespace"]) == ("spawn_agent", "multi_agent_v1")


def test_r27_the_same_name_in_two_namespaces_and_in_none() -> None:
    tools = [namespace("a", function("get")), namespace("b", function("get")), function("get")]
    found = items(*call("b__get", "{}", id="1"), *call("a__get", "{}", id="2"), *call("get", "{}", id="3"), finish(),
                  tools=tools)
    assert [(item.get("namespace"), item["name"]) for item in found] == [("b", "get"), ("a", "get"), (None, "get")]


def test_r1_a_custom_tool_is_answered_with_its_text() -> None:
    [item] = items(*call("apply_patch", json.dumps({"input": PATCH})), finish(), tools=[custom("apply_patch")])
    assert item == {"id": "ctc_0123_0", "type": "custom_tool_call", "status": "completed", "call_id": "call_1",
                    "name": "apply_patch", "input": PATCH}


def test_r20_two_calls_in_one_turn_one_of_them_custom() -> None:
    found = items(*call("apply_patch", '{"input": "x y z 1 2 3 4"}', id="c1"), *call("f", '{"a": 1}', id="c2"),
                  finish("tool_calls"), tools=[custom("apply_patch"), function("f")])
    assert [(item["type"], item["call_id"]) for item in found] == [
        ("custom_tool_call", "c1"), ("function_call", "c2")]


def test_r29_the_text_of_a_patch_split_at_every_place() -> None:
    for arguments in (json.dumps({"input": PATCH}), json.dumps({"input": PATCH}, ensure_ascii=False)):
        for cut in range(1, len(arguments)):
            for rest in range(cut, min(cut + 3, len(arguments))):
                pieces = [piece for piece in (arguments[:cut], arguments[cut:rest], arguments[rest:]) if piece]
                events = stream(*call("p", *pieces), finish(), request=decode(tools=[custom("p")]))
                assert events[-1]["response"]["output"][0]["input"] == PATCH


def test_r3_a_tool_search_has_an_object_as_arguments() -> None:
    search = {"type": "tool_search", "execution": "client", "description": "d",
              "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
    [item] = items(*call("tool_search", '{"query":"x"}'), finish(), tools=[search])
    assert item == {"id": "tsc_0123_0", "type": "tool_search_call", "status": "completed", "call_id": "call_1",
                    "execution": "client", "arguments": {"query": "x"}}


@pytest.mark.parametrize(("tool", "arguments", "expected"), [
    ("local_shell", {"command": ["ls", "-l"], "timeout_ms": 5},
     {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls", "-l"], "env": {}, "timeout_ms": 5}}),
    ("local_shell", {"command": "ls | wc"},
     {"type": "local_shell_call", "action": {"type": "exec", "command": ["bash", "-lc", "ls | wc"], "env": {}}}),
    ("shell", {"commands": ["a", "b"]},
     {"type": "shell_call", "action": {"commands": ["a", "b"], "timeout_ms": None, "max_output_length": None}}),
    ("apply_patch", {"operation": {"type": "delete_file", "path": "a"}},
     {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}}),
])
def test_tools_of_further_types_are_answered_with_their_own_items(tool: str, arguments: dict[str, Any],
                                                                  expected: dict[str, Any]) -> None:
    [item] = items(*call(tool, json.dumps(arguments)), finish(), tools=[{"type": tool}])
    assert {**item, **expected} == item


# ----------------------------------------------------------------------------------------------------------- reasoning


def test_r14_reasoning_always_has_its_content_and_a_summary_only_if_asked_for() -> None:
    events = [*thinking("I ", "see", signature="SIG=="), *text("x"), finish()]
    [shown, _] = items(*events, reasoning={"summary": "auto"})
    assert shown["summary"] == [{"type": "summary_text", "text": "I see"}]
    [hidden, _] = items(*events, reasoning={"effort": "high"})
    assert hidden["summary"] == []
    for item in (shown, hidden):
        assert unpack_thinking(item["encrypted_content"]) == Thinking("I see", signature="SIG==")


def test_encrypted_reasoning_and_a_signature_without_text_are_items() -> None:
    found = items(RedactedThinking("EnC"), BlockStop(), *thinking(signature="s"), *text("x"), finish())
    assert [unpack_thinking(item["encrypted_content"]) for item in found[:2]] == [
        Thinking("", redacted="EnC"), Thinking("", signature="s")]


def test_a_signature_of_a_call_is_in_its_id() -> None:
    [item] = items(ToolCallStart("c", "f", Signature("abc", "orig")), BlockStop(), finish(), tools=[function("f")])
    assert item["call_id"].startswith("c_xs1_orig")


def test_empty_blocks_are_no_items() -> None:
    found = items(ThinkingStart(), BlockStop(), TextStart(), TextDelta(""), BlockStop(), *text("x"), finish())
    assert [item["type"] for item in found] == ["message"]


# ------------------------------------------------------------------------------------------------------- how it ends


@pytest.mark.parametrize(("reason", "status", "details"), [
    ("stop", "completed", None), ("tool_calls", "completed", None), ("stop_sequence", "completed", None),
    ("pause", "completed", None), ("length", "incomplete", {"reason": "max_output_tokens"}),
    ("context_length", "incomplete", {"reason": "max_output_tokens"}),
    ("content_filter", "incomplete", {"reason": "content_filter"}), ("refusal", "completed", None)])
def test_status(reason: FinishReason, status: str, details: object) -> None:
    response = stream(*text("x"), finish(reason))[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == (status, details)
    assert response["output"][-1]["status"] == status


@pytest.mark.parametrize("arguments", [[], ['{"a'], ['{"a": "b']])
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("tool", [function("f"), custom("f")])
def test_r10_a_call_that_was_cut_off_is_never_done(tool: dict[str, Any], arguments: list[str], ended: bool) -> None:
    events = stream(*text("x"), *call("f", *arguments, ended=ended), finish("length"), tools=[tool])
    assert [event["item"]["type"] for event in events if event["type"] == "response.output_item.done"] == ["message"]


@pytest.mark.parametrize("tool", [function("f"), custom("f"), {"type": "shell"}])
def test_r10_a_failure_leaves_what_is_open_without_an_end(tool: dict[str, Any]) -> None:
    half = call(tool.get("name", "shell"), '{"a"', ended=False)
    broken: list[list[Event]] = [[], [TextStart(), TextDelta("x")], half]
    for events in broken:
        found = stream(*events, Failure("server", "it broke"), tools=[tool])
        assert found[-1]["type"] == "response.failed"
        assert found[-1]["response"]["output"] == []


@pytest.mark.parametrize(("kind", "code"), [
    ("server", "server_error"), ("overloaded", "server_error"), ("timeout", "server_error"),
    ("rate_limit", "rate_limit_exceeded"), ("context_length", "context_length_exceeded"),
    ("billing", "insufficient_quota"), ("invalid_request", "invalid_prompt")])
def test_r9_an_error_is_a_failed_response_with_a_code(kind: FailureKind, code: str) -> None:
    [*_, last] = stream(*text("x"), Failure(kind, "why"))
    assert last["response"]["error"]["code"] == code
    assert "why" in last["response"]["error"]["message"]


def test_a_rate_limit_names_the_time_to_wait_in_words() -> None:
    [*_, last] = stream(Failure("rate_limit", "Slow down.", retry_after="3"))
    assert last["response"]["error"]["message"] == "Slow down. Please try again in 3s."


def test_r31_nothing_follows_the_end() -> None:
    encoder = API.make_response_encoder(decode(stream=True), ID, lambda: 7)
    check_stream(encoder.encode_events([Start(), *text("x"), Failure("server", "broke")]))
    assert encoder.encode_events([*text("y"), finish()]) + encoder.ping() == b""


@pytest.mark.parametrize(("explanation", "said", "expected"), [
    ("I will not.", [], [("refusal", "I will not.")]),
    ("", [], [("refusal", "The model refused to answer.")]),
    ("", text("No."), [("output_text", "No."), ("refusal", "The model refused to answer.")]),
    ("Because.", text("No."), [("output_text", "No."), ("refusal", "Because.")]),
])
def test_refusals(explanation: str, said: list[Event], expected: list[tuple[str, str]]) -> None:
    refusal = Refusal(explanation, json.dumps({}).encode()) if explanation else None  # type: ignore[arg-type]
    [item] = items(*said, FinishEvent("refusal", Usage(), refusal=refusal))
    assert [(part["type"], part.get("text") or part.get("refusal")) for part in item["content"]] == expected


def test_r25_usage_names_cached_and_written_tokens() -> None:
    [*_, last] = stream(*text("x"), finish(input=100, output=20, cached=60, cache_write=30, reasoning=7))
    assert last["response"]["usage"] == {
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 7}, "total_tokens": 120}


def test_r35_keep_alives_are_events_of_data_and_counted() -> None:
    encoder = API.make_response_encoder(decode(stream=True), ID, lambda: 7)
    out = encoder.ping() + encoder.encode_events([Start(), TextStart(), TextDelta("a")]) + encoder.ping()
    out += encoder.encode_events([TextDelta("b"), BlockStop()]) + encoder.ping() + encoder.encode_events([finish()])
    check_stream(out)
    assert out.count(b"event: keepalive\ndata: {") == 3


def test_the_response_repeats_the_request_as_it_was() -> None:
    tools = [namespace("ns", function("f")), {"type": "web_search"}]
    fields = {"tools": tools, "instructions": "be\nbrief", "metadata": {"a": "b"}, "temperature": 0.5,
              "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "store": True, "user": "u"}
    response = whole(*text("x"), finish(), **fields)
    assert {name: response[name] for name in fields} == {**fields, "store": False}
    assert (response["model"], response["id"]) == ("m", "resp_0123")


def test_a_request_on_several_lines_is_repeated_on_one() -> None:
    body = json.dumps({"model": "m", "input": "hi", "stream": True, "tools": [function("f")]}, indent=2).encode()
    request = API.decode_request(body, {}, Dropped(), Limits())
    events = check_stream(API.make_response_encoder(request, ID, lambda: 7).encode_events(
        [Start(), *text("x"), finish()]))
    assert events[0]["response"]["tools"] == [function("f")]
