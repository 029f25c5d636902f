"""The text of a file becomes a tree: YAML and JSON, variables, characters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extproc.config.source import expand, parse
from extproc.config.values import Problems
from tests.unit.config.files import load


def parsed(text: str) -> tuple[Any, Problems]:
    problems: Problems = []
    return parse(text, problems), problems


def expanded(tree: Any, env: dict[str, str]) -> tuple[Any, Problems]:
    problems: Problems = []
    return expand(tree, env, problems), problems


def test_json_is_yaml() -> None:
    assert parsed('{"a": {"b": [1, "x", true, null]}}') == ({"a": {"b": [1, "x", True, None]}}, [])


def test_only_true_and_false_are_booleans_and_dates_are_text() -> None:
    """YAML 1.1 reads `off` as false."""
    assert parsed("[off, no, yes, true, False, 2026-01-01]") == (["off", "no", "yes", True, False, "2026-01-01"], [])


@pytest.mark.parametrize(("text", "path", "words"), [
    ("backends: {a: [", "line 1, column 16", "not valid YAML"),
    ("a: \t@", "line 1, column 4", "not valid YAML"),
    ("a: &x [*x]", "a[0]", "refers to itself"),
    ("backends: !!python/object:os.system {}", "line 1, column 11", "not valid YAML"),
    ("a:\n  b: 1\n  c: 2\n  b: 3", "a.b", "twice (lines 2 and 4)"),
])
def test_a_text_that_is_not_valid(text: str, path: str, words: str) -> None:
    _, problems = parsed(text)
    [(place, reason)] = problems
    assert place == path
    assert words in reason


@pytest.mark.parametrize("char", ["\0", "\a", "\x1b", "\x7f", "\x9b", "\ufffe"])
def test_a_control_character_is_named_with_its_place(char: str) -> None:
    """YAML allows it nowhere, not even in a comment."""
    _, [(place, reason)] = parsed(f"backends: 1\nmodels: [{{match: cla{char}ude}}]\n# {char}")
    assert place == "line 2, column 21"
    assert f"U+{ord(char):04X}" in reason


# ---------------------------------------------------------------------------------------------------------- variables


def test_variables_are_replaced_after_parsing_and_cannot_change_the_structure(tmp_path: Path) -> None:
    config = load(tmp_path, {"url": "https://${HOST}/${PATH_}/v1", "key": "$${A}${K}"}, None,
                  {"HOST": "x.example", "PATH_": "a", "K": "'}#:${B}"})
    assert config.backends["b"].url == "https://x.example/a/v1"
    assert config.backends["b"].key == "${A}'}#:${B}"


@pytest.mark.parametrize(("text", "words"), [
    ("${", "names no environment variable"), ("${A-B}", "names no environment variable"),
    ("${NOPE}", "the environment variable NOPE is not set")])
def test_a_wrong_variable_is_named_at_its_path(text: str, words: str) -> None:
    _, [(path, reason)] = expanded({"a": ["x", text]}, {"A": "1"})
    assert path == "a[1]"
    assert words in reason


def test_half_a_character_is_no_text() -> None:
    problem = ("a", "holds bytes or half a character that are no text")
    assert expanded({"a": "\ud800"}, {})[1] == [problem]
    assert expanded({"a": "${NAME}"}, {"NAME": "\udcff"})[1] == [problem]
    assert expanded({"\udfff": 1}, {})[1] == [("file", r"the key '\udfff' is no text")]
