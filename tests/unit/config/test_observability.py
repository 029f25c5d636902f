"""`tracing` and `access_log`: collectors, problems, warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extproc.config import warnings_of
from extproc.config.observability import parse_otlp
from tests.unit.config.files import load, problems, warnings


@pytest.mark.parametrize(("url", "parts"), [
    ("http://collector:4318", ("collector", 4318, False, False, "/v1/traces")),
    ("http://collector/", ("collector", 4318, False, False, "/v1/traces")),
    ("https://collector.example/otlp", ("collector.example", 4318, True, False, "/otlp/v1/traces")),
    ("https://collector.example:443/otlp/v1/traces", ("collector.example", 443, True, False, "/otlp/v1/traces")),
    ("grpc://collector", ("collector", 4317, False, True, "/v1/traces")),
    ("grpcs://[::1]:4317", ("::1", 4317, True, True, "/v1/traces"))])
def test_parts_of_a_collectors_url(url: str, parts: tuple[Any, ...]) -> None:
    assert parse_otlp(url) == parts


@pytest.mark.parametrize(("top", "path", "reason"), [
    ({"access_log": "none"}, "access_log", 'expected "all" or "off" or "own"'),
    ({"tracing": {}}, "tracing.otlp", "is missing"),
    ({"tracing": {"otlp": "collector:4317"}}, "tracing.otlp", "neither http(s)"),
    ({"tracing": {"otlp": "http://collector:x"}}, "tracing.otlp", "the port must be a number"),
    ({"tracing": {"otlp": "http://key@collector"}}, "tracing.otlp", "tracing.headers"),
    ({"tracing": {"otlp": "grpc://collector/v1/traces"}}, "tracing.otlp", "no path"),
    ({"tracing": {"otlp": "grpc://c", "sampling": 10}}, "tracing.sampling", "from 0 to 1"),
    ({"tracing": {"otlp": "grpc://c", "service": " "}}, "tracing.service", "is empty"),
    ({"tracing": {"otlp": "grpc://c", "headers": {"a b": "c"}}}, "tracing.headers.a b", "no name"),
    ({"tracing": {"otlp": "grpc://c", "headers": {"Content-Type": "c"}}}, "tracing.headers.Content-Type", "no name"),
    ({"tracing": {"otlp": "http://c", "headers": {"a": "b\nc"}}}, "tracing.headers.a", "cannot carry"),
    ({"tracing": {"otlp": "grpc://c", "headers": {"a": "50%"}}}, "tracing.headers.a", "holds a %")])
def test_a_mistake_is_the_only_problem(tmp_path: Path, top: dict[str, Any], path: str, reason: str) -> None:
    [(place, words)] = problems(tmp_path, **top)
    assert place == path
    assert reason in words


def test_unsafe_and_pointless_settings_are_warnings(tmp_path: Path) -> None:
    config = load(tmp_path, tracing={
        "otlp": "http://collector", "sampling": 0, "ca": "nowhere.pem",
        "headers": {"Authorization": "Bearer secret-1", "x-tenant": "blue", "api-key": "${A}"}})
    assert [(path, reason.split(":")[0]) for path, reason in warnings_of(config)] == [
        ("tracing.headers.Authorization", "the value is written in the file; ${VARIABLE} keeps it out"),
        ("tracing.otlp", "the key in tracing.headers travels unencrypted"),
        ("tracing.sampling", "only requests that bring a sampled traceparent are traced"),
        ("tracing.ca", "has no effect without https or grpcs")]
    assert config.tracing is not None
    assert "secret-1" not in repr(config.tracing)
    assert config.tracing.headers["api-key"] == "key-a"


def test_a_missing_file_of_trusted_certificates_is_a_warning(tmp_path: Path) -> None:
    [(path, reason)] = warnings(tmp_path, tracing={"otlp": "grpcs://collector", "ca": "nowhere.pem"})
    assert path == "tracing.ca"
    assert "Envoy does not start without it" in reason
