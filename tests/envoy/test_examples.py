"""The files in envoy/ are current, and Envoy takes them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from extproc.envoy_config import clusters, validate_with_envoy

FOLDER = Path(__file__).resolve().parents[2] / "envoy"


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_examples", FOLDER / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def accepted_here(text: str) -> list[str]:
    """Envoy's complaints, with this machine's CA bundle in the place of Debian's."""
    return validate_with_envoy(yaml.safe_load(text.replace("/etc/ssl/certs/ca-certificates.crt",
                                                           clusters.trusted_ca())))


def test_the_generated_example_is_current(generate: ModuleType) -> None:
    """When this fails: python envoy/generate.py"""
    assert (FOLDER / "bootstrap.example.yaml").read_text() == generate.example_bootstrap()


def test_envoy_takes_the_generated_example() -> None:
    assert accepted_here((FOLDER / "bootstrap.example.yaml").read_text()) == []


def test_the_example_shows_no_key(generate: ModuleType) -> None:
    made = yaml.safe_load((FOLDER / "bootstrap.example.yaml").read_text())
    secrets = [secret["generic_secret"]["secret"]["inline_string"] for secret in made["static_resources"]["secrets"]]
    assert secrets == ["Bearer PUT-THE-KEY-OF-BACKEND-openrouter-HERE", "PUT-THE-KEY-OF-BACKEND-google-HERE"]
    assert not set(generate.ENVIRONMENT.values()) & set(str(made).split("'"))


def test_envoy_takes_the_one_hop_example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "OPENROUTER_KEY", "Bearer any")
    assert accepted_here((FOLDER / "one-hop.yaml").read_text()) == []
