"""A provider over TLS: its certificate must come from a trusted authority and hold its name, or nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from extproc.config import Attempt, Backend, ModelRule
from tests.envoy.certificates import authority, needs_openssl, server_context
from tests.envoy.conftest import configuration
from tests.envoy.running import Provider, RunningEnvoy
from tests.envoy.test_own_replies import CHAT, anthropic_error, openai_error

pytestmark = needs_openssl


def serving(folder: Path, ca: str, names: str) -> Provider:
    """A provider whose certificate, signed by `ca`, holds these names (`DNS:...`, `IP:...`)."""
    return Provider(tls=server_context(folder, ca, names, f"{ca}-{names.replace(':', '-')}")).start()


@pytest.fixture(scope="module")
def providers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningEnvoy, dict[str, Provider]]]:
    """Envoy that trusts one authority, and four providers on loopback, reached as `localhost` or `127.0.0.1`."""
    folder = tmp_path_factory.mktemp("tls")
    authority(folder, "trusted")
    authority(folder, "unknown")
    made = {"named": serving(folder, "trusted", "DNS:localhost"),
            "numbered": serving(folder, "trusted", "IP:127.0.0.1"),
            "other-name": serving(folder, "trusted", "DNS:provider.example"),
            "other-authority": serving(folder, "unknown", "DNS:localhost")}
    backends = {name: Backend(api="openai", key="provider-key", url=f"https://{host}:{made[name].port}/v1")
                for name, host in {"named": "localhost", "numbered": "127.0.0.1", "other-name": "localhost",
                                   "other-authority": "localhost"}.items()}
    backends["other-number"] = Backend(api="openai", url=f"https://127.0.0.1:{made['named'].port}/v1")
    rules = [ModelRule(match=name, attempts=[Attempt(backend=name, model="m")]) for name in backends]
    envoy = RunningEnvoy(configuration(1, 1, teams={}, backends=backends, models=rules), ca=str(folder / "trusted.pem"))
    yield envoy, made
    envoy.stop()
    for one in made.values():
        one.stop()


@pytest.mark.parametrize("name", ["named", "numbered"])
def test_the_right_certificate_is_enough(providers: tuple[RunningEnvoy, dict[str, Provider]], name: str) -> None:
    envoy, made = providers
    assert envoy.ask(name).status == 200
    _, headers, body = made[name].requests[-1]
    assert headers["authorization"] == "Bearer provider-key"
    assert body == b'{"model": "%s"}' % name.encode()


@pytest.mark.parametrize("name", ["other-name", "other-authority", "other-number"])
def test_a_wrong_certificate_is_an_error_that_names_tls(providers: tuple[RunningEnvoy, dict[str, Provider]],
                                                        name: str) -> None:
    envoy, made = providers
    assert "TLS certificate" in anthropic_error(envoy.ask(name), 503, "overloaded_error")
    assert "TLS certificate" in openai_error(envoy.ask(name, CHAT), 503, "server_error", "provider_unreachable")
    assert name not in made or made[name].requests == [], "no key, no request"
