"""Terminal output: one line per request, the table, the lines for Claude Code."""

from __future__ import annotations

import json
import re

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule, Team
from extproc.gateway import console

EXCHANGE = {
    "time": "2026-01-01T00:00:00.000Z", "level": "info", "event": "exchange", "hop": "translate",
    "model": "claude-x", "backend": "openrouter", "provider_model": "qwen/qwen3", "attempt": 2, "status": 200,
    "outcome": "ok", "usage": {"input": 1200, "output": 34, "cached": 1000}, "ms_first_token": 812.4, "ms": 3210.0,
    "tool_calls": 2}


def line(width: int = 120, **changes: object) -> str:
    shown = console.format_line(json.dumps({**EXCHANGE, **changes}), width)
    assert shown is not None
    assert len(shown) <= width
    return shown.partition("  ")[2]  # without the time of day


def test_a_request_is_one_line() -> None:
    assert " ".join(line().split()) == (
        "claude-x -> qwen/qwen3 @ openrouter 1200 34 0.8s 3.2s 2 ok, attempt 2, 1000 cached")


def test_columns_are_below_their_names_at_every_width() -> None:
    for width in (80, 100, 120, 200):
        names, shown = console.column_heading(width), "12:34:56  " + line(width)
        assert len(names) <= width
        for name, value in (("in", "1200"), ("out", "34"), ("first", "0.8s"), ("total", "3.2s"), ("calls", "2")):
            end = re.search(rf" {name}(?= |$)", names)
            assert end is not None
            assert shown[:end.end()].endswith(f" {value}")


def test_a_narrow_terminal_shows_both_ends_of_a_long_route() -> None:
    said = line(80, model="claude-sonnet-4-5-20250929", backend="openrouter")
    assert said.startswith("claude-sonne…")
    assert "openrouter  " in said
    assert " ok" in said


def test_a_failure_shows_its_reason_also_on_a_narrow_terminal() -> None:
    said = line(80, outcome="provider_error", failure="rate_limit", status=429, usage=None, tool_calls=0, attempt=1)
    assert "provider error rate_limit 429" in said


def test_the_edge_hop_is_shown_only_if_it_responded_itself() -> None:
    assert console.format_line(json.dumps({**EXCHANGE, "hop": "select"})) is None
    said = line(hop="select", reason="unknown_model", outcome="error", status=404, backend=None, provider_model=None,
                usage=None, attempt=None)
    assert said.split() == ["claude-x", "error", "unknown_model", "404", "3.2s"]


def test_a_client_cannot_write_on_the_terminal() -> None:
    """The name of a model comes from the client: no escape sequences, no second line."""
    said = line(model="\x1b[2Jclaude\nextproc: ready")
    assert said.isprintable()
    assert console.format_line("a line of another\x1b[31m program") == "a line of another·[31m program"


@pytest.mark.parametrize("other", ["not json", "[1]", '{"no": "event"}'])
def test_other_lines_stay_unchanged(other: str) -> None:
    assert console.format_line(other) == other


def test_a_workers_info_events_are_hidden_and_its_warnings_are_shown() -> None:
    assert console.format_line('{"level": "info", "event": "serving", "pid": 1}') is None
    said = console.format_line('{"level": "error", "event": "internal_error", "error": "KeyError: x"}')
    assert said is not None
    assert "internal_error KeyError: x" in said


def test_without_a_terminal_lines_pass_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps(EXCHANGE)
    console.RequestLines(terminal=False)(text)
    assert capsys.readouterr().out == text + "\n"


def config(teams: dict[str, Team]) -> Config:
    return Config(backends={"b": Backend(api="openai", url="http://127.0.0.1:1/v1", key="secret-of-b")}, teams=teams,
                  models=[ModelRule(match="claude-*", list=["claude-1"], attempts=[
                      Attempt(backend="b", model="x"), Attempt(backend="b", model="*")])])


def test_the_table_names_models_attempts_and_teams_but_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    env = {"RED_KEY": "secret-of-red"}
    console.print_overview(config({"red": Team(key="secret-of-red", models=["claude-*"])}), "http://127.0.0.1:1", env)
    printed = capsys.readouterr()
    for part in ("claude-*", "b: x, then b: the same name", "claude-1", "red", "ANTHROPIC_MODEL=claude-1"):
        assert part in printed.err
    assert "secret" not in printed.err
    assert printed.out == "", "standard output is for programs when it is not a terminal"


def token(teams: dict[str, Team], env: dict[str, str]) -> str:
    return console.claude_code(config(teams), "http://127.0.0.1:1", env)[1].removeprefix("export ANTHROPIC_AUTH_TOKEN=")


def test_without_teams_any_token_is_accepted() -> None:
    assert "any text" in token({}, {})


def test_a_teams_key_is_shown_as_its_variable_or_not_at_all() -> None:
    teams = {"red": Team(key=["first-key", "second-key"]), "blue": Team(key="k")}
    assert token(teams, {"OTHER": "x", "RED_KEY": "second-key"}) == '"$RED_KEY"   # the key of team red'
    assert token(teams, {"not a name": "second-key"}) == "PUT-THE-KEY-OF-TEAM-red-HERE   # the key of team red"


def test_a_line_of_envoys_access_log_is_shown_like_the_others() -> None:
    """By its path, or the rule if known. Exchanges that the processor logs too are not shown twice."""
    own = {"event": "exchange", "hop": "edge", "level": "warning", "path": "/v1/messages", "status": 401,
           "outcome": "error", "reason": "invalid_api_key", "ms": 0}
    shown = console.format_line(json.dumps(own))
    assert shown is not None
    assert " ".join(shown.split()[1:]) == "/v1/messages error invalid_api_key 401 0.0s"
    lost = {"event": "exchange", "hop": "translate", "level": "warning", "rule": "claude-*", "backend": "b",
            "status": 502, "outcome": "error", "reason": "ext_proc_error", "ms": 3}
    assert "claude-* @ b" in str(console.format_line(json.dumps(lost)))
    handshake = {"event": "connection", "hop": "edge", "level": "warning", "reason": "TLS_error:bad"}
    assert "warning: connection TLS_error:bad" in str(console.format_line(json.dumps(handshake)))
    assert console.format_line(json.dumps({**own, "event": "access", "level": "info"})) is None
