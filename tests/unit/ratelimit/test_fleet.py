"""The configuration for envoyproxy/ratelimit: valid by its own rules, and with the configured limit for every
descriptor."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from typer.testing import CliRunner

from extproc.cli import app
from extproc.config import Attempt, Backend, Config, ModelLimits, ModelRule, Team, TeamLimits
from extproc.ratelimit.fleet import fleet_config, unsupported_limits
from extproc.ratelimit.kinds import LIMIT_KINDS
from tests.ratelimit_stand_in import ConfigProblem, read_config

CONFIG = Config(
    backends={"b": Backend(api="openai", url="http://127.0.0.1:1/v1")},
    models=[ModelRule(match=match, attempts=[Attempt(backend="b", model="x")])
            for match in ("claude-opus", "claude-*", "yes", "Ünï: *", "gpt-5")],
    teams={
        "red": Team(key="1", limits=TeamLimits(
            requests_per_minute=600, tokens_per_day=4_294_967_295, concurrent_streams=4,
            models={"claude-*": ModelLimits(tokens_per_minute=5), "Ünï: *": ModelLimits(requests_per_minute=7)})),
        "123": Team(key="2", limits=TeamLimits(tokens_per_minute="unlimited")),
        "blue": Team(key="3", limits=TeamLimits(models={"yes": ModelLimits(requests_per_minute=1)})),
        "only-streams": Team(key="4", limits=TeamLimits(concurrent_streams=4, tokens_per_minute="unlimited"))},
    team_limits=TeamLimits(tokens_per_minute=1000))


def test_every_descriptor_finds_its_configured_limit() -> None:
    limits = read_config(fleet_config(CONFIG))
    descriptors = itertools.product(
        [*CONFIG.teams, "unknown"], ["", *(rule.match for rule in CONFIG.models)], LIMIT_KINDS.values())
    for team, rule, kind in descriptors:
        if not kind.window_seconds:
            continue
        entries = [("team", team), *([("model", rule)] if rule else []), ("limit", kind.name)]
        found = limits.find(entries)
        expected = {(key.team, key.rule, key.kind): number for key, number in CONFIG.limit_numbers.items()}
        assert (found and found.requests_per_unit) == expected.get((team, rule, kind.name)), entries
        assert found is None or found.unit == kind.unit


def test_unsupported_limits_are_left_out_with_a_note(tmp_path: Path) -> None:
    assert {(key.team, key.kind) for key in unsupported_limits(CONFIG)} == {
        ("red", "concurrent_streams"), ("only-streams", "concurrent_streams")}
    assert "concurrent" not in fleet_config(CONFIG)
    file = tmp_path / "extproc.yaml"
    file.write_text("""
        backends: {b: {api: openai, url: "http://127.0.0.1:1/v1"}}
        models: [{match: m, attempts: [{backend: b, model: x}]}]
        teams: {red: {key: secret-of-red, limits: {requests_per_minute: 3, concurrent_streams: 1}}}
        """)
    ran = CliRunner().invoke(app, ["limits-config", "--config", str(file)])
    assert (ran.exit_code, "concurrent_streams of team red is left out" in ran.stderr) == (0, True)
    found = read_config(ran.stdout).find([("team", "red"), ("limit", "requests_per_minute")])
    assert found is not None
    assert found.requests_per_unit == 3
    assert "secret-of-red" not in ran.output


@pytest.mark.parametrize(("text", "problem"), [
    ("domain: ''\ndescriptors: []", "empty domain"),
    ("domain: a\nextra: 1", "unknown key"),
    ("domain: a\ndescriptors: [{key: k, rate_limit: {unit: fortnight, requests_per_unit: 1}}]", "unit"),
    ("domain: a\ndescriptors: [{key: k}, {key: k}]", "duplicate"),
    ("domain: a\ndescriptors: [{key: ''}]", "empty key"),
    ("domain: a\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: -1}}]", "requests_per_unit"),
])
def test_the_stand_in_is_as_strict_as_the_service(text: str, problem: str) -> None:
    with pytest.raises(ConfigProblem, match=problem):
        read_config(text)
