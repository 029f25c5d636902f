"""The static bootstrap: it follows the configuration, hides keys, and Envoy accepts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Attempt, Backend, Config, Limits, ModelRule, Team, Timeouts
from extproc.envoy_config import clusters, static_bootstrap, validate_with_envoy

SOCKETS = ["unix:/run/w0.sock", "127.0.0.1:50051"]
Json = dict[str, Any]


def one_backend(url: str, **changes: Any) -> Config:
    values: Json = {"backends": {"b": Backend(api="openai", url=url, key="secret-of-b")},
                    "models": [ModelRule(match="m", attempts=[Attempt(backend="b", model="x")])]}
    return Config(**{**values, **changes})


def cluster(config: Config, name: str, **options: Any) -> Json:
    made = static_bootstrap(config, with_secrets=False, sockets=SOCKETS, **options)
    return next(one for one in made["static_resources"]["clusters"] if one["name"] == name)


def manager(config: Config, listener: str) -> Json:
    made = static_bootstrap(config, with_secrets=True, sockets=SOCKETS)
    found = next(one for one in made["static_resources"]["listeners"] if one["name"] == listener)
    typed: Json = found["filter_chains"][0]["filters"][0]["typed_config"]
    return typed


def endpoint(made: Json) -> Json:
    found: Json = made["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    return found


@pytest.mark.parametrize("url", ["http://127.0.0.1:1234/v1", "https://api.example.com/v1", "http://localhost:80",
                                 "https://10.0.0.1:8443/x", "http://[::1]:1234/v1", "https://[2001:db8::1]/v1",
                                 "https://api.example.com:8443/v1"])
@pytest.mark.parametrize("teams", [{}, {"red": Team(key="k"), "blue": Team(key=["k2", "k3"])}])
def test_envoy_accepts_every_kind_of_url_with_and_without_teams(url: str, teams: dict[str, Team]) -> None:
    for with_secrets in (True, False):
        made = static_bootstrap(one_backend(url, teams=teams), with_secrets=with_secrets, sockets=SOCKETS)
        assert validate_with_envoy(made) == []


def test_envoys_complaints_are_reported() -> None:
    made = static_bootstrap(one_backend("http://127.0.0.1:1/v1"), with_secrets=True, sockets=SOCKETS)
    made["static_resources"]["clusters"][0]["no_such_field"] = 1
    assert any("no_such_field" in line for line in validate_with_envoy(made))


def test_keys_appear_only_on_request() -> None:
    config = one_backend("https://a.example/v1", teams={"red": Team(key=["team-one", "team-two"])})
    shown = json.dumps(static_bootstrap(config, with_secrets=True, sockets=SOCKETS))
    hidden = json.dumps(static_bootstrap(config, with_secrets=False, sockets=SOCKETS))
    for secret in ("secret-of-b", "team-one", "team-two"):
        assert secret in shown
        assert secret not in hidden
    assert "PUT-THE-KEY-OF-BACKEND-b-HERE" in hidden


def test_one_route_per_rule_and_one_group_per_attempt() -> None:
    attempts = [Attempt(backend="b", model="x"), Attempt(backend="b", model="y")]
    config = one_backend("http://127.0.0.1:1/v1", models=[ModelRule(match="m", attempts=attempts)],
                         limits=Limits(replay=1000), timeouts=Timeouts(stream_idle=7))
    routes = manager(config, "edge")["route_config"]["virtual_hosts"][0]["routes"]
    assert [route["name"] for route in routes] == ["healthz", config.models[0].route_key, "unknown-rule", "nothing"]
    route = routes[1]
    prefix = f"{config.models[0].route_key}."
    assert route["match"]["headers"] == [{"name": "x-extproc-route", "string_match": {"prefix": prefix}}]
    assert route["request_body_buffer_limit"] == 1000
    assert (route["route"]["timeout"], route["route"]["idle_timeout"]) == ("0s", "7s")
    assert route["route"]["retry_policy"]["num_retries"] == 1
    specifier = route["route"]["inline_cluster_specifier_plugin"]["extension"]["typed_config"]
    assert [group["clusters"][0]["cluster_name"] for group in specifier["priority_groups"]] == ["hop-b", "hop-b"]


def test_a_single_attempt_is_never_retried() -> None:
    """An unset number of retries would mean one."""
    route = manager(one_backend("http://127.0.0.1:1/v1"), "edge")["route_config"]["virtual_hosts"][0]["routes"][1]
    assert route["route"]["retry_policy"]["num_retries"] == 0


def test_a_hop_has_no_outlier_detection() -> None:
    """An ejected hop cluster ends failover instead of causing it."""
    config = one_backend("http://127.0.0.1:1/v1")
    assert "outlier_detection" in cluster(config, "backend-b")
    assert "outlier_detection" not in cluster(config, "hop-b")


def test_an_unreachable_worker_is_ejected_until_it_passes_a_health_check() -> None:
    """A longer ejection would outlast its restart, and would still apply when the other worker dies. Its responses
    never count."""
    made = cluster(one_backend("http://127.0.0.1:1/v1"), "processor")
    found = made["outlier_detection"]
    assert found["consecutive_local_origin_failure"] == 1
    assert found["split_external_local_origin_errors"] is True
    assert found["successful_active_health_check_uneject_host"] is True
    assert {found[name] for name in found if name.startswith("enforcing_")} == {0}
    assert made["health_checks"][0]["grpc_health_check"] == {}


@pytest.mark.parametrize(("origins", "policies"), [([], 0), (["https://a.example", "https://b.example"], 1)])
def test_origins_are_part_of_the_routes(origins: list[str], policies: int) -> None:
    made = manager(one_backend("http://127.0.0.1:1/v1", cors=origins), "edge")
    assert made["http_filters"][0]["name"] == "envoy.filters.http.cors", "a preflight has no key"
    host = made["route_config"]["virtual_hosts"][0]
    found = [policy for name, policy in host.get("typed_per_filter_config", {}).items() if name.endswith(".cors")]
    assert len(found) == policies
    for policy in found:
        assert [one["exact"] for one in policy["allow_origin_string_match"]] == origins


def test_tls_checks_the_host_on_any_port() -> None:
    made = cluster(one_backend("https://api.example.com:8443/v1"), "backend-b", ca="/ca.pem")
    tls = made["transport_socket"]["typed_config"]
    assert (tls["sni"], tls["auto_sni_san_validation"]) == ("api.example.com", True)
    assert tls["common_tls_context"]["validation_context"]["trusted_ca"] == {"filename": "/ca.pem"}
    assert endpoint(made)["hostname"] == "api.example.com:8443"  # the value of the Host header


def test_tls_to_an_address_checks_the_address() -> None:
    tls = cluster(one_backend("https://10.0.0.1/v1"), "backend-b")["transport_socket"]["typed_config"]
    assert "sni" not in tls
    names = tls["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"]
    assert names == [{"san_type": "IP_ADDRESS", "matcher": {"exact": "10.0.0.1"}}]


def test_clear_text_is_http1_without_tls() -> None:
    made = cluster(one_backend("http://127.0.0.1:1234/v1"), "backend-b")
    assert made["type"] == "STATIC"
    assert "transport_socket" not in made
    options = next(iter(made["typed_extension_protocol_options"].values()))
    assert "http_protocol_options" in options["explicit_http_config"]


def test_every_worker_is_an_endpoint() -> None:
    points = cluster(one_backend("http://127.0.0.1:1/v1"), "processor")["load_assignment"]["endpoints"][0]
    assert [point["endpoint"]["address"] for point in points["lb_endpoints"]] == [
        {"pipe": {"path": "/run/w0.sock"}},
        {"socket_address": {"address": "127.0.0.1", "port_value": 50051}}]


def test_the_systems_certificates_are_trusted_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bundles = [tmp_path / name for name in ("missing.crt", "system.crt", "other.crt")]
    for bundle in bundles[1:]:
        bundle.touch()
    monkeypatch.setattr(clusters, "CA_BUNDLES", [str(bundle) for bundle in bundles])
    assert clusters.trusted_ca() == str(bundles[1])


def test_without_a_system_bundle_certifis_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "CA_BUNDLES", ["/nonexistent"])
    assert clusters.trusted_ca() == clusters.certifi.where()


def test_a_backend_without_a_key_has_no_injector() -> None:
    config = one_backend("http://127.0.0.1:1/v1", backends={"b": Backend(api="openai", url="http://127.0.0.1:1/v1")})
    names = [made["name"] for made in manager(config, "in-b")["http_filters"]]
    assert names == ["remember_client", "translate", "limits", "envoy.filters.http.router"]
    keyed = [made["name"] for made in manager(one_backend("http://127.0.0.1:1/v1"), "in-b")["http_filters"]]
    assert keyed == ["remember_client", "translate", "provider_key", "limits", "envoy.filters.http.router"]
