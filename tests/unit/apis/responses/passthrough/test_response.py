"""Responses of OpenAI for Responses clients: ids of calls, counts, unknown parts, the other form."""

from __future__ import annotations

import json

import pytest

from tests.providers import responses as api
from tests.unit.apis.responses.client.grammar import check_stream
from tests.unit.apis.responses.passthrough.helpers import TOOL, events_in, response_to, talk, written

WHOLE = api.response([api.message("Hello."), api.function_call("call_1", "weather", {"town": "Ulm"})])


def test_unknown_events_items_and_members_pass() -> None:
    new = {"type": "response.brand_new.delta", "sequence_number": 3, "delta": {"a": 1}, "more": 1.50}
    stream = api.events_of(api.response([{"type": "brand_new_item", "id": "bn_1", "x": [1]}, api.message("Hi.")]))
    _, out = response_to([*stream[:3], new, *stream[3:]])
    assert api.written(new) in out
    assert events_in(out)[-1]["response"]["output"][0] == {"type": "brand_new_item", "id": "bn_1", "x": [1]}


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


def test_keys_are_scrubbed_from_failures() -> None:
    exchange = talk(secrets=["sk-secret-0123456789"])
    _, out = response_to([*api.events_of(WHOLE)[:6], api.failed_event("wrong key sk-secret-0123456789")],
                         translation=exchange)
    assert b"sk-secret" not in out


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


def test_calls_that_were_not_offered_are_counted() -> None:
    whole = api.response([api.function_call("call_1", "unknown", {})])
    exchange, _ = response_to(api.events_of(whole))
    assert exchange.unoffered_calls == 1


@pytest.mark.parametrize("state", ["failed", "cancelled", "in_progress", "queued"])
def test_a_whole_response_that_is_not_complete_is_an_error(state: str) -> None:
    exchange = talk()
    exchange.request(written({"input": "hi"}))
    exchange.start(200, {"content-type": "application/json"})
    exchange.feed(json.dumps(api.response([], state=state)).encode())
    exchange.finish()
    assert exchange.head is not None
    assert exchange.head.status >= 500
