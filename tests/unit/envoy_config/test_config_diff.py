"""An Envoy configuration made earlier fits as long as every rule and backend has its way there."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.envoy_config import static_bootstrap
from extproc.envoy_config.config_diff import find_differences

BACKEND = Backend(api="openai", url="https://b.example/v1", key="k")


def configuration(match: str = "m", model: str = "x", **backends: Backend) -> Config:
    return Config(backends={"b": BACKEND, **backends},
                  models=[ModelRule(match=match, attempts=[Attempt(backend="b", model=model)])])


def made(config: Config) -> Any:
    return static_bootstrap(config, with_secrets=False, sockets=["127.0.0.1:1"])


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
def test_what_envoy_does_not_look_at_may_differ(write: Any) -> None:
    assert find_differences(configuration(model="another"), write(made(configuration()))) == []


def test_what_has_no_way_is_named_at_its_path() -> None:
    now, then = configuration("n", later=BACKEND), configuration()
    assert find_differences(now, json.dumps(made(then))) == [
        ("models[0]", "Envoy has no route for 'n' and its backends; its requests get 503"),
        ("models", f"Envoy has a route ({then.models[0].route_key}) that no rule uses any more"),
        ("backends.later", "Envoy has no route to it")]


@pytest.mark.parametrize("text", ["", "[", "a: b", "- 1", "static_resources: 3"])
def test_what_is_no_configuration_of_ours_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not valid YAML|holds no routes"):
        find_differences(configuration(), text)
