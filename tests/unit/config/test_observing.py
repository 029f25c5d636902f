"""`access_log`, `tracing` and `backends.*.trace`: what they may be, and what they mean unset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Backend, Config, ConfigError, load_config, warnings_of
from extproc.config.observability import parse_otlp


def loaded(folder: Path, **changes: Any) -> Config:
    file = folder / "extproc.yaml"
    file.write_text(json.dumps({
        "backends": {"b": {"api": "openai", "url": "https://api.example/v1", "key": "${KEY}"}},
        "models": [{"match": "m", "attempts": [{"backend": "b", "model": "x"}]}], **changes}))
    return load_config(file, {"KEY": "k", "TOKEN": "t"})


@pytest.mark.parametrize(("url", "told"), [
    ("http://127.0.0.1:1234/v1", True), ("http://[::1]:1234/v1", True), ("http://10.1.2.3/v1", True),
    ("http://192.168.0.9/v1", True), ("http://172.31.0.1/v1", True), ("http://100.64.0.1/v1", True),
    ("http://[fd00::1]/v1", True), ("http://localhost:1234/v1", True), ("http://vllm:8000/v1", True),
    ("http://vllm.models.svc:8000/v1", True), ("http://vllm.models.svc.cluster.local/v1", True),
    ("http://llm.internal/v1", True), ("http://172.32.0.1/v1", False), ("http://8.8.8.8/v1", False),
    ("https://api.openai.com/v1", False), ("https://local.example/v1", False), ("https://internal.example/v1", False)])
def test_who_is_told_of_a_trace_when_nothing_is_said(url: str, told: bool) -> None:
    assert Backend(api="openai", url=url).is_traced is told
    assert Backend(api="openai", url=url, trace=not told).is_traced is not told


@pytest.mark.parametrize(("url", "parts"), [
    ("http://collector:4318", ("collector", 4318, False, False, "/v1/traces")),
    ("http://collector/", ("collector", 4318, False, False, "/v1/traces")),
    ("https://collector.example/otlp", ("collector.example", 4318, True, False, "/otlp/v1/traces")),
    ("https://collector.example:443/otlp/v1/traces", ("collector.example", 443, True, False, "/otlp/v1/traces")),
    ("grpc://collector", ("collector", 4317, False, True, "/v1/traces")),
    ("grpcs://[::1]:4317", ("::1", 4317, True, True, "/v1/traces"))])
def test_collectors(url: str, parts: tuple[Any, ...]) -> None:
    assert parse_otlp(url) == parts


@pytest.mark.parametrize(("changes", "path", "reason"), [
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
def test_what_cannot_be(tmp_path: Path, changes: dict[str, Any], path: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, **changes)
    [(where, why)] = error.value.problems
    assert where == path
    assert reason in why


def test_what_is_unwise(tmp_path: Path) -> None:
    config = loaded(tmp_path, tracing={
        "otlp": "http://collector", "sampling": 0, "ca": "nowhere.pem",
        "headers": {"Authorization": "Bearer secret-1", "x-tenant": "blue", "api-key": "${TOKEN}"}})
    assert [(path, reason.split(":")[0]) for path, reason in warnings_of(config)] == [
        ("tracing.headers.Authorization", "the value is written in the file; ${VARIABLE} keeps it out"),
        ("tracing.otlp", "the key in tracing.headers travels unencrypted"),
        ("tracing.sampling", "only requests that bring a sampled traceparent are traced"),
        ("tracing.ca", "has no effect without https or grpcs")]
    assert config.tracing is not None
    assert config.tracing.ca == str(tmp_path / "nowhere.pem")
    assert "secret-1" not in repr(config.tracing)
    assert config.tracing.headers["api-key"] == "t"


def test_a_collectors_private_authority_is_read(tmp_path: Path) -> None:
    config = loaded(tmp_path, tracing={"otlp": "grpcs://collector", "ca": "nowhere.pem"})
    [(path, reason)] = warnings_of(config)
    assert path == "tracing.ca"
    assert "Envoy does not start without it" in reason
