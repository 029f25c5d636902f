"""Z.AI: efforts, preserved thinking and streamed calls, for clients of both APIs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from tests.providers.openai_rules import refusal

CLIENTS = ("anthropic", "openai")
URL = "https://api.z.ai/api/paas/v4"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{"name": "look", "input_schema": PARAMETERS}],
    "openai": [{"type": "function", "function": {"name": "look", "parameters": PARAMETERS}}],
}
HISTORY = [
    {"role": "user", "content": "Weather in Brest?"},
    {"role": "assistant", "content": "It rains.", "reasoning_content": "It always does."},
    {"role": "user", "content": "And in Nantes?"},
]


def ask(client: str, model: str, **fields: Any) -> tuple[dict[str, Any], Translation]:
    talk = Translation(client, "openai", model, url=URL)
    body = {"model": "m", "max_tokens": 500, "messages": [{"role": "user", "content": "hi"}], **fields}
    got: dict[str, Any] = json.loads(talk.request(json.dumps(body).encode()).body)
    assert refusal(got, "zai") is None
    return got, talk


@pytest.mark.parametrize("effort", ["low", "medium", "high", "xhigh", "max"])
@pytest.mark.parametrize("model", ["glm-4.6", "glm-4.7", "glm-5", "glm-5.2"])
def test_an_effort_passes(model: str, effort: str) -> None:
    got, talk = ask("openai", model, reasoning_effort=effort)
    assert got["reasoning_effort"] == effort
    assert got["thinking"] == {"type": "enabled"}
    assert talk.dropped.losses == talk.dropped.hints == []


@pytest.mark.parametrize(("effort", "sent"), [
    ("minimal", "low"), ("low", "low"), ("medium", "high"), ("high", "high"), ("xhigh", "max"), ("max", "max")])
@pytest.mark.parametrize("model", ["glm-5.3", "glm-5.3-flash", "glm-6"])
def test_a_newer_model_gets_one_of_its_three_efforts(model: str, effort: str, sent: str) -> None:
    assert ask("openai", model, reasoning_effort=effort)[0]["reasoning_effort"] == sent


def test_an_effort_of_the_messages_api_passes_as_well() -> None:
    got, _ = ask("anthropic", "glm-5.2", thinking={"type": "adaptive"}, output_config={"effort": "max"})
    assert got["reasoning_effort"] == "max"


@pytest.mark.parametrize("fields", [
    {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}}, {"reasoning": {"enabled": False}},
    {"chat_template_kwargs": {"enable_thinking": False}}])
def test_reasoning_is_switched_off_where_it_can_be(fields: dict[str, Any]) -> None:
    got, talk = ask("openai", "glm-5.2", **fields)
    assert got["thinking"] == {"type": "disabled"}
    assert "reasoning_effort" not in got
    assert talk.dropped.hints == []
    got, talk = ask("openai", "glm-5.3", **fields)
    assert "thinking" not in got
    assert talk.dropped.hints == ["thinking"]


@pytest.mark.parametrize("thinking", [
    {"type": "enabled", "clear_thinking": False}, {"clear_thinking": False},
    {"type": "disabled", "clear_thinking": True}])
def test_clear_thinking_passes(thinking: dict[str, Any]) -> None:
    got, talk = ask("openai", "glm-4.7", thinking=thinking)
    assert got["thinking"] == {"type": "enabled", **thinking}
    assert talk.dropped.hints == []


def test_preserved_thinking_goes_back_on_all_turns() -> None:
    got, talk = ask("openai", "glm-4.7", messages=HISTORY, thinking={"type": "enabled", "clear_thinking": False})
    assert got["messages"][1]["reasoning_content"] == "It always does."
    assert talk.dropped.hints == []
    got, talk = ask("openai", "glm-4.7", messages=HISTORY, thinking={"type": "enabled", "clear_thinking": True})
    assert "reasoning_content" not in got["messages"][1]


def test_other_endpoints_name_clear_thinking() -> None:
    talk = Translation("openai", "openai", "deepseek-v4", url="https://api.deepseek.com/v1")
    talk.request(json.dumps({"model": "m", "messages": HISTORY[:1], "thinking": {
        "type": "enabled", "clear_thinking": False}}).encode())
    assert talk.dropped.hints == ["thinking.clear_thinking"]


@pytest.mark.parametrize("client", CLIENTS)
def test_calls_are_streamed_in_a_stream_with_tools(client: str) -> None:
    assert ask(client, "glm-4.6", stream=True, tools=TOOLS[client])[0]["tool_stream"] is True
    assert "tool_stream" not in ask(client, "glm-4.6", stream=True)[0]
    assert "tool_stream" not in ask(client, "glm-4.6", tools=TOOLS[client])[0]


def test_a_clients_own_tool_stream_takes_precedence() -> None:
    got, _ = ask("openai", "glm-4.6", stream=True, tools=TOOLS["openai"], tool_stream=False)
    assert got["tool_stream"] is False
