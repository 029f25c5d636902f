"""Responses clients at OpenAI itself: the client's bytes pass, and only what must change is changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.responses.client.envelopes import pack_thinking
from extproc.conversation.model import Signature, Thinking
from extproc.conversation.signatures import embed_in_id
from extproc.errors import RequestError
from extproc.translation.exchange import Translation
from tests.unit.apis.responses.client.grammar import check_stream, parse_stream
from tests.unit.apis.responses.client.helpers import HI, function, namespace

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}", "status": "completed"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "so"}], "content": None,
             "encrypted_content": "gAAAA"}
TOOLS = [function("f"), namespace("ns", function("g")), {"type": "tool_search", "execution": "client"},
         {"type": "web_search"}]


def openai(model: str = "gpt-6-sol", **settings: Any) -> Translation:
    return Translation("responses", "openai", model, url="https://api.openai.com/v1", **settings)


def body_of(*items: Any, **fields: Any) -> bytes:
    return json.dumps({"model": "mine", "stream": True, "input": list(items) or [HI], **fields}).encode()


def sent(*items: Any, talk: Translation | None = None, **fields: Any) -> dict[str, Any]:
    """The body that the provider gets."""
    request = (talk or openai()).request(body_of(*items, **fields))
    assert request.path == "/v1/responses"
    found: dict[str, Any] = json.loads(request.body)
    return found


def test_a_request_passes_with_its_tools_and_its_own_fields() -> None:
    fields = {"tools": TOOLS, "text": {"verbosity": "low"}, "prompt_cache_key": "k", "brand_new": {"a": 1}}
    found = sent(**fields)
    assert {name: found[name] for name in fields} == fields
    assert (found["model"], found["store"], found["include"]) == ("gpt-6-sol", False, ["reasoning.encrypted_content"])


def issued() -> dict[str, Any]:
    """The reasoning item as the client got it."""
    out = answered(*BEGIN, event("response.output_item.done", 2, output_index=0, item=REASONING))
    found: dict[str, Any] = parse_stream(out)[2]["item"]
    assert "gAAAA" not in str(found)
    return found


def test_what_names_the_machine_and_the_ids_of_items_stay_here() -> None:
    item = {**HI, "internal_chat_message_metadata_passthrough": {"x": 1}}
    found = sent(item, CALL, OUTPUT, client_metadata={"installation": "x"}, tools=TOOLS)
    assert "client_metadata" not in found
    assert found["input"] == [HI, {name: value for name, value in CALL.items() if name != "id"}, OUTPUT]


def test_r14_reasoning_returns_to_its_issuer_as_it_was() -> None:
    found = sent(HI, issued(), CALL, OUTPUT, tools=TOOLS)["input"][1]
    assert found == {"type": "reasoning", "summary": REASONING["summary"], "encrypted_content": "gAAAA"}


def test_r14_so_it_does_where_the_request_is_encoded_anew() -> None:
    found = sent(HI, issued(), CALL, OUTPUT, HI, CALL, tools=TOOLS)["input"][1]
    assert found == {"type": "reasoning", "summary": REASONING["summary"], "encrypted_content": "gAAAA"}


def test_r15_reasoning_of_others_is_left_out() -> None:
    other = {**REASONING, "encrypted_content": pack_thinking(Thinking("t", signature="of Anthropic"))}
    talk = openai()
    assert [item["type"] for item in sent(REASONING, other, CALL, OUTPUT, talk=talk)["input"]] == [
        "function_call", "function_call_output"]
    assert talk.dropped.hints == ["input.reasoning"]
    assert len(sent(issued(), CALL, OUTPUT, talk=openai("gpt-6-other"))["input"]) == 2


def test_r17_reasoning_that_stands_alone_is_left_out() -> None:
    assert sent(HI, issued(), HI)["input"] == [HI, HI]
    assert sent(HI, issued())["input"] == [HI]


@pytest.mark.parametrize(("wanted", "limit"), [(5, 16), (100, 100), (90_000, 4_000)])
def test_the_output_limit_is_clamped(wanted: int, limit: int) -> None:
    assert sent(max_output_tokens=wanted, talk=openai(max_output_tokens=4_000))["max_output_tokens"] == limit


def test_a_model_without_reasoning_is_not_asked_for_it() -> None:
    assert sent(talk=openai("gpt-4o"), include=["reasoning.encrypted_content"])["include"] == []


@pytest.mark.parametrize("items", [
    [HI, {**CALL, "call_id": embed_in_id("c1", Signature("s", "orig"))}, OUTPUT],
    [HI, CALL], [HI, OUTPUT], [HI, {"type": "compaction_trigger"}]])
def test_a_history_that_must_change_is_encoded_anew(items: list[Any]) -> None:
    found = sent(*items, tools=[namespace("ns", function("g")), function("f")])
    assert "namespace" not in [tool["type"] for tool in found.get("tools", [])]
    assert b"xr1." not in json.dumps(found).encode()


def test_a_tool_that_the_configuration_does_not_permit_does_not_pass() -> None:
    found = sent(tools=TOOLS, talk=openai(only_tools=("f",)))
    assert [tool["name"] for tool in found["tools"]] == ["f"]


def test_a_request_that_needs_a_store_is_refused_here_too() -> None:
    with pytest.raises(RequestError) as caught:
        sent(previous_response_id="resp_1")
    assert json.loads(caught.value.body)["error"]["code"] == "previous_response_not_found"


# ------------------------------------------------------------------------------------------------------------ responses


def event(kind: str, number: int, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps(
        {"type": kind, "sequence_number": number, **fields}).encode())


def response_object(status: str, **fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "gpt-6-sol", "status": status, "output": [], "error": None,
            "incomplete_details": None, **fields}


USAGE = {"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 2},
         "output_tokens_details": {"reasoning_tokens": 1}}
TEXT = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "phase": "final_answer",
        "content": [{"type": "output_text", "text": "hello", "annotations": []}]}
BEGIN = [event("response.created", 0, response=response_object("in_progress")),
         event("response.in_progress", 1, response=response_object("in_progress"))]
ITEM = [event("response.output_item.added", 2, output_index=0, item={**TEXT, "content": [], "status": "in_progress"}),
        event("response.content_part.added", 3, item_id="msg_1", output_index=0, content_index=0, part={
            "type": "output_text", "text": ""}),
        event("response.output_text.delta", 4, item_id="msg_1", output_index=0, content_index=0, delta="hello",
              obfuscation="x")]
REST = [event("response.output_text.done", 5, item_id="msg_1", output_index=0, content_index=0, text="hello"),
        event("response.content_part.done", 6, item_id="msg_1", output_index=0, content_index=0,
              part=TEXT["content"][0]),  # type: ignore[index]
        event("response.output_item.done", 7, output_index=0, item=TEXT),
        event("response.completed", 8, response=response_object("completed", output=[TEXT], usage=USAGE))]


def answered(*pieces: bytes, stream: bool = True, talk: Translation | None = None) -> bytes:
    talk = talk or openai()
    talk.request(body_of(stream=stream))
    talk.start(200, {"content-type": "text/event-stream" if stream else "application/json"})
    return b"".join(map(talk.feed, pieces)) + talk.finish()


def test_a_stream_passes_with_the_clients_name_of_the_model() -> None:
    talk = openai()
    written = b"".join([*BEGIN, *ITEM, *REST])
    out = answered(written, talk=talk)
    check_stream(out)
    assert [{**one, **({"response": {**one["response"], "model": "gpt-6-sol"}} if "response" in one else {})}
            for one in parse_stream(out)] == parse_stream(written)
    assert all(one["response"]["model"] == "mine" for one in parse_stream(out) if "response" in one)
    assert (talk.usage.input, talk.usage.cached, talk.usage.output, talk.usage.reasoning) == (9, 2, 4, 1)


def test_any_cut_gives_the_same_bytes() -> None:
    written = b"".join([*BEGIN, *ITEM, *REST])
    at_once = answered(written)
    for size in (1, 7, 64):
        assert answered(*(written[at:at + size] for at in range(0, len(written), size))) == at_once


def test_r11_unknown_events_pass_and_end_nothing() -> None:
    limits = b'event: codex.rate_limits\ndata: {"type":"codex.rate_limits","a":1}\n\n'
    assert limits in answered(*BEGIN, limits, *ITEM, *REST)


@pytest.mark.parametrize("broken", [
    [], [event("error", 5, code="server_error", message="it broke", param=None)],
    [event("response.failed", 5, response=response_object("failed", error={
        "code": "server_error", "message": "it broke"}))], [b"data: {damaged\n\n"]])
def test_r9_r10_whatever_breaks_ends_in_a_failed_response(broken: list[bytes]) -> None:
    talk = openai()
    out = answered(*BEGIN, *ITEM, *broken, talk=talk)
    events = check_stream(out)
    assert events[-1]["type"] == "response.failed"
    assert (events[-1]["response"]["id"], events[-1]["response"]["model"]) == ("resp_1", "mine")
    assert talk.failure is not None


def test_r31_a_failure_before_any_content_is_a_status() -> None:
    talk = openai(withhold=True)
    failed = response_object("failed", error={"code": "rate_limit_exceeded", "message": "slow down"})
    out = answered(*BEGIN, event("response.failed", 2, response=failed), talk=talk)
    assert talk.head is not None
    assert talk.head.status == 429
    assert json.loads(out)["error"]["code"] == "rate_limit_exceeded"


def test_calls_are_counted() -> None:
    talk = openai()
    item = {**CALL, "arguments": ""}
    answered(*BEGIN, event("response.output_item.added", 2, output_index=0, item=item),
             event("response.output_item.done", 3, output_index=0, item=CALL),
             event("response.completed", 4, response=response_object("completed", output=[CALL], usage=USAGE)),
             talk=talk)
    assert (talk.tool_calls, talk.finish_reason) == (1, "tool_calls")


def test_r35_the_keep_alive_is_an_event_of_data() -> None:
    talk = openai()
    talk.request(body_of())
    talk.start(200, {"content-type": "text/event-stream"})
    talk.feed(b"".join([*BEGIN, *ITEM]), 0.0)
    assert talk.tick(11.0) == b'event: keepalive\ndata: {"type":"keepalive"}\n\n'


def test_a_whole_response_passes() -> None:
    whole = response_object("completed", output=[TEXT], usage=USAGE, brand_new=1)
    assert json.loads(answered(json.dumps(whole).encode(), stream=False)) == {**whole, "model": "mine"}


def test_a_whole_response_that_failed_is_an_error() -> None:
    talk = openai()
    failed = response_object("failed", error={"code": "server_error", "message": "it broke"})
    answered(json.dumps(failed).encode(), stream=False, talk=talk)
    assert talk.head is not None
    assert talk.head.status >= 500
