"""The table: for people in `docs/matrix.md`, and in the terminal with what passed.

The page says nothing that is not in `abilities`, and each of its cells is a test of `test_matrix`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.e2e.matrix.abilities import ABILITIES, Ability
from tests.e2e.matrix.backends import BACKENDS
from tests.e2e.matrix.responses_client import CLIENTS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "matrix.md"
PAIRS = [(client.name, backend.name) for client in CLIENTS for backend in BACKENDS]
FORMS = {True: "stream", False: "whole"}
TITLES = {"openai": "Chat Completions", "anthropic": "Messages", "gemini": "Gemini", "responses": "Responses"}

HEAD = """\
# Which client with which provider

Made by `python -m tests.e2e.matrix > docs/matrix.md`; a test fails if it is out of date. A column is the client's API
and the provider's. Every cell is a test: the official SDK of the client's API talks through the real Envoy to a strict
scripted provider, which refuses what the real one refuses. ✓ means that both streamed and whole responses pass (rows
about broken streams: streamed ones). A number points to what the gateway names in `x-extproc-dropped`; nothing else is
named.

If both sides speak one API, the bytes pass with the necessary changes only. The provider of Chat Completions is OpenAI,
for reasoning as text DeepSeek, for signed reasoning OpenRouter. The provider of Responses is OpenAI.
"""


def cell_id(ability: Ability, client: str, provider: str, *, streamed: bool) -> str:
    return f"{ability.id}-{client}-{provider}-{FORMS[streamed]}"


def render() -> str:
    """The whole page."""
    notes: list[str] = []
    titles = " | ".join(f"{TITLES[client]} → {TITLES[provider]}" for client, provider in PAIRS)
    lines = [HEAD, f"| client → provider | {titles} |", "|---|" + ":-:|" * len(PAIRS)]
    for ability in ABILITIES:
        cells = []
        for pair in PAIRS:
            named = ability.dropped.get(pair, ())
            mark = "✓"
            for name in named:
                if name not in notes:
                    notes.append(name)
                mark += f" {notes.index(name) + 1}"
            cells.append(mark)
        lines.append(f"| **{ability.name}** | " + " | ".join(cells) + " |")
    lines += ["", "## What each row shows", ""]
    lines += [f"* **{ability.name}**: {ability.shows}." for ability in ABILITIES]
    lines += ["", "## What is named as dropped", ""]
    lines += [f"{number}. `{name}`: {NOTES[name]}" for number, name in enumerate(notes, 1)]
    return "\n".join(lines) + "\n"


NOTES = {  # every name that `abilities` has
    "messages.thinking": "the text of earlier reasoning, which Gemini does not accept; its signatures return "
                         "instead.",
    "stop": "the Responses API has no stop sequences.",
    "parallel_tool_calls": "Gemini has no such field; the system text asks for one call at a time instead.",
}


def in_the_terminal(outcomes: Mapping[str, str]) -> list[str]:
    """The table with what passed: both forms of a cell, `.` for one that was not run."""
    marks = {"passed": "✓", "failed": "✗", "skipped": "s"}
    width = max(len(ability.name) for ability in ABILITIES)
    lines = [" " * width + "  " + "  ".join(f"{client[:6]:>6}>{provider:<9}" for client, provider in PAIRS)]
    for ability in ABILITIES:
        cells = ["".join(marks.get(outcomes.get(cell_id(ability, *pair, streamed=streamed), ""), ".")
                         for streamed in ability.streamed) for pair in PAIRS]
        lines.append(f"{ability.name:<{width}}  " + "  ".join(f"{cell:^16}" for cell in cells))
    return lines
