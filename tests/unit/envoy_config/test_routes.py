"""Route tables with weighted attempts and with attempts that may skip an ejected provider; Envoy accepts them."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.envoy_config import static_bootstrap, validate_with_envoy

Json = dict[str, Any]


def configuration(*attempts: tuple[str, int | None]) -> Config:
    """One rule with these attempts: a backend and a weight each."""
    return Config(
        backends={name: Backend(api="openai", url=f"https://{name}.example/v1", key=name) for name in "abc"},
        models=[ModelRule(match="m", attempts=[Attempt(backend=backend, model=f"m-{number}", weight=weight)
                                               for number, (backend, weight) in enumerate(attempts)])])


def routes(config: Config, listener: str) -> list[Json]:
    made = static_bootstrap(config, with_secrets=False, sockets=["127.0.0.1:1"])
    found = next(one for one in made["static_resources"]["listeners"] if one["name"] == listener)
    manager = found["filter_chains"][0]["filters"][0]["typed_config"]
    listed: list[Json] = manager["route_config"]["virtual_hosts"][0]["routes"]
    return listed


def edge(config: Config) -> list[tuple[dict[str, str], list[str], str | None]]:
    """Of each route for a rule: its header matchers, the hops of its attempts, the ejectable attempts."""
    found = []
    for route in routes(config, "edge")[1:-2]:
        headers = {header["name"]: next(iter(header["string_match"].values())) for header in route["match"]["headers"]}
        specifier = route["route"]["inline_cluster_specifier_plugin"]["extension"]["typed_config"]
        hops = [group["clusters"][0]["cluster_name"] for group in specifier["priority_groups"]]
        ejectable = [added["header"]["value"] for added in route.get("request_headers_to_add", [])]
        found.append((headers, hops, ejectable[0] if ejectable else None))
    return found


def hop(config: Config, backend: str) -> list[tuple[str, str]]:
    """Of each route in a backend's hop: the number of its attempt ("" for any), and its cluster."""
    return [(next((header["string_match"]["exact"] for header in route["match"].get("headers", [])
                   if header["name"] == "x-envoy-attempt-count"), ""), route["route"]["cluster"])
            for route in routes(config, f"in-{backend}")]


def test_each_attempt_order_is_a_route_and_the_first_needs_no_header() -> None:
    config = configuration(("a", 3), ("b", 1), ("c", None))
    rule = f"{config.models[0].route_key}."
    assert edge(config) == [
        ({"x-extproc-route": rule, "x-extproc-order": "1"}, ["hop-b", "hop-a", "hop-c"], ",1,2,"),
        ({"x-extproc-route": rule}, ["hop-a", "hop-b", "hop-c"], ",1,2,")]
    assert hop(config, "a") == [("1", "early-a"), ("2", "early-a"), ("", "backend-a")]
    assert hop(config, "c") == [("", "backend-c")]


@pytest.mark.parametrize(("attempts", "ejectable"), [
    ("a", None), ("ab", ",1,"), ("aa", None), ("aab", ",1,2,"), ("aba", ",1,2,"), ("abb", ",1,"), ("abc", ",1,2,")])
def test_attempts_followed_by_another_backend_are_ejectable(attempts: str, ejectable: str | None) -> None:
    assert [found[2] for found in edge(configuration(*((backend, None) for backend in attempts)))] == [ejectable]


def test_a_single_attempt_has_no_retry_condition() -> None:
    """Then Envoy keeps no copy of the request."""
    conditions = [routes(configuration(*attempts), "edge")[1]["route"]["retry_policy"].get("retry_on")
                  for attempts in ([("a", None)], [("a", None), ("b", None)])]
    assert conditions[0] is None
    assert conditions[1] is not None


def test_envoy_accepts_every_combination() -> None:
    config = configuration(("a", 3), ("b", 1), ("b", 2), ("c", None), ("a", 1), ("c", 1))
    assert validate_with_envoy(static_bootstrap(config, with_secrets=False, sockets=["127.0.0.1:1"])) == []
