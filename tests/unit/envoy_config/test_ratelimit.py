"""Limits in Envoy's configuration: the place of the filters, the descriptors of routes, the parts that a change of
limits touches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from extproc.config import (
    Attempt,
    Backend,
    Config,
    LimitsService,
    ModelLimits,
    ModelRule,
    Team,
    TeamLimits,
)
from extproc.envoy_config import RuntimeLayout, build, static_bootstrap, validate_with_envoy

Json = dict[str, Any]
EVERYTHING = TeamLimits(requests_per_minute=1, tokens_per_minute=2, tokens_per_day=3, concurrent_streams=4,
                        models={"50%-*": ModelLimits(requests_per_minute=5, tokens_per_day=6, concurrent_streams=7)})


def config(limits: TeamLimits | None, **service: Any) -> Config:
    return Config(
        backends={"b": Backend(api="openai", url="http://127.0.0.1:1/v1", key="k")},
        models=[ModelRule(match=match, attempts=[Attempt(backend="b", model="x")]) for match in ("m", "50%-*")],
        teams={"red": Team(key="one", limits=limits), "blue": Team(key="two")},
        limits_service=LimitsService(**service))


@pytest.fixture
def layout() -> Iterator[RuntimeLayout]:
    made = RuntimeLayout.create(1)
    yield made
    made.remove()


def static(settings: Config) -> Json:
    made: Json = static_bootstrap(settings, with_secrets=True, sockets=["unix:/run/w0.sock"])["static_resources"]
    return made


def filters(made: Json, listener: str) -> list[Json]:
    found = next(one for one in made["listeners"] if one["name"] == listener)
    names: list[Json] = found["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
    return names


def descriptors(made: Json, rule: str) -> dict[str, list[Json]]:
    """The descriptors of a route, by filter."""
    edge = next(one for one in made["listeners"] if one["name"] == "edge")
    table = edge["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
    route = next(one for one in table["virtual_hosts"][0]["routes"] if one["name"].startswith(rule))
    return {name: one["rate_limits"] for name, one in route.get("typed_per_filter_config", {}).items()}


@pytest.mark.parametrize("service", [{}, {"failure_mode": "deny"}, {"address": "limits.example:8081"},
                                     {"address": "10.0.0.1:8081"}])
@pytest.mark.parametrize("limits", [None, EVERYTHING])
def test_envoy_accepts_it(limits: TeamLimits | None, service: Json) -> None:
    made = static_bootstrap(config(limits, **service), with_secrets=True, sockets=["unix:/run/w0.sock"])
    assert validate_with_envoy(made) == []


def test_limits_come_after_select_and_before_the_router_which_retries() -> None:
    names = [one["name"] for one in filters(static(config(None)), "edge")]
    assert names[names.index("select") + 1:] == ["limits_ended", "limits", "limits_strict", "envoy.filters.http.router"]
    inner = [one["name"] for one in filters(static(config(None)), "in-b")]
    assert inner[inner.index("translate"):] == ["translate", "provider_key", "limits", "envoy.filters.http.router"]


def test_a_change_of_limits_needs_no_new_listener(layout: RuntimeLayout) -> None:
    """A new listener would cut the streams of the old one in the end."""
    def lds(settings: Config) -> str:
        return build(settings, layout).files()["lds.json"]

    assert lds(config(None)) == lds(config(EVERYTHING)) == lds(config(EVERYTHING, failure_mode="deny", address="a:1"))


def test_only_the_service_has_the_numbers(layout: RuntimeLayout) -> None:
    """A changed number changes no file of Envoy."""
    files = build(config(TeamLimits(requests_per_minute=123456)), layout).files()
    assert not [name for name, text in files.items() if "123456" in text]
    assert files == build(config(TeamLimits(requests_per_minute=7)), layout).files()


def test_without_limits_there_are_no_descriptors() -> None:
    assert descriptors(static(config(None)), "m-") == {}


def test_a_route_has_descriptors_for_the_team_and_for_the_rule() -> None:
    made = static(config(EVERYTHING))
    plain = [_entries(one) for one in descriptors(made, "m-")["limits"]]
    assert plain == [["team", "api"], ["team", "requests_per_minute"], ["team", "tokens_per_minute"],
                     ["team", "tokens_per_day"], ["team", "concurrent_streams", "stream"]]
    ruled = [_entries(one) for one in descriptors(made, "50-")["limits"]]
    assert ruled == [*plain, ["team", "50%-*", "requests_per_minute"], ["team", "50%-*", "tokens_per_day"],
                     ["team", "50%-*", "concurrent_streams", "stream"]]
    hits = [one["hits_addend"]["number"] for one in descriptors(made, "m-")["limits"]]
    assert hits == [0, 1, 0, 0, 1], "tokens are checked with a hit of 0"
    [ended] = descriptors(made, "m-")["limits_ended"]
    assert (ended["apply_on_stream_done"], ended["hits_addend"]) == (True, {"number": 1, "is_negative_hits": True})


def test_the_hop_reports_tokens_at_the_end_of_the_attempt(layout: RuntimeLayout) -> None:
    table = json.loads(build(config(EVERYTHING), layout).files()["rds-hops.json"])["resources"][0]
    text = json.dumps(table)
    counted = list(_rate_limits(table))
    assert [(one["apply_on_stream_done"], one["hits_addend"]["format"]) for one in counted] == [
        (True, "%DYNAMIC_METADATA(extproc:total)%")] * 3
    assert "x-extproc" not in "".join(json.dumps(one) for one in counted), "headers are gone by then"
    assert "requests_per_minute" not in text


def test_the_failure_mode_is_a_choice_of_the_route() -> None:
    assert set(descriptors(static(config(EVERYTHING)), "m-")) == {"limits", "limits_ended"}
    assert set(descriptors(static(config(EVERYTHING, failure_mode="deny")), "m-")) == {"limits_strict", "limits_ended"}
    made = {one["name"]: one["typed_config"] for one in filters(static(config(None)), "edge")}
    assert made["limits_strict"]["failure_mode_deny"] is True
    assert "failure_mode_deny" not in made["limits"]


@pytest.mark.parametrize(("address", "where"), [
    (None, {"socket_address": {"address": "127.0.0.1", "port_value": 50052}}),
    ("10.0.0.1:8081", {"socket_address": {"address": "10.0.0.1", "port_value": 8081}}),
    ("limits.example:8081", {"socket_address": {"address": "limits.example", "port_value": 8081}})])
def test_the_address_of_the_service(address: str | None, where: Json) -> None:
    made = next(one for one in static(config(None, address=address))["clusters"] if one["name"] == "limits")
    assert made["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"] == where


def test_a_running_gateway_has_its_own_service(layout: RuntimeLayout) -> None:
    made = json.loads(build(config(None), layout).files()["cds.json"])
    limits = next(one for one in made["resources"] if one["name"] == "limits")
    assert f"{layout.limits_socket}" in json.dumps(limits)


def _entries(limit: Json) -> list[str]:
    """The keys of a descriptor's entries, or their values if these are fixed."""
    return [action["generic_key"]["descriptor_value"] if "generic_key" in action
            else action["request_headers"]["descriptor_key"] for action in limit["actions"]]


def _rate_limits(tree: Any) -> Iterator[Json]:
    if isinstance(tree, dict):
        yield from tree.get("rate_limits", [])
        for one in tree.values():
            yield from _rate_limits(one)
    elif isinstance(tree, list):
        for one in tree:
            yield from _rate_limits(one)
