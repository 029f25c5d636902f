"""Which changes concern the workers alone, and which need a new configuration of an external Envoy."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extproc.config import Attempt, Backend, Config, Limits, LimitsService, ModelRule, Team, TeamLimits
from extproc.envoy_config import static_bootstrap
from extproc.gateway.serving import envoy_needs

BACKEND = Backend(api="openai", url="https://b.example/v1", key="k")


def configuration(**changes: Any) -> Config:
    settings: dict[str, Any] = {
        "backends": {"b": BACKEND, "c": BACKEND}, "teams": {"red": Team(key="r")},
        "models": [ModelRule(match="m", attempts=[Attempt(backend="b", model="x")])]}
    return Config(**{**settings, **changes})


def rule(match: str = "m", backend: str = "b", **attempt: Any) -> list[ModelRule]:
    return [ModelRule(match=match, attempts=[Attempt(**{"backend": backend, "model": "x", **attempt})])]


def made(config: Config) -> object:
    return static_bootstrap(config, with_secrets=True, sockets=["127.0.0.1:1"])


@pytest.mark.parametrize("changes", [
    {"models": rule(model="another", max_output_tokens=5, first_token_timeout=3)}, {"lossy": "reject"},
    {"models": [msgspec.structs.replace(rule()[0], list=["m"])]},
    {"backends": {"b": msgspec.structs.replace(BACKEND, safety={"harassment": "off"}), "c": BACKEND}}])
def test_changes_that_concern_the_workers_alone(changes: dict[str, Any]) -> None:
    assert envoy_needs(configuration(), configuration(**changes)) is None
    assert made(configuration()) == made(configuration(**changes)), "nothing of it stands in Envoy's configuration"


@pytest.mark.parametrize(("changes", "said", "unrouted"), [
    ({"models": rule("n")}, "models (n)", True), ({"models": rule(backend="c")}, "models (m)", True),
    ({"models": [*rule(), *rule("n")]}, "models (n)", True),
    ({"teams": {"red": Team(key="other")}}, "change of teams", False),
    ({"teams": {"red": Team(key="r", limits=TeamLimits(requests_per_minute=1))}}, "change of teams", False),
    ({"backends": {"b": msgspec.structs.replace(BACKEND, url="https://d.example"), "c": BACKEND}}, "backends", False),
    ({"cors": ["*"]}, "change of cors", False), ({"limits": Limits(body=5)}, "change of limits", False),
    ({"limits_service": LimitsService(timeout=1)}, "change of limits_service", False)])
def test_changes_that_envoy_needs(changes: dict[str, Any], said: str, unrouted: bool) -> None:
    told = envoy_needs(configuration(), configuration(**changes))
    assert told is not None
    assert said in told
    assert "extproc envoy-config" in told
    assert ("answers 503" in told) is unrouted
    assert made(configuration()) != made(configuration(**changes))


def test_in_one_hop_mode_every_change_concerns_the_workers_alone() -> None:
    assert envoy_needs(configuration(one_hop="b"), configuration(one_hop="b", models=rule("n"))) is None
