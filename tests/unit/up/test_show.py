"""What an operator reads: one line per request, the table, the lines for Claude Code."""

from __future__ import annotations

import json

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule, Team
from extproc.up import show

EXCHANGE = {
    "time": "2026-01-01T00:00:00.000Z", "level": "info", "event": "exchange", "hop": "translate",
    "model": "claude-x", "backend": "openrouter", "provider_model": "qwen/qwen3", "attempt": 2, "status": 200,
    "outcome": "ok", "usage": {"input": 1200, "output": 34, "cached": 1000}, "ms_first_token": 812.4, "ms": 3210.0,
    "tool_calls": 2}


def line(**changes: object) -> str | None:
    shown = show.readable(json.dumps({**EXCHANGE, **changes}))
    return shown and shown.partition("  ")[2]  # without the time of day


def test_a_request_is_one_line() -> None:
    assert line() == ("claude-x -> openrouter qwen/qwen3  attempt 2  1200 (1000 cached) + 34 tokens"
                      "  first after 0.8 s  3.2 s  2 tool calls  ok")


def test_a_failure_says_what_failed() -> None:
    said = line(outcome="provider_error", failure="rate_limit", status=429, usage=None, tool_calls=0)
    assert said is not None
    assert said.endswith("provider error rate_limit 429")


def test_the_edge_hop_is_shown_only_when_it_answered_itself() -> None:
    assert line(hop="select") is None
    said = line(hop="select", reason="unknown_model", outcome="error", status=404, backend=None, provider_model=None)
    assert said is not None
    assert said.startswith("claude-x  ")
    assert said.endswith("error unknown_model 404")


@pytest.mark.parametrize("other", ["not json", "[1]", '{"no": "event"}'])
def test_what_is_not_a_log_line_stays_as_it_is(other: str) -> None:
    assert show.readable(other) == other


def test_a_workers_small_talk_is_left_out_and_its_warnings_are_not() -> None:
    assert show.readable('{"level": "info", "event": "ready", "pid": 1}') is None
    said = show.readable('{"level": "error", "event": "internal_error", "error": "KeyError: x"}')
    assert said is not None
    assert "internal_error KeyError: x" in said


def test_elsewhere_than_on_a_terminal_lines_pass_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps(EXCHANGE)
    show.RequestLines(terminal=False)(text)
    assert capsys.readouterr().out == text + "\n"


def config(teams: dict[str, Team]) -> Config:
    return Config(backends={"b": Backend(api="openai", url="http://127.0.0.1:1/v1", key="secret-of-b")}, teams=teams,
                  models=[ModelRule(match="claude-*", list=["claude-1"], attempts=[
                      Attempt(backend="b", model="x"), Attempt(backend="b", model="*")])])


def test_the_table_names_models_attempts_and_teams_but_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    show.served(config({"red": Team(key="secret-of-red", models=["claude-*"])}), "http://127.0.0.1:1")
    printed = capsys.readouterr().out
    for part in ("claude-*", "b: x, then b: the same name", "claude-1", "red", "ANTHROPIC_MODEL=claude-1"):
        assert part in printed
    assert "secret" not in printed


def test_without_teams_any_token_will_do() -> None:
    assert "any text" in show.claude_code(config({}), "http://127.0.0.1:1")[1]
