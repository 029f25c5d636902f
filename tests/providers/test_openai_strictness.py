"""The strict endpoints themselves: each takes a sound request and refuses what the real one refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.providers.openai_rules import refusal
from tests.providers.openai_strictness import STRICTNESS

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
NAMED = {"type": "function", "function": {"name": "f"}}
RESULT = {"role": "tool", "tool_call_id": "ABCdef123", "content": "done"}
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}


def calling(id: str = "ABCdef123", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", "tool_calls": [
        {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}], **more}


def body(*messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "any", "messages": [USER, *messages], **fields}


@pytest.mark.parametrize("endpoint", sorted(STRICTNESS))
def test_a_plain_request_is_taken(endpoint):
    assert refusal(body(max_tokens=5), endpoint) is None


LOOP = (calling(), RESULT)



def shaped(**schema: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"a": schema}}
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("openai", body(tools=[shaped(type="string", pattern=r"^\p{L}+$")]), "is not a 'regex'"),
    ("openai", body(tools=[shaped(type="string", pattern="^(?!a)b")]), "is not a 'regex'"),
    ("gemini-compat", body(tools=[shaped(const="x")], model="gemini-3-pro"), "const"),
    ("gemini-compat", body(tools=[shaped(type="string", format="uri")], model="gemini-3-pro"), "format"),
    ("openrouter", body(tools=[shaped(**{"$ref": "#"})], model="google/gemini-3-pro"), "$ref"),
    ("openai", body(model="gpt-4o", reasoning_effort="low"), "reasoning_effort"),
    ("openai", body(model="gpt-5", stop=["x"]), "'stop' is not supported"),
    ("openai", body(model="o3", tools=[TOOL], parallel_tool_calls=False), "parallel_tool_calls"),
    ("openai", body(made_up=1), "Unknown parameter: 'made_up'"),
    ("openai", body(tools=[{"type": "custom", "custom": {"name": "c", "made_up": 1}}]), "made_up"),
    ("openai", body(tools=[TOOL], tool_choice={"type": "custom", "custom": {"name": "f"}}), "not in 'tools'"),
    ("openai", body(model="gpt-6-sol", tools=[TOOL]), "set reasoning_effort to 'none'"),
    ("openai", body(model="gpt-5.4", tools=[TOOL], reasoning_effort="low"), "set reasoning_effort to 'none'"),
    ("openai", body(model="gpt-6-astra", tools=[TOOL], reasoning_effort="none"), "none"),
    ("openai", body(model="gpt-6-luna", reasoning_effort="max"), "max"),
    ("openai", body(model="gpt-6.1-sol", max_tokens=5), "max_completion_tokens"),
    ("openai", body(model="gpt-6.1-terra", temperature=0.5), "temperature"),
    ("azure", body(verbosity="low"), "verbosity"),
    ("mistral", body(user="u"), "user"),
    ("mistral", body(stream=True, stream_options={"include_usage": True}), "stream_options"),
    ("mistral", body(seed=1), "seed"),
    ("mistral", body(calling("call_1"), {**RESULT, "tool_call_id": "call_1"}), "length of 9"),
    ("mistral", body(*LOOP, USER), "after role 'tool'"),
    ("mistral", body({"role": "assistant", "content": "and"}), "Expected last role"),
    ("mistral", body({"role": "system", "content": "and"}), "Expected last role"),
    ("mistral", body(reasoning_effort="high"), "reasoning_effort"),
    ("deepseek", body(tools=[TOOL], tool_choice="required"), "does not support this tool_choice"),
    ("deepseek", body(*LOOP), "Missing `reasoning_content`"),
    ("deepseek", body({"role": "user", "content": [IMAGE]}), "image_url"),
    ("deepseek", body(response_format=SCHEMA), "json_schema"),
    ("moonshot", body(model="kimi-k2.6", tools=[TOOL], tool_choice=NAMED), "incompatible with thinking"),
    ("moonshot", body(model="moonshot-v1-8k", temperature=1.5), "temperature"),
    ("moonshot", body(model="kimi-k2.6", temperature=0.5), "temperature"),
    ("moonshot", body(model="kimi-k2.6", reasoning_effort="low"), "reasoning_effort"),
    ("moonshot", body(model="kimi-k3", thinking={"type": "disabled"}), "cannot be disabled"),
    ("moonshot", body(calling("functions.f:0"), {**RESULT, "tool_call_id": "functions.f:0"}, model="kimi-k2.6"),
     "reasoning_content is missing"),
    ("xai", body(model="grok-4", presence_penalty=0.1), "presence_penalty"),
    ("xai", body(model="grok-4", stop=["x"]), "stop"),
    ("xai", body(model="grok-4", reasoning_effort="low"), "reasoning_effort"),
    ("xai", body(tools=[TOOL], tool_choice="required"), "tool_choice"),
    ("xai", body(tools=[TOOL], response_format=SCHEMA), "together with tools"),
    ("xai", body(tools=[TOOL], parallel_tool_calls=False), "parallel_tool_calls"),
    ("xai", body(tools=[{**TOOL, "function": {**TOOL["function"], "strict": True}}]), "strict"),  # type: ignore[dict-item]
    ("groq", body(calling(reasoning="hm"), RESULT), "reasoning"),
    ("groq", body(n=2), "'n'"),
    ("groq", body(logprobs=True), "logprobs"),
    ("groq", body(stream=True, response_format=SCHEMA), "streaming"),
    ("groq", body({**calling(), "content": None}, RESULT), "null"),
    ("cerebras", body(calling(reasoning_content="hm"), RESULT), "reasoning_content"),
    ("cerebras", body(model="gpt-oss-120b", reasoning_effort="none"), "none"),
    ("zai", body(tools=[TOOL], tool_choice="none"), "none"),
    ("zai", body(stop=["a", "b"]), "stop"),
    ("zai", body(temperature=1.5), "temperature"),
    ("zai", body(model="glm-5.3", thinking={"type": "disabled"}), "cannot be disabled"),
    ("zai", body(model="glm-5.3-flash", reasoning_effort="medium"), "medium"),
    ("zai", body(model="glm-4.6", thinking={"type": "enabled", "budget_tokens": 5}), "parameter"),
    ("dashscope", body(model="qwen3.6-plus", tools=[TOOL], tool_choice=NAMED), "thinking mode"),
    ("dashscope", body(model="qwen3.6-plus", response_format={"type": "json_object"}), "enable_thinking"),
    ("dashscope", body(model="qwen3-32b"), "non-streaming"),
    ("openrouter", body(reasoning={"effort": "low", "max_tokens": 5}), "Only one"),
    ("openrouter", body(model="google/gemini-3-pro", reasoning={"enabled": False}), "mandatory"),
    ("openrouter", body(*LOOP, model="google/gemini-3-pro"), "reasoning details"),
    ("openrouter", body(calling("a.b"), {**RESULT, "tool_call_id": "a.b"}, model="anthropic/claude-opus-4"), "pattern"),
    ("openrouter", body(*LOOP, model="anthropic/claude-opus-4", reasoning={"enabled": True}), "found `tool_use`"),
    ("openrouter", body(model="anthropic/claude-opus-4", max_tokens=500, reasoning={"max_tokens": 900}), "greater"),
    ("openrouter", body(model="x-ai/grok-4", tools=[TOOL], tool_choice="required"), "tool_choice"),
    ("openrouter", body(tools=[{**TOOL, "made_up": 1}]), "made_up"),
    ("openrouter", body(model="x-ai/grok-4", tools=[TOOL], response_format=SCHEMA), "together with tools"),
    ("openrouter", body(model="z-ai/glm-4.6", tools=[TOOL], tool_choice="required"), "tool_choice"),
    ("vllm", body({**calling(), "tool_calls": [*calling()["tool_calls"], *calling("b")["tool_calls"]]}, RESULT,
                  {**RESULT, "tool_call_id": "b"}, model="llama-3.1-8b"), "single tool-calls"),
    ("sglang", body({**calling(), "tool_calls": [*calling()["tool_calls"], *calling("b")["tool_calls"]]}, RESULT,
                    {**RESULT, "tool_call_id": "b"}, model="llama-3.1-8b"), "single tool-calls"),
    ("fireworks", body(tools=[TOOL], response_format=SCHEMA), "together with tools"),
    ("deepinfra", body(tools=[TOOL], tool_choice="required"), "required"),
    ("featherless", body(tools=[TOOL], tool_choice=NAMED), "object"),
    ("lmstudio", body(response_format={"type": "json_object"}), "json_object"),
    ("lmstudio", body({"role": "user", "content": [IMAGE]}), "base64"),
    ("llama.cpp", body(tools=[TOOL], tool_choice=NAMED), "object"),
    ("ollama", body({"role": "user", "content": [IMAGE]}), "base64"),
    ("gemini-compat", body(seed=1), "seed"),
    ("gemini-compat", body(*LOOP, model="gemini-3-pro-preview"), "thought_signature"),
    ("gemini-compat", body(model="gemini-2.5-pro", reasoning_effort="none"), "none"),
    ("minimax", body(response_format={"type": "json_object"}), "json_object"),
    ("cohere", body(tools=[TOOL], tool_choice="auto"), "auto"),
    ("perplexity", body(tools=[TOOL]), "not supported"),
    ("perplexity", body(USER), "alternate"),
]


@pytest.mark.parametrize(("endpoint", "bad", "why"), REFUSED)
def test_what_the_endpoint_refuses_is_refused(endpoint, bad, why):
    refused = refusal(bad, endpoint)
    assert refused is not None
    assert why in refused.message


@pytest.mark.parametrize(("endpoint", "good"), [
    ("openai", body(model="gpt-5", tools=[TOOL, {"type": "custom", "custom": {"name": "c"}}],
                    tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}})),
    ("mistral", body(*LOOP, tools=[TOOL], tool_choice="any", random_seed=1)),
    ("deepseek", body(calling(reasoning_content=" "), RESULT)),
    ("deepseek", body(*LOOP, thinking={"type": "disabled"}, tools=[TOOL], tool_choice="required")
     | {"model": "deepseek-chat"}),
    ("dashscope", body(model="qwen3-32b", stream=True)),
    ("openrouter", body(calling(reasoning_details=[{"type": "reasoning.encrypted", "id": "ABCdef123", "data": "x",
                                                    "index": 0}]), RESULT, model="google/gemini-3-pro")),
    ("perplexity", body({"role": "assistant", "content": "yes"}, USER)),
])
def test_what_the_endpoint_takes_is_taken(endpoint, good):
    assert refusal(good, endpoint) is None


def test_every_endpoint_has_a_rule_of_its_own_that_a_test_knows_or_ignores_the_unknown():
    lenient = {name for name, strictness in STRICTNESS.items() if strictness.fields is None and not strictness.checks}
    assert {endpoint for endpoint, _, _ in REFUSED} >= set(STRICTNESS) - lenient
