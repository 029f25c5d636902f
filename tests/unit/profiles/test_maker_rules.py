"""A model has the rules of its maker behind an aggregator as well."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import RequestError, Translation
from tests.providers.openai_rules import refusal

OPENROUTER, KILO = "https://openrouter.ai/api/v1", "https://api.kilo.ai/api/openrouter"
HUGGINGFACE, UNKNOWN, OWN = "https://router.huggingface.co/v1", "https://llm.example.com/v1", "http://127.0.0.1:8000/v1"
CLIENTS = ("anthropic", "openai")
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{"name": "get_weather", "input_schema": PARAMETERS}],
    "openai": [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}],
}
ANY: dict[str, Any] = {"anthropic": {"type": "any"}, "openai": "required"}
ONE: dict[str, Any] = {"anthropic": {"type": "tool", "name": "get_weather"},
                       "openai": {"type": "function", "function": {"name": "get_weather"}}}
SCHEMA = {"type": "object", "properties": {"rain": {"type": "boolean"}}, "required": ["rain"],
          "additionalProperties": False}
FORMAT: dict[str, dict[str, Any]] = {
    "anthropic": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    "openai": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}}
WITH_RULES = [
    (OPENROUTER, None, "x-ai/grok-4"), (OPENROUTER, None, "x-ai/grok-code-fast-1"), (KILO, None, "x-ai/grok-4.3:free"),
    (OPENROUTER, None, "z-ai/glm-4.6"), (KILO, None, "z-ai/glm-5.3"), (HUGGINGFACE, None, "zai-org/GLM-4.6"),
    (UNKNOWN, None, "xai/grok-4"), (UNKNOWN, None, "grok-4-fast"), (UNKNOWN, "some-gateway", "z-ai/glm-4.6"),
]
WITHOUT_RULES = [
    (OPENROUTER, None, "anthropic/claude-sonnet-4.5"), (OPENROUTER, None, "qwen/qwen3-coder"),
    (OWN, None, "zai-org/GLM-4.6"), (OWN, "vllm", "glm-4.6"), (OWN, None, "xai-org/grok-2"),
]


def ask(client: str, url: str, provider: str | None, model: str, *, lossy: str = "report",
        **fields: Any) -> tuple[dict[str, Any], Translation]:
    talk = Translation(client, "openai", model, provider=provider, url=url, lossy=lossy)
    body = {"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "Weather?"}], **fields}
    return json.loads(talk.request(json.dumps(body).encode()).body), talk


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("choice", [ANY, ONE])
@pytest.mark.parametrize(("url", "provider", "model"), WITH_RULES)
def test_a_forced_choice_becomes_an_instruction(client: str, choice: dict[str, Any], url: str, provider: str | None,
                                               model: str) -> None:
    got, talk = ask(client, url, provider, model, tools=TOOLS[client], tool_choice=choice[client])
    assert got.get("tool_choice", "auto") == "auto"
    assert "calling" in got["messages"][0]["content"]
    assert talk.dropped.losses == ["tool_choice"]
    assert url != OPENROUTER or refusal(got, "openrouter") is None
    with pytest.raises(RequestError) as refused:
        ask(client, url, provider, model, lossy="reject", tools=TOOLS[client], tool_choice=choice[client])
    assert refused.value.status == 400


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("choice", [ANY, ONE])
@pytest.mark.parametrize(("url", "provider", "model"), WITHOUT_RULES)
def test_other_models_take_a_forced_choice(client: str, choice: dict[str, Any], url: str, provider: str | None,
                                           model: str) -> None:
    got, talk = ask(client, url, provider, model, tools=TOOLS[client], tool_choice=choice[client])
    assert got["tool_choice"] in ("required", ONE["openai"])
    assert not talk.dropped.losses


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("url", "provider", "model"), [case for case in WITH_RULES if "grok" in case[2]])
def test_a_format_beside_tools_becomes_an_instruction_for_grok(client: str, url: str, provider: str | None,
                                                               model: str) -> None:
    got, _ = ask(client, url, provider, model, tools=TOOLS[client], **FORMAT[client])
    assert "response_format" not in got
    assert '"rain"' in got["messages"][0]["content"]
    got, _ = ask(client, url, provider, model, **FORMAT[client])
    assert got["response_format"]["type"] == "json_schema"


# --------------------------------------------------------------------------------------------------- one call at a time

CITIES = ("Brest", "Nantes")
HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Weather in Brest and Nantes?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": f"call_{city}", "type": "function",
         "function": {"name": "get_weather", "arguments": json.dumps({"city": city})}} for city in CITIES]},
    {"role": "tool", "tool_call_id": "call_Nantes", "content": "sun"},
    {"role": "tool", "tool_call_id": "call_Brest", "content": "rain"},
]
SINGLE = [(OWN, None, "meta-llama/Llama-3.3-70B-Instruct"), (OWN, "vllm", "meta-llama/Llama-3.1-8B-Instruct"),
          (OWN, "sglang", "llama3.1:8b"), ("https://integrate.api.nvidia.com/v1", None, "meta/llama-3.3-70b-instruct")]


@pytest.mark.parametrize(("url", "provider", "model"), SINGLE)
def test_a_model_without_parallel_calls_gets_one_call_per_turn(url: str, provider: str | None, model: str) -> None:
    got, talk = ask("openai", url, provider, model, messages=HISTORY, tools=TOOLS["openai"], lossy="reject")
    assert [message["role"] for message in got["messages"]] == [
        "user", "assistant", "tool", "assistant", "tool"]
    turns = [message for message in got["messages"] if message["role"] == "assistant"]
    assert [turn["content"] or "" for turn in turns] == ["I look.", ""]
    assert [[call["id"] for call in turn["tool_calls"]] for turn in turns] == [["call_Brest"], ["call_Nantes"]]
    assert [message["content"] for message in got["messages"] if message["role"] == "tool"] == ["rain", "sun"]
    assert got.get("parallel_tool_calls") in (False, None)
    assert refusal(got, "vllm") is None
    assert talk.dropped.hints == []


def test_a_request_for_parallel_calls_is_named_as_ignored() -> None:
    got, talk = ask("openai", OWN, "vllm", "llama-3.1-8b", tools=TOOLS["openai"], parallel_tool_calls=True)
    assert got["parallel_tool_calls"] is False
    assert talk.dropped.hints == ["parallel_tool_calls"]


@pytest.mark.parametrize(("url", "model"), [
    (OWN, "qwen3-32b"), ("https://api.groq.com/openai/v1", "llama-3.3-70b-versatile"),
    (OPENROUTER, "meta-llama/llama-3.3-70b-instruct")])
def test_other_models_keep_several_calls_in_a_turn(url: str, model: str) -> None:
    got, _ = ask("openai", url, None, model, messages=HISTORY, tools=TOOLS["openai"])
    assert len(got["messages"][1]["tool_calls"]) == 2
    assert "parallel_tool_calls" not in got
