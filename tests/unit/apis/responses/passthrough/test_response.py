"""Responses of OpenAI that reach Responses clients as they are, and what is changed in them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers import responses as api
from tests.unit.apis.responses.client.grammar import check_stream
from tests.unit.apis.responses.passthrough.helpers import TOOL, events_in, response_to, talk, written

WHOLE = api.response([api.message("Hello."), api.function_call("call_1", "weather", {"town": "Ulm"})])


def test_events_pass_as_they_are() -> None:
    stream = api.events_of(WHOLE)
    exchange, out = response_to(stream)
    expected = [{**event, "response": {**event["response"], "model": "mine"}} if "response" in event else event
                for event in stream]
    assert events_in(out) == expected
    assert api.written(stream[5]) in out, "bytes"
    assert (exchange.finish_reason, exchange.tool_calls) == ("tool_calls", 1)
    assert (exchange.usage.input, exchange.usage.cached, exchange.usage.output) == (21, 8, 12)


def test_unknown_events_items_and_members_pass() -> None:
    new = {"type": "response.brand_new.delta", "sequence_number": 3, "delta": {"a": 1}, "more": 1.50}
    stream = api.events_of(api.response([{"type": "brand_new_item", "id": "bn_1", "x": [1]}, api.message("Hi.")]))
    _, out = response_to([*stream[:3], new, *stream[3:]])
    assert api.written(new) in out
    assert events_in(out)[-1]["response"]["output"][0] == {"type": "brand_new_item", "id": "bn_1", "x": [1]}


def test_r11_unknown_events_pass_and_end_nothing() -> None:
    limits = {"type": "codex.rate_limits", "a": 1}
    stream = api.events_of(WHOLE)
    _, out = response_to([*stream[:2], limits, *stream[2:]])
    assert api.written(limits) in out
    assert events_in(out)[-1]["type"] == "response.completed"


@pytest.mark.parametrize("size", [1, 7, 64])
def test_any_cut_gives_the_same_bytes(size: int) -> None:
    written_stream = b"".join(map(api.written, api.events_of(WHOLE)))
    _, at_once = response_to(api.events_of(WHOLE))
    exchange, _ = response_to([], end=False)
    pieces = [written_stream[at:at + size] for at in range(0, len(written_stream), size)]
    assert b"".join(map(exchange.feed, pieces)) + exchange.finish() == at_once


def test_r28_an_id_that_the_conversation_has_becomes_a_new_one_everywhere() -> None:
    call = {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"}
    history = [{"role": "user", "content": "hi"}, call,
               {"type": "function_call_output", "call_id": "call_1", "output": "ok"}]
    _, out = response_to(api.events_of(WHOLE), {"input": history})
    items = [event["item"] for event in events_in(out) if event["type"].startswith("response.output_item.")]
    ids = {item["call_id"] for item in [*items, *events_in(out)[-1]["response"]["output"]] if "call_id" in item}
    assert len(ids) == 1
    assert "call_1" not in ids


def test_two_calls_of_one_id_get_two() -> None:
    whole = api.response([api.function_call("same", "weather", {}), api.function_call("same", "weather", {}, number=1)])
    _, out = response_to(api.events_of(whole))
    ids = [item["call_id"] for item in events_in(out)[-1]["response"]["output"]]
    assert len(set(ids)) == 2
    done = [event["item"]["call_id"] for event in events_in(out) if event["type"] == "response.output_item.done"]
    assert done == ids


@pytest.mark.parametrize("last", [api.failed_event("gone", "rate_limit_exceeded"), api.error_event("gone"),
                                  {"type": "response.cancelled", "response": api.response([], state="cancelled")},
                                  None, "data: {damaged\n\n"], ids=str)
def test_r9_r10_a_broken_stream_ends_with_a_failed_response(last: Any) -> None:
    """With the id of the response and the next number, and nothing behind it."""
    begin = api.events_of(WHOLE)[:6]
    exchange, out = response_to([*begin, *([last] if last else [])])
    events = events_in(out)
    assert events[:-1] == events_in(b"".join(map(api.written, [
        {**event, "response": {**event["response"], "model": "mine"}} if "response" in event else event
        for event in begin])))
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["sequence_number"] == len(begin)
    assert (events[-1]["response"]["id"], events[-1]["response"]["model"]) == ("resp_1", "mine")
    assert events[-1]["response"]["error"]["message"]
    assert exchange.failure is not None


def test_keys_are_scrubbed_from_failures() -> None:
    exchange = talk(secrets=["sk-secret-0123456789"])
    _, out = response_to([*api.events_of(WHOLE)[:6], api.failed_event("wrong key sk-secret-0123456789")],
                         translation=exchange)
    assert b"sk-secret" not in out


@pytest.mark.parametrize("failure", [api.failed_event("busy", "rate_limit_exceeded"), api.error_event("busy")],
                         ids=["response.failed", "error"])
def test_a_failure_before_content_is_a_status_while_the_head_is_withheld(failure: Any) -> None:
    exchange, out = response_to([*api.events_of(WHOLE)[:2], failure], translation=talk(withhold=True))
    assert exchange.head is not None
    assert exchange.head.status >= 400
    assert set(json.loads(out)["error"]) == {"message", "type", "param", "code"}


def test_incomplete_responses_keep_their_reason() -> None:
    whole = api.response([api.message("Hel")], state="incomplete", incomplete="max_output_tokens")
    exchange, out = response_to(api.events_of(whole))
    assert events_in(out)[-1]["type"] == "response.incomplete"
    assert exchange.finish_reason == "length"


def test_a_whole_response_passes() -> None:
    exchange = talk()
    exchange.request(written({"input": "hi", "tools": [TOOL]}))
    exchange.start(200, {"content-type": "application/json"})
    body = json.dumps(WHOLE).encode()
    out = exchange.feed(body[:50]) + exchange.feed(body[50:]) + exchange.finish()
    assert json.loads(out) == {**WHOLE, "model": "mine"}
    assert (exchange.finish_reason, exchange.tool_calls, exchange.usage.input) == ("tool_calls", 1, 21)


def test_a_failed_response_as_a_whole_is_an_error() -> None:
    exchange = talk()
    exchange.request(written({"input": "hi"}))
    exchange.start(200, {"content-type": "application/json"})
    exchange.feed(json.dumps(api.failed_event("gone")["response"]).encode())
    exchange.finish()
    assert exchange.head is not None
    assert exchange.head.status >= 500


@pytest.mark.parametrize("streams", [True, False], ids=["a stream", "a whole response"])
def test_the_other_form_is_translated(streams: bool) -> None:
    """The server streams though nobody asked, or the reverse."""
    exchange = talk()
    exchange.request(written({"input": "hi", "tools": [TOOL], "stream": not streams}))
    exchange.start(200, {"content-type": "text/event-stream" if streams else "application/json"})
    body = b"".join(map(api.written, api.events_of(WHOLE))) if streams else json.dumps(WHOLE).encode()
    out = exchange.feed(body) + exchange.finish()
    response = json.loads(out) if streams else check_stream(out)[-1]["response"]
    assert [item["type"] for item in response["output"]] == ["message", "function_call"]
    assert response["model"] == "mine"


def test_keep_alives_are_data() -> None:
    """Codex counts no comments; the numbers are the provider's."""
    exchange, _ = response_to(api.events_of(WHOLE)[:6], end=False)
    exchange.tick(0.0)
    assert exchange.tick(11.0) == b'event: keepalive\ndata: {"type":"keepalive"}\n\n'


def test_calls_that_were_not_offered_are_counted() -> None:
    whole = api.response([api.function_call("call_1", "unknown", {})])
    exchange, _ = response_to(api.events_of(whole))
    assert exchange.unoffered_calls == 1
