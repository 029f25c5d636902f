"""Fixtures of the end-to-end tests: one provider and one gateway for the whole run, both clean before each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import CLIENT_KEY, Gateway, configuration
from tests.providers.openai import OpenAIProvider


@pytest.fixture(scope="session")
def provider_server() -> Iterator[OpenAIProvider]:
    provider = OpenAIProvider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture
def provider(provider_server: OpenAIProvider) -> Iterator[OpenAIProvider]:
    """The scripted provider, without script. A request that the real one would refuse fails the test; a test that
    wants to see a refusal sets `provider.strict = False` or clears `provider.seen`."""
    provider_server.clear()
    yield provider_server
    violations = provider_server.violations if provider_server.strict else []
    provider_server.clear()
    assert violations == [], "the real provider would have refused this"


@pytest.fixture(scope="session")
def gateway(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The gateway that most tests share. It must end with exit code 0 on SIGTERM."""
    running = Gateway(configuration(provider_server.url), tmp_path_factory.mktemp("gateway"))
    yield running
    assert running.terminate() == 0, running.output


@pytest.fixture
def start_gateway(provider_server: OpenAIProvider, tmp_path: Path) -> Iterator[Callable[..., Gateway]]:
    """Starts gateways of a test's own: `start_gateway(timeouts={...})`. Those still running are ended afterwards."""
    started: list[Gateway] = []

    def start(**changes: Any) -> Gateway:
        directory = tmp_path / f"gateway-{len(started)}"
        directory.mkdir()
        started.append(Gateway(configuration(provider_server.url, **changes), directory))
        return started[-1]

    yield start
    codes = [one.terminate() for one in started if one.process.poll() is None]
    assert not any(codes), codes


@pytest.fixture(scope="session")
def sdk(gateway: Gateway) -> Iterator[anthropic.Anthropic]:
    """The official SDK without retries of its own, so that a test sees the first answer."""
    with anthropic.Anthropic(base_url=gateway.base_url, api_key=CLIENT_KEY, max_retries=0, timeout=30) as client:
        yield client
