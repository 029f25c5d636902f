"""docker-compose.yml: its services run what the program understands, find each other, and are nobody else's business.
(Run for real: tests/containers.)"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from extproc.cli import app
from extproc.config import parse_address
from extproc.envoy_config import validate_with_envoy
from tests.unit.deploy.commands import loaded, options
from tests.unit.deploy.limits import service_numbers
from tests.unit.deploy.manifests import ROOT

COMPOSE = ROOT / "envoy" / "compose"
ENVIRONMENT = {"GATEWAY_KEY": "key-of-the-test"}


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    return dict(yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"])


def command(service: dict[str, Any]) -> dict[str, Any]:
    """The options of a service that runs the program; those of the image's own command where it says none."""
    return options(service.get("command", ["up", "--config", "/etc/extproc/config.yaml"]))


def mounted(service: dict[str, Any], place: str) -> Path:
    """The file of the checkout that stands at this place."""
    found, = (volume.split(":")[0] for volume in service["volumes"] if volume.split(":")[1] == place)
    return ROOT / found


def configuration(service: dict[str, Any]) -> Any:
    return loaded(mounted(service, "/etc/extproc/config.yaml"), ENVIRONMENT)


def test_without_a_profile_there_are_the_gateway_and_its_provider(services: dict[str, dict[str, Any]]) -> None:
    profiles = {name: service.get("profiles") for name, service in services.items()}
    assert {name for name, of in profiles.items() if of is None} == {"gateway", "provider"}
    assert {name for name, of in profiles.items() if of == ["observe"]} == {"prometheus", "grafana"}
    assert {name for name, of in profiles.items() if of == ["fleet"]} == {
        "processor-1", "processor-2", "bootstrap", "envoy", "ratelimit", "redis"}


def test_what_runs_the_program_may_do_nothing_else(services: dict[str, dict[str, Any]]) -> None:
    ours = [service for service in services.values() if service["image"].startswith("extproc:")]
    assert len(ours) == 6
    for service in ours:
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert any("/run/extproc" in place for place in [*service["tmpfs"], *service.get("volumes", [])])


def test_everything_is_published_on_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert len(published) == 5
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_what_is_mounted_is_there(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        for volume in service.get("volumes", []):
            if volume.startswith("./"):
                assert (ROOT / volume.split(":")[0]).exists(), (name, volume)


def test_images_have_versions(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["image"].partition(":")[2] not in ("", "latest", "master"), name


@pytest.mark.parametrize("name", ["gateway", "processor-1"])
def test_ports_are_those_of_the_configuration(services: dict[str, dict[str, Any]], name: str) -> None:
    config = configuration(services[name])
    listen, admin = parse_address(config.listen), parse_address(config.admin)
    assert (listen[0], admin[0]) == ("0.0.0.0", "0.0.0.0"), "a container's loopback is its own"
    entry = services["gateway" if name == "gateway" else "envoy"]
    assert str(listen[1]) in [port.rpartition(":")[2] for port in entry["ports"]]
    assert admin[1] == 9902, "where `extproc ready` asks, the image's health check"
    for backend in config.backends.values():
        assert parse_address(command(services[backend.host])["listen"]) == ("0.0.0.0", backend.port)


def test_a_stop_leaves_running_answers_their_time(services: dict[str, dict[str, Any]]) -> None:
    for name in ("gateway", "processor-1", "processor-2"):
        assert int(services[name]["stop_grace_period"].removesuffix("s")) > configuration(services[name]).timeouts.drain


# --------------------------------------------------------------------------------------------------------------- fleet


def test_the_fleets_envoy_finds_both_processors(services: dict[str, dict[str, Any]]) -> None:
    made = command(services["bootstrap"])
    for address in made["processor"]:
        host, port = parse_address(address)
        assert command(services[host])["listen"] == [f"0.0.0.0:{port}"]
        assert mounted(services[host], "/etc/extproc/config.yaml") == mounted(services["bootstrap"],
                                                                             "/etc/extproc/config.yaml")
    assert {parse_address(address)[0] for address in made["processor"]} == {"processor-1", "processor-2"}
    envoy = services["envoy"]["command"]
    assert envoy[envoy.index("-c") + 1] == str(made["output"])
    assert services["envoy"]["entrypoint"] == ["envoy"]
    assert services["envoy"]["depends_on"]["bootstrap"] == {"condition": "service_completed_successfully"}


def test_envoy_takes_the_fleets_bootstrap(services: dict[str, dict[str, Any]], tmp_path: Path,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """Made by the service's own command. The processors are names, which are looked up again and again."""
    monkeypatch.setenv("GATEWAY_KEY", "key-of-the-test")
    arguments = [argument.replace("/run/extproc", str(tmp_path))
                 .replace("/etc/extproc/config.yaml", str(COMPOSE / "fleet.yaml"))
                 for argument in services["bootstrap"]["command"]]
    app(arguments, standalone_mode=False)
    made = json.loads((tmp_path / "envoy.json").read_text())
    assert validate_with_envoy(made) == []
    cluster, = (one for one in made["static_resources"]["clusters"] if one["name"] == "processor")
    assert cluster["cluster_type"]["name"] == "envoy.clusters.dns"


def test_the_rate_limit_service_has_the_numbers_of_the_configuration(services: dict[str, dict[str, Any]]) -> None:
    config = configuration(services["processor-1"])
    folder = mounted(services["ratelimit"], "/data/ratelimit/config")
    files = [yaml.safe_load(file.read_text()) for file in sorted(folder.iterdir())]
    assert len(files) == 1
    assert service_numbers(files[0]) == config.limit_numbers
    said = services["ratelimit"]["environment"]
    assert f"{said['RUNTIME_ROOT']}/{said['RUNTIME_SUBDIRECTORY']}/config" == "/data/ratelimit/config"
    assert parse_address(config.limits_service.address) == ("ratelimit", 8081)
    assert parse_address(said["REDIS_URL"])[0] in services


def test_its_file_is_the_generated_one(services: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails: extproc limits-config --config envoy/compose/fleet.yaml"""
    monkeypatch.setenv("GATEWAY_KEY", "key-of-the-test")
    made = CliRunner().invoke(app, ["limits-config", "--config", str(COMPOSE / "fleet.yaml")])
    assert (mounted(services["ratelimit"], "/data/ratelimit/config") / "config.yaml").read_text() == made.output


# ------------------------------------------------------------------------------------------------------------- observe


def test_prometheus_reads_every_admin_port(services: dict[str, dict[str, Any]]) -> None:
    read = yaml.safe_load(mounted(services["prometheus"], "/etc/prometheus/prometheus.yml").read_text())
    targets = {target for job in read["scrape_configs"] for group in job["static_configs"]
               for target in group["targets"]}
    assert targets == {f"{name}:9902" for name in ("gateway", "processor-1", "processor-2")}


def test_grafana_finds_prometheus_and_the_dashboards(services: dict[str, dict[str, Any]]) -> None:
    source, = yaml.safe_load((COMPOSE / "grafana" / "datasource.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    provider, = yaml.safe_load((COMPOSE / "grafana" / "dashboards.yaml").read_text())["providers"]
    assert list(mounted(services["grafana"], provider["options"]["path"]).glob("*.json"))


# ------------------------------------------------------------------------------------------------------------- compose


def test_docker_compose_understands_the_file() -> None:
    """Both generations of the program, where one is installed. It asks no engine for this."""
    tools = [[tool, *more] for tool, *more in (["docker", "compose"], ["docker-compose"]) if shutil.which(tool)]
    for tool in tools:
        if subprocess.run([*tool, "version"], capture_output=True, timeout=20, check=False).returncode == 0:
            done = subprocess.run([*tool, "--profile", "fleet", "--profile", "observe", "config", "-q"], cwd=ROOT,
                                  capture_output=True, text=True, timeout=30, check=False)
            assert done.returncode == 0, done.stderr
            return
    pytest.skip("neither docker compose nor docker-compose is installed")
