"""A file becomes a configuration, or all of its problems at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.config import ConfigError, load_config, warnings_of
from tests.unit.config.files import ENV, load, load_text, text_problems, warnings

GOOD = """
backends:
  router: {api: openai, url: "https://openrouter.ai/api/v1", key: "${A}"}
  local: {api: openai, url: "http://127.0.0.1:1234/v1", provider: lmstudio}
models:
  - match: "claude-*"
    list: [claude-sonnet-4-5]
    attempts:
      - {backend: router, model: qwen/qwen3-coder, max_output_tokens: 65536}
      - {backend: local, model: other}
  - match: "local/*"
    attempts: [{backend: local, model: "*", tools: {style: off, max: 20}}]
teams:
  red: {key: "${RED}", models: ["claude-*"], limits: {requests_per_minute: 600}}
"""


def test_a_good_file_becomes_records_with_defaults(tmp_path: Path) -> None:
    config = load_text(tmp_path, GOOD)
    assert config.listen == "127.0.0.1:10000"
    assert config.workers == "auto"
    assert config.backends["router"].key == ENV["A"]
    assert [attempt.backend for attempt in config.models[0].attempts] == ["router", "local"]
    assert config.models[0].attempts[0].max_output_tokens == 65536
    assert config.models[1].attempts[0].tools.style == "off"
    assert config.teams["red"].keys == [ENV["RED"]]
    assert config.teams["red"].limits is not None
    assert config.timeouts.idle == 240
    assert warnings_of(config) == []


def test_every_problem_is_reported_at_once_at_its_path(tmp_path: Path) -> None:
    found = dict(text_problems(tmp_path, """
listen: 127.0.0.1
wrokers: 3
backends:
  router: {api: openapi, url: "https://user:pw@openrouter.ai/v1", key: "${NOPE}"}
  local: {api: openai, url: "ftp://127.0.0.1/v1"}
models:
  - match: "claude-*"
    list: [gpt-5]
    attempts:
      - {backend: nowhere, model: x, max_output_tokens: "7"}
      - {backend: local}
  - {match: 5, attempts: []}
timeouts: {idle: -1}
"""))
    assert found["listen"] == '"127.0.0.1" is not HOST:PORT'
    assert found["wrokers"] == 'unknown key, did you mean "workers"?'
    assert "openapi" in found["backends.router.api"]
    assert "user name" in found["backends.router.url"]
    assert found["backends.router.key"] == "the environment variable NOPE is not set"
    assert "http" in found["backends.local.url"]
    assert found["models[0].list[0]"] == '"gpt-5" does not match "claude-*"'
    assert found["models[0].attempts[0].backend"] == 'no backend "nowhere"; known: local, router'
    assert found["models[0].attempts[0].max_output_tokens"] == 'expected a whole number, got "7"'
    assert found["models[0].attempts[1].model"] == "is missing"
    assert found["models[1].match"] == "expected a text, got the number 5"
    assert "empty" in found["models[1].attempts"]
    assert found["timeouts.idle"] == "must be above 0"
    assert len(found) == 13


@pytest.mark.parametrize("text", ["", "- a\n- b"])
def test_a_file_that_is_no_mapping(tmp_path: Path, text: str) -> None:
    [(path, reason)] = text_problems(tmp_path, text)
    assert path == "file"
    assert "expected a mapping" in reason


def test_a_missing_file_and_one_that_is_not_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.yaml", {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(tmp_path / "binary", {})


def test_literal_keys_and_passwords_are_warnings(tmp_path: Path) -> None:
    found = warnings(tmp_path, {"keys": ["plain", {"key": "also-plain"}, "${A}"],
                                "proxy": "http://me:secret@proxy.example:3128"})
    assert [(path, reason.split(" is")[0]) for path, reason in found] == [
        ("backends.b.keys[0]", "the key"), ("backends.b.keys[1].key", "the key"), ("backends.b.proxy", "the password")]


# ----------------------------------------------------------------------------------------------------- relative paths


def test_relative_paths_start_at_the_folder_of_the_file(tmp_path: Path) -> None:
    config = load(tmp_path, {"key_file": "keys/k", "ca": "ca.pem"}, tls={"certificate": "tls.crt", "key": "tls.key"},
                  limits_service={"counters": "state/limits.json"}, tracing={"otlp": "grpcs://c", "ca": "otel.pem"})
    assert config.tls is not None
    assert config.tracing is not None
    assert [str(tmp_path / name) for name in ("keys/k", "ca.pem", "tls.crt", "tls.key", "state/limits.json",
                                              "otel.pem")] == [
        config.backends["b"].key_file, config.backends["b"].ca, config.tls.certificate, config.tls.key,
        config.limits_service.counters, config.tracing.ca]


def test_other_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir("/")
    for written, meant in (("../k", f"{tmp_path.parent}/k"), ("/run/k", "/run/k"), ("~/k", "/home/me/k")):
        assert load(tmp_path, {"key_file": written}).backends["b"].key_file == meant


# --------------------------------------------------------------------------------------------------------- characters

PLAIN = """\
backends: {b: {api: openai, url: "http://127.0.0.1:9/v1", key: "secret-key"}}
models: [{match: "claude-*", attempts: [{backend: b, model: "m"}]}]
teams: {red: {key: "team-key"}}
tracing: {otlp: "http://127.0.0.1:4318"}
"""


def test_an_escaped_control_character_is_refused_in_words_that_a_terminal_can_show(tmp_path: Path) -> None:
    """YAML allows it; no name, key or address has one."""
    for text in ("secret-key", "claude-*", '"m"', "team-key", "127.0.0.1:4318", "9/v1"):
        found = text_problems(tmp_path, PLAIN.replace(text, text[:-1] + "\\a" + text[-1]))
        assert found, text
        assert all((path + reason).isprintable() for path, reason in found)


@given(at=st.integers(0, len(PLAIN)), char=st.characters())
def test_any_character_anywhere_is_accepted_or_refused(at: int, char: str,
                                                       tmp_path_factory: pytest.TempPathFactory) -> None:
    if not "\ud800" <= char <= "\udfff":  # UTF-8 cannot encode half a character
        text_problems(tmp_path_factory.getbasetemp(), PLAIN[:at] + char + PLAIN[at:])
