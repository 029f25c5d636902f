"""Checks of the whole file: addresses, names, numbers, origins, TLS, and warnings about parts that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extproc.config import warnings_of
from tests.unit.config.files import OPENAI, has_problem, load, load_text, problems, text_problems, warnings


@pytest.mark.parametrize(("top", "path", "words"), [
    ({"backends": {}}, "backends", "empty"),
    ({"models": []}, "models", "empty"),
    ({"backends": {"a b": OPENAI}}, "backends.a b", "letters"),
    ({"workers": 0}, "workers", "at least 1"),
    ({"timeouts": {"idle": 300}}, "timeouts.idle", "shorter than timeouts.per_try_idle"),
    ({"listen": "0.0.0.0:10000"}, "listen", "open: true"),
    ({"listen": "::1:80"}, "listen", "brackets"),
    ({"listen": "127.0.0.1:70000"}, "listen", "65535"),
    ({"listen": "127.0.0.1:9902"}, "admin", "same address"),
    ({"cors": ["app.example"]}, "cors[0]", "origin"),
    ({"one_hop": "nowhere"}, "one_hop", 'no backend "nowhere"; known: b, c'),
    ({"tls": {"certificate": "tls.crt"}}, "tls.key", "is missing"),
    ({"tls": {"key": "tls.key"}}, "tls.certificate", "is missing"),
    ({"ejection": {"failures": 0}}, "ejection.failures", "above 0"),
    ({"ejection": {"time": 0}}, "ejection.time", "above 0"),
    ({"ejection": {"longest": 0}}, "ejection.longest", "above 0"),
    ({"ejection": {"time": 60, "longest": 10}}, "ejection.longest", "not be shorter than ejection.time"),
])
def test_a_mistake_is_named_at_its_path(tmp_path: Path, top: dict[str, Any], path: str, words: str) -> None:
    found = problems(tmp_path, **top)
    assert has_problem(found, path, words), found


def test_a_number_must_be_a_number(tmp_path: Path) -> None:
    """JSON has no NaN, YAML does."""
    assert text_problems(tmp_path, """
backends: {b: {api: openai, url: "http://127.0.0.1:1"}}
models: [{match: m, attempts: [{backend: b, model: x}]}]
timeouts: {connect: .nan}
""") == [("timeouts.connect", "must be above 0")]


def test_unsafe_and_pointless_settings_are_warnings(tmp_path: Path) -> None:
    config = load_text(tmp_path, """
listen: 0.0.0.0:10000
admin: 0.0.0.0:9902
open: true
backends:
  plain: {api: openai, url: "http://provider.example/v1", key: sk-literal}
  later: {api: gemini, url: "https://provider.example"}
models:
  - {match: "a*", attempts: [{backend: plain, model: x}]}
  - {match: "ab*", attempts: [{backend: plain, model: x}]}
  - {match: "*b", list: [ab], attempts: [{backend: plain, model: x}]}
""")
    found = dict(warnings_of(config))
    assert "${VARIABLE}" in found["backends.plain.key"]
    assert "unencrypted" in found["backends.plain.url"]
    assert "lacks the version" in found["backends.later.url"]
    assert found["backends.later"] == "no model uses it"
    assert found["models[1].match"] == 'never reached: models[0] ("a*") matches first'
    assert "served by models[0]" in found["models[2].list[0]"]
    assert set(found) == {"backends.plain.key", "backends.plain.url", "backends.later.url", "backends.later",
                          "models[1].match", "models[2].list[0]", "open", "admin"}


@pytest.mark.parametrize(("top", "attempt", "path"), [
    ({"timeouts": {"first_token": 300}}, {}, "timeouts.first_token"),
    ({}, {"first_token_timeout": 240}, "models[0].attempts[0].first_token_timeout")])
def test_a_first_token_timeout_above_the_idle_timeout_is_a_warning(tmp_path: Path, top: dict[str, Any],
                                                                   attempt: dict[str, Any], path: str) -> None:
    attempts = [{"backend": "b", "model": "x", **attempt}, {"backend": "c", "model": "x"}]
    [(place, reason)] = warnings(tmp_path, attempts=attempts, **top)
    assert place == path
    assert "timeouts.idle" in reason


def test_a_missing_certificate_is_a_warning(tmp_path: Path) -> None:
    files = {"certificate": "tls.crt", "key": "tls.key"}
    assert [path for path, _ in warnings(tmp_path, tls=files)] == ["tls.certificate", "tls.key"]
    for name in files.values():
        (tmp_path / name).write_text("x")
    assert warnings_of(load(tmp_path, tls=files)) == []
