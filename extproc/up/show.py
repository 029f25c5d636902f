"""What an operator sees: the table of what is served, the lines to paste for Claude Code, one line per request."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from extproc.config import Config, ModelRule


def served(config: Config, url: str) -> None:
    """Prints models with their attempts, teams, and how to point Claude Code here."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    table = Table(title=None, box=None, pad_edge=False, header_style="bold")
    for heading in ("model", "attempts", "shown as"):
        table.add_column(heading, overflow="fold")
    for rule in config.models:
        table.add_row(Text(rule.match), Text(_attempts(rule)), Text(", ".join(rule.list)))
    console.print(table)
    if config.teams:
        teams = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("team", "may use"):
            teams.add_column(heading, overflow="fold")
        for name, team in config.teams.items():
            teams.add_row(Text(name), Text("every model" if team.models is None else ", ".join(team.models)))
        console.print()
        console.print(teams)
    console.print("\nFor Claude Code:", style="bold")
    for line in claude_code(config, url):
        console.print(Text(f"  {line}"))
    console.print()
    console.file.flush()


def claude_code(config: Config, url: str) -> list[str]:
    """The three variables. A team's key is never printed."""
    key = '"..."   # the key of your team' if config.teams else "local   # any text, there are no teams"
    names = config.listed_models() or [rule.match for rule in config.models]
    return [f"export ANTHROPIC_BASE_URL={url}", f"export ANTHROPIC_AUTH_TOKEN={key}",
            f"export ANTHROPIC_MODEL={names[0] if names else '...'}"]


def _attempts(rule: ModelRule) -> str:
    return ", then ".join(
        f"{attempt.backend}: {'the same name' if attempt.model == '*' else attempt.model}" for attempt in rule.attempts)


class RequestLines:
    """Shows the workers' JSON lines: as they are, or on a terminal one readable line per request."""

    def __init__(self, terminal: bool | None = None) -> None:
        self._terminal = sys.stdout.isatty() if terminal is None else terminal

    def __call__(self, line: str) -> None:
        text = readable(line) if self._terminal else line
        if text is not None:
            print(text, flush=True)


def readable(line: str) -> str | None:
    """A worker's line for people; None for what would only be noise. Lines that are not the log's own stay."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict) or "event" not in entry:
        return line
    if entry["event"] == "exchange":
        # The edge hop of a request that was routed says nothing that the backend hop will not say.
        return None if entry.get("hop") == "select" and not entry.get("reason") else _exchange(entry)
    if entry.get("level") in ("info", "debug"):
        return None
    said = entry.get("message") or entry.get("error") or entry.get("reason") or ""
    return f"{_clock()}  {entry.get('level', '')}: {entry['event']} {said}".rstrip()


def _exchange(entry: dict[str, Any]) -> str:
    """Model, provider, tokens, time to first token, tool calls, outcome; what is unknown is left out."""
    target = " ".join(str(part) for part in (entry.get("backend"), entry.get("provider_model")) if part)
    model = entry.get("model") or entry.get("path") or "?"
    parts = [f"{model} -> {target}" if target else str(model)]
    if (entry.get("attempt") or 1) > 1:
        parts.append(f"attempt {entry['attempt']}")
    if usage := entry.get("usage"):
        cached = f" ({usage['cached']} cached)" if usage.get("cached") else ""
        parts.append(f"{usage.get('input', 0)}{cached} + {usage.get('output', 0)} tokens")
    if entry.get("ms_first_token") is not None:
        parts.append(f"first after {entry['ms_first_token'] / 1000:.1f} s")
    if entry.get("ms") is not None:
        parts.append(f"{entry['ms'] / 1000:.1f} s")
    if calls := entry.get("tool_calls"):
        parts.append(f"{calls} tool call{'s' if calls != 1 else ''}")
    if entry.get("dropped"):
        parts.append(f"dropped {', '.join(entry['dropped'])}")
    parts.append(_outcome(entry))
    return f"{_clock()}  {'  '.join(parts)}"


def _outcome(entry: dict[str, Any]) -> str:
    outcome = str(entry.get("outcome") or "?").replace("_", " ")
    why = entry.get("failure") or entry.get("reason")
    status = entry.get("status")
    return " ".join(str(part) for part in (outcome if outcome != "ok" else "ok", why, status if why else None) if part)


def _clock() -> str:
    return time.strftime("%H:%M:%S")
