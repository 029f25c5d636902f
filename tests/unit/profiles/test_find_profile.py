"""Which profile an endpoint and a model get."""

from __future__ import annotations

import pytest

from extproc.profiles import find_profile


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
    ("openai", None, "gpt-5.2-pro", "openai-gpt-5.x"),
    ("openai", None, "o3-mini", "openai-o"),
    ("openai", None, "o4-mini-2025", "openai-o"),
    ("openai", None, "omni", "openai"),
])
def test_the_providers_name_outranks_the_host_and_families_go_by_model(provider, host, model, name):
    assert find_profile(provider, host, model).name == name


def test_p24_only_reasoning_families_get_max_completion_tokens():
    assert find_profile("openai", None, "gpt-4o").max_tokens_field == "max_tokens"
    for model in ("gpt-5", "o1", "o3", "o4-mini"):
        profile = find_profile("openai", None, model)
        assert profile.max_tokens_field == "max_completion_tokens"
        assert {"temperature", "top_p", "stop"} <= profile.refuses
