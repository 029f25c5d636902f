"""The Kubernetes manifests as kustomize would send them: resources with their namespace, images and generated names.

As much of kustomize as the files use, so that tests need neither the program nor a cluster. What is not understood is
an error here, not passed over.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parents[3]
SIDECAR = ROOT / "envoy" / "kubernetes"
GATEWAY = ROOT / "envoy" / "envoy-gateway"
SCHEMAS = Path(__file__).parent / "schemas"

Manifest = dict[str, Any]

_UNDERSTOOD = {"apiVersion", "kind", "namespace", "resources", "components", "configMapGenerator", "images"}
_FRAME = {
    "type": "object", "additionalProperties": False, "required": ["apiVersion", "kind", "metadata"],
    "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}},
}
_METADATA = {
    "type": "object", "required": ["name"], "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "namespace": {"type": "string"},
                   "labels": {"type": "object", "additionalProperties": {"type": "string"}}},
}


def documents(path: Path) -> list[Manifest]:
    """All documents of one file."""
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def kustomization(folder: Path) -> Manifest:
    """The folder's kustomization.yaml, all of whose keys are understood here."""
    found, = documents(folder / "kustomization.yaml")
    assert set(found) <= _UNDERSTOOD, set(found) - _UNDERSTOOD
    return found


class Manifests:
    """All resources of one kustomization, as they are sent to the cluster."""

    def __init__(self, folder: Path, *extra: str) -> None:
        self.folder = folder
        self.kustomization = kustomization(folder)
        self.namespace: str = self.kustomization["namespace"]
        self.config_maps: dict[str, dict[str, str]] = {
            made["name"]: {entry.partition("=")[0]: (folder / (entry.partition("=")[2] or entry)).read_text()
                           for entry in made["files"]}
            for made in self.kustomization["configMapGenerator"]}
        self.all = [manifest for file in (*self.kustomization["resources"], *extra)
                    for manifest in documents(folder / file)]

    def of(self, kind: str) -> list[Manifest]:
        """All of one kind."""
        return [manifest for manifest in self.all if manifest["kind"] == kind]

    def one(self, kind: str, name: str) -> Manifest:
        """The one with this name."""
        found, = (manifest for manifest in self.of(kind) if manifest["metadata"]["name"] == name)
        return found

    def pods(self) -> list[Manifest]:
        """The pod templates of all deployments."""
        return [deployment["spec"]["template"] for deployment in self.of("Deployment")]

    def selected(self, labels: dict[str, str]) -> list[Manifest]:
        """The pod templates that a selector with these labels finds."""
        return [pod for pod in self.pods() if labels.items() <= pod["metadata"]["labels"].items()]

    def image(self, container: Manifest) -> str:
        """The image as it is sent: with the name and tag of `images`."""
        for entry in self.kustomization["images"]:
            if entry["name"] == container["image"]:
                return f"{entry.get('newName', entry['name'])}:{entry['newTag']}"
        return str(container["image"])


def containers(pod: Manifest) -> list[Manifest]:
    """All containers of a pod template, those that run first included."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def container(pod: Manifest, name: str) -> Manifest:
    """One container of a pod template."""
    found, = (one for one in containers(pod) if one["name"] == name)
    return found


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    """"apiVersion/kind" -> a complete JSON Schema."""
    made = {}
    for file in ("kubernetes.yaml", "envoy_gateway.yaml"):
        content = yaml.safe_load((SCHEMAS / file).read_text(encoding="utf-8"))
        shared = content.pop("$defs")
        for kind, own in content.items():
            schema = copy.deepcopy(_FRAME)
            schema["$defs"] = shared
            schema["properties"] |= {"metadata": shared.get("metadata", _METADATA), **own.get("properties", {})}
            schema["required"] = [*schema["required"], *own.get("required", [])]
            Draft202012Validator.check_schema(schema)
            made[kind] = schema
    return made


def complaints(manifest: Manifest) -> Iterator[str]:
    """What the schema of its kind says against a manifest, each with its place."""
    kind = f"{manifest.get('apiVersion')}/{manifest.get('kind')}"
    schema = _schemas().get(kind)
    if schema is None:
        yield f"there is no schema for {kind}"
        return
    for error in Draft202012Validator(schema).iter_errors(manifest):
        yield f"{error.json_path}: {error.message[:300]}"
