"""Which names a pattern matches, and which pattern hides another."""

from __future__ import annotations

import fnmatch
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.globs import covers, matches, star_text

patterns = st.text("ab*?", max_size=6)
names = st.text("abc", max_size=6)


@given(patterns, names)
def test_patterns_match_like_those_of_the_shell(pattern: str, name: str) -> None:
    assert matches(pattern, name) == fnmatch.fnmatchcase(name, pattern)


def test_brackets_are_ordinary_characters() -> None:
    """Claude Code's names end in [1m]."""
    assert matches("claude-opus[1m]", "claude-opus[1m]")
    assert matches("claude-*[1m]", "claude-opus[1m]")
    assert not matches("claude-[ab]", "claude-a")


@given(patterns, patterns, names)
def test_every_match_of_a_covered_pattern_is_a_match_of_the_covering_one(earlier: str, later: str, name: str) -> None:
    if covers(earlier, later) and matches(later, name):
        assert matches(earlier, name)


@pytest.mark.parametrize(("earlier", "later", "hidden"), [
    ("*", "a", True), ("*", "*", True), ("a*", "ab*", True), ("a*", "a*", True), ("a*", "a", True), ("a", "a", True),
    ("ab*", "a*", False), ("a?", "a*", False), ("a*b", "a*", False), ("a*", "*a", False), ("a", "a*", False),
    ("a*", "a?", True), ("?", "?", True), ("*-*", "a-*", True),
])
def test_covering(earlier: str, later: str, hidden: bool) -> None:
    assert covers(earlier, later) is hidden


def test_the_text_of_the_star() -> None:
    assert star_text("openrouter/*", "openrouter/a/b") == "a/b"
    assert star_text("*", "whole") == "whole"
    assert star_text("plain", "plain") == "plain"


def test_a_huge_name_takes_no_time() -> None:
    started = time.process_time()
    assert not matches("*a*b*c*d*e*f*", "a" * 5_000_000)
    assert time.process_time() - started < 1
