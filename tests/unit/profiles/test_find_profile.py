"""The profile of an endpoint and a model."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from extproc.config.builtin import PROVIDERS as BUILTIN
from extproc.profiles import find_profile, find_provider


@pytest.mark.parametrize(("provider", "host", "model", "name"), [
    (None, None, "qwen3", "generic"),
    (None, "127.0.0.1", "gpt-5", "generic"),
    ("not-known-yet", "api.openai.com", "gpt-5", "generic"),
    (None, "api.openai.com", "gpt-4o", "openai"),
    (None, "API.OpenAI.com.", "gpt-4.1-mini", "openai"),
    (None, "eu.api.openai.com", "gpt-4o", "openai"),
    (None, "notapi.openai.com.example", "gpt-4o", "generic"),
    ("OpenAI", "proxy.example", "openai/GPT-5-mini", "openai-gpt-5"),
    ("openai", None, "gpt-5-chat-latest", "openai-chat"),
    ("openai", None, "gpt-5.1", "openai-gpt-5.1"),
    ("openai", None, "gpt-5.2-pro", "openai-pro"),
    ("openai", None, "o3-mini", "openai-o3-mini"),
    ("openai", None, "o4-mini-2025", "openai-o"),
    ("openai", None, "omni", "openai-newest"),
    (None, "my-name.openai.azure.com", "gpt-5-mini", "azure-gpt-5"),
    ("kimi", None, "kimi-k3", "moonshot-k3"),
    ("grok", None, "grok-4.20-0309-reasoning", "xai"),
    ("grok", None, "grok-4.20-0309-non-reasoning", "xai-plain"),
    ("xai", None, "grok-4.3-fast", "xai-effort"),
    ("qwen", None, "qwen3.6-plus", "dashscope-thinks"),
    ("glm", None, "glm-4.6v", "zai-vision"),
    ("llamacpp", "127.0.0.1", "any", "llama.cpp"),
    (None, "openrouter.ai", "anthropic/claude-sonnet-4.5", "openrouter-claude"),
    (None, "openrouter.ai", "google/gemini-3-pro-preview:free", "openrouter-gemini-3"),
    (None, "openrouter.ai", "openai/gpt-oss-120b", "openrouter"),
    (None, "api.kilo.ai", "anthropic/claude-opus-4.6", "kilo-claude"),
    (None, "generativelanguage.googleapis.com", "gemini-2.5-flash-lite", "gemini-compat-2.5-flash"),
])
def test_the_provider_name_precedes_the_host_and_families_match_the_model(provider, host, model, name):
    assert find_profile(provider, host, model).name == name


@pytest.mark.parametrize("name", [
    "openai", "openrouter", "deepseek", "dashscope", "moonshot", "xai", "groq", "fireworks", "deepinfra", "featherless",
    "together", "mistral", "cerebras", "zai", "lmstudio", "ollama", "vllm", "sglang", "llama.cpp", "azure",
    "gemini-compat", "kilo"])
def test_common_endpoints_are_known(name):
    found = find_provider(name, None)
    assert found is not None
    assert found.name == name


def test_every_builtin_provider_has_a_profile_by_name_and_by_host():
    for builtin in BUILTIN:
        if builtin.api == "openai":
            by_host = find_provider(None, urlsplit(builtin.url).hostname)
            assert by_host is not None
            assert find_provider(builtin.name, None) is by_host


def test_p24_only_reasoning_families_get_max_completion_tokens():
    assert find_profile("openai", None, "gpt-4o").max_tokens_field == "max_tokens"
    for model in ("gpt-5", "o1", "o3", "o4-mini"):
        profile = find_profile("openai", None, model)
        assert profile.max_tokens_field == "max_completion_tokens"
        assert {"temperature", "top_p", "stop"} <= profile.refuses


def test_the_id_form_of_a_family_applies_at_every_endpoint_without_its_own():
    assert find_profile("groq", None, "moonshotai/kimi-k2-instruct").tool_call_id_form == "functions"
    assert find_profile("openrouter", None, "moonshotai/kimi-k2.5").tool_call_id_form == "functions"
    assert find_profile("mistral", None, "kimi-k2").tool_call_id_form == "nine"
