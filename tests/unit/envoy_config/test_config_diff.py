"""An Envoy configuration made earlier fits if it has a route for every rule and a hop for every backend."""

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


def bootstrap(config: Config) -> Any:
    return static_bootstrap(config, with_secrets=False, sockets=["127.0.0.1:1"])


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
def test_parts_that_do_not_decide_the_route_may_differ(write: Any) -> None:
    assert find_differences(configuration(model="another"), write(bootstrap(configuration()))) == []


def test_missing_and_unused_routes_are_named_at_their_paths() -> None:
    today, earlier = configuration("n", later=BACKEND), configuration()
    assert find_differences(today, json.dumps(bootstrap(earlier))) == [
        ("models[0]", "Envoy has no route for 'n' and its backends; its requests get 503"),
        ("models", f"Envoy has a route ({earlier.models[0].route_key}) that no rule uses any more"),
        ("backends.later", "Envoy has no route to it")]


@pytest.mark.parametrize("text", ["", "[", "a: b", "- 1", "static_resources: 3"])
def test_other_texts_are_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not valid YAML|holds no routes"):
        find_differences(configuration(), text)
