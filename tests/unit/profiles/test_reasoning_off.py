"""A request without reasoning, in any spelling, reaches the endpoint in a field that it knows, or is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation

OFF: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled", "budget_tokens": 0}}],
    "openai": [
        {"reasoning_effort": "none"},
        {"reasoning": {"enabled": False}},
        {"reasoning": {"effort": "none"}},
        {"reasoning": {"max_tokens": 0}},
        {"thinking": {"type": "disabled"}},
        {"thinking": {"type": "enabled", "budget_tokens": 0}},
        {"enable_thinking": False},
        {"thinking_budget": 0},
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"chat_template_kwargs": {"thinking": False}},
        {"extra_body": {"google": {"thinking_config": {"thinking_budget": 0}}}},
        {"think": False},
    ],
}
SPELLINGS = [(client, fields) for client, all_of_them in OFF.items() for fields in all_of_them]
UNKNOWN = "https://llm.example.com/v1"


def ask(client: str, url: str, model: str, fields: dict[str, Any],
        provider: str | None = None, lossy: str = "report") -> tuple[dict[str, Any], list[str]]:
    talk = Translation(client, "openai", model, url=url, provider=provider, lossy=lossy)
    body = {"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "hi"}], **fields}
    got: dict[str, Any] = json.loads(talk.request(json.dumps(body).encode()).body)
    return got, [*talk.dropped.losses, *talk.dropped.hints]


@pytest.mark.parametrize("fields", OFF["openai"])
def test_an_unknown_host_gets_the_clients_own_fields(fields: dict[str, Any]) -> None:
    got, named = ask("openai", UNKNOWN, "any-model", fields, lossy="reject")
    assert {name: got.get(name) for name in fields} == fields
    spoken = {"reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget", "chat_template_kwargs",
              "extra_body", "think"}
    assert spoken & got.keys() == fields.keys()
    assert named == []


@pytest.mark.parametrize("fields", OFF["anthropic"])
@pytest.mark.parametrize("url", [UNKNOWN, "https://api.together.xyz/v1", "https://router.huggingface.co/v1"])
def test_an_endpoint_without_a_switch_names_the_loss(url: str, fields: dict[str, Any]) -> None:
    got, named = ask("anthropic", url, "some-model", fields, lossy="reject")
    assert not {"reasoning_effort", "reasoning", "thinking", "enable_thinking"} & got.keys()
    assert named == ["thinking"]


@pytest.mark.parametrize(("client", "fields"), SPELLINGS)
@pytest.mark.parametrize(("provider", "model", "expected"), [
    ("openai", "gpt-5.1", {"reasoning_effort": "none"}),
    ("openai", "gpt-6-sol", {"reasoning_effort": "none"}),
    ("openrouter", "z-ai/glm-4.7", {"reasoning": {"enabled": False}}),
    ("dashscope", "qwen3.6-plus", {"enable_thinking": False}),
    ("moonshot", "kimi-k2.5", {"thinking": {"type": "disabled"}}),
    ("deepseek", "deepseek-v4", {"thinking": {"type": "disabled"}}),
    ("zai", "glm-4.7", {"thinking": {"type": "disabled"}}),
    ("ollama", "qwen3:8b", {"reasoning_effort": "none"}),
    ("mistral", "mistral-small-latest", {"reasoning_effort": "none"}),
])
def test_a_known_endpoint_gets_its_own_field(client: str, fields: dict[str, Any], provider: str, model: str,
                                            expected: dict[str, Any]) -> None:
    got, named = ask(client, "https://proxy.example/v1", model, fields, provider)
    assert {name: got[name] for name in expected} == expected
    assert "thinking" not in named


@pytest.mark.parametrize(("client", "fields"), SPELLINGS)
@pytest.mark.parametrize(("provider", "model"), [
    ("vllm", "Qwen/Qwen3-32B"), ("sglang", "zai-org/GLM-4.6"), ("llama.cpp", "any"), ("nvidia", "qwen/qwen3-32b")])
def test_a_server_with_chat_templates_gets_the_variable_of_the_template(
        client: str, fields: dict[str, Any], provider: str, model: str) -> None:
    got, named = ask(client, "http://127.0.0.1:8000/v1", model, fields, provider)
    assert False in got["chat_template_kwargs"].values()
    assert "thinking" not in named


@pytest.mark.parametrize(("client", "fields"), SPELLINGS)
@pytest.mark.parametrize(("provider", "model"), [
    ("openai", "gpt-5"), ("openai", "o4-mini"), ("openai", "gpt-6-astra"), ("xai", "grok-4"), ("minimax", "MiniMax-M2"),
    ("groq", "openai/gpt-oss-120b"), ("moonshot", "kimi-k2-thinking"), ("mistral", "magistral-medium-latest")])
def test_a_model_that_always_reasons_names_the_loss(
        client: str, fields: dict[str, Any], provider: str, model: str) -> None:
    _, named = ask(client, "https://proxy.example/v1", model, fields, provider)
    assert "thinking" in named


@pytest.mark.parametrize(("client", "fields"), SPELLINGS)
def test_a_model_that_reasons_only_on_request_needs_no_field(client: str, fields: dict[str, Any]) -> None:
    _, named = ask(client, "https://api.openai.com/v1", "gpt-4o", fields)
    assert "thinking" not in named


def test_other_template_arguments_stay() -> None:
    said = {"chat_template_kwargs": {"enable_thinking": False, "documents": ["a"]}}
    got, named = ask("openai", UNKNOWN, "Qwen/Qwen3-32B", said, "vllm")
    assert got["chat_template_kwargs"] == said["chat_template_kwargs"]
    assert named == []
    got, named = ask("openai", "https://api.openai.com/v1", "gpt-5.1", said)
    assert got["reasoning_effort"] == "none"
    assert named == ["chat_template_kwargs"]


def test_geminis_own_fields_replace_the_effort_at_geminis_endpoint() -> None:
    said = {"extra_body": {"google": {"thinking_config": {"thinking_budget": 0, "include_thoughts": False}}}}
    got, named = ask("openai", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-2.5-flash", said)
    assert got["extra_body"] == said["extra_body"]
    assert "reasoning_effort" not in got
    assert named == []


@pytest.mark.parametrize(("provider", "model", "expected"), [
    ("dashscope", "qwen3.6-plus", {"enable_thinking": False}),
    ("moonshot", "kimi-k2.5", {"thinking": {"type": "disabled"}}),
    ("vllm", "Qwen/Qwen3-32B", {"chat_template_kwargs": {"enable_thinking": False}}),
    ("openai", "gpt-5", {"reasoning_effort": "minimal"}), ("deepseek", "deepseek-v4", {"reasoning_effort": "low"}),
    ("zai", "glm-5.2", {"reasoning_effort": "minimal"})])
def test_the_lowest_effort_switches_off_if_there_is_only_a_switch(
        provider: str, model: str, expected: dict[str, Any]) -> None:
    got, named = ask("openai", "https://proxy.example/v1", model, {"reasoning_effort": "minimal"}, provider)
    assert {name: got[name] for name in expected} == expected
    assert named == []


# ------------------------------------------------------------------------------------------- thinking without a budget


@pytest.mark.parametrize(("client", "fields"), [
    ("anthropic", {"thinking": {"type": "adaptive"}}), ("openai", {"thinking": {"type": "enabled"}}),
    ("openai", {"reasoning": {"enabled": True}}), ("openai", {"enable_thinking": True}),
    ("openai", {"thinking": {"type": "adaptive"}}), ("openai", {"reasoning_effort": "high"})])
@pytest.mark.parametrize(("url", "model"), [
    ("https://api.openai.com/v1", "gpt-4o"), ("https://api.deepseek.com/v1", "deepseek-chat"),
    ("https://api.groq.com/openai/v1", "llama-3.3-70b-versatile"), ("https://api.mistral.ai/v1", "codestral-latest")])
def test_thinking_without_a_budget_is_named_if_the_model_does_not_think(
        client: str, fields: dict[str, Any], url: str, model: str) -> None:
    _, named = ask(client, url, model, fields)
    assert named == ["thinking"]
