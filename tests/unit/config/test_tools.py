"""`tools` at its three places and `events`: problems, warnings, which value applies, which names the log may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extproc.config import EventLabel, EventSettings, ToolSettings
from extproc.config.tools import merge_tool_settings
from tests.unit.config.files import has_problem, problems, warnings


def attempt(**tools: Any) -> list[dict[str, Any]]:
    return [{"backend": "b", "model": "x", "tools": tools}, {"backend": "c", "model": "x"}]


@pytest.mark.parametrize(("changes", "path", "words"), [
    ({"attempts": attempt(max=0)}, "models[0].attempts[0].tools.max", "above 0"),
    ({"attempts": attempt(choice="always")}, "models[0].attempts[0].tools.choice", '"auto"'),
    ({"tools": {"max": 0}}, "tools.max", "above 0"),
    ({"tools": {"style": "hermse"}}, "tools.style", 'no style "hermse"'),
    ({"backend": {"tools": {"read": ["hermse"]}}}, "backends.b.tools.read[0]", 'no dialect "hermse"'),
    ({"tools": {"only": ["read", ""]}}, "tools.only[1]", "is empty"),
])
def test_a_mistake_is_named_at_its_path(tmp_path: Path, changes: dict[str, Any], path: str, words: str) -> None:
    found = problems(tmp_path, **changes)
    assert has_problem(found, path, words), found


@pytest.mark.parametrize("style", ["hermes", "prompted", "native"])
def test_a_style_that_can_be_written_has_no_warning(tmp_path: Path, style: str) -> None:
    assert warnings(tmp_path, attempts=attempt(style=style)) == []


@pytest.mark.parametrize(("changes", "path"), [
    ({"attempts": attempt(style="gemma-4")}, "models[0].attempts[0].tools.style"),
    ({"backend": {"tools": {"style": "gemma-4"}}}, "backends.b.tools.style"),
    ({"tools": {"style": "gemma-4"}}, "tools.style")])
def test_a_style_that_can_only_be_read_is_a_warning(tmp_path: Path, changes: dict[str, Any], path: str) -> None:
    [(place, reason)] = warnings(tmp_path, **changes)
    assert place == path
    assert "offered natively" in reason
    assert "read: [gemma-4]" in reason


def test_a_list_that_permits_no_tool_is_a_warning(tmp_path: Path) -> None:
    [(path, reason)] = warnings(tmp_path, tools={"only": []})
    assert path == "tools.only"
    assert "no tool at all" in reason


def test_each_key_comes_from_the_narrowest_place_that_sets_it() -> None:
    places = ToolSettings(read=[]), ToolSettings(style="prompted", max=3), ToolSettings(max=9, only=["a"])
    assert merge_tool_settings(*places) == ToolSettings(read=[], style="prompted", max=3, only=["a"])
    assert merge_tool_settings(ToolSettings()) == ToolSettings()


def test_the_log_does_not_name_hidden_tools() -> None:
    events = EventSettings(tools={"search_*": EventLabel(category="search"), "*": EventLabel(visibility="hidden")})
    assert [events.loggable_name(tool) for tool in ("search_web", "remember")] == ["search_web", "hidden"]
    assert EventSettings().loggable_name("remember") == "remember"
