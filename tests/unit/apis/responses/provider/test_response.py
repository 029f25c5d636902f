"""Responses of the API: streams of every habit, whole bodies, endings, usage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.conversation.model import Finish, ToolCallStart, Usage
from extproc.errors import Failure
from tests.playbook import call_ids, script
from tests.providers import responses as api
from tests.unit.apis.responses.provider.helpers import (
    PARAMETERS,
    answered,
    blocks,
    decode,
    decode_whole,
    events_of,
    said,
    sent,
    stop_reason,
    talk,
)

CALL = api.function_call("call_1", "lookup_tide", {"town": "Brest"}, number=1)
TIDE = ["call lookup_tide", 'args: {"town": "Brest"}', "stop"]
TURN = (api.reasoning("Which?", "Brest."), api.message("Looking."), CALL)
SCRIPT = ["start", "think", "think: Which?\n\nBrest.", "stop", "text", "text: Looking.", "stop", *TIDE,
          "finish tool_calls"]


def kept(events: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] in (f"response.{name}" for name in names)]


def without(events: list[dict[str, Any]], *fields: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in event.items() if name not in fields} for event in events]


# -------------------------------------------------------------------------------------------------------------- streams


def test_reasoning_text_and_a_call() -> None:
    assert script(decode(*events_of(*TURN))) == SCRIPT
    assert call_ids(decode(*events_of(*TURN))) == ["call_1"]


def test_r7_a_stream_of_nothing_but_whole_items() -> None:
    assert script(decode(*kept(events_of(*TURN), "output_item.done", "completed"))) == SCRIPT


def test_a_stream_of_nothing_but_the_terminal_event() -> None:
    assert script(decode(*kept(events_of(*TURN), "completed"))) == SCRIPT


def test_deltas_without_whole_items() -> None:
    events = [event for event in events_of(*TURN) if not event["type"].endswith(".done")]
    end = {"type": "response.completed", "response": api.response([])}
    assert script(decode(*events[:-1], end)) == SCRIPT


@pytest.mark.parametrize("fields", [("output_index",), ("item_id",), ("output_index", "item_id"), ("sequence_number",),
                                    ("content_index", "summary_index")])
def test_a_stream_without_these_fields(fields: tuple[str, ...]) -> None:
    lines = script(decode(*without(events_of(*TURN), *fields)))
    assert [line.replace("\n\n", "") for line in lines] == [line.replace("\n\n", "") for line in SCRIPT]


@pytest.mark.parametrize("left_out", [
    ("response.created", "response.in_progress"), ("response.output_item.added",), ("response.content_part.added",)])
def test_a_stream_without_these_events(left_out: tuple[str, ...]) -> None:
    assert script(decode(*(event for event in events_of(*TURN) if event["type"] not in left_out))) == SCRIPT


def test_r8_the_type_may_stand_in_the_event_line_only() -> None:
    lines = [f"event: {event['type']}\ndata: {json.dumps({k: v for k, v in event.items() if k != 'type'})}\n\n"
             for event in events_of(*TURN)]
    assert script(decode(*lines)) == SCRIPT


def test_r11_unknown_events_change_nothing() -> None:
    odd: list[Any] = [{"type": "codex.rate_limits", "plan": "x"}, {"type": "keepalive", "sequence_number": 3},
                      {"type": "response.output_text.annotation.added", "annotation": {}}, ": ping\n\n"]
    events: list[Any] = []
    for event in events_of(*TURN):
        events += [*odd, event]
    assert script(decode(*events)) == SCRIPT


def test_interleaved_items_are_put_in_order() -> None:
    groups = [api.item_events(index, item) for index, item in enumerate(TURN)]
    begun, *_, end = events_of(*TURN)
    mixed: list[dict[str, Any]] = []
    for number in range(max(map(len, groups))):
        mixed += [group[number] for group in groups if number < len(group)]
    assert script(decode(begun, *mixed, end)) == SCRIPT


def test_parallel_calls_may_arrive_in_any_order() -> None:
    other = api.function_call("call_2", "ping", {}, number=2)
    begun, *_, end = events_of(CALL, other)
    first, second = api.item_events(0, CALL), api.item_events(1, other)
    events = decode(begun, first[0], *second, *first[1:], end)
    assert [event.name for event in events if isinstance(event, ToolCallStart)] == ["lookup_tide", "ping"]
    assert call_ids(events) == ["call_1", "call_2"]


def test_indexes_may_begin_anywhere() -> None:
    events = [{**event, "output_index": event["output_index"] + 3} if "output_index" in event else event
              for event in events_of(*TURN)]
    assert script(decode(*events)) == SCRIPT


def test_too_much_behind_an_open_item_is_a_failure() -> None:
    begun = events_of(api.message("Hi"))[:5]
    flood = [{"type": "response.output_item.done", "output_index": number, "item": api.message("x" * 1_000_000)}
             for number in range(1, 20)]
    assert script(decode(*begun, *flood))[-1] == "failure server"


def test_thousands_of_items_take_no_time_to_order() -> None:
    items = [api.function_call(f"call_{number}", "ping", {}, number=number) for number in range(5000)]
    added = [{"type": "response.output_item.added", "output_index": number, "item": item}
             for number, item in enumerate(items)]
    done = [{"type": "response.output_item.done", "output_index": number, "item": item}
            for number, item in reversed(list(enumerate(items)))]
    events = decode(*added, *done, {"type": "response.completed", "response": api.response([])})
    assert call_ids(events) == [item["call_id"] for item in items]


def test_two_messages_are_two_paragraphs() -> None:
    events = events_of(api.message("Let me see.", phase="commentary"), api.message("It is 4 m.", number=1))
    assert script(decode(*events)) == ["start", "text", "text: Let me see.\n\nIt is 4 m.", "stop", "finish stop"]


def test_a_call_without_arguments_and_without_an_id() -> None:
    item = {"type": "function_call", "name": "ping", "arguments": ""}
    events = decode({"type": "response.output_item.done", "item": item},
                    {"type": "response.completed", "response": api.response([])})
    assert script(events) == ["start", "call ping", "stop", "finish tool_calls"]
    assert call_ids(events)[0].startswith("toolu_")


def test_r28_an_id_of_an_earlier_turn_is_replaced() -> None:
    translation = talk()
    use = {"type": "tool_use", "id": "call_1", "name": "lookup_tide", "input": {}}
    sent(said("anthropic", "hi", {"role": "assistant", "content": [use]},
              {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "ok"}]},
              stream=True, tools=[{"name": "lookup_tide", "input_schema": PARAMETERS}]), translation=translation)
    (call,) = blocks(answered(translation, events_of(CALL)))
    assert call["id"] != "call_1"


def test_r29_the_input_of_a_custom_tool_survives_any_text() -> None:
    text = '*** Begin Patch\n"quoted" \\ back\\slash \u00fc \U0001f388\n'
    events = decode(*events_of(api.custom_call("c1", "ping", text), usage=None))
    lines = script(events)
    assert json.loads(lines[2].removeprefix("args: ")) == {"input": text}
    assert lines[-1] == "finish tool_calls"


def test_a_refusal_is_text_and_a_reason() -> None:
    part = {"type": "refusal", "refusal": "I cannot."}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}
    assert script(decode(*events_of(item))) == ["start", "text", "text: I cannot.", "stop", "finish refusal"]
    assert script(decode(*kept(events_of(item), "output_item.done", "completed")))[-1] == "finish refusal"


def test_half_a_pair_waits_for_the_other_half() -> None:
    deltas = ['{"type":"response.output_text.delta","output_index":0,"delta":"a \\ud83c"}',
              '{"type":"response.output_text.delta","output_index":0,"delta":"\\udf88 b"}']
    end = {"type": "response.completed", "response": api.response([])}
    lines = script(decode(*(f"data: {delta}\n\n" for delta in deltas), end))
    assert lines == ["start", "text", "text: a \U0001f388 b", "stop", "finish stop"]


@pytest.mark.parametrize("names", [("output_item.added", "output_item.done", "completed"), ("completed",)])
def test_r3_a_search_for_tools_is_a_call_of_the_client(names: tuple[str, ...]) -> None:
    search = {"type": "tool_search_call", "id": "tsc_1", "call_id": "call_1", "execution": "client",
              "status": "completed", "arguments": {"query": "tides"}}
    events = decode(*kept(events_of(search), *names))
    assert script(events) == ["start", "call tool_search", 'args: {"query":"tides"}', "stop", "finish tool_calls"]
    assert call_ids(events) == ["call_1"]


def test_a_search_for_tools_that_the_provider_ran_is_named() -> None:
    translation = talk()
    sent(said("anthropic", "hi", stream=True), translation=translation)
    search = {"type": "tool_search_call", "id": "tsc_1", "call_id": None, "execution": "server",
              "status": "completed", "arguments": {"paths": ["tides"]}}
    out = answered(translation, events_of(search, api.message("Found.")))
    assert [block["text"] for block in blocks(out)] == ["Found."]
    assert translation.dropped.losses == ["response.tool_search_call"]


def test_a_tool_that_the_provider_ran_is_named() -> None:
    translation = talk()
    sent(said("anthropic", "hi", stream=True), translation=translation)
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}}
    out = answered(translation, events_of(search, api.message("Found.")))
    assert [block["text"] for block in blocks(out)] == ["Found."]
    assert translation.dropped.losses == ["response.web_search_call"]


# -------------------------------------------------------------------------------------------------------------- endings


@pytest.mark.parametrize("cut", [1, 5, 9, -1])
def test_r10_a_stream_that_ends_early_never_looks_finished(cut: int) -> None:
    assert script(decode(*events_of(*TURN)[:cut]))[-1] == "failure server"


def test_r10_half_a_call_is_not_run() -> None:
    cut_off = api.function_call("call_1", "lookup_tide", '{"town": "Br', state="incomplete")
    translation = talk()
    sent(said("anthropic", "hi", stream=True, tools=[{"name": "lookup_tide", "input_schema": PARAMETERS}]),
         translation=translation)
    out = answered(translation, events_of(cut_off, state="incomplete", incomplete="max_output_tokens"))
    assert stop_reason(out) == "max_tokens"


@pytest.mark.parametrize(("reason", "finish"), [
    ("max_output_tokens", "length"), ("content_filter", "content_filter"), ("new", "length"), (None, "length")])
def test_an_incomplete_response_says_why(reason: str | None, finish: str) -> None:
    events = events_of(api.message("Half an ans"), state="incomplete", incomplete=reason)
    assert script(decode(*events))[-1] == f"finish {finish}"
    assert script(decode_whole(api.response([api.message("Half")], state="incomplete",
                                            incomplete=reason)))[-1] == f"finish {finish}"


@pytest.mark.parametrize(("code", "kind", "status"), [
    ("server_error", "server", 502), ("rate_limit_exceeded", "rate_limit", 429),
    ("invalid_prompt", "invalid_request", 400),
    ("context_length_exceeded", "context_length", 400), ("server_is_overloaded", "overloaded", 529),
    ("slow_down", "rate_limit", 429), (None, "server", 502)])
@pytest.mark.parametrize("form", ["failed", "error", "nested", "whole"])
def test_r9_every_failure_of_the_provider_is_one(code: str | None, kind: str, status: int, form: str) -> None:
    said_so = "Something. Please try again in 2s."
    error = {"code": code, "message": said_so}
    if form == "whole":
        events = decode_whole(api.response([], state="failed", error=error))
    else:
        event = {"failed": {"type": "response.failed", "response": api.response([], state="failed", error=error)},
                 "error": {"type": "error", **error, "param": None},
                 "nested": {"type": "error", "error": error}}[form]
        events = decode(*events_of(api.message("Hi"))[:6], event)
    failure = events[-1]
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status) == (kind, status)
    assert said_so in failure.message
    assert failure.retry_after == ("2" if kind in ("rate_limit", "overloaded", "server") else None)


def test_r31_nothing_is_awaited_behind_a_failure() -> None:
    from extproc.apis import PROVIDER_APIS
    from tests.playbook import context

    decoder = PROVIDER_APIS["responses"].make_response_decoder(context())
    events = decoder.feed(api.written(api.failed_event("no")))
    assert script(events) == ["failure server"]
    assert decoder.finish() == []


def test_a_cancelled_response_is_an_error() -> None:
    cancelled = {"type": "response.cancelled", "response": api.response([], state="cancelled")}
    assert script(decode(*events_of(api.message("Hi"))[:6], cancelled))[-1] == "failure server"
    assert script(decode_whole(api.response([], state="cancelled"))) == ["failure server"]


@pytest.mark.parametrize("body", [
    b"", b"<html><title>502</title></html>", b'{"error": {"message": "no", "code": "x"}}', b'{"object": "respon',
    b'{"object": "response", "status": "in_progress", "output": []}', b"[]", b'{"detail": "nope"}'])
def test_bodies_that_are_no_response(body: bytes) -> None:
    assert script(decode_whole(body))[-1] == "failure server"


@pytest.mark.parametrize("event", ["data: {broken\n\n", "data: [1]\n\n", 'data: {"type": "response.output_te\n\n'])
def test_a_damaged_event_is_a_failure(event: str) -> None:
    assert script(decode(*events_of(api.message("Hi"))[:4], event))[-1] == "failure server"


@pytest.mark.parametrize("event", [
    {"type": "response.output_item.added", "item": 3}, {"type": "response.output_item.done", "item": None},
    {"type": "response.output_text.delta", "delta": {"a": 1}}, {"type": 7}, {"type": "response.created"},
    {"type": "response.in_progress", "response": "x"}])
def test_fields_of_the_wrong_type_cost_nothing(event: dict[str, Any]) -> None:
    begun, *rest = events_of(api.message("Hi"))
    assert script(decode(begun, event, *rest)) == ["start", "text", "text: Hi", "stop", "finish stop"]


# ---------------------------------------------------------------------------------------------------------------- whole


def test_a_whole_response() -> None:
    assert script(decode_whole(api.response(TURN))) == SCRIPT


def test_a_stream_for_a_client_that_wants_a_whole_response() -> None:
    translation = talk()
    sent(said("anthropic", "hi"), translation=translation)
    out = json.loads(answered(translation, events_of(api.message("Hi"))))
    assert out["content"] == [{"type": "text", "text": "Hi"}]


# ---------------------------------------------------------------------------------------------------------------- usage


def test_r25_cached_and_cache_write_tokens() -> None:
    usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
             "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 5}}
    finish = decode(*events_of(api.message("Hi"), usage=usage))[-1]
    assert isinstance(finish, Finish)
    assert finish.usage == Usage(input=100, output=20, cached=60, cache_write=30, reasoning=5)


def test_without_figures_usage_is_an_estimate() -> None:
    finish = decode(*events_of(api.message("Hi"), usage=None))[-1]
    assert isinstance(finish, Finish)
    assert finish.usage.estimated
