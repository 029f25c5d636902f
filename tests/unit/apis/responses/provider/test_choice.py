"""Which of OpenAI's two APIs an attempt uses: by the model's profile, or as the configuration says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation

OPENAI = "https://api.openai.com/v1"
AZURE = "https://name.openai.azure.com/openai/v1"
CLASSIC = "https://name.openai.azure.com"
OTHER = "http://127.0.0.1:8000/v1"


def path(model: str, **settings: Any) -> str:
    translation = Translation("anthropic", "openai", model, **settings)
    body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    return translation.request(json.dumps(body).encode()).path


@pytest.mark.parametrize("url", [OPENAI, AZURE])
@pytest.mark.parametrize("model", [
    "gpt-5.4", "gpt-5.4-mini", "gpt-5.5", "gpt-5.6-sol", "gpt-6-astra", "gpt-6-sol", "gpt-6.1-sol-2026-09-30",
    "gpt-5-pro", "gpt-5.4-pro", "gpt-5-codex", "gpt-5.1-codex-max", "gpt-5.3-codex", "o3-pro", "codex-mini-latest"])
def test_models_that_take_tools_on_responses_only(url: str, model: str) -> None:
    assert path(model, url=url).endswith("/v1/responses")


@pytest.mark.parametrize("url", [OPENAI, AZURE])
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1", "gpt-5", "gpt-5.1", "gpt-5.2", "o3", "o4-mini", "gpt-5-chat"])
def test_all_others_stay_with_chat_completions(url: str, model: str) -> None:
    assert path(model, url=url).endswith("/v1/chat/completions")


def test_an_unknown_model_of_openai_counts_as_one_of_the_newest() -> None:
    assert path("somebody-new", url=OPENAI).endswith("/responses")
    assert path("my-deployment", url=AZURE).endswith("/chat/completions")


@pytest.mark.parametrize(("url", "provider"), [(OTHER, None), (OTHER, "openai"), (CLASSIC, None)])
def test_other_hosts_and_azures_classic_endpoint_stay_with_chat_completions(url: str, provider: str | None) -> None:
    assert "/chat/completions" in path("gpt-6-sol", url=url, provider=provider)


@pytest.mark.parametrize(("url", "expected"), [
    (OPENAI, "/v1/responses"), (OTHER, "/v1/responses"), ("https://openrouter.ai/api/v1", "/api/v1/responses"),
    (CLASSIC, "/openai/responses?api-version=2024-10-21")])
def test_the_configuration_may_say_responses(url: str, expected: str) -> None:
    assert path("gpt-4o", url=url, endpoint="responses") == expected


def test_the_configuration_may_say_chat() -> None:
    assert path("gpt-6-sol", url=OPENAI, endpoint="chat").endswith("/chat/completions")


def test_responses_is_an_api_of_its_own_in_python() -> None:
    translation = Translation("anthropic", "responses", "m")
    body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
    assert translation.request(json.dumps(body).encode()).path == "/v1/responses"
    assert translation.provider_api == "responses"


def test_a_chat_client_is_translated_where_the_attempt_uses_responses() -> None:
    translation = Translation("openai", "openai", "gpt-6-sol", url=OPENAI)
    request = translation.request(b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}')
    assert request.path == "/v1/responses"
    assert "input" in json.loads(request.body)
