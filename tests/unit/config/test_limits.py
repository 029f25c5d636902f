"""Limits in the configuration file: which number is in force, and everything that is wrong at its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.config import Config, ConfigError, LimitKey, load_config, warnings_of

HEAD = """
backends: {b: {api: openai, url: "http://127.0.0.1:1/v1"}}
models: [{match: "claude-*", attempts: [{backend: b, model: x}]}, {match: gpt, attempts: [{backend: b, model: x}]}]
"""


def load(tmp_path: Path, text: str, **env: str) -> Config:
    file = tmp_path / "extproc.yaml"
    file.write_text(HEAD + text)
    return load_config(file, {"RED": "red-key", "BLUE": "blue-key", **env})


def problems(tmp_path: Path, text: str) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    return dict(caught.value.problems)


def test_a_teams_own_number_comes_before_the_common_one(tmp_path: Path) -> None:
    config = load(tmp_path, """
team_limits:
  requests_per_minute: 60
  tokens_per_day: 1000
  models: {"claude-*": {requests_per_minute: 6, concurrent_streams: 1}}
teams:
  red:
    key: "${RED}"
    limits:
      requests_per_minute: 600
      tokens_per_day: unlimited
      models: {"claude-*": {concurrent_streams: unlimited}, gpt: {tokens_per_minute: 5}}
  blue: {key: "${BLUE}"}
""")
    assert config.limit_numbers == {
        LimitKey("red", "", "requests_per_minute"): 600,
        LimitKey("red", "claude-*", "requests_per_minute"): 6,
        LimitKey("red", "gpt", "tokens_per_minute"): 5,
        LimitKey("blue", "", "requests_per_minute"): 60,
        LimitKey("blue", "", "tokens_per_day"): 1000,
        LimitKey("blue", "claude-*", "requests_per_minute"): 6,
        LimitKey("blue", "claude-*", "concurrent_streams"): 1}
    assert config.limited_teams["red"] == {"requests_per_minute", "tokens_per_minute"}
    assert warnings_of(config) == []


def test_without_limits_nobody_is_limited(tmp_path: Path) -> None:
    config = load(tmp_path, 'teams: {red: {key: "${RED}", limits: {tokens_per_minute: unlimited}}}')
    assert (config.limit_numbers, config.limited_teams) == ({}, {})


def test_a_number_may_come_from_the_environment(tmp_path: Path) -> None:
    text = 'teams: {red: {key: "${RED}", limits: {requests_per_minute: "${LIMIT}"}}}'
    assert load(tmp_path, text, LIMIT="7").limit_numbers == {LimitKey("red", "", "requests_per_minute"): 7}
    assert load(tmp_path, text, LIMIT="unlimited").limit_numbers == {}


@pytest.mark.parametrize(("text", "path", "reason"), [
    ("teams: {red: {key: k, limits: {requests_per_minute: 0}}}", "teams.red.limits.requests_per_minute", "above 0"),
    ("teams: {red: {key: k, limits: {tokens_per_day: 4294967296}}}", "teams.red.limits.tokens_per_day", "4294967295"),
    ("teams: {red: {key: k, limits: {tokens_per_day: none}}}", "teams.red.limits.tokens_per_day", '"unlimited"'),
    ("teams: {red: {key: k, limits: {requests_per_hour: 1}}}", "teams.red.limits.requests_per_hour", "unknown key"),
    ("team_limits: {concurrent_streams: -1}", "team_limits.concurrent_streams", "above 0"),
    ("team_limits: {models: {claude: {requests_per_minute: 1}}}", "team_limits.models.claude", "no model rule"),
    ("team_limits: {models: {gpt: {requests_per_minute: 0}}}", "team_limits.models.gpt.requests_per_minute", "above 0"),
    ("team_limits: {models: {gpt: 3}}", "team_limits.models.gpt", "expected a mapping"),
    ("limits_service: {address: 'redis://x'}", "limits_service.address", "port"),
    ("limits_service: {address: 'limits:0'}", "limits_service.address", "1 to 65535"),
    ("limits_service: {failure_mode: maybe}", "limits_service.failure_mode", "allow"),
    ("limits_service: {timeout: 0}", "limits_service.timeout", "above 0"),
    ("limits_service: {counters: ' '}", "limits_service.counters", "path"),
])
def test_what_is_wrong_is_named_at_its_path(tmp_path: Path, text: str, path: str, reason: str) -> None:
    found = problems(tmp_path, text)
    assert list(found) == [path]
    assert reason in found[path]


def test_the_counters_file_belongs_to_the_configurations_folder(tmp_path: Path) -> None:
    config = load(tmp_path, "limits_service: {counters: state/limits.json}")
    assert config.limits_service.counters == str(tmp_path / "state" / "limits.json")


def test_what_will_not_work_as_meant_is_a_warning(tmp_path: Path) -> None:
    assert warnings_of(load(tmp_path, "team_limits: {tokens_per_day: 1}")) == [
        ("team_limits", "has no effect without teams")]
    config = load(tmp_path, """
limits_service: {address: "limits:8081", counters: /var/x}
teams: {red: {key: "${RED}", models: [claude-*], limits: {concurrent_streams: 1, models: {gpt: {tokens_per_day: 1}}}}}
""")
    assert [path for path, _ in warnings_of(config)] == [
        "teams.red.limits.concurrent_streams", "limits_service.counters", "teams.red.limits.models.gpt"]
