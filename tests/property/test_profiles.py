"""Any conversation at any known endpoint: what that endpoint refuses is not sent."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.apis.openai.provider.request import encode_request
from extproc.apis.openai.provider.signatures import issuer_origin
from extproc.conversation.model import (
    Media,
    Message,
    OutputFormat,
    Request,
    Signature,
    Text,
    Thinking,
    ThinkingConfig,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from extproc.conversation.signatures import embed_in_text
from extproc.conversation.unsupported import Dropped
from extproc.profiles import PROVIDERS, find_profile
from extproc.profiles.target import Target
from tests.property.test_openai_request import healed
from tests.providers.openai_rules import refusal
from tests.providers.openai_strictness import STRICTNESS

MODELS = {
    "openai": ("gpt-4o", "gpt-5", "gpt-5.2", "o3", "gpt-5-chat-latest"),
    "azure": ("gpt-4.1", "gpt-5-mini", "o4-mini"),
    "mistral": ("mistral-large-2411", "magistral-medium-latest", "mistral-small-latest", "devstral-small"),
    "deepseek": ("deepseek-chat", "deepseek-reasoner", "deepseek-v4-flash"),
    "moonshot": ("kimi-k2.6", "kimi-k3", "kimi-k2.7-code", "kimi-k2-thinking", "kimi-k2-0905-preview",
                 "moonshot-v1-8k"),
    "xai": ("grok-4", "grok-4.3", "grok-3-mini", "grok-3", "grok-2-1212", "grok-4-fast-non-reasoning",
            "grok-code-fast-1"),
    "groq": ("openai/gpt-oss-120b", "qwen/qwen3-32b", "llama-3.3-70b-versatile",
             "meta-llama/llama-4-scout-17b-16e-instruct", "moonshotai/kimi-k2-instruct-0905"),
    "cerebras": ("gpt-oss-120b", "zai-glm-4.7", "qwen-3.8-27b", "llama3.1-8b"),
    "zai": ("glm-4.7", "glm-4.6v", "glm-5"),
    "dashscope": ("qwen-plus", "qwen3.6-plus", "qwen3-32b", "qwq-plus", "qwen3-235b-a22b-thinking-2507",
                  "qwen3-coder-plus", "deepseek-v3.2", "qwen3-30b-a3b-instruct-2507"),
    "openrouter": ("anthropic/claude-sonnet-4.5", "google/gemini-3-pro-preview", "google/gemini-2.5-flash",
                   "openai/gpt-5", "x-ai/grok-4", "deepseek/deepseek-v3.2", "moonshotai/kimi-k2-thinking",
                   "minimax/minimax-m2"),
    "fireworks": ("accounts/fireworks/models/glm-5p3", "accounts/fireworks/models/kimi-k2-thinking"),
    "together": ("openai/gpt-oss-20b", "deepseek-ai/DeepSeek-V4", "Qwen/Qwen3-Coder-480B"),
    "deepinfra": ("Qwen/Qwen3-32B",), "featherless": ("Qwen/Qwen3-32B",), "lmstudio": ("qwen3-8b",),
    "ollama": ("qwen3:8b",), "vllm": ("Qwen/Qwen3-32B", "gpt-oss-20b"), "sglang": ("deepseek-ai/DeepSeek-V3.2",),
    "llama.cpp": ("qwen3",), "gemini-compat": ("gemini-3-pro-preview", "gemini-2.5-flash", "gemini-2.5-pro",
                                               "gemini-2.0-flash"),
    "minimax": ("MiniMax-M2", "MiniMax-M3"), "cohere": ("command-a-reasoning",), "perplexity": ("sonar-pro",),
}
PAIRS = [(endpoint, model) for endpoint, models in MODELS.items() for model in models]

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"],
          "additionalProperties": False}
FREE = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
TOOLS = [Tool("read", "reads", SCHEMA, strict=True), Tool("a.b", None, {}, cache=True),
         Tool("write", "writes", FREE, custom=True, format=msgspec.Raw(b'{"type":"text"}'))]

TEXTS = st.builds(Text, st.sampled_from(["a", "", "b\nc"]), st.booleans())
MEDIA = st.sampled_from([Media("image", media_type="image/png", data="iVBORw=="),
                         Media("image", url="https://example.com/a.png", cache=True),
                         Media("document", media_type="application/pdf", data="JVBERi0=")])
IDS = st.sampled_from(["a", "call_0", "toolu_" + "x" * 50, "functions.read:0", "ABCdef123"])
SIGNED = st.sampled_from([None, "c2ln", embed_in_text(Signature("c2ln", "abcd"))])
THINKING = st.one_of(st.builds(Thinking, st.sampled_from(["", "hm"]), SIGNED),
                     st.builds(Thinking, st.just(""), st.none(), st.just("ZGF0YQ==")))
CALLS = st.builds(ToolCall, IDS, st.sampled_from(["read", "a.b", "write", "gone"]),
                  st.sampled_from(["", '{"path":"x"}', '{"input":"y"}']), st.booleans(),
                  st.sampled_from([None, Signature("c2ln", "zzzz")]))
RESULTS = st.builds(ToolResult, IDS, st.lists(st.one_of(TEXTS, MEDIA), max_size=2), st.booleans())
MESSAGES = st.one_of(
    st.builds(Message, st.just("user"), st.lists(st.one_of(TEXTS, MEDIA, RESULTS), max_size=3)),
    st.builds(Message, st.just("assistant"), st.lists(st.one_of(TEXTS, CALLS, THINKING), max_size=4)),
    st.builds(Message, st.just("system"), st.lists(TEXTS, max_size=2)),
)
WISHES = st.fixed_dictionaries({
    "stream": st.booleans(),
    "tools": st.sampled_from([[], TOOLS, TOOLS[:1]]),
    "tool_choice": st.sampled_from([None, *(ToolChoice(mode) for mode in ("auto", "required", "none")),
                                    ToolChoice("auto", allowed=("read",)), ToolChoice("required", allowed=("read",))]),
    "parallel_tool_calls": st.sampled_from([None, False]),
    "max_output_tokens": st.sampled_from([None, 500, 32000]),
    "temperature": st.sampled_from([None, 0.0, 2.0]),
    "top_p": st.sampled_from([None, 0.5]),
    "top_k": st.sampled_from([None, 5]),
    "stop": st.sampled_from([[], ["x"], list("abcdef")]),
    "thinking": st.sampled_from([None, ThinkingConfig("disabled"), ThinkingConfig("enabled", 2000),
                                 ThinkingConfig("enabled", 31999), ThinkingConfig("adaptive"),
                                 ThinkingConfig(effort="max"), ThinkingConfig(effort="minimal")]),
    "output_format": st.sampled_from([None, OutputFormat(None), OutputFormat(SCHEMA, strict=True)]),
    "user": st.sampled_from([None, "u" * 80]),
    "seed": st.sampled_from([None, 7]),
    "presence_penalty": st.sampled_from([None, 0.5]),
    "frequency_penalty": st.sampled_from([None, 0.5]),
    "logprobs": st.booleans(),
    "system": st.lists(TEXTS, max_size=3),
    "extra": st.sampled_from([{}, {"logit_bias": msgspec.Raw(b'{"1":2}'), "verbosity": msgspec.Raw(b'"low"'),
                                   "prompt_cache_key": msgspec.Raw(b'"k"'), "made_up": msgspec.Raw(b"1")}]),
    "api": st.sampled_from(["openai", "anthropic"]),
})


def target_of(endpoint: str, model: str) -> Target:
    return Target(model=model, profile=find_profile(endpoint, None, model), endpoint="example.com",
                  max_output_tokens=8000)


@pytest.mark.parametrize(("endpoint", "model"), PAIRS)
def test_what_an_endpoint_refuses_is_not_sent(endpoint: str, model: str) -> None:
    @given(st.lists(MESSAGES, max_size=6), WISHES)
    @settings(max_examples=6)
    def never_refused(messages, wishes):
        request = Request(model="m", messages=[Message("user", [Text("hi")]), *healed(messages)], **wishes)
        if request.api != "openai":
            request.extra = {}
        target = target_of(endpoint, model)
        sent = encode_request(request, target, Dropped()).request
        body = json.loads(sent.body)
        assert refusal(body, endpoint) is None, (refusal(body, endpoint), body)

    never_refused()


def test_every_endpoint_that_has_a_strict_rule_has_a_profile() -> None:
    assert set(MODELS) == set(STRICTNESS)
    assert set(STRICTNESS) <= {provider.name for provider in PROVIDERS}


@given(st.lists(MESSAGES, max_size=5))
@settings(max_examples=50)
def test_signatures_go_back_only_to_who_issued_them(messages):
    for endpoint, model in (("gemini-compat", "gemini-3-pro"), ("openrouter", "google/gemini-3-pro-preview"),
                            ("openrouter", "openai/gpt-5"), ("vllm", "x")):
        request = Request(model="m", messages=[Message("user", [Text("hi")]), *healed(messages)])
        assert issuer_origin(target_of(endpoint, model)) != "zzzz"
        body = encode_request(request, target_of(endpoint, model), Dropped()).request.body
        assert b"c2ln" not in body
        assert b"ZGF0YQ" not in body
