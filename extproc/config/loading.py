"""A path and an environment -> a checked configuration, or all that is wrong with it.

Called by every command and by each worker. Reads one file and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from extproc.config.builtin import builtin_config
from extproc.config.checks import problems_of
from extproc.config.convert import convert
from extproc.config.records import Backend, Config, Problems
from extproc.config.source import expand, join, parse


class ConfigError(Exception):
    """The configuration cannot be used. `problems` holds (path, reason) for everything that is wrong."""

    def __init__(self, problems: Problems) -> None:
        super().__init__("\n".join(f"{path}: {reason}" for path, reason in problems))
        self.problems = problems


def load_config(path: Path | None, env: Mapping[str, str]) -> Config:
    """The configuration of the file, or the built-in one without a path. Raises ConfigError."""
    if path is not None:
        return _from_text(_read(path), path.parent, env)
    config = builtin_config(env)
    _refuse(problems_of(config, builtin=True))
    return config


def _refuse(problems: Problems) -> None:
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError([(str(path), f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise ConfigError([(str(path), "is not UTF-8 text")]) from None


def _from_text(text: str, folder: Path, env: Mapping[str, str]) -> Config:
    problems: Problems = []
    tree = parse(text, problems)
    if not isinstance(tree, dict):
        raise ConfigError(problems or [("file", "expected a mapping with the keys backends and models")])
    if any(reason == "refers to itself" for _, reason in problems):
        raise ConfigError(problems)
    config: Config = convert(expand(tree, env, problems), Config, problems)
    _refuse([*problems, *problems_of(config)])
    backends = {name: _with_whole_path(backend, folder) for name, backend in config.backends.items()}
    return msgspec.structs.replace(config, backends=backends).with_literal_keys(_literal_keys(tree))


def _with_whole_path(backend: Backend, folder: Path) -> Backend:
    """Envoy and the workers may run in another folder: the path of the key file from the root."""
    if backend.key_file is None:
        return backend
    path = os.path.join(folder, os.path.expanduser(backend.key_file))
    return msgspec.structs.replace(backend, key_file=os.path.abspath(path))


def _literal_keys(tree: dict[Any, Any]) -> list[str]:
    """Paths of the keys that the file holds itself: those that name no variable."""
    found = []
    for section in ("backends", "teams"):
        entries = tree.get(section)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            key = entry.get("key") if isinstance(entry, dict) else None
            place = join(join(section, str(name)), "key")
            places = {place: key} if not isinstance(key, list) else {join(place, i): one for i, one in enumerate(key)}
            found += [where for where, value in places.items() if isinstance(value, str) and "${" not in value]
    return found
