"""Written tools in a provider's request: the style of the attempt, the client's choice, the limits, and the ids of a
native history."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from extproc.bounds import Limits
from extproc.conversation.model import Media, Tool, ToolChoice
from extproc.dialects.writing import WRITABLE
from extproc.errors import BadRequest, RequestError
from extproc.translation.exchange import Translation
from tests.model_text.prompted_reader import parse_prompted_results
from tests.unit.apis.openai.provider.helpers import GENERIC, assistant, call, encode, result, tool, user

ASK: dict[str, Any] = {
    "model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"name": "ping", "input_schema": {"type": "object", "properties": {}}},
              {"name": "read", "input_schema": {"type": "object", "properties": {}}}]}


def sent(headers: dict[str, str] | None = None, **settings: Any) -> dict[str, Any]:
    translation = Translation("anthropic", "openai", "some-model", **settings)
    body: dict[str, Any] = json.loads(translation.request(json.dumps(ASK).encode(), headers or {}).body)
    return body


def refused(headers: dict[str, str] | None = None, **settings: Any) -> str:
    with pytest.raises(RequestError) as raised:
        sent(headers, **settings)
    assert raised.value.status == 400
    message: str = json.loads(raised.value.body)["error"]["message"]
    return message


@pytest.mark.parametrize("style", sorted(WRITABLE))
def test_a_written_request_holds_text_only(style):
    body = encode(user("hi"), assistant("Well.", call("a", "read")), user(result("a", "done"), "more"),
                  tools=[tool("read")], tool_choice=ToolChoice("required"), parallel_tool_calls=False,
                  settings={"tool_style": style})
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body)
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert all(set(message) == {"role", "content"} for message in body["messages"])
    first, _, said, got = (message["content"] for message in body["messages"])
    assert "read" in first
    assert "must call a tool" in first
    assert "at most one tool" in first
    assert said.startswith("Well.")
    assert "read" in said
    assert "done" in got
    assert got.endswith("\n\nmore")


def test_images_of_results_reach_the_model():
    image = Media("image", media_type="image/png", data="iVBOR")
    body = encode(assistant(call("a", "read")), user(result("a", image)), tools=[tool("read")],
                  settings={"tool_style": "prompted"})
    parts = body["messages"][-1]["content"]
    assert [part["type"] for part in parts] == ["text", "text", "image_url"]
    assert parse_prompted_results(parts[0]["text"])[0][3] == "[image attached behind the results]"


def test_the_attempts_choice_and_limits_outrank_the_client():
    body = encode(tools=[tool("read")], settings={"tool_style": "prompted", "tool_choice": "required"})
    assert "must call a tool" in body["messages"][0]["content"]
    body = encode(tools=[tool("read")], settings={"tool_style": "prompted", "tool_choice": "none"})
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    with pytest.raises(BadRequest, match=r"2 tools .* at most 1"):
        encode(tools=[tool("a"), tool("b")], settings={"tool_style": "hermes", "max_tools": 1})


def test_rule_6_the_same_request_gives_the_same_bytes():
    for style in sorted(WRITABLE):
        asked = [user("hi"), assistant(call("a", "read", '{"b": 1, "a": 2}')), user(result("a", "x"))]
        tools = [Tool(name, "d", {"type": "object", "properties": {"z": {}, "a": {}}}) for name in ("z", "read", "a")]
        first, second = (encode(*asked, tools=tools, settings={"tool_style": style}) for _ in range(2))
        assert json.dumps(first) == json.dumps(second)


def test_a_longer_conversation_begins_with_the_same_text():
    """Prompt caches use the longest common beginning."""
    turns = [user("hi"), assistant(call("a", "read")), user(result("a", "x")), assistant("ok"), user("again"),
             assistant(call("b", "read")), user(result("b", "y"))]
    for style in sorted(WRITABLE):
        short, long = (encode(*turns[:size], tools=[tool("read")], settings={"tool_style": style})["messages"]
                       for size in (3, 7))
        assert long[:len(short)] == short


# ---------------------------------------------------------------------------------------------------- x-extproc-tools


def test_a_client_may_ask_for_another_style():
    assert [entry["function"]["name"] for entry in sent({"x-extproc-tools": "native"}, tool_style="off")["tools"]] == [
        "ping", "read"]
    off = sent({"x-extproc-tools": "off"})
    assert "tools" not in off
    assert off["messages"] == [{"role": "user", "content": "hi"}]
    prompted = sent({"X-ExtProc-Tools": " Prompted "})
    assert "tools" not in prompted
    assert '<tool name="ping">' in prompted["messages"][0]["content"]


def test_any_other_wish_is_refused_with_the_legal_ones():
    message = refused({"x-extproc-tools": "hermes"})
    assert "x-extproc-tools" in message
    assert "off, native, prompted" in message


def test_a_prompt_takes_fewer_tools_than_an_api():
    few = Limits(prompted_tools=1)
    assert "at most 1" in refused({"x-extproc-tools": "prompted"}, limits=few)
    assert len(sent(limits=few)["tools"]) == 2
    assert "at most 1" in refused({"x-extproc-tools": "prompted"}, max_tools=1)


# ------------------------------------------------------------------------------------------------------ native history


def test_kimi_ids_are_rebuilt_over_the_whole_conversation():
    """Moonshot's own API names every call of the history functions.NAME:N; other ids teach the model to write ids that
    no parser takes. Clients cannot hold `.` and `:`, so what they send back is always another id."""
    kimi = replace(GENERIC, tool_call_id_form="functions")
    body = encode(
        user("hi"), assistant(call("toolu_1", "read")), user(result("toolu_1", "a")),
        assistant(call("functions_read_0", "mcp__x__find-docs"), call("call_b", "read")),
        user(result("call_b", "c"), result("functions_read_0", "b")),
        assistant(call("toolu_1", "read")), user(result("toolu_1", "d"), "go on"),
        tools=[tool("read")], profile=kimi)
    calls = [entry["id"] for message in body["messages"] for entry in message.get("tool_calls", [])]
    assert calls == ["functions.read:0", "functions.mcp__x__find-docs:1", "functions.read:2", "functions.read:3"]
    results = [(m["tool_call_id"], m["content"]) for m in body["messages"] if m["role"] == "tool"]
    assert results == list(zip(calls, "abcd", strict=True))
