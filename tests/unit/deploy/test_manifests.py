"""Every manifest fits the schema of its kind, and the schemas are strict enough to find a mistake."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.unit.deploy.manifests import GATEWAY, SIDECAR, Manifest, Manifests, complaints, documents, kustomization

FILES = sorted(path for folder in (SIDECAR, GATEWAY) for path in folder.rglob("*.yaml")
               if path.name not in ("kustomization.yaml", "config.yaml", "ratelimit-config.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_manifest_fits_its_schema(path: Path) -> None:
    said = {f"{manifest['kind']} {manifest['metadata']['name']}": found
            for manifest in documents(path) if (found := list(complaints(manifest)))}
    assert said == {}


@pytest.mark.parametrize("folder", [SIDECAR, GATEWAY], ids=lambda folder: folder.name)
def test_the_kustomization_takes_every_file(folder: Path) -> None:
    """But for the example of Secrets, which is nobody's, and the component that needs an operator."""
    listed = {*kustomization(folder)["resources"], *(entry.partition("=")[2] or entry
                                                     for made in kustomization(folder)["configMapGenerator"]
                                                     for entry in made["files"])}
    assert {path.name for path in folder.glob("*.yaml")} == {*listed, "kustomization.yaml", "secrets.example.yaml"}


def test_the_component_takes_its_file() -> None:
    assert documents(SIDECAR / "monitoring" / "kustomization.yaml") == [{
        "apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component",
        "resources": ["servicemonitor.yaml", "prometheusrule.yaml"]}]


@pytest.mark.parametrize("folder", [SIDECAR, GATEWAY], ids=lambda folder: folder.name)
def test_no_secret_is_applied(folder: Path) -> None:
    """Keys come from elsewhere; the example holds placeholders only."""
    assert Manifests(folder).of("Secret") == []
    for secret in documents(folder / "secrets.example.yaml"):
        assert all("PUT-THE-KEY-OF" in value for value in secret["stringData"].values())


def _deployment() -> Manifest:
    return copy.deepcopy(Manifests(SIDECAR).one("Deployment", "extproc"))


def _set(path: str, value: Any) -> Any:
    """A change of the gateway's deployment: `path` leads to a key, None takes it away."""
    def change() -> Manifest:
        manifest = _deployment()
        place: Any = manifest
        *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
        for step in way:
            place = place[step]
        if value is None:
            del place[last]
        else:
            place[last] = value
        return manifest
    return change


@pytest.mark.parametrize("change", [
    pytest.param(_set("spec.template.spec.containers.0.livenesProbe", {}), id="a key that does not exist"),
    pytest.param(_set("spec.template.spec.containers.0.securityContext", None), id="a container that may do anything"),
    pytest.param(_set("spec.template.spec.containers.0.resources", None), id="a container without limits"),
    pytest.param(_set("spec.template.spec.containers.0.restartPolicy", "Always"), id="a main container as a sidecar"),
    pytest.param(_set("spec.template.spec.containers.0.resources.limits.memory", "2G b"), id="no quantity"),
    pytest.param(_set("spec.template.spec.securityContext.runAsUser", 0), id="root"),
    pytest.param(_set("spec.template.spec.volumes.0", {"name": "run", "emptyDir": {}}), id="keys on a disk"),
    pytest.param(_set("spec.selector", None), id="no selector"),
    pytest.param(_set("spec.template.spec.containers.0.ports.0.containerPort", "10000"), id="a port as text"),
    pytest.param(_set("apiVersion", "apps/v1beta1"), id="an API that is gone"),
])
def test_the_schemas_find_mistakes(change: Any) -> None:
    assert list(complaints(_deployment())) == []
    assert list(complaints(change())) != []
