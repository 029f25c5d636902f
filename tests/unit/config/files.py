"""Configuration files for the tests of this folder: the least that is valid, with changes, loaded or refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Config, ConfigError, load_config, warnings_of
from extproc.config.values import Problems

ENV = {"A": "key-a", "B": "key-b", "RED": "red-key", "BLUE": "blue-key",
       "PROXY": "http://me:pass-word@proxy.example:3128"}
"""The environment, unless a test gives another one."""

OPENAI: dict[str, Any] = {"api": "openai", "url": "https://api.example/v1"}
ATTEMPTS = [{"backend": "b", "model": "x"}, {"backend": "c", "model": "x"}]


def load_text(folder: Path, text: str, env: Mapping[str, str] = ENV) -> Config:
    """The configuration of a file with this text."""
    file = folder / "extproc.yaml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, env)


def text_problems(folder: Path, text: str, env: Mapping[str, str] = ENV) -> Problems:
    """What is wrong with this text; nothing if it is valid."""
    try:
        load_text(folder, text, env)
    except ConfigError as error:
        return error.problems
    return []


def load(folder: Path, backend: Mapping[str, Any] = OPENAI, attempts: list[dict[str, Any]] | None = None,
         env: Mapping[str, str] = ENV, **top: Any) -> Config:
    """Backends `b` and `c`, and a rule `m` with these attempts. `backend`: keys of `b`, in addition to those of
    `OPENAI` unless it has an `api`. `top`: further keys of the file."""
    content = {"backends": {"b": backend if "api" in backend else {**OPENAI, **backend},
                            "c": {"api": "openai", "url": "https://other.example/v1"}},
               "models": [{"match": "m", "attempts": attempts or ATTEMPTS}], **top}
    return load_text(folder, json.dumps(content), env)


def problems(folder: Path, *arguments: Any, **changes: Any) -> Problems:
    """What is wrong with the same file, which must be refused."""
    with pytest.raises(ConfigError) as caught:
        load(folder, *arguments, **changes)
    return caught.value.problems


def warnings(folder: Path, *arguments: Any, **changes: Any) -> Problems:
    """The warnings about the same file, which must be valid."""
    return warnings_of(load(folder, *arguments, **changes))


def has_problem(found: Problems, path: str, words: str) -> bool:
    """True if a reason at this path contains these words."""
    return any(place == path and words in reason for place, reason in found)
