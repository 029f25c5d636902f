"""Settings that need a gateway of their own: `lossy: reject`, and what an open gateway (no teams) refuses."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest

from tests.e2e.gateway import Gateway, configuration
from tests.e2e.wire import Answer, payload, post, request, stream
from tests.providers.openai import OpenAIProvider, openai_error, status, text

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


PAGE = {**OPEN, "origin": "https://app.example", "anthropic-dangerous-direct-browser-access": "true"}
ALLOWED = "access-control-allow-origin"


def preflight(gateway: Gateway, origin: str, wanted: str = "content-type,x-api-key") -> Answer:
    return request(gateway.base_url, "OPTIONS", "/v1/messages", headers={
        "origin": origin, "access-control-request-method": "POST", "access-control-request-headers": wanted,
        "access-control-request-private-network": "true"})


def test_a_listed_origin_is_served(open_gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    answer = post(open_gateway.base_url, payload(), headers=PAGE)
    assert answer.status == 200
    assert answer.headers[ALLOWED] == "https://app.example"
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {"request-id", "retry-after", "x-extproc-dropped"} <= set(exposed)
    assert "origin" not in provider.last.headers


def test_a_listed_origin_may_read_streams_and_errors_too(open_gateway: Gateway, provider: OpenAIProvider) -> None:
    """A page can only see what went wrong when the error, too, carries the permission."""
    provider.script(text("ok"), status(429, openai_error("Slow down")))
    with stream(open_gateway.base_url, headers=PAGE) as answer:
        answer.read()
        assert answer.headers[ALLOWED] == "https://app.example"
    of_the_provider = post(open_gateway.base_url, payload(), headers=PAGE)
    of_the_processor = post(open_gateway.base_url, payload("no-such-model"), headers=PAGE)
    of_envoy = post(open_gateway.base_url, payload("claude-down"), headers=PAGE)
    assert [of_the_provider.status, of_the_processor.status, of_envoy.status] == [429, 404, 503]
    for failed in (of_the_provider, of_the_processor, of_envoy):
        assert failed.headers[ALLOWED] == "https://app.example"
        failed.error()


def test_a_preflight_of_a_listed_origin_is_granted(open_gateway: Gateway, provider: OpenAIProvider) -> None:
    """With every header that the official SDKs send from a browser, and from a public page to this machine."""
    wanted = ("anthropic-beta,anthropic-dangerous-direct-browser-access,anthropic-version,authorization,content-type,"
              "x-api-key,x-stainless-arch,x-stainless-lang,x-stainless-package-version,x-stainless-retry-count")
    answer = preflight(open_gateway, "https://app.example", wanted)
    assert answer.status == 200
    assert answer.headers[ALLOWED] == "https://app.example"
    assert "POST" in answer.headers["access-control-allow-methods"].split(", ")
    assert answer.headers["access-control-allow-headers"] == wanted
    assert answer.headers["access-control-allow-private-network"] == "true"
    assert provider.seen == []


def test_a_preflight_of_another_origin_is_refused(open_gateway: Gateway) -> None:
    answer = preflight(open_gateway, "https://evil.example")
    assert answer.status == 403
    assert ALLOWED not in answer.headers
    answer = post(open_gateway.base_url, payload(), headers={**OPEN, "origin": "https://evil.example"})
    assert answer.status == 403
    assert ALLOWED not in answer.headers


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
