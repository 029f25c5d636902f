"""envoy/envoy-gateway: the processor at a gateway that is there already, in one-hop mode. (What Envoy makes of such a
policy: tests/e2e/test_envoy_gateway.py.)"""

from __future__ import annotations

import re
from typing import Any

import pytest

from extproc.config import Config, parse_address
from extproc.envoy_config.provider_keys import key_header
from extproc.headers import CLIENT_CREDENTIALS, REMOVED_IN_HOP
from tests.unit.deploy.commands import loaded, options
from tests.unit.deploy.manifests import GATEWAY, Manifest, Manifests, container, containers, documents


@pytest.fixture(scope="module")
def manifests() -> Manifests:
    return Manifests(GATEWAY)


@pytest.fixture(scope="module")
def config() -> Config:
    return loaded(GATEWAY / "config.yaml", {})


@pytest.fixture(scope="module")
def pod(manifests: Manifests) -> Manifest:
    return manifests.one("Deployment", "extproc")["spec"]["template"]


@pytest.fixture(scope="module")
def rule(manifests: Manifests) -> dict[str, Any]:
    only, = manifests.one("HTTPRoute", "llm")["spec"]["rules"]
    return only


def _filter(rule: dict[str, Any], kind: str) -> dict[str, Any]:
    found, = (one for one in rule["filters"] if one["type"] == kind)
    return {key: value for key, value in found.items() if key != "type"}.popitem()[1]


def test_the_configuration_says_which_backend_the_policy_means(config: Config, manifests: Manifests) -> None:
    """Envoy Gateway sends no gRPC metadata with which the filter could."""
    assert config.one_hop in config.backends
    assert {attempt.backend for served in config.models for attempt in served.attempts} == {config.one_hop}
    assert "/v1" in [match["path"]["value"] for match in
                     manifests.one("HTTPRoute", "llm")["spec"]["rules"][0]["matches"]]


def test_the_policy_reaches_the_worker(config: Config, manifests: Manifests, pod: Manifest) -> None:
    policy = manifests.one("EnvoyExtensionPolicy", "extproc")["spec"]
    attached, = policy["extProc"]
    called, = attached["backendRefs"]
    service = manifests.one("Service", called["name"])["spec"]
    port, = (port for port in service["ports"] if port["port"] == called["port"])
    assert port["appProtocol"] == "kubernetes.io/h2c", "gRPC"
    assert manifests.selected(service["selector"]) == [pod]
    named = {one["name"]: one["containerPort"] for one in container(pod, "processor")["ports"]}
    listening, = options(container(pod, "processor")["args"])["listen"]
    assert parse_address(listening) == ("0.0.0.0", named[port["targetPort"]])
    assert parse_address(config.admin) == ("0.0.0.0", named["admin"])
    assert attached["metadata"]["writableNamespaces"] == ["extproc"]
    assert attached["failOpen"] is False


def test_policies_stand_on_things_that_are_there(manifests: Manifests) -> None:
    """The Gateway itself belongs to whoever runs the cluster."""
    gateway, = manifests.one("HTTPRoute", "llm")["spec"]["parentRefs"]
    for policy in manifests.all:
        for target in policy.get("spec", {}).get("targetRefs", []):
            if target["kind"] == "Gateway":
                assert target["name"] == gateway["name"]
            else:
                assert manifests.one(target["kind"], target["name"])


def test_the_provider_is_the_same_everywhere(config: Config, manifests: Manifests, rule: dict[str, Any]) -> None:
    """The configuration's URL, the address, the certificate's name, the Host header."""
    backend = config.backends[str(config.one_hop)]
    reference, = rule["backendRefs"]
    endpoint, = manifests.one("Backend", reference["name"])["spec"]["endpoints"]
    assert (endpoint["fqdn"]["hostname"], endpoint["fqdn"]["port"]) == (backend.host, backend.port)
    assert reference["port"] == backend.port
    verified, = manifests.of("BackendTLSPolicy")
    assert verified["spec"]["targetRefs"][0]["name"] == reference["name"]
    assert verified["spec"]["validation"]["hostname"] == backend.host
    assert _filter(rule, "URLRewrite")["hostname"] == backend.authority


def test_the_key_goes_into_the_header_that_the_provider_reads(
        config: Config, manifests: Manifests, rule: dict[str, Any]) -> None:
    injected = manifests.one("HTTPRouteFilter", _filter(rule, "ExtensionRef")["name"])["spec"]["credentialInjection"]
    header = key_header(config.backends[str(config.one_hop)])
    assert injected["header"].lower() == header.name
    assert injected["overwrite"]
    secret, = (secret for secret in documents(GATEWAY / "secrets.example.yaml")
               if secret["metadata"]["name"] == injected["credential"]["valueRef"]["name"])
    assert secret["stringData"]["credential"].startswith(header.prefix)


def test_a_clients_keys_end_at_the_gateway(config: Config, rule: dict[str, Any]) -> None:
    """The route's removal comes after the injection, so it must spare the header that holds the provider's key."""
    removed = set(_filter(rule, "RequestHeaderModifier")["remove"])
    injected = key_header(config.backends[str(config.one_hop)]).name
    assert removed >= set(CLIENT_CREDENTIALS) - {injected}
    assert injected not in removed
    assert "accept-encoding" in removed


def test_a_client_cannot_speak_for_the_gateway(manifests: Manifests) -> None:
    """Every header by which the parts of the gateway tell each other something."""
    policy = manifests.one("ClientTrafficPolicy", "llm")["spec"]
    removed = set(policy["headers"]["earlyRequestHeaders"]["remove"])
    internal = {name for name in REMOVED_IN_HOP if name.startswith("x-extproc-")}
    assert internal
    assert internal <= removed
    assert not {"x-extproc-tools", "x-extproc-finalize"} & removed, "these are the client's own"


def test_the_teams_name_arrives_where_it_is_read(manifests: Manifests) -> None:
    auth = manifests.one("SecurityPolicy", "llm")["spec"]["apiKeyAuth"]
    assert auth["forwardClientIDHeader"] == "x-extproc-team"
    assert auth["sanitize"]
    assert auth["extractFrom"] == [{"headers": ["x-api-key", "Authorization"]}]
    names = {secret["metadata"]["name"] for secret in documents(GATEWAY / "secrets.example.yaml")}
    assert {reference["name"] for reference in auth["credentialRefs"]} <= names


def test_long_answers_are_not_cut(config: Config, manifests: Manifests, rule: dict[str, Any]) -> None:
    assert rule["timeouts"]["request"] == "0s"
    assert manifests.one("BackendTrafficPolicy", "llm")["spec"]["timeout"]["http"]["requestTimeout"] == "0s"
    idle = manifests.one("ClientTrafficPolicy", "llm")["spec"]["timeout"]["http"]["streamIdleTimeout"]
    assert int(re.fullmatch(r"(\d+)s", idle)[1]) >= config.timeouts.stream_idle  # type: ignore[index]


def test_a_pod_that_goes_finishes_its_streams(config: Config, pod: Manifest) -> None:
    one = container(pod, "processor")
    wait = one["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert wait + config.timeouts.drain + 10 <= pod["spec"]["terminationGracePeriodSeconds"]


def test_volumes_and_accounts_are_there(manifests: Manifests, pod: Manifest) -> None:
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for one in containers(pod) for mount in one["volumeMounts"]} == volumes
    assert manifests.one("ServiceAccount", pod["spec"]["serviceAccountName"])
    assert {volume["configMap"]["name"] for volume in pod["spec"]["volumes"] if "configMap" in volume} \
        == set(manifests.config_maps)
