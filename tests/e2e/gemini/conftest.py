"""One scripted Gemini and one gateway for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest

from tests.e2e.gateway import CLIENT_KEY, Gateway
from tests.e2e.gemini.talk import gemini_configuration
from tests.providers.gemini import GeminiProvider
from tests.providers.openai import OpenAIProvider


@pytest.fixture(scope="package")
def gemini_server() -> Iterator[GeminiProvider]:
    server = GeminiProvider()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def gemini(gemini_server: GeminiProvider) -> Iterator[GeminiProvider]:
    """The scripted provider, without script. A request that Google would refuse fails the test; what signatures it gave
    out it remembers from test to test."""
    gemini_server.clear()
    yield gemini_server
    violations = gemini_server.violations
    gemini_server.clear()
    assert violations == [], "Google would have refused this"


@pytest.fixture(scope="package")
def gateway(gemini_server: GeminiProvider, provider_server: OpenAIProvider,
            tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(gemini_configuration(gemini_server, provider_server.url), tmp_path_factory.mktemp("gemini"))
    yield running
    assert running.terminate() == 0, running.output


@pytest.fixture(scope="package")
def client(gateway: Gateway) -> Iterator[anthropic.Anthropic]:
    """The official SDK without retries of its own, so that a test sees the first answer."""
    with anthropic.Anthropic(base_url=gateway.base_url, api_key=CLIENT_KEY, max_retries=0, timeout=30) as one:
        yield one
