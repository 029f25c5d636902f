"""Terminal output: the table of what is served, the lines to paste for Claude Code, one line per request.

On a terminal everything goes to standard output, with requests as columns that fit its width. Otherwise standard output
is for programs, and each line is JSON: the workers' lines unchanged, and one that says "ready". The table and the same
messages in words go to standard error.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from extproc.config import Config, ModelRule
from extproc.process.log import Log
from extproc.process.output import put_on_stderr, put_on_stdout

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ROUTE = "model -> provider's model @ backend"
_FIGURES = ("{:>6} {:>6} {:>5} {:>5} {:>5}", ("in", "out", "first", "total", "calls"))
_BESIDE_ROUTE = len("12:34:56  ") + 2 + len(_FIGURES[0].format(*_FIGURES[1])) + 2
"""Columns of a line without its route and its outcome."""
_NOTES = 27
"""Columns for the outcome and its notes, if the terminal is wide enough."""


def print_overview(config: Config, url: str, env: Mapping[str, str]) -> None:
    """Prints models with their attempts, teams, and how to point Claude Code here."""
    terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout if terminal else sys.stderr, width=None if terminal else 120, highlight=False)
    with console.capture() as captured:
        console.print(_table(("model", "attempts", "shown as"), [
            (rule.match, _attempts(rule), ", ".join(rule.list)) for rule in config.models]))
        if config.teams:
            console.print()
            console.print(_table(("team", "may use"), [
                (name, "every model" if team.models is None else ", ".join(team.models))
                for name, team in config.teams.items()]))
        console.print("\nFor Claude Code:", style="bold")
        for line in claude_code(config, url, env):
            # Not wrapped: a wrapped line could not be pasted.
            console.print(Text(f"  {line}"), soft_wrap=True)
        console.print()
    (put_on_stdout if terminal else put_on_stderr)(_encoded(captured.get(), console.file))


def print_note(text: str) -> None:
    """Prints a line for people, where the table goes."""
    (print_line if sys.stdout.isatty() else print_error)(text)


def report(text: str) -> None:
    """Prints a message of the program on standard error."""
    print_error(f"extproc: {text}")


def report_ready(text: str, **where: object) -> None:
    """Reports that the gateway serves: in words, and without a terminal also as a line of the log with `where`."""
    print_note(f"extproc: {text}")
    if not sys.stdout.isatty():
        Log().write_event("info", "ready", message=text, **where)


def print_line(text: str) -> None:
    """Prints a line on standard output."""
    put_on_stdout(_encoded(f"{text}\n", sys.stdout))


def print_error(text: str) -> None:
    """Prints a line on standard error."""
    put_on_stderr(_encoded(f"{text}\n", sys.stderr))


class LibraryLines(logging.Handler):
    """Prints warnings of libraries (asyncio, grpc) on standard error."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        print_error(self.format(record))


def _encoded(text: str, stream: IO[str] | None) -> bytes:
    """In the encoding of the stream. Names may hold any character; one that cannot be shown must not fail."""
    return text.encode(getattr(stream, "encoding", None) or "utf-8", "backslashreplace")


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def claude_code(config: Config, url: str, env: Mapping[str, str]) -> list[str]:
    """The three environment variables. A team's key is never printed: the variable that holds it is, if there is one.
    """
    from extproc.envoy_config.provider_keys import placeholder  # expensive; not imported while the workers start

    team = next(iter(config.teams), None)
    if team is None:
        key = "local   # any text, there are no teams"
    else:
        named = (name for name, value in env.items() if value in config.teams[team].keys and _VARIABLE.fullmatch(name))
        variable = next(named, None)
        key = f'"${variable}"' if variable else placeholder("team", team)
        key += f"   # the key of team {team}"
    names = config.listed_models(team) or [rule.match for rule in config.models]
    return [f"export ANTHROPIC_BASE_URL={url}", f"export ANTHROPIC_AUTH_TOKEN={key}",
            f"export ANTHROPIC_MODEL={names[0] if names else '...'}"]


def _attempts(rule: ModelRule) -> str:
    return ", then ".join(
        f"{attempt.backend}: {'the same name' if attempt.model == '*' else attempt.model}" for attempt in rule.attempts)


class RequestLines:
    """Prints the workers' JSON lines: unchanged, or on a terminal one readable line per request. `width` returns the
    terminal's columns."""

    def __init__(self, terminal: bool | None = None, width: Callable[[], int] | None = None) -> None:
        self._terminal = sys.stdout.isatty() if terminal is None else terminal
        self._width = width or (lambda: shutil.get_terminal_size().columns)

    def print_heading(self) -> None:
        """Prints the names of the columns, on a terminal."""
        if self._terminal:
            print_line(column_heading(self._width()))

    def __call__(self, line: str) -> None:
        text = format_line(line, self._width()) if self._terminal else line
        if text is not None:
            print_line(text)


def column_heading(width: int) -> str:
    """The names of the columns of `format_line`."""
    figures, names = _FIGURES
    room = _route_width(width)
    route = _ROUTE if len(_ROUTE) <= room else "model @ backend"
    return f"{'time':8}  {route:{room}}  {figures.format(*names)}  outcome"[:width]


def format_line(line: str, width: int = 120) -> str | None:
    """A worker's line for people; None for one without interest. Lines that are not the log's own stay unchanged."""
    try:
        entry = json.loads(line)
    except ValueError:
        return _make_printable(line)
    if not isinstance(entry, dict) or "event" not in entry:
        return _make_printable(line)
    if entry["event"] == "exchange":
        if entry.get("hop") == "select" and not entry.get("reason"):
            return None  # the request was routed, and the backend hop logs it
        return _make_printable(_exchange(entry, width))
    if entry.get("level") in ("info", "debug"):
        return None
    message = entry.get("message") or entry.get("error") or entry.get("reason") or ""
    return _make_printable(f"{_time_of_day()}  {entry.get('level', '')}: {entry['event']} {message}".rstrip())


def _exchange(entry: dict[str, Any], width: int) -> str:
    """Route, figures and outcome in columns; unknown figures stay empty. If an exchange failed without figures, the
    reason takes their place."""
    route = _shorten(_route(entry), _route_width(width))
    usage, notes = entry.get("usage") or {}, _notes(entry)
    if not any(usage.values()) and entry.get("outcome") not in ("ok", "client_closed"):
        return _cut(f"{_time_of_day()}  {route}  {notes}  {_seconds(entry.get('ms'))}".rstrip(), width)
    figures = _FIGURES[0].format(_count(usage.get("input")), _count(usage.get("output")),
                                 _seconds(entry.get("ms_first_token")), _seconds(entry.get("ms")),
                                 entry.get("tool_calls") or "")
    return _cut(f"{_time_of_day()}  {route}  {figures}  {notes}".rstrip(), width)


def _route(entry: dict[str, Any]) -> str:
    model = str(entry.get("model") or entry.get("rule") or entry.get("path") or "?")
    target = str(entry.get("provider_model") or "")
    backend = entry.get("backend")
    way = f"{model} -> {target}" if target and target != model else model
    return f"{way} @ {backend}" if backend else way


def _notes(entry: dict[str, Any]) -> str:
    """The outcome first, then anything unusual."""
    outcome = str(entry.get("outcome") or "?")
    why = entry.get("reason") or entry.get("failure")
    outcome_words = [{"client_closed": "client left"}.get(outcome, outcome.replace("_", " "))]
    if outcome not in ("ok", "client_closed"):
        outcome_words += [str(part) for part in (why, entry.get("status")) if part]
    notes = [" ".join(outcome_words)]
    if outcome == "ok" and entry.get("reason"):
        notes.append(str(entry["reason"]))
    if (entry.get("attempt") or 1) > 1:
        notes.append(f"attempt {entry['attempt']}")
    if cached := (entry.get("usage") or {}).get("cached"):
        notes.append(f"{cached} cached")
    if entry.get("dropped"):
        notes.append(f"dropped {', '.join(entry['dropped'])}")
    return ", ".join(notes)


def _route_width(width: int) -> int:
    return max(24, min(64, width - _BESIDE_ROUTE - _NOTES))


def _shorten(text: str, width: int) -> str:
    """Exactly `width` characters: padded, or without the middle, since both ends say the most."""
    if len(text) <= width:
        return text.ljust(width)
    head = width // 2
    return f"{text[:head]}…{text[len(text) - (width - head - 1):]}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[:width - 1]}…"


def _count(number: int | None) -> str:
    if number is None:
        return ""
    return str(number) if number < 1_000_000 else f"{number / 1e6:.1f}M"


def _seconds(ms: float | None) -> str:
    if ms is None:
        return ""
    return f"{ms / 1000:.1f}s" if ms < 99_950 else f"{ms / 1000:.0f}s"


def _make_printable(text: str) -> str:
    """Names come from clients: characters that would move the cursor or change colours are replaced."""
    return text if text.isprintable() else "".join(char if char.isprintable() else "·" for char in text)


def _time_of_day() -> str:
    return time.strftime("%H:%M:%S")
