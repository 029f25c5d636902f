"""Parameters and tools of a Chat Completions request."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from extproc.apis.openai.provider.request import encode_request
from extproc.conversation.model import OutputFormat, Request, ServerTool, ThinkingConfig, ToolChoice
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles import find_profile
from tests.unit.apis.openai.provider.helpers import GENERIC, assistant, call, encode, result, target, tool, user

GPT_4O = find_profile("openai", None, "gpt-4o")
GPT_5 = find_profile("openai", None, "gpt-5")
WEB_SEARCH = ServerTool("anthropic", "web_search_20250305", "web_search", b"{}")


def test_the_request_goes_to_chat_completions_with_fixed_headers():
    request = Request(model="m", messages=[user("hi")], stream=True)
    sent = encode_request(request, target(base_path="/api/v1"), Dropped()).request
    assert (sent.method, sent.path) == ("POST", "/api/v1/chat/completions")
    assert sent.headers == {"content-type": "application/json", "accept": "text/event-stream",
                            "accept-encoding": "identity"}
    whole = encode_request(replace(request, stream=False), target(), Dropped()).request
    assert whole.headers["accept"] == "application/json"


def test_a_plain_request_has_no_further_fields():
    assert encode() == {"model": "some-model", "messages": [{"role": "user", "content": "hi"}]}


def test_a_stream_asks_for_usage_unless_the_profile_forbids_it():
    assert encode(stream=True)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in encode(stream=True, profile=replace(GENERIC, stream_usage=False))


def test_p24_max_tokens_is_clamped_and_named_as_the_model_wants_it():
    assert encode(max_output_tokens=128000, settings={"max_output_tokens": 8192})["max_tokens"] == 8192
    assert encode(max_output_tokens=100, settings={"max_output_tokens": 8192})["max_tokens"] == 100
    body = encode(max_output_tokens=100, profile=GPT_5)
    assert body["max_completion_tokens"] == 100
    assert "max_tokens" not in body


@pytest.mark.parametrize(("model", "most"), [
    ("gpt-4o", 16_384), ("gpt-4o-mini-2024-07-18", 16_384), ("gpt-4o-2024-05-13", 4096), ("gpt-4.1-nano", 32_768),
    ("gpt-4-turbo-2024-04-09", 4096), ("gpt-4-1106-preview", 4096), ("gpt-4", 8192), ("gpt-4-0613", 8192),
    ("gpt-3.5-turbo-0125", 4096), ("o1", 100_000), ("o3-mini", 100_000), ("o4-mini", 100_000), ("gpt-5", 128_000),
    ("gpt-5.2-chat-latest", 16_384), ("gpt-5.1-codex", 128_000)])
def test_p24_openais_models_get_at_most_their_own_limit(model: str, most: int):
    """OpenAI answers 400 where others clamp; Claude Code asks every model for 32000."""
    for wanted, sent in ((1_000_000, most), (most, most), (9, 9)):
        dropped = Dropped()
        body = encode(max_output_tokens=wanted, profile=find_profile("openai", None, model), dropped=dropped)
        assert body.get("max_tokens", body.get("max_completion_tokens")) == sent
        assert dropped.hints == (["max_tokens"] if wanted > most else [])
    for provider in ("azure", "github", "openrouter"):
        assert find_profile(provider, None, f"openai/{model}").max_output_tokens is None


def test_p24_reasoning_models_get_no_temperature_top_p_and_stop():
    dropped = Dropped()
    body = encode(temperature=0.2, top_p=0.9, stop=["x"], top_k=5, profile=GPT_5, dropped=dropped)
    assert set(body) == {"model", "messages"}
    assert dropped.losses == ["stop", "temperature", "top_k", "top_p"]


def test_sampling_is_sent_top_k_is_named_and_four_stops_fit():
    dropped = Dropped()
    body = encode(temperature=0.0, top_p=0.9, top_k=5, stop=list("abcde"), dropped=dropped)
    assert (body["temperature"], body["top_p"], body["stop"]) == (0.0, 0.9, list("abcd"))
    assert "top_k" not in body
    assert dropped.losses == ["stop", "top_k"]
    assert encode(top_k=5, profile=replace(GENERIC, refuses=frozenset()))["top_k"] == 5


def test_trap_4_a_long_user_id_becomes_a_stable_short_hash():
    odd = json.dumps({"device_id": "d" * 90, "session_id": "s"})
    hashed = encode(user=odd)["user"]
    assert len(hashed) <= 64
    assert hashed.isalnum()
    assert encode(user=odd)["user"] == hashed
    assert encode(user="user-17_b")["user"] == "user-17_b"
    dropped = Dropped()
    assert "user" not in encode(user="u", profile=replace(GENERIC, user=False), dropped=dropped)
    assert dropped.hints == ["user"]


# ----------------------------------------------------------------------------------------------------------- reasoning


@pytest.mark.parametrize(("thinking", "generic", "gpt_5", "gpt_5_2"), [
    (None, None, None, None),
    (ThinkingConfig("enabled", 4096), "low", "low", "low"),
    (ThinkingConfig("enabled", 15999), "medium", "medium", "medium"),
    (ThinkingConfig("enabled", 31999), "high", "high", "high"),
    (ThinkingConfig("enabled"), None, None, None),
    (ThinkingConfig("adaptive"), None, None, None),
    (ThinkingConfig("adaptive", None, "high"), "high", "high", "high"),
    (ThinkingConfig(None, None, "max"), "high", "high", "xhigh"),
    (ThinkingConfig(None, None, "minimal"), "low", "minimal", "low"),
    (ThinkingConfig("enabled", 31999, "low"), "low", "low", "low"),
    (ThinkingConfig("disabled"), None, None, "none"),
])
def test_thinking_becomes_the_nearest_effort_the_model_knows(thinking, generic, gpt_5, gpt_5_2):
    assert encode(thinking=thinking).get("reasoning_effort") == generic
    assert encode(thinking=thinking, profile=GPT_5).get("reasoning_effort") == gpt_5
    later = find_profile("openai", None, "gpt-5.2")
    assert encode(thinking=thinking, profile=later).get("reasoning_effort") == gpt_5_2


def test_rule_4_unsupported_thinking_is_named():
    dropped = Dropped()
    body = encode(thinking=ThinkingConfig("enabled", 9000), profile=GPT_4O, dropped=dropped)
    assert "reasoning_effort" not in body
    assert dropped.losses == ["thinking"]


# --------------------------------------------------------------------------------------------------- structured output


def test_structured_output_is_a_json_schema_where_that_is_taken():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
              "additionalProperties": False}
    body = encode(output_format=OutputFormat(schema, name="a title", strict=True))
    assert body["response_format"] == {"type": "json_schema",
                                       "json_schema": {"name": "a_title", "schema": schema, "strict": True}}
    loose = encode(output_format=OutputFormat({"type": "object", "properties": {"a": {}}}, strict=True))
    assert "strict" not in loose["response_format"]["json_schema"]


def test_structured_output_below_json_schema_is_described_in_the_system_text():
    wanted = OutputFormat({"type": "object", "properties": {"tide": {"type": "number"}}})
    body = encode(output_format=wanted, profile=replace(GENERIC, response_format="json_object"))
    assert body["response_format"] == {"type": "json_object"}
    assert '"tide"' in body["messages"][0]["content"]
    body = encode(output_format=wanted, profile=replace(GENERIC, response_format="none"))
    assert "response_format" not in body
    assert '"tide"' in body["messages"][0]["content"]
    assert "JSON" in encode(output_format=OutputFormat(None))["messages"][0]["content"]


# --------------------------------------------------------------------------------------------------------------- tools


def test_a_tool_is_a_function_with_cleaned_parameters():
    body = encode(tools=[tool("read", {"$schema": "x", "type": "object"})])
    assert body["tools"] == [{"type": "function", "function": {
        "name": "read", "parameters": {"type": "object", "properties": {}}, "description": "does it"}}]


def test_p24_without_tools_no_tool_field_is_sent():
    body = encode(tools=[], tool_choice=ToolChoice("auto"), parallel_tool_calls=False)
    assert set(body) == {"model", "messages"}


@pytest.mark.parametrize(("choice", "sent"), [
    (None, None), (ToolChoice("auto"), "auto"), (ToolChoice("required"), "required"), (ToolChoice("none"), "none"),
    (ToolChoice("tool", "read"), {"type": "function", "function": {"name": "read"}}),
])
def test_p24_every_tool_choice_has_its_form_and_none_keeps_the_tools(choice, sent):
    body = encode(tools=[tool("read")], tool_choice=choice)
    assert body.get("tool_choice") == sent
    assert len(body["tools"]) == 1


def test_a_choice_of_a_tool_that_is_not_offered_is_refused_by_name():
    with pytest.raises(BadRequest, match="'gone'"):
        encode(tools=[tool("read")], tool_choice=ToolChoice("tool", "gone"))


def test_an_unsupported_choice_becomes_the_next_best():
    few = replace(GENERIC, tool_choices=frozenset({"auto", "none"}))
    dropped = Dropped()
    body = encode(tools=[tool("read")], tool_choice=ToolChoice("tool", "read"), profile=few, dropped=dropped)
    assert body["tool_choice"] == "auto"
    assert dropped.losses == ["tool_choice"]
    only = replace(GENERIC, tool_choices=frozenset())
    assert "tools" not in encode(tools=[tool("read")], tool_choice=ToolChoice("none"), profile=only)


def test_p24_parallel_tool_calls_is_sent_only_to_forbid_and_where_taken():
    tools = [tool("read")]
    assert encode(tools=tools, parallel_tool_calls=False)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in encode(tools=tools, parallel_tool_calls=True)
    dropped = Dropped()
    o3 = find_profile("openai", None, "o3")
    assert "parallel_tool_calls" not in encode(tools=tools, parallel_tool_calls=False, profile=o3, dropped=dropped)
    assert dropped.losses == ["parallel_tool_calls"]


def test_the_settings_of_the_attempt_override_the_client():
    settings = {"tool_choice": "required", "parallel_tool_calls": True}
    body = encode(tools=[tool("read")], tool_choice=ToolChoice("none"), parallel_tool_calls=False, settings=settings)
    assert (body["tool_choice"], body["parallel_tool_calls"]) == ("required", True)
    dropped = Dropped()
    assert "tools" not in encode(tools=[tool("read")], settings={"tool_style": "off"}, dropped=dropped)
    assert dropped.losses == ["tools"]


def test_too_many_tools_are_refused_with_both_numbers():
    tools = [tool(f"t{number}") for number in range(129)]
    assert len(encode(tools=tools)["tools"]) == 129
    with pytest.raises(BadRequest, match="129 tools are offered, this model takes at most 128"):
        encode(tools=tools, profile=GPT_4O)
    with pytest.raises(BadRequest, match="at most 20"):
        encode(tools=tools, settings={"max_tools": 20})


def test_deferred_tools_are_offered():
    body = encode(tools=[replace(tool("later"), deferred=True)])
    assert body["tools"][0]["function"]["name"] == "later"
    assert "defer" not in json.dumps(body)


def test_strict_is_sent_only_where_taken_and_met():
    closed = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
              "additionalProperties": False}
    strict = replace(tool("read", closed), strict=True)
    assert encode(tools=[strict], profile=GPT_4O)["tools"][0]["function"]["strict"] is True
    dropped = Dropped()
    assert "strict" not in encode(tools=[strict], dropped=dropped)["tools"][0]["function"]
    assert dropped.hints == ["tools.strict"]
    open_ended = replace(tool("read"), strict=True)
    assert "strict" not in encode(tools=[open_ended], profile=GPT_4O)["tools"][0]["function"]


def test_p23_server_tools_are_never_sent_as_functions():
    dropped = Dropped()
    body = encode(tools=[tool("read")], server_tools=[WEB_SEARCH], dropped=dropped,
                  tool_choice=ToolChoice("tool", "web_search"))
    assert [entry["function"]["name"] for entry in body["tools"]] == ["read"]
    assert "tool_choice" not in body
    assert dropped.losses == ["tools.web_search_20250305", "tool_choice"]


def test_trap_6_a_request_with_nothing_but_a_web_search_is_answered_with_text():
    dropped = Dropped()
    body = encode(user("search tides"), server_tools=[WEB_SEARCH], tool_choice=ToolChoice("auto"), dropped=dropped)
    assert set(body) == {"model", "messages"}
    assert body["messages"][0]["role"] == "system"
    assert "web_search" in body["messages"][0]["content"]
    assert "not available" in body["messages"][0]["content"]
    assert dropped.losses == ["tools.web_search_20250305"]


def test_p22_names_are_mapped_in_tools_choice_and_history_alike():
    long = "mcp__server__" + "x" * 70
    body = encode(user("hi"), assistant(call("a", long)), user(result("a", "ok")), tools=[tool(long)],
                  tool_choice=ToolChoice("tool", long))
    name = body["tools"][0]["function"]["name"]
    assert len(name) <= 64
    assert body["messages"][1]["tool_calls"][0]["function"]["name"] == name
    assert body["tool_choice"]["function"]["name"] == name


def test_extra_fields_of_a_profile_come_last():
    profile = replace(GENERIC, extra_body={"provider": {"require_parameters": True}})
    assert encode(profile=profile)["provider"] == {"require_parameters": True}
