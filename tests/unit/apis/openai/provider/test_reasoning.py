"""Reasoning in requests: its settings, what it excludes, and how that of earlier turns goes back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.openai.provider.request import encode_request
from extproc.apis.openai.provider.signatures import issuer_origin, pack_item
from extproc.conversation.model import OutputFormat, Request, Signature, Thinking, ThinkingConfig, ToolCall, ToolChoice
from extproc.conversation.unsupported import Dropped
from extproc.profiles import find_profile
from extproc.profiles.target import Target
from tests.unit.apis.openai.provider.helpers import assistant, call, result, tool, user

BUDGET = ThinkingConfig("enabled", 8000)
HIGH = ThinkingConfig(effort="high")
ADAPTIVE = ThinkingConfig("adaptive")
OFF = ThinkingConfig("disabled")
READ = [tool("read")]


def target_at(provider: str, model: str) -> Target:
    return Target(model=model, profile=find_profile(provider, None, model), endpoint="example.com")


def body_of(provider: str, model: str, *messages: Any, dropped: Dropped | None = None, **fields: Any) -> dict[str, Any]:
    request = Request(model="m", messages=list(messages) or [user("hi")], **fields)
    encoded = encode_request(request, target_at(provider, model), Dropped() if dropped is None else dropped)
    body: dict[str, Any] = json.loads(encoded.request.body)
    return body


def reasoning_fields(provider: str, model: str, thinking: ThinkingConfig | None, **fields: Any) -> dict[str, Any]:
    body = body_of(provider, model, thinking=thinking, **fields)
    names = ("reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget", "chat_template_kwargs")
    return {name: body[name] for name in names if name in body}


# ------------------------------------------------------------------------------------------------------- its settings


@pytest.mark.parametrize(("provider", "model", "thinking", "expected"), [
    ("openrouter", "anthropic/claude-sonnet-4.5", BUDGET, {"reasoning": {"max_tokens": 8000}}),
    ("openrouter", "anthropic/claude-sonnet-4.5", HIGH, {"reasoning": {"effort": "high"}}),
    ("openrouter", "anthropic/claude-sonnet-4.5", ADAPTIVE, {"reasoning": {"enabled": True}}),
    ("openrouter", "anthropic/claude-sonnet-4.5", OFF, {}),
    ("openrouter", "openai/gpt-5", BUDGET, {"reasoning": {"effort": "medium"}}),
    ("openrouter", "openai/gpt-5", OFF, {}),
    ("openrouter", "z-ai/glm-4.7", OFF, {"reasoning": {"enabled": False}}),
    ("kilo", "z-ai/glm-4.7", HIGH, {"reasoning": {"effort": "high"}}),
    ("dashscope", "qwen3.6-plus", BUDGET, {"enable_thinking": True, "thinking_budget": 8000}),
    ("dashscope", "qwen3.6-plus", OFF, {"enable_thinking": False}),
    ("dashscope", "qwen-plus", HIGH, {"enable_thinking": True}),
    ("dashscope", "qwen-plus", None, {}),
    ("zai", "glm-4.7", ADAPTIVE, {"thinking": {"type": "enabled"}}),
    ("minimax", "MiniMax-M3", ADAPTIVE, {"thinking": {"type": "adaptive"}}),
    ("minimax", "MiniMax-M2", OFF, {}),
    ("together", "moonshotai/Kimi-K2.6", OFF, {"reasoning": {"enabled": False}}),
    ("vllm", "Qwen/Qwen3-32B", OFF, {"chat_template_kwargs": {"enable_thinking": False}}),
    ("vllm", "deepseek-ai/DeepSeek-V3.2", BUDGET, {"chat_template_kwargs": {"thinking": True}}),
    ("ollama", "qwen3:8b", OFF, {"reasoning_effort": "none"}),
    ("groq", "qwen/qwen3-32b", OFF, {"reasoning_effort": "none"}),
    ("groq", "qwen/qwen3-32b", HIGH, {}),
    ("mistral", "mistral-small-latest", ThinkingConfig(effort="low"), {"reasoning_effort": "high"}),
    ("moonshot", "kimi-k3", ThinkingConfig(effort="medium"), {"reasoning_effort": "high"}),
    ("moonshot", "kimi-k2.6", HIGH, {"thinking": {"type": "enabled"}}),
    ("xai", "grok-4.3", OFF, {"reasoning_effort": "none"}),
    ("cerebras", "gpt-oss-120b", OFF, {}),
    ("gemini-compat", "gemini-2.5-flash", OFF, {"reasoning_effort": "none"}),
    ("gemini-compat", "gemini-3-pro-preview", OFF, {}),
])
def test_reasoning_settings_in_the_form_of_the_endpoint(provider, model, thinking, expected):
    assert reasoning_fields(provider, model, thinking) == expected


def test_p10_a_budget_that_reaches_the_output_limit_becomes_an_effort():
    assert reasoning_fields("openrouter", "anthropic/claude-sonnet-4.5", BUDGET, max_output_tokens=8000) == {
        "reasoning": {"effort": "medium"}}
    small = ThinkingConfig("enabled", 100)
    assert reasoning_fields("openrouter", "anthropic/claude-sonnet-4.5", small)["reasoning"] == {"max_tokens": 1024}


def test_thinking_without_a_field_is_named():
    dropped = Dropped()
    assert "reasoning_effort" not in body_of("groq", "llama-3.3-70b-versatile", thinking=HIGH, dropped=dropped)
    assert dropped.losses == ["thinking"]
    dropped = Dropped()
    body_of("xai", "grok-4", thinking=HIGH, dropped=dropped)
    assert dropped.losses == [], "it always thinks"


def test_a_model_that_thinks_only_in_streams_is_asked_for_a_stream():
    body = body_of("dashscope", "qwen3-32b")
    assert body["stream"] is True
    assert "stream" not in body_of("dashscope", "qwen3-32b", thinking=OFF)
    assert "stream" not in body_of("dashscope", "qwen-plus")


# ------------------------------------------------------------------------------------------------- what it excludes


@pytest.mark.parametrize(("provider", "model", "switch"), [
    ("deepseek", "deepseek-v4-flash", {"thinking": {"type": "disabled"}}),
    ("moonshot", "kimi-k2.6", {"thinking": {"type": "disabled"}}),
    ("dashscope", "qwen3.6-plus", {"enable_thinking": False}),
])
def test_a_forced_choice_switches_incompatible_reasoning_off(provider, model, switch):
    dropped = Dropped()
    body = body_of(provider, model, tools=READ, tool_choice=ToolChoice("tool", "read"), dropped=dropped)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "read"}}
    assert {name: body[name] for name in switch} == switch
    assert dropped.losses == [], "the client did not ask for reasoning"
    asking = Dropped()
    body = body_of(provider, model, tools=READ, tool_choice=ToolChoice("tool", "read"), thinking=BUDGET, dropped=asking)
    assert {name: body[name] for name in switch} == switch
    assert "reasoning_effort" not in body
    assert asking.losses == ["thinking"]


def test_a_model_that_always_thinks_is_asked_for_the_call_in_words():
    dropped = Dropped()
    body = body_of("deepseek", "deepseek-reasoner", tools=READ, tool_choice=ToolChoice("tool", "read"), dropped=dropped)
    assert body["tool_choice"] == "auto"
    assert "calling the tool read" in body["messages"][0]["content"]
    assert dropped.losses == ["tool_choice"]


def test_a_response_format_switches_incompatible_reasoning_off():
    wanted = OutputFormat({"type": "object", "properties": {"tide": {"type": "number"}}})
    body = body_of("dashscope", "qwen3.6-plus", output_format=wanted)
    assert body["enable_thinking"] is False
    assert body["response_format"] == {"type": "json_object"}
    always = body_of("dashscope", "qwq-plus", output_format=wanted)
    assert "response_format" not in always
    assert '"tide"' in always["messages"][0]["content"]


# --------------------------------------------------------------------------------------------------- earlier reasoning


HISTORY = (user("go"), assistant(Thinking("Hm."), "Let me see.", call("a")), user(result("a", "ok")),
           assistant(Thinking("Done."), "Here."), user("and now?"))


@pytest.mark.parametrize(("provider", "model", "first", "last"), [
    ("openai", "gpt-5", {}, {}),
    ("groq", "openai/gpt-oss-120b", {}, {}),
    ("zai", "glm-4.7", {"reasoning_content": "Hm."}, {}),
    ("vllm", "any", {"reasoning_content": "Hm."}, {"reasoning_content": "Done."}),
    ("ollama", "qwen3", {"reasoning": "Hm."}, {"reasoning": "Done."}),
    ("openrouter", "deepseek/deepseek-v3.2", {"reasoning": "Hm."}, {"reasoning": "Done."}),
    ("cerebras", "gpt-oss-120b", {"reasoning": "Hm."}, {}),
    ("cerebras", "zai-glm-4.7", {"content": "<think>\nHm.\n</think>\n\nLet me see."}, {"content": "Here."}),
    ("minimax", "MiniMax-M2", {"content": "<think>\nHm.\n</think>\n\nLet me see."},
     {"content": "<think>\nDone.\n</think>\n\nHere."}),
    ("mistral", "magistral-medium-latest",
     {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                  {"type": "text", "text": "Let me see."}]}, {"content": "Here."}),
])
def test_p10_reasoning_goes_back_in_the_form_of_the_endpoint(provider, model, first, last):
    messages = [m for m in body_of(provider, model, *HISTORY)["messages"] if m["role"] == "assistant"]
    plain = {"content": "Let me see."}, {"content": "Here."}
    for message, wanted in zip((messages[0], messages[-1]), (plain[0] | first, plain[1] | last), strict=True):
        assert {name: value for name, value in message.items() if name not in ("role", "tool_calls")} == wanted


def test_claudes_signed_reasoning_goes_back_through_openrouter_and_unsigned_does_not():
    turn = assistant(Thinking("Hm.", "c2ln"), Thinking("", redacted="ZGF0YQ"), Thinking("foreign"), call("a"))
    dropped = Dropped()
    body = body_of("openrouter", "anthropic/claude-sonnet-4.5", user("go"), turn, user(result("a", "ok")),
                   dropped=dropped)
    assert body["messages"][1]["reasoning_details"] == [
        {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.encrypted", "data": "ZGF0YQ", "format": "anthropic-claude-v1", "index": 1}]
    assert "messages.thinking" in dropped.hints


def test_claude_does_not_reason_after_calls_with_lost_signed_reasoning():
    unsigned = (user("go"), assistant(Thinking("of another model"), call("a")), user(result("a", "ok")))
    dropped = Dropped()
    body = body_of("openrouter", "anthropic/claude-sonnet-4.5", *unsigned, thinking=BUDGET, dropped=dropped)
    assert "reasoning" not in body
    assert "thinking" in dropped.hints
    signed = (user("go"), assistant(Thinking("", "c2ln"), call("a")), user(result("a", "ok")))
    assert "reasoning" in body_of("openrouter", "anthropic/claude-sonnet-4.5", *signed, thinking=BUDGET)
    assert "reasoning" in body_of("openrouter", "anthropic/claude-sonnet-4.5", *unsigned, user("next"), thinking=BUDGET)


def test_p8_the_signature_of_a_call_goes_back_to_googles_endpoint_byte_for_byte():
    google = target_at("gemini-compat", "gemini-3-pro-preview")
    signed = ToolCall("a", "read", "{}", signature=Signature("Q==c2ln", issuer_origin(google)))
    body = body_of("gemini-compat", "gemini-3-pro-preview", user("go"), assistant(signed, call("b")),
                user(result("a", "1"), result("b", "2")))
    first, second = body["messages"][1]["tool_calls"]
    assert first["extra_content"] == {"google": {"thought_signature": "Q==c2ln"}}
    assert "extra_content" not in second


def test_p8_a_call_of_another_model_gets_the_placeholder_signature():
    foreign = ToolCall("a", "read", "{}", signature=Signature("c2ln", "abcd"))
    for provider, model in (("gemini-compat", "gemini-3-pro-preview"), ("openrouter", "google/gemini-3-pro-preview")):
        message = body_of(provider, model, user("go"), assistant(foreign, call("b")),
                       user(result("a", "1"), result("b", "2")))["messages"][1]
        if provider == "openrouter":
            assert message["reasoning_details"] == [
                {"type": "reasoning.encrypted", "data": "skip_thought_signature_validator", "id": "a",
                 "format": "google-gemini-v1", "index": 0}]
        else:
            signature = message["tool_calls"][0]["extra_content"]["google"]["thought_signature"]
            assert signature == "skip_thought_signature_validator"
    old = body_of("gemini-compat", "gemini-2.5-pro", user("go"), assistant(foreign), user(result("a", "1")))
    assert "extra_content" not in old["messages"][1]["tool_calls"][0]


def test_a_sealed_item_goes_back_whole_to_its_issuer_only():
    openai = target_at("openrouter", "openai/gpt-5")
    item = {"type": "reasoning.encrypted", "id": "rs_1", "format": "openai-responses-v1", "data": "gAAA"}
    with_text = (user("go"), assistant(Thinking("So.", pack_item(item, openai)), call("a")), user(result("a", "1")))
    assert body_of("openrouter", "openai/gpt-5", *with_text)["messages"][1]["reasoning_details"] == [
        {"type": "reasoning.summary", "summary": "So.", "format": "openai-responses-v1", "index": 0},
        {**item, "index": 1}]
    history = (user("go"), assistant(Thinking("", redacted=pack_item(item, openai)), call("a")), user(result("a", "1")))
    assert body_of("openrouter", "openai/gpt-5", *history)["messages"][1]["reasoning_details"] == [{**item, "index": 0}]
    for provider, model in (("openrouter", "openai/gpt-5.2"), ("openrouter", "anthropic/claude-sonnet-4.5"),
                            ("vllm", "any")):
        assert "gAAA" not in json.dumps(body_of(provider, model, *history))
        assert "xs1." not in json.dumps(body_of(provider, model, *history))


def test_ids_of_calls_and_of_their_signatures_agree_when_ids_are_replaced():
    target = target_at("openrouter", "google/gemini-3-pro-preview")
    signed = ToolCall("x" * 50, "read", "{}", signature=Signature("c2ln", issuer_origin(target)))
    message = body_of("openrouter", "google/gemini-3-pro-preview", user("go"), assistant(signed),
                   user(result("x" * 50, "1")))["messages"][1]
    assert len(message["tool_calls"][0]["id"]) <= 40
    assert message["reasoning_details"][0]["id"] == message["tool_calls"][0]["id"]
