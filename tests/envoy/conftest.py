"""One Envoy for the tests that only ask questions; tests that break something start their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from extproc.config import Attempt, Backend, Config, Limits, ModelRule, Team
from tests.envoy.running import Provider, RunningEnvoy
from tests.ports import free_port

TEAM_KEY = "team-key-1"
PROVIDER_KEY = "provider-key-1"


def configuration(good: int, failing: int, **changes: object) -> Config:
    """`good` and `failing` are the ports of two providers; `down` is a port where nothing listens."""
    backends = {
        "good": Backend(api="openai", url=f"http://127.0.0.1:{good}/v1", key=PROVIDER_KEY),
        "by-name": Backend(api="openai", url=f"http://localhost:{good}/v1", key=PROVIDER_KEY),
        "claude": Backend(api="anthropic", url=f"http://127.0.0.1:{good}/v1", key="claude-key"),
        "gemini": Backend(api="gemini", url=f"http://127.0.0.1:{good}/v1", key="gemini-key"),
        "keyless": Backend(api="openai", url=f"http://127.0.0.1:{good}/v1"),
        "failing": Backend(api="openai", url=f"http://127.0.0.1:{failing}/v1", key="failing-key"),
        "down": Backend(api="openai", url=f"http://localhost:{free_port()}/v1", key="down-key"),
    }
    rules = [ModelRule(match=name, attempts=[Attempt(backend=name, model="m")]) for name in backends]
    rules.append(ModelRule(match="fails-over", attempts=[
        Attempt(backend=name, model="m") for name in ("failing", "down", "good")]))
    values: dict[str, object] = {
        "listen": f"127.0.0.1:{free_port()}", "backends": backends, "models": rules,
        "teams": {"red": Team(key=[TEAM_KEY, "team-key-2"])}, "limits": Limits(body=200_000), **changes}
    return Config(**values)  # type: ignore[arg-type]


@dataclass
class World:
    envoy: RunningEnvoy
    good: Provider
    failing: Provider


@pytest.fixture(scope="session")
def world() -> Iterator[World]:
    good, failing = Provider().start(), Provider(status=429, body=b'{"error":{"message":"slow down"}}').start()
    envoy = RunningEnvoy(configuration(good.port, failing.port))
    yield World(envoy, good, failing)
    envoy.stop()
    good.stop()
    failing.stop()


@pytest.fixture
def key() -> dict[str, str]:
    return {"x-api-key": TEAM_KEY}
