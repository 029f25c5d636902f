"""A tree becomes records: wrong types and unknown keys at their paths, values of the environment as what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.config.files import OPENAI, has_problem, load, problems, text_problems


@pytest.mark.parametrize(("top", "path", "words"), [
    ({"backends": None}, "backends", "expected a mapping, got nothing"),
    ({"workers": "many"}, "workers", 'expected "auto" or a whole number, got "many"'),
    ({"workers": True}, "workers", "got true"),
    ({"lossy": "maybe"}, "lossy", '"reject" or "report"'),
    ({"limits": {"body": 1.5}}, "limits.body", "whole number"),
    ({"tools": {"only": "read"}}, "tools.only", "expected a list of texts"),
    ({"tools": {"stile": "off"}}, "tools.stile", 'did you mean "style"?'),
    ({"teams": {"a": {"key": ["x", 1]}}}, "teams.a.key[1]", "expected a text"),
    ({"models": [{"match": 5, "attempts": []}]}, "models[0].match", "expected a text, got the number 5"),
])
def test_a_wrong_type_or_key_is_named_at_its_path(tmp_path: Path, top: dict[str, Any], path: str, words: str) -> None:
    found = problems(tmp_path, **top)
    assert has_problem(found, path, words), found


def test_a_name_must_be_text(tmp_path: Path) -> None:
    found = text_problems(tmp_path, 'backends: {1: {api: openai, url: "https://x.example"}}\nmodels: []')
    assert has_problem(found, "backends.1", "quotes")


def test_a_variable_may_be_a_number_or_a_boolean(tmp_path: Path) -> None:
    config = load(tmp_path, OPENAI, None, {"N": "3", "O": "true", "P": "2.5"},
                  workers="${N}", open="${O}", timeouts={"ping": "${P}"})
    assert (config.workers, config.open, config.timeouts.ping) == (3, True, 2.5)


def test_a_wrong_value_of_the_environment_is_not_printed(tmp_path: Path) -> None:
    assert problems(tmp_path, env={"SECRET": "hunter2"}, limits={"body": "${SECRET}"}) == [
        ("limits.body", "expected a whole number, got a text from the environment")]
