"""`/v1/events`: plain events for web front ends, and the final answer of a conversation that ran out of rounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.openai.client import EventsApi, ToolLabel
from extproc.apis.openai.client.finalizing import NOT_RUN
from extproc.apis.openai.client.request import ChatRequest
from extproc.bounds import Limits
from extproc.config.tools import EventSettings
from extproc.conversation.model import (
    Event,
    Finish,
    Request,
    Start,
    Text,
    TextDelta,
    TextStart,
    ToolChoice,
    ToolResult,
    Usage,
)
from extproc.conversation.tool_results import pair
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest, Failure, RequestError
from extproc.translation.exchange import Translation
from tests.unit.apis.openai.client.helpers import USER, call, finished, request_with, text, thinking, with_calls
from tests.unit.ext_proc.playbook import request_body
from tests.unit.ext_proc.test_translate import hop, routed

API = EventsApi({"search_*": ToolLabel("search", "hidden"), "*": ToolLabel("other", "visible")}, final_note="Finish.")


def decode(*messages: dict[str, Any], **fields: Any) -> Request:
    body = json.dumps({"model": "m", "messages": list(messages) or [USER], **fields}).encode()
    return API.decode_request(body, {}, Dropped(), Limits())


def emitted(events: list[Event], request: Request | None = None) -> list[dict[str, Any]]:
    wire = API.make_response_encoder(request or request_with(stream=True), "msg_1", lambda: 7).encode_events(events)
    *lines, rest = wire.decode().split("\n\n")
    assert rest == ""
    assert all(line.startswith("data: ") and "\n" not in line for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def test_a_response_in_events() -> None:
    events = emitted(finished(thinking("hm", "S"), text("a", "", "b"), call("c1", "search_web", '{"q":\n', '"x"}'),
                         call("c2", "paint"), reason="tool_calls"))
    load = events[3]["id"]
    assert load.startswith("c1_xs1_")
    assert events == [
        {"type": "reasoning", "text": "hm", "content": "hm"}, {"type": "content", "text": "a"},
        {"type": "content", "text": "b"},
        {"type": "tool_start", "id": load, "name": "search_web", "category": "search", "visibility": "hidden"},
        {"type": "tool_call", "id": load, "name": "search_web", "arguments": {"q": "x"}, "category": "search",
         "visibility": "hidden"},
        {"type": "tool_start", "id": "c2", "name": "paint", "category": "other", "visibility": "visible"},
        {"type": "tool_call", "id": "c2", "name": "paint", "arguments": {}, "category": "other",
         "visibility": "visible"},
        {"type": "usage", "finish_reason": "tool_calls", "usage": {
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}}},
        {"type": "done", "done": True}]


@pytest.mark.parametrize("pieces", [(), ('{"x":',)])
def test_a_truncated_call_only_has_a_start(pieces: tuple[str, ...]) -> None:
    events = emitted(finished(text("a"), call("c", "f", *pieces), reason="length"))
    assert [event["type"] for event in events] == ["content", "tool_start", "usage", "done"]
    assert events[2]["finish_reason"] == "length"


def test_a_whole_call_before_the_limit_is_sent() -> None:
    events = emitted(finished(call("c", "f", "{}"), text("a"), reason="length"))
    assert [event["type"] for event in events] == ["tool_start", "tool_call", "content", "usage", "done"]


def test_arguments_that_are_no_object_are_wrapped() -> None:
    events = emitted(finished(call("c", "f", "[1"), text("a")))
    assert events[1]["arguments"] == {"INVALID_JSON": "[1"}


def test_half_an_emoji_in_arguments_stays_unchanged() -> None:
    assert emitted(finished(call("c", "f", '{"a":\r\n "\\ud83d"}')))[1]["arguments"] == {"a": "\ud83d"}


def exchange(provider: list[str], *, cuts: int = 1000, **fields: Any) -> list[dict[str, Any]]:
    """All events of an exchange whose Anthropic-format provider sends these events."""
    talk = Translation("events", "anthropic", "claude-sonnet-4-5", parallel_tool_calls="enforce")
    talk.request(json.dumps({"model": "m", "messages": [USER], **fields}).encode())
    talk.start(200, {"content-type": "text/event-stream"})
    data = "".join(f"data: {event}\n\n" for event in provider).encode()
    out = b"".join(talk.feed(data[at:at + cuts]) for at in range(0, len(data), cuts)) + talk.finish()
    return [json.loads(line.removeprefix("data: ")) for line in out.decode().split("\n\n") if line]


STARTS = '{"type":"message_start","message":{"id":"x","usage":{"input_tokens":3,"output_tokens":1}}}'
HELLO = ['{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
         '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}',
         '{"type":"content_block_stop","index":0}']
CALLS = [piece for at in (1, 2) for piece in (
    f'{{"type":"content_block_start","index":{at},"content_block":{{"type":"tool_use","id":"t{at}","name":"f",'
    '"input":{}}}',
    f'{{"type":"content_block_delta","index":{at},"delta":{{"type":"input_json_delta","partial_json":"{{}}"}}}}',
    f'{{"type":"content_block_stop","index":{at}}}')]
ENDS = ['{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}',
        '{"type":"message_stop"}']
F = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


@pytest.mark.parametrize("cuts", [1, 13, 1000])
def test_rule_4_losses_of_the_request_come_first_and_those_of_the_response_last(cuts: int) -> None:
    events = exchange([STARTS, *HELLO, *CALLS, *ENDS], cuts=cuts, tools=[F], seed=4, logit_bias={"5": 1})
    assert [event["type"] for event in events] == [
        "warning", "warning", "content", "tool_start", "tool_call", "warning", "usage", "done"]
    assert [event["name"] for event in events if event["type"] == "warning"] == [
        "seed", "logit_bias", "response.parallel_tool_calls"]
    first = events[0]
    assert (first["code"], sorted(first)) == ("dropped", ["code", "message", "name", "type"])
    assert "seed" in first["message"]
    assert not any(event["type"] == "warning" for event in exchange([STARTS, *HELLO, *ENDS]))


def test_hints_are_no_warnings() -> None:
    assert [event["type"] for event in exchange([STARTS, *HELLO, *ENDS], metadata={"a": "b"})] == [
        "content", "usage", "done"]


def test_losses_are_reported_before_an_error() -> None:
    events = exchange([STARTS, *HELLO], seed=4)
    assert [event["type"] for event in events] == ["warning", "content", "error"]


def test_p1_a_broken_stream_ends_with_the_error() -> None:
    events = emitted([Start(), TextStart(), TextDelta("a"), Failure("timeout", "silent", 504), Finish("stop", Usage())])
    assert [event["type"] for event in events] == ["content", "error"]
    assert events[1]["error"]["message"] == "silent"


def test_an_unlisted_tool_has_the_default_label() -> None:
    assert EventsApi().label("x") == ToolLabel("tool", "visible")


def test_the_request_always_asks_for_a_stream_with_usage() -> None:
    request = decode(stream=False)
    assert (request.stream, request.want_usage, request.extra) == (True, True, {})
    with pytest.raises(BadRequest, match=r"^n: "):
        decode(n=2)
    with pytest.raises(BadRequest, match=r"^finalize: "):
        decode(finalize="yes")


def test_finalize_closes_open_calls_forbids_further_ones_and_adds_the_note() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    request = decode(USER, with_calls(("a", "f"), ("b", "f")), {"role": "tool", "tool_call_id": "a", "content": "1"},
                     with_calls(("c", "f")), tools=[tool], tool_choice="required", parallel_tool_calls=True,
                     finalize=True)
    assert request.tool_choice == ToolChoice("none")
    assert request.parallel_tool_calls is None
    assert [tool.name for tool in request.tools] == ["f"]
    assert request.messages[-1].role == "system"
    assert request.messages[-1].content == [Text("Finish.")]
    dropped = Dropped()
    turns = pair(request.messages, dropped)
    assert [exchange.result.content for turn in turns for exchange in turn.exchanges if exchange.result] == [
        [Text("1")], [Text(NOT_RUN)], [Text(NOT_RUN)]]
    assert dropped == Dropped()


def test_finalize_keeps_results_without_their_calls() -> None:
    request = decode(USER, {"role": "tool", "tool_call_id": "z", "name": "f", "content": "42"}, finalize=True)
    assert request.messages[1].content == [Text("[result of the tool f]"), Text("42")]
    assert not any(isinstance(block, ToolResult) for message in request.messages for block in message.content)


def test_finalize_keeps_results_without_any_call_id() -> None:
    """Without `finalize` they are refused by name: the call that they belong to is unknown."""
    stray = {"role": "tool", "content": "42"}
    with pytest.raises(BadRequest, match=r"^messages\[1\]\.tool_call_id: "):
        decode(USER, stray)
    assert decode(USER, stray, finalize=True).messages[1].content == [Text("[result of a tool]"), Text("42")]


@pytest.mark.parametrize("upstream", ["openai", "anthropic", "gemini"])
def test_finalize_gets_no_call_even_where_the_attempt_forces_one(upstream: str) -> None:
    talk = Translation("events", upstream, "m", tool_choice="required")
    body = {"model": "m", "messages": [USER], "tools": [{"type": "function", "function": {"name": "f"}}]}
    forced = json.loads(talk.request(json.dumps(body).encode()).body)
    final = json.loads(talk.request(json.dumps({**body, "finalize": True}).encode()).body)
    choice = {"openai": lambda sent: sent["tool_choice"], "anthropic": lambda sent: sent.get("tool_choice"),
              "gemini": lambda sent: sent["toolConfig"]["functionCallingConfig"]["mode"]}[upstream]
    assert choice(final) in ("none", {"type": "none"}, "NONE")
    assert choice(forced) not in ("none", {"type": "none"}, "NONE")


def test_without_finalize_nothing_changes() -> None:
    request = decode(USER, with_calls(("a", "f")), finalize=False)
    assert [message.role for message in request.messages] == ["user", "assistant"]


def test_excluded_reasoning_is_not_sent() -> None:
    request = ChatRequest(model="m", messages=[], stream=True, show_reasoning=False)
    assert [event["type"] for event in emitted(finished(thinking("hm"), text("a")), request)] == ["content", "usage",
                                                                                                "done"]


# ------------------------------------------------------------------------------- the final answer of a chat completion

ENDPOINTS = {"openai": ("gpt-4o", "https://api.openai.com/v1"),
             "anthropic": ("claude-sonnet-4-5", "https://api.anthropic.com/v1"),
             "gemini": ("gemini-2.5-pro", "https://generativelanguage.googleapis.com/v1beta")}
ASKED = {"model": "gpt-4o", "messages": [USER, with_calls(("a", "f"))], "tools": [F]}


def final(upstream: str, headers: dict[str, str], body: dict[str, Any] | None = None, client: str = "openai",
          **settings: Any) -> Any:
    """The provider's request for this one, between two faithful ends."""
    model, url = ENDPOINTS[upstream]
    talk = Translation(client, upstream, model, url=url, **settings)
    return talk.request(json.dumps(body or ASKED).encode(), headers)


@pytest.mark.parametrize("upstream", list(ENDPOINTS))
def test_a_chat_client_asks_for_the_final_answer_by_header(upstream: str) -> None:
    sent = final(upstream, {"X-Extproc-Finalize": "True"}, tool_choice="required")
    body = json.loads(sent.body)
    assert "Give your final answer to the user now" in json.dumps(body)
    assert NOT_RUN in json.dumps(body)
    choice = {"openai": lambda: body["tool_choice"], "anthropic": lambda: body.get("tool_choice"),
              "gemini": lambda: body["toolConfig"]["functionCallingConfig"]["mode"]}[upstream]()
    assert choice in ("none", {"type": "none"}, "NONE")
    assert not [name for name in sent.headers if name.startswith("x-extproc")]


@pytest.mark.parametrize("upstream", list(ENDPOINTS))
def test_the_header_keeps_results_without_a_call(upstream: str) -> None:
    stray = {"role": "tool", "tool_call_id": "z", "name": "f", "content": "42"}
    assert "42" in final(upstream, {"x-extproc-finalize": "true"}, {**ASKED, "messages": [USER, stray]}).body.decode()


@pytest.mark.parametrize("upstream", list(ENDPOINTS))
def test_false_equals_no_header(upstream: str) -> None:
    whole = {**ASKED, "messages": [USER]}
    assert final(upstream, {"x-extproc-finalize": "false"}, whole) == final(upstream, {}, whole)


@pytest.mark.parametrize("value", ["", "yes", "1"])
def test_another_value_is_refused(value: str) -> None:
    with pytest.raises(RequestError) as refusal:
        final("openai", {"x-extproc-finalize": value})
    assert refusal.value.status == 400
    assert "x-extproc-finalize" in json.loads(refusal.value.body)["error"]["message"]


def test_the_note_is_that_of_the_configuration() -> None:
    """Both ways to ask: in the body of `/v1/events`, and in the header of a chat completion."""
    settings = EventSettings(final_note="Answer in Latin.")
    for path, headers, body in (("/v1/chat/completions", {"x_extproc_finalize": "true"}, ASKED),
                                ("/v1/events", {}, {**ASKED, "finalize": True}),
                                ("/v1/events", {"x_extproc_finalize": "true"}, ASKED)):
        play = hop(events=settings)
        play >> routed(play, path=path, **headers) >> request_body({**body, "model": "one"})
        sent = play.take()[1][1].decode()
        assert "Answer in Latin." in sent
        assert "Give your final answer" not in sent


def test_clients_of_other_apis_do_not_have_it() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [USER]}
    assert b"final answer" not in final("anthropic", {"x-extproc-finalize": "true"}, body, "anthropic").body
