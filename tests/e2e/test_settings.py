"""Settings that need a gateway of their own: `lossy: reject`, and what an open gateway (no teams) refuses."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from tests.e2e.gateway import Gateway, configuration
from tests.e2e.wire import payload, post
from tests.providers.openai import OpenAIProvider, text

OPEN = {"anthropic-version": "2023-06-01", "content-type": "application/json"}


@pytest.fixture(scope="module")
def open_gateway(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = configuration(provider_server.url, workers=1, teams={}, lossy="reject", cors=["https://app.example"])
    running = Gateway(config, tmp_path_factory.mktemp("open"))
    yield running
    assert running.terminate() == 0, running.output


def test_an_open_gateway_serves_without_a_key(open_gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    assert post(open_gateway.base_url, payload(), headers=OPEN).status == 200


def test_lossy_reject_names_what_would_be_lost(open_gateway: Gateway, provider: OpenAIProvider) -> None:
    answer = post(open_gateway.base_url, payload(top_k=5), headers=OPEN)
    assert answer.status == 400
    kind, message = answer.error()
    assert kind == "invalid_request_error"
    assert "top_k" in message
    assert provider.seen == []


@pytest.mark.parametrize("headers", [
    {**OPEN, "origin": "https://evil.example"}, {**OPEN, "host": "evil.example"},
    {**OPEN, "content-type": "text/plain"}, {"anthropic-version": "2023-06-01"},
], ids=["origin", "host", "form", "no-content-type"])
def test_an_open_gateway_refuses_web_pages(open_gateway: Gateway, provider: OpenAIProvider,
                                           headers: dict[str, str]) -> None:
    """A page in the user's browser must not be able to spend the user's keys (also not by DNS rebinding)."""
    answer = post(open_gateway.base_url, payload(), headers=headers)
    assert 400 <= answer.status < 500
    answer.error()
    assert provider.seen == []


def test_a_listed_origin_is_served(open_gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    headers = {**OPEN, "origin": "https://app.example"}
    answer = post(open_gateway.base_url, payload(), headers=headers)
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "https://app.example"


def test_a_request_that_ends_early_is_refused_or_forgotten(open_gateway: Gateway, provider: OpenAIProvider) -> None:
    """A client that dies inside its upload: nothing reaches the provider, the next request is served."""
    connection = http.client.HTTPConnection("127.0.0.1", open_gateway.port, timeout=10)
    connection.putrequest("POST", "/v1/messages")
    for name, value in {**OPEN, "content-length": "100000"}.items():
        connection.putheader(name, value)
    connection.endheaders(b'{"model":"claude-test"')
    connection.close()
    provider.script(text("ok"))
    assert post(open_gateway.base_url, payload(), headers=OPEN).status == 200
    assert len(provider.seen) == 1
