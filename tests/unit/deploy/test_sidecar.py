"""envoy/kubernetes: the pod with Envoy and the processor as its sidecar does what its parts say of each other."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extproc.cli import app
from extproc.config import Config, parse_address
from extproc.envoy_config import validate_with_envoy
from extproc.envoy_config.clusters import trusted_ca
from extproc.envoy_config.routes import edge_table
from extproc.gateway.admin import AdminServer
from tests.unit.deploy.commands import loaded, options
from tests.unit.deploy.limits import service_numbers
from tests.unit.deploy.manifests import SIDECAR, Manifest, Manifests, container, containers, documents

ENVIRONMENT = {"RED_KEY": "red-key-of-the-test", "BLUE_KEY": "blue-key-of-the-test"}


@pytest.fixture(scope="module")
def manifests() -> Manifests:
    return Manifests(SIDECAR, "monitoring/servicemonitor.yaml")


@pytest.fixture(scope="module")
def pod(manifests: Manifests) -> Manifest:
    return manifests.one("Deployment", "extproc")["spec"]["template"]


@pytest.fixture(scope="module")
def config() -> Config:
    return loaded(SIDECAR / "config.yaml", ENVIRONMENT)


def ports(of: Manifest) -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in of["ports"]}


# ------------------------------------------------------------------------------------------------------ configuration


def test_the_configuration_is_checked(config: Config) -> None:
    """It loads without an avoidable warning, and it is the one in the ConfigMap that the pod mounts."""
    text, = Manifests(SIDECAR).config_maps["extproc-config"].values()
    assert text == (SIDECAR / "config.yaml").read_text()
    assert [rule.match for rule in config.models] == ["claude-*"]


def test_the_bootstrap_of_the_init_container_is_one_that_envoy_takes(
        pod: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The very command of the container, with this machine's folders in the place of the pod's."""
    folders = {"/etc/extproc": str(SIDECAR), "/run/extproc": str(tmp_path)}
    arguments = [_moved(argument, folders) for argument in container(pod, "bootstrap")["args"]]
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    app(arguments, standalone_mode=False)
    file = Path(options(arguments)["output"])
    assert file.stat().st_mode & 0o777 == 0o600, "it holds the teams' keys"
    text = file.read_text()
    assert all(key in text for key in ENVIRONMENT.values())
    assert "PUT-THE-KEY" not in text, "provider keys are files, which Envoy reads itself"
    assert "/run/secrets/extproc/openrouter" in text
    assert validate_with_envoy(json.loads(text.replace("/etc/ssl/certs/ca-certificates.crt", trusted_ca()))) == []


def _moved(argument: str, folders: dict[str, str]) -> str:
    for inside, here in folders.items():
        argument = argument.replace(inside, here)
    return argument


def test_envoy_reads_what_was_written_and_finds_the_workers(pod: Manifest) -> None:
    made = options(container(pod, "bootstrap")["args"])
    serving = options(container(pod, "processor")["args"])
    envoy = container(pod, "envoy")
    assert made["processor"] == serving["listen"], "one socket for each worker"
    assert made["with_secrets"]
    assert made["config"] == serving["config"] == Path("/etc/extproc/config.yaml")
    assert envoy["command"] == ["envoy"]
    assert envoy["args"][envoy["args"].index("-c") + 1] == str(made["output"])
    assert str(made["output"]).startswith("/run/extproc/")


def test_workers_are_as_many_as_the_processor_has_cores(pod: Manifest) -> None:
    processor = container(pod, "processor")
    assert len(options(processor["args"])["listen"]) == int(processor["resources"]["limits"]["cpu"])


# -------------------------------------------------------------------------------------------------- ports and probes


def test_ports_are_those_of_the_configuration(pod: Manifest, config: Config) -> None:
    """And open to the kubelet and to clients, which come from other machines."""
    for name, key, address in (("envoy", "http", config.listen), ("processor", "admin", config.admin)):
        host, port = parse_address(address)
        assert ports(container(pod, name)) == {key: port}
        assert host == "0.0.0.0"


def test_probes_ask_what_is_served(pod: Manifest, config: Config) -> None:
    admin = AdminServer(("127.0.0.1", 0), lambda: b"")
    try:
        served = {path for path in ("/readyz", "/healthz", "/metrics", "/nothing") if _status(admin, path) != 404}
    finally:
        admin.close()
    edge = {route.match.path for host in edge_table(config, with_secrets=False).virtual_hosts
            for route in host.routes if route.match is not None and route.direct_response is not None}
    for name, known in (("processor", served), ("envoy", edge)):
        one = container(pod, name)
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert one[kind]["httpGet"]["path"] in known, (name, kind)
            assert one[kind]["httpGet"]["port"] in ports(one), (name, kind)


def _status(admin: AdminServer, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=5)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_busy_processor_is_not_killed_by_its_probe(pod: Manifest) -> None:
    """Liveness asks whether the process is there, readiness whether it serves."""
    processor = container(pod, "processor")
    assert processor["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert processor["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert processor["livenessProbe"]["periodSeconds"] * processor["livenessProbe"]["failureThreshold"] >= 60


# ------------------------------------------------------------------------------------------------------- start and end


def test_the_processor_starts_before_envoy_and_outlives_it(pod: Manifest) -> None:
    """An init container that is restarted for ever, after the one that writes the bootstrap; its startup probe holds
    Envoy back."""
    names = [one["name"] for one in pod["spec"]["initContainers"]]
    assert names == ["bootstrap", "processor"]
    assert "restartPolicy" not in container(pod, "bootstrap")
    assert container(pod, "processor")["restartPolicy"] == "Always"
    assert "startupProbe" in container(pod, "processor")


def test_the_drain_fits_into_the_grace_period(pod: Manifest, config: Config) -> None:
    hook = container(pod, "envoy")["lifecycle"]["preStop"]["exec"]["command"]
    assert hook[0] == "extproc"
    drain = options(hook[1:])
    assert drain["admin"] == options(container(pod, "bootstrap")["args"])["admin"]
    assert drain["settle"] >= 5, "until every node has seen that the pod goes"
    assert drain["patience"] >= config.timeouts.drain
    assert drain["settle"] + drain["patience"] + 10 <= pod["spec"]["terminationGracePeriodSeconds"]


def test_limits_hold_while_the_pods_of_the_rate_limit_service_are_replaced(manifests: Manifests) -> None:
    """Envoy looks the name of the service up every 5 s; until then it calls the pod that goes."""
    pod = manifests.one("Deployment", "ratelimit")["spec"]["template"]
    wait = container(pod, "ratelimit")["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert wait >= 2 * 5
    assert wait + 10 <= pod["spec"]["terminationGracePeriodSeconds"]


def test_the_rate_limit_service_is_ready_while_it_reaches_redis(manifests: Manifests) -> None:
    one = container(manifests.one("Deployment", "ratelimit")["spec"]["template"], "ratelimit")
    said = {variable["name"]: variable["value"] for variable in one["env"]}
    assert said["REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"] == "true"
    assert one["readinessProbe"]["httpGet"]["path"] == "/healthcheck"
    assert "httpGet" not in one["livenessProbe"], "a restart would not bring Redis back"
    assert said["DISABLE_STATS"] == "true", "else it logs two lines for each request"


# ---------------------------------------------------------------------------------------------- volumes and references


@pytest.mark.parametrize("name", ["extproc", "ratelimit", "redis"])
def test_volumes_and_mounts_fit(manifests: Manifests, name: str) -> None:
    template = manifests.one("Deployment", name)["spec"]["template"]
    volumes = {volume["name"] for volume in template["spec"].get("volumes", [])}
    used = {mount["name"] for one in containers(template) for mount in one.get("volumeMounts", [])}
    assert used == volumes


def test_what_is_referred_to_is_there(manifests: Manifests) -> None:
    """ConfigMaps are generated, Secrets are those of the example."""
    secrets = {secret["metadata"]["name"]: secret["stringData"]
               for secret in documents(SIDECAR / "secrets.example.yaml")}
    for template in manifests.pods():
        for volume in template["spec"].get("volumes", []):
            assert volume.get("configMap", {}).get("name") in {None, *manifests.config_maps}
            assert volume.get("secret", {}).get("secretName") in {None, *secrets}
        for one in containers(template):
            assert {source["secretRef"]["name"] for source in one.get("envFrom", [])} <= set(secrets)
        account = template["spec"].get("serviceAccountName")
        assert account is None or manifests.one("ServiceAccount", account)
    assert secrets["extproc-team-keys"].keys() == ENVIRONMENT.keys()


def test_every_container_that_reads_the_configuration_has_all_it_names(pod: Manifest, config: Config) -> None:
    keys, = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "provider-keys")
    example = next(secret for secret in documents(SIDECAR / "secrets.example.yaml")
                   if secret["metadata"]["name"] == keys["secret"]["secretName"])
    for one in containers(pod):
        mounts = {mount["name"]: mount for mount in one["volumeMounts"]}
        assert mounts["config"]["mountPath"] == "/etc/extproc"
        assert mounts["provider-keys"]["readOnly"]
        for backend in config.backends.values():
            folder, _, file = str(backend.key_file).rpartition("/")
            assert folder == mounts["provider-keys"]["mountPath"]
            assert file in example["stringData"]
    for name in ("bootstrap", "processor"):
        assert [source["secretRef"]["name"] for source in container(pod, name)["envFrom"]] == ["extproc-team-keys"]
    assert "envFrom" not in container(pod, "envoy"), "Envoy reads keys from its bootstrap only"


def test_keys_can_be_read_by_the_user_of_the_pod_only(pod: Manifest) -> None:
    keys, = (volume for volume in pod["spec"]["volumes"] if "secret" in volume)
    assert keys["secret"]["defaultMode"] == 0o440
    assert pod["spec"]["securityContext"]["fsGroup"] == pod["spec"]["securityContext"]["runAsGroup"]


# ------------------------------------------------------------------------------------------------------------ services


def test_services_lead_to_ports_that_exist(manifests: Manifests) -> None:
    for service in manifests.of("Service"):
        found = manifests.selected(service["spec"]["selector"])
        assert len(found) == 1, service["metadata"]["name"]
        named = {port["name"] for one in containers(found[0]) for port in one.get("ports", [])}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= named


def test_selectors_find_their_pods(manifests: Manifests) -> None:
    for deployment in manifests.of("Deployment"):
        assert manifests.selected(deployment["spec"]["selector"]["matchLabels"]) == [deployment["spec"]["template"]]
    for budget in manifests.of("PodDisruptionBudget"):
        assert len(manifests.selected(budget["spec"]["selector"]["matchLabels"])) == 1
    for scaler in manifests.of("HorizontalPodAutoscaler"):
        target = manifests.one("Deployment", scaler["spec"]["scaleTargetRef"]["name"])
        assert "replicas" not in target["spec"], "two would fight over the number"
        assert all("cpu" in one["resources"]["requests"] for one in containers(target["spec"]["template"]))


def test_the_monitor_finds_its_service(manifests: Manifests) -> None:
    monitor, = manifests.of("ServiceMonitor")
    found, = (service for service in manifests.of("Service")
              if monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"].get("labels", {}).items())
    endpoint, = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in found["spec"]["ports"]}
    assert endpoint["path"] == "/metrics"


# ------------------------------------------------------------------------------------------------------------- network


def _allowed(policy: Manifest, direction: str) -> set[int]:
    return {port["port"] for rule in policy["spec"].get(direction, []) for port in rule["ports"]}


def test_the_network_lets_through_what_is_needed_and_no_more(manifests: Manifests, config: Config) -> None:
    closed, = (policy for policy in manifests.of("NetworkPolicy") if policy["spec"]["podSelector"] == {})
    assert closed["spec"].keys() == {"podSelector", "policyTypes"}, "what no policy names is closed"
    for policy in manifests.of("NetworkPolicy"):
        if policy is not closed:
            assert len(manifests.selected(policy["spec"]["podSelector"]["matchLabels"])) == 1
    gateway = manifests.one("NetworkPolicy", "extproc")
    service = parse_address(str(config.limits_service.address))[1]
    assert _allowed(gateway, "ingress") == {parse_address(config.listen)[1], parse_address(config.admin)[1]}
    assert _allowed(gateway, "egress") == {53, service, *(backend.port for backend in config.backends.values())}
    assert _allowed(manifests.one("NetworkPolicy", "ratelimit"), "ingress") == {service}


def test_the_metadata_service_of_a_cloud_is_out_of_reach(manifests: Manifests) -> None:
    blocks = [peer["ipBlock"] for rule in manifests.one("NetworkPolicy", "extproc")["spec"]["egress"]
              for peer in rule["to"] if "ipBlock" in peer]
    assert {block["cidr"] for block in blocks} == {"0.0.0.0/0", "::/0"}
    assert "169.254.0.0/16" in blocks[0]["except"]


# -------------------------------------------------------------------------------------------------------------- limits


def test_the_rate_limit_service_has_the_numbers_of_the_configuration(manifests: Manifests, config: Config) -> None:
    file = yaml.safe_load(manifests.config_maps["ratelimit-config"]["config.yaml"])
    assert service_numbers(file) == config.limit_numbers


def test_its_file_is_the_generated_one(manifests: Manifests, monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails: extproc limits-config --config envoy/kubernetes/config.yaml"""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    made = CliRunner().invoke(app, ["limits-config", "--config", str(SIDECAR / "config.yaml")])
    assert manifests.config_maps["ratelimit-config"]["config.yaml"] == made.output


def test_the_rate_limit_service_is_where_envoy_asks(manifests: Manifests, config: Config) -> None:
    host, port = parse_address(str(config.limits_service.address))
    ports_: list[dict[str, Any]] = manifests.one("Service", host)["spec"]["ports"]
    assert [one["port"] for one in ports_] == [port]
    template, = manifests.selected(manifests.one("Service", host)["spec"]["selector"])
    limiter, = containers(template)
    said = {variable["name"]: variable["value"] for variable in limiter["env"]}
    redis, redis_port = parse_address(said["REDIS_URL"])
    assert manifests.one("Service", redis)["spec"]["ports"][0]["port"] == redis_port
    mount, = limiter["volumeMounts"]
    assert mount["mountPath"] == f"{said['RUNTIME_ROOT']}/{said['RUNTIME_SUBDIRECTORY']}/config"


def test_images_have_versions(manifests: Manifests) -> None:
    for template in manifests.pods():
        for one in containers(template):
            name, _, tag = manifests.image(one).rpartition(":")
            assert name
            assert tag not in ("", "latest", "master")
