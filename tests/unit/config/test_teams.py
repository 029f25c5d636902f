"""`teams`, `team_limits` and `limits_service`: the limits in force, problems, warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extproc.config import Config, LimitKey, warnings_of
from tests.unit.config.files import ENV, OPENAI, has_problem, load, problems, warnings

MODELS = [{"match": match, "attempts": [{"backend": "b", "model": "x"}]} for match in ("claude-*", "gpt")]
TWO_RULES: dict[str, Any] = {"backends": {"b": OPENAI}, "models": MODELS}


def load_limits(folder: Path, env: dict[str, str] = ENV, **top: Any) -> Config:
    return load(folder, env=env, **TWO_RULES, **top)


def red(**limits: Any) -> dict[str, Any]:
    """One team with these limits."""
    return {"teams": {"red": {"key": "${RED}", "limits": limits}}}


def test_a_teams_own_limit_overrides_the_common_one(tmp_path: Path) -> None:
    config = load_limits(
        tmp_path,
        team_limits={"requests_per_minute": 60, "tokens_per_day": 1000,
                     "models": {"claude-*": {"requests_per_minute": 6, "concurrent_streams": 1}}},
        teams={"red": {"key": "${RED}", "limits": {
                   "requests_per_minute": 600, "tokens_per_day": "unlimited",
                   "models": {"claude-*": {"concurrent_streams": "unlimited"}, "gpt": {"tokens_per_minute": 5}}}},
               "blue": {"key": "${BLUE}"}})
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


def test_unlimited_is_no_limit(tmp_path: Path) -> None:
    config = load_limits(tmp_path, **red(tokens_per_minute="unlimited"))
    assert (config.limit_numbers, config.limited_teams) == ({}, {})


def test_a_limit_may_come_from_the_environment(tmp_path: Path) -> None:
    top = red(requests_per_minute="${LIMIT}")
    assert load_limits(tmp_path, {**ENV, "LIMIT": "7"}, **top).limit_numbers == {
        LimitKey("red", "", "requests_per_minute"): 7}
    assert load_limits(tmp_path, {**ENV, "LIMIT": "unlimited"}, **top).limit_numbers == {}


@pytest.mark.parametrize(("top", "path", "reason"), [
    (red(requests_per_minute=0), "teams.red.limits.requests_per_minute", "above 0"),
    (red(tokens_per_day=4294967296), "teams.red.limits.tokens_per_day", "4294967295"),
    (red(tokens_per_day="none"), "teams.red.limits.tokens_per_day", '"unlimited"'),
    (red(requests_per_hour=1), "teams.red.limits.requests_per_hour", "unknown key"),
    ({"team_limits": {"concurrent_streams": -1}}, "team_limits.concurrent_streams", "above 0"),
    ({"team_limits": {"models": {"claude": {"requests_per_minute": 1}}}}, "team_limits.models.claude",
     "no model rule"),
    ({"team_limits": {"models": {"gpt": {"requests_per_minute": 0}}}}, "team_limits.models.gpt.requests_per_minute",
     "above 0"),
    ({"team_limits": {"models": {"gpt": 3}}}, "team_limits.models.gpt", "expected a mapping"),
    ({"limits_service": {"address": "redis://x"}}, "limits_service.address", "port"),
    ({"limits_service": {"address": "limits:0"}}, "limits_service.address", "1 to 65535"),
    ({"limits_service": {"failure_mode": "maybe"}}, "limits_service.failure_mode", "allow"),
    ({"limits_service": {"timeout": 0}}, "limits_service.timeout", "above 0"),
    ({"limits_service": {"counters": " "}}, "limits_service.counters", "path"),
])
def test_a_mistake_in_limits_is_the_only_problem(tmp_path: Path, top: dict[str, Any], path: str, reason: str) -> None:
    [(place, words)] = problems(tmp_path, **TWO_RULES, **top)
    assert place == path
    assert reason in words


@pytest.mark.parametrize(("teams", "path", "words"), [
    ({"a": {"key": "k1"}, "b": {"key": ["k2", "k1"]}}, "teams.b.key[1]", "same key as teams.a.key"),
    ({"a": {"key": []}}, "teams.a.key", "needs a key"),
])
def test_a_mistake_in_keys_is_named_at_its_path(tmp_path: Path, teams: dict[str, Any], path: str, words: str) -> None:
    found = problems(tmp_path, teams=teams)
    assert has_problem(found, path, words), found


def test_a_literal_key_and_a_pattern_without_a_rule_are_warnings(tmp_path: Path) -> None:
    assert dict(warnings(tmp_path, teams={"t": {"key": ["lit", "${RED}"], "models": ["nothing"]}})) == {
        "teams.t.key[0]": "the key is written in the file; ${VARIABLE} keeps it out",
        "teams.t.models[0]": '"nothing" fits no model rule'}


def test_a_limit_without_effect_is_a_warning(tmp_path: Path) -> None:
    assert warnings(tmp_path, team_limits={"tokens_per_day": 1}) == [("team_limits", "has no effect without teams")]
    config = load_limits(
        tmp_path, limits_service={"address": "limits:8081", "counters": "/var/x"},
        teams={"red": {"key": "${RED}", "models": ["claude-*"],
                       "limits": {"concurrent_streams": 1, "models": {"gpt": {"tokens_per_day": 1}}}}})
    assert [path for path, _ in warnings_of(config)] == [
        "teams.red.limits.concurrent_streams", "limits_service.counters", "teams.red.limits.models.gpt"]
