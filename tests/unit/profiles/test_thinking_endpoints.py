"""DeepSeek's and Moonshot's rules for reasoning in the history, tool choices and ids (P10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.profiles import find_profile
from extproc.translation.exchange import Translation

TOOLS = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in ("Bash", "Read")]


def called(id: str, name: str, *before: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": [*before, {"type": "tool_use", "id": id, "name": name, "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "ok"}]}]


HISTORY = [{"role": "user", "content": "go"},
           *called("toolu_1", "Bash", {"type": "thinking", "thinking": "Let me see.", "signature": "x"}),
           *called("toolu_2", "Read"),
           {"role": "assistant", "content": [{"type": "thinking", "thinking": "Done.", "signature": "x"},
                                             {"type": "text", "text": "Here."}]},
           {"role": "user", "content": "and now?"}]


def sent(model: str, provider: str | None, **fields: Any) -> dict[str, Any]:
    translation = Translation("anthropic", "openai", model, provider=provider)
    body = {"model": "m", "max_tokens": 100, "messages": HISTORY, "tools": TOOLS, **fields}
    found: dict[str, Any] = json.loads(translation.request(json.dumps(body).encode()).body)
    return found


def assistants(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [message for message in body["messages"] if message["role"] == "assistant"]


@pytest.mark.parametrize(("model", "provider"), [("deepseek-reasoner", "deepseek"), ("kimi-k2-thinking", "moonshot")])
def test_p10_reasoning_is_sent_back_on_every_turn_with_tool_calls(model: str, provider: str) -> None:
    first, second, last = assistants(sent(model, provider))
    assert first["reasoning_content"] == "Let me see."
    assert second["reasoning_content"] == " "  # it is lost, but the field is required
    assert "reasoning_content" not in last


def test_p10_other_endpoints_get_no_past_thinking() -> None:
    assert all("reasoning_content" not in message for message in assistants(sent("gpt-5", "openai")))
    assert all("reasoning_content" not in message for message in assistants(sent("some-model", None)))


@pytest.mark.parametrize(("model", "provider", "choice", "expected"), [
    ("deepseek-reasoner", "deepseek", {"type": "any"}, "auto"),
    ("deepseek-reasoner", "deepseek", {"type": "tool", "name": "Bash"}, "auto"),
    ("deepseek-chat", "deepseek", {"type": "any"}, "required"),
    ("kimi-k2-thinking", "moonshot", {"type": "any"}, "auto"),
])
def test_a_forced_choice_that_is_refused_becomes_auto(model: str, provider: str, choice: dict[str, Any],
                                                      expected: str) -> None:
    assert sent(model, provider, tool_choice=choice)["tool_choice"] == expected


def test_the_field_thinking_switches_reasoning() -> None:
    for model, provider in (("deepseek-v4-flash", "deepseek"), ("kimi-k2.5", "moonshot")):
        body = sent(model, provider, thinking={"type": "disabled"})
        assert body["thinking"] == {"type": "disabled"}
        assert "reasoning_effort" not in body
        assert sent(model, provider, thinking={"type": "enabled", "budget_tokens": 5000})["thinking"] == {
            "type": "enabled"}
        assert "thinking" not in sent(model, provider)


def test_deepseek_efforts() -> None:
    for effort, expected in (("low", "low"), ("medium", "high"), ("high", "high"), ("xhigh", "high"), ("max", "max")):
        body = sent("deepseek-reasoner", "deepseek", thinking={"type": "adaptive"}, output_config={"effort": effort})
        assert body["reasoning_effort"] == expected


@pytest.mark.parametrize(("model", "provider"), [("kimi-k2-thinking", "moonshot"), ("moonshotai/kimi-k2", None)])
def test_kimi_ids_count_over_the_conversation_wherever_it_runs(model: str, provider: str | None) -> None:
    body = sent(model, provider)
    ids = [call["id"] for message in assistants(body) for call in message.get("tool_calls", [])]
    assert ids == ["functions.Bash:0", "functions.Read:1"]
    assert [m["tool_call_id"] for m in body["messages"] if m["role"] == "tool"] == ids


def test_both_endpoints_are_found_by_host() -> None:
    assert find_profile(None, "api.deepseek.com", "deepseek-v4-pro").name == "deepseek"
    assert find_profile(None, "api.moonshot.ai", "kimi-k2.5").name == "moonshot"
