"""The Dockerfile and what it lets in. (Built and run: tests/containers.)"""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from extproc.cli import DEFAULT_ADMIN, DEFAULT_PROCESSOR
from extproc.config import Config, parse_address
from tests.unit.deploy.commands import options
from tests.unit.deploy.manifests import GATEWAY, ROOT, SIDECAR, kustomization

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

Instructions = list[tuple[str, str]]


@pytest.fixture(scope="module")
def stages() -> list[Instructions]:
    """The instructions of each stage, continued lines joined; what stands before the first FROM belongs to it."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.M)
    lines = [line.strip() for line in re.sub(r"\\\n\s*", "", text).splitlines() if line.strip()]
    found: list[Instructions] = [[]]
    for line in lines:
        name, _, rest = line.partition(" ")
        if name == "FROM" and any(before == "FROM" for before, _ in found[-1]):
            found.append([])
        found[-1].append((name, rest.strip()))
    return found


def said(stage: Instructions, name: str) -> list[str]:
    return [rest for instruction, rest in stage if instruction == name]


def test_the_base_is_pinned_and_one_for_both_stages(stages: list[Instructions]) -> None:
    assert [said(stage, "FROM") for stage in stages] == [["${PYTHON_IMAGE} AS build"], ["${PYTHON_IMAGE}"]]
    base = said(stages[0], "ARG")[0].partition("=")[2]
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", base)
    version = tuple(int(part) for part in base.partition(":")[2].partition("-")[0].split("."))
    assert version >= tuple(int(part) for part in PROJECT["requires-python"].removeprefix(">=").split("."))


def test_nothing_goes_through_a_shell(stages: list[Instructions]) -> None:
    for stage in stages:
        for name, rest in stage:
            if name in ("RUN", "CMD", "ENTRYPOINT", "SHELL"):
                assert isinstance(json.loads(rest), list), rest
            if name == "HEALTHCHECK":
                assert isinstance(json.loads(rest.partition("CMD ")[2]), list), rest


def test_it_runs_as_nobody_who_could_be_root(stages: list[Instructions]) -> None:
    """As a number, which Kubernetes can compare; the last word of the last stage."""
    user, = said(stages[-1], "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    last = [name for name, _ in stages[-1]]
    assert "RUN" not in last[last.index("USER"):]


def test_only_what_is_needed_is_let_in(stages: list[Instructions]) -> None:
    """No keys, no tests, no history: the list of what COPY names, and nothing else."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = {source for rest in said(stages[0], "COPY") for source in rest.split()[:-1]}
    assert let_in == {source.removeprefix("./") for source in copied}
    assert all((ROOT / name).exists() for name in let_in)
    assert said(stages[-1], "COPY") == ["--from=build /opt/extproc /opt/extproc"]


def test_the_command_and_the_health_check_are_the_programs_own(stages: list[Instructions]) -> None:
    final = stages[-1]
    assert json.loads(said(final, "ENTRYPOINT")[0]) == ["extproc"]
    assert str(options(json.loads(said(final, "CMD")[0]))["config"]) == "/etc/extproc/config.yaml"
    program, *arguments = json.loads(said(final, "HEALTHCHECK")[0].partition("CMD ")[2])
    assert program == "extproc"
    assert options(arguments) == {"admin": DEFAULT_ADMIN}


def test_ports_are_the_defaults(stages: list[Instructions]) -> None:
    defaults = {parse_address(address)[1] for address in (
        Config.__struct_defaults__[0], DEFAULT_ADMIN, DEFAULT_PROCESSOR)}
    assert {int(port) for port in said(stages[-1], "EXPOSE")[0].split()} == defaults


def test_versions_agree(stages: list[Instructions]) -> None:
    version = PROJECT["version"]
    assert f"VERSION={version}" in said(stages[-1], "ARG")
    assert f"extproc:{version}" in (ROOT / "docker-compose.yml").read_text()
    for folder in (SIDECAR, GATEWAY):
        tags = {image["name"]: image["newTag"] for image in kustomization(folder)["images"]}
        assert tags["extproc"] == version


def test_temporary_files_go_where_the_memory_is(stages: list[Instructions]) -> None:
    environment = " ".join(said(stages[-1], "ENV"))
    assert "TMPDIR=/run/extproc" in environment
    assert "PYTHONDONTWRITEBYTECODE=1" in environment
    made, = (json.loads(rest) for rest in said(stages[-1], "RUN") if "install" in rest)
    assert made == ["install", "-d", "-o", "extproc", "-g", "extproc", "-m", "0700", "/run/extproc"]
