"""Requests of every client at the Responses API: parameters, tools, structured output."""

from __future__ import annotations

from typing import Any

import pytest

from extproc import RequestError
from tests.providers import responses as api
from tests.unit.apis.responses.provider.helpers import PARAMETERS, answered, blocks, events_of, said, sent, talk

TOOL = {"name": "weather", "description": "The weather", "input_schema": PARAMETERS}
CHAT_TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}


def test_a_request_is_stateless_and_asks_for_encrypted_reasoning() -> None:
    got = sent(said("anthropic", "hi", system="Be brief.", stream=True))
    assert (got["store"], got["include"], got["stream"]) == (False, ["reasoning.encrypted_content"], True)
    assert got["instructions"] == "Be brief."
    assert got["input"] == [{"type": "message", "role": "user", "content": "hi"}]


def test_r34_strict_is_always_said() -> None:
    assert sent(said("anthropic", "hi", tools=[TOOL]))["tools"][0]["strict"] is False
    closed = {**PARAMETERS, "additionalProperties": False}
    asked = {"type": "function", "function": {"name": "weather", "parameters": closed, "strict": True}}
    assert sent(said("openai", "hi", tools=[asked]), "openai")["tools"][0]["strict"] is True


@pytest.mark.parametrize(("limit", "given"), [(1, 16), (16, 16), (900, 900), (500_000, 128_000)])
def test_the_output_limit_is_at_least_16_and_at_most_the_models(limit: int, given: int) -> None:
    assert sent(said("anthropic", "hi", max_tokens=limit))["max_output_tokens"] == given


@pytest.mark.parametrize(("asked", "given"), [
    ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, {"effort": "low", "summary": "auto"}),
    ({"thinking": {"type": "adaptive"}}, {"summary": "auto"}),
    ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, {"effort": "xhigh", "summary": "auto"}),
    ({"thinking": {"type": "disabled"}}, {"effort": "none"}),
    ({}, None),
])
def test_reasoning_is_asked_for_with_its_summary(asked: dict[str, Any], given: Any) -> None:
    assert sent(said("anthropic", "hi", tools=[TOOL], max_tokens=9000, **asked)).get("reasoning") == given


def test_an_organisation_that_is_not_verified_asks_for_no_summary() -> None:
    thinking = {"type": "enabled", "budget_tokens": 2000}
    got = sent(said("anthropic", "hi", max_tokens=9000, thinking=thinking), reasoning_summaries=False)
    assert got["reasoning"] == {"effort": "low"}
    assert got["include"] == ["reasoning.encrypted_content"]
    assert "reasoning" not in sent(said("anthropic", "hi", thinking={"type": "adaptive"}), reasoning_summaries=False)


def test_tools_stand_beside_reasoning_and_nothing_is_lost() -> None:
    translation = talk(lossy="reject")
    got = sent(said("anthropic", "hi", tools=[TOOL], max_tokens=9000,
                    thinking={"type": "enabled", "budget_tokens": 8000}), translation=translation)
    assert got["reasoning"]["effort"] == "medium"
    assert [tool["name"] for tool in got["tools"]] == ["weather"]
    assert translation.dropped.losses == []


@pytest.mark.parametrize(("choice", "given"), [
    ({"type": "any"}, "required"), ({"type": "none"}, "none"), ({"type": "auto"}, "auto"),
    ({"type": "tool", "name": "weather"}, {"type": "function", "name": "weather"})])
def test_tool_choices(choice: dict[str, Any], given: Any) -> None:
    assert sent(said("anthropic", "hi", tools=[TOOL], tool_choice=choice))["tool_choice"] == given


def test_one_tool_at_a_time() -> None:
    got = sent(said("anthropic", "hi", tools=[TOOL], tool_choice={"type": "auto", "disable_parallel_tool_use": True}))
    assert got["parallel_tool_calls"] is False


def test_r5_a_tool_name_of_80_characters_is_shortened_and_restored() -> None:
    name = "mcp__" + "a" * 75
    translation = talk()
    got = sent(said("anthropic", "hi", stream=True, tools=[{"name": name, "input_schema": PARAMETERS}]),
               translation=translation)
    short = got["tools"][0]["name"]
    assert len(short) == 64
    out = answered(translation, events_of(api.function_call("call_1", short, {"town": "Ulm"})))
    assert [block["name"] for block in blocks(out)] == [name]


def test_r6_a_union_on_top_of_a_schema_becomes_one_object() -> None:
    union = {"oneOf": [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "object"}]}
    got = sent(said("anthropic", "hi", tools=[{"name": "odd", "input_schema": union}]))
    assert got["tools"][0]["parameters"]["type"] == "object"


def test_a_custom_tool_keeps_its_grammar() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
    tool = {"type": "custom", "custom": {"name": "patch", "description": "d", "format": grammar}}
    choice = {"type": "custom", "custom": {"name": "patch"}}
    got = sent(said("openai", "hi", tools=[tool], tool_choice=choice), "openai")
    assert got["tools"] == [{"type": "custom", "name": "patch", "description": "d",
                             "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}}]
    assert got["tool_choice"] == {"type": "custom", "name": "patch"}


def test_allowed_tools_are_named_flat() -> None:
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
        {"type": "function", "function": {"name": "weather"}}]}}
    got = sent(said("openai", "hi", tools=[CHAT_TOOL], tool_choice=allowed), "openai")
    assert got["tool_choice"] == {"type": "allowed_tools", "mode": "required",
                                  "tools": [{"type": "function", "name": "weather"}]}


def test_a_third_party_gets_nothing_but_functions() -> None:
    from tests.providers.responses_rules import refusal

    tool = {"type": "custom", "custom": {"name": "patch"}}
    got = sent(said("openai", "hi", tools=[tool, CHAT_TOOL]), "openai", url="http://127.0.0.1:1234/v1",
               model="some-model", endpoint="responses")
    assert refusal(got, only_functions=True) is None
    assert [tool["name"] for tool in got["tools"]] == ["patch", "weather"]


def test_structured_output() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
              "additionalProperties": False}
    wanted = {"type": "json_schema", "json_schema": {"name": "my answer", "schema": schema, "strict": True}}
    got = sent(said("openai", "hi", response_format=wanted, verbosity="low"), "openai")
    assert got["text"] == {"format": {"type": "json_schema", "name": "my_answer", "schema": schema, "strict": True},
                           "verbosity": "low"}


def test_any_json_object_is_also_requested_in_words() -> None:
    got = sent(said("openai", "hi", response_format={"type": "json_object"}), "openai")
    assert got["text"] == {"format": {"type": "json_object"}}
    assert "JSON" in got["instructions"]


@pytest.mark.parametrize("user", [
    "user_0f_account_1-2_session_{}", '{{"device_id":"d","account_uuid":"a","session_id":"{}"}}'])
def test_the_user_is_the_same_in_all_sessions_and_the_cache_key_is_not(user: str) -> None:
    first, second = (sent(said("anthropic", "hi", metadata={"user_id": user.format(session)})) for session in "12")
    assert first["safety_identifier"] == second["safety_identifier"]
    assert first["prompt_cache_key"] != second["prompt_cache_key"]
    assert "account" not in first["safety_identifier"]


def test_a_chat_clients_own_fields_pass_where_the_api_has_them() -> None:
    translation = talk("openai")
    got = sent(said("openai", "hi", prompt_cache_key="mine", service_tier="flex", store=True, seed=7, stop=["END"],
                    logit_bias={"1": 2}), "openai", translation=translation)
    assert (got["prompt_cache_key"], got["service_tier"], got["store"]) == ("mine", "flex", False)
    assert set(translation.dropped.losses) == {"seed", "stop", "logit_bias"}


def test_several_choices_are_refused_with_advice() -> None:
    with pytest.raises(RequestError, match="endpoint: chat"):
        sent(said("openai", "hi", n=2), "openai")


def test_the_same_request_is_the_same_bytes() -> None:
    body = said("anthropic", "hi", tools=[TOOL], system="S", metadata={"user_id": "u"})
    assert sent(body) == sent(body)
