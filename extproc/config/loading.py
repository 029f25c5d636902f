"""A path and an environment -> a checked configuration, or all that is wrong with it.

Called by every command and by each worker. Reads one file and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from extproc.config.backend_records import Backend, ProviderKey
from extproc.config.builtin import builtin_config
from extproc.config.checks import problems_of
from extproc.config.convert import convert
from extproc.config.observing_records import is_secret
from extproc.config.records import Config, Problems
from extproc.config.routing_records import EdgeTls
from extproc.config.source import expand, join, parse


class ConfigError(Exception):
    """The configuration cannot be used. `problems` holds (path, reason) for everything that is wrong."""

    def __init__(self, problems: Problems) -> None:
        # Paths and reasons quote the file, and go to terminals.
        self.problems = [(_visible(path), _visible(reason)) for path, reason in problems]
        super().__init__("\n".join(f"{path}: {reason}" for path, reason in self.problems))


def _visible(text: str) -> str:
    """With control characters as escapes; lines stay."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


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
    service = config.limits_service
    if service.counters is not None:
        service = msgspec.structs.replace(service, counters=_whole_path(service.counters, folder))
    tls = config.tls
    if tls is not None:
        tls = EdgeTls(certificate=_whole_path(tls.certificate, folder), key=_whole_path(tls.key, folder))
    tracing = config.tracing
    if tracing is not None and tracing.ca is not None:
        tracing = msgspec.structs.replace(tracing, ca=_whole_path(tracing.ca, folder))
    config = msgspec.structs.replace(config, backends=backends, limits_service=service, tls=tls, tracing=tracing)
    return config.with_literal_keys(_literal_keys(tree))


def _with_whole_path(backend: Backend, folder: Path) -> Backend:
    """Envoy and the workers may run in another folder: the paths of its files from the root."""
    def whole(path: str | None) -> str | None:
        return None if path is None else _whole_path(path, folder)

    keys = [msgspec.structs.replace(entry, key_file=whole(entry.key_file)) if isinstance(entry, ProviderKey) else entry
            for entry in backend.keys]
    return msgspec.structs.replace(backend, key_file=whole(backend.key_file), ca=whole(backend.ca), keys=keys)


def _whole_path(path: str, folder: Path) -> str:
    return os.path.abspath(os.path.join(folder, os.path.expanduser(path)))


def _literal_keys(tree: dict[Any, Any]) -> list[str]:
    """Paths of the keys, and of proxies with a password, that the file holds itself: those that name no variable."""
    found: list[str] = []
    for section in ("backends", "teams"):
        entries = tree.get(section)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            if isinstance(entry, dict):
                found += _literals_of(join(section, str(name)), entry)
    tracing = tree.get("tracing")
    headers = tracing.get("headers") if isinstance(tracing, dict) else None
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if is_secret(str(name)) and isinstance(value, str) and "${" not in value:
            found.append(join("tracing.headers", str(name)))
    return found


def _literals_of(path: str, entry: dict[Any, Any]) -> list[str]:
    """Of one backend or team, whatever the form of its keys."""
    texts: dict[str, Any] = {}
    for name in ("key", "keys"):
        value = entry.get(name)
        for place, one in ([(join(path, name), value)] if not isinstance(value, list) else
                           [(join(join(path, name), index), one) for index, one in enumerate(value)]):
            if isinstance(one, dict):
                place, one = join(place, "key"), one.get("key")
            texts[place] = one
    proxy = entry.get("proxy")
    if isinstance(proxy, str) and "@" in proxy:
        texts[join(path, "proxy")] = proxy
    return [place for place, value in texts.items() if isinstance(value, str) and "${" not in value]
