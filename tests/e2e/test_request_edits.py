"""`set`, `override`, `remove` and `headers` through the real Envoy: official SDKs ask, strict providers read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, Gateway, configuration
from tests.providers import anthropic as claude
from tests.providers import gemini
from tests.providers.openai import OpenAIProvider, openai_error, status, text

ENV = {"GATEWAY_SITE": "https://gateway.example"}


@pytest.fixture(scope="module")
def providers() -> Iterator[tuple[claude.AnthropicProvider, gemini.GeminiProvider]]:
    made = claude.AnthropicProvider(), gemini.GeminiProvider()
    for one in made:
        one.start()
    yield made
    for one in made:
        one.stop()


@pytest.fixture(scope="module")
def gateway(provider_server: OpenAIProvider, providers: tuple[claude.AnthropicProvider, gemini.GeminiProvider],
            tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    backends: dict[str, Any] = {
        "openai": {"api": "openai", "url": provider_server.url, "key": PROVIDER_KEY, "provider": "openai",
                   "headers": {"HTTP-Referer": "${GATEWAY_SITE}", "X-Title": "Our gateway"},
                   "set": {"temperature": 0.7, "store": True}, "override": {"metadata.site": "one"},
                   "remove": ["user"]},
        "claude": {"api": "anthropic", "url": providers[0].url, "key": PROVIDER_KEY, "provider": "anthropic",
                   "override": {"service_tier": "standard_only"},
                   "headers": {"anthropic-beta": "context-management-2025-06-27"}},
        "google": {"api": "gemini", "url": providers[1].url, "key": gemini.KEY, "set": {"store": False}},
    }
    models = [
        {"match": "gpt", "attempts": [{"backend": "openai", "model": "gpt-4o"}]},
        {"match": "pair", "attempts": [
            {"backend": "openai", "model": "gpt-4o", "set": {"temperature": 0.1}, "override": {"service_tier": "flex"},
             "headers": {"x-title": "First"}},
            {"backend": "google", "model": "gemini-3-pro-preview"}]},
        {"match": "claude", "attempts": [{"backend": "claude", "model": "claude-sonnet-4-5"}]},
    ]
    config = configuration(provider_server.url, workers=1, backends=backends, models=models)
    running = Gateway(config, tmp_path_factory.mktemp("edits"), ENV)
    yield running
    assert running.terminate() == 0, running.output


@pytest.fixture
def messages(gateway: Gateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=gateway.base_url, api_key=CLIENT_KEY, max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def chat(gateway: Gateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=CLIENT_KEY, max_retries=0, timeout=30) as client:
        yield client


def ask(client: anthropic.Anthropic, model: str, **fields: Any) -> str:
    message = client.messages.create(model=model, max_tokens=50, messages=[{"role": "user", "content": "Hi"}], **fields)
    return "".join(block.text for block in message.content if block.type == "text")


def test_a_translated_request_has_the_operators_fields_and_headers(messages: anthropic.Anthropic,
                                                                  provider: OpenAIProvider) -> None:
    provider.script(text("Hello."))
    assert ask(messages, "gpt", metadata={"user_id": "someone"}) == "Hello."
    seen = provider.seen[0]
    assert (seen.body["temperature"], seen.body["store"], seen.body["metadata"]) == (0.7, True, {"site": "one"})
    assert "user" not in seen.body
    assert (seen.headers["http-referer"], seen.headers["x-title"]) == ("https://gateway.example", "Our gateway")
    assert seen.headers["authorization"] == f"Bearer {PROVIDER_KEY}"


def test_a_forwarded_request_keeps_the_clients_values_unless_they_are_overridden(
        chat: openai.OpenAI, provider: OpenAIProvider) -> None:
    provider.script(text("Hello."), text("Hello."))
    for _ in range(2):
        said = chat.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "Hi"}], temperature=0.2,
                                            metadata={"site": "two", "mine": "kept"}, user="someone")
        assert said.choices[0].message.content == "Hello."
    first, second = provider.seen
    assert (first.body["temperature"], first.body["metadata"]) == (0.2, {"site": "one", "mine": "kept"})
    assert "user" not in first.body
    assert first.raw == second.raw, "prompt caches hit"


def test_each_attempt_has_its_own(messages: anthropic.Anthropic, provider: OpenAIProvider,
                                  providers: tuple[claude.AnthropicProvider, gemini.GeminiProvider]) -> None:
    google = providers[1]
    google.clear()
    provider.script(status(503, openai_error("busy")))
    google.script(gemini.text("From Gemini."))
    assert ask(messages, "pair") == "From Gemini."
    first = provider.seen[0]
    assert (first.body["temperature"], first.body["service_tier"], first.body["store"]) == (0.1, "flex", True)
    assert first.headers["x-title"] == "First"
    assert google.seen[0].body["store"] is False
    assert "x-title" not in google.seen[0].exchange.headers
    assert google.violations == []


def test_betas_join_those_of_the_client(messages: anthropic.Anthropic,
                                        providers: tuple[claude.AnthropicProvider, gemini.GeminiProvider]) -> None:
    server = providers[0]
    server.clear()
    server.script(claude.text("Hello."))
    assert ask(messages, "claude", extra_headers={"anthropic-beta": "interleaved-thinking-2025-05-14"}) == "Hello."
    seen = server.seen[0]
    assert seen.body["service_tier"] == "standard_only"
    assert seen.headers["anthropic-beta"] == "interleaved-thinking-2025-05-14,context-management-2025-06-27"
    assert server.violations == []
