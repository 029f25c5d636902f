"""A path and an environment -> a checked configuration, or a ConfigError with all problems.

Called by every command and by each worker. Reads no other file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from extproc.config.backends import Backend, ProviderKey
from extproc.config.builtin import builtin_config
from extproc.config.checks import problems_of
from extproc.config.configuration import Config, EdgeTls
from extproc.config.convert import convert
from extproc.config.observability import holds_secret
from extproc.config.source import expand, parse
from extproc.config.values import Problems, join


class ConfigError(Exception):
    """The configuration is unusable. `problems`: all of them as (path, reason)."""

    def __init__(self, problems: Problems) -> None:
        # Paths and reasons quote the file and are shown on terminals.
        self.problems = [(_escape_controls(path), _escape_controls(reason)) for path, reason in problems]
        super().__init__("\n".join(f"{path}: {reason}" for path, reason in self.problems))


def _escape_controls(text: str) -> str:
    """The text with control characters as escapes, except line ends."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def load_config(path: Path | None, env: Mapping[str, str]) -> Config:
    """The configuration of the file; without a path the built-in one. Raises ConfigError."""
    if path is not None:
        return _parse_config(_read_text(path), path.parent, env)
    config = builtin_config(env)
    _raise_problems(problems_of(config, builtin=True))
    return config


def _raise_problems(problems: Problems) -> None:
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError([(str(path), f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise ConfigError([(str(path), "is not UTF-8 text")]) from None


def _parse_config(text: str, folder: Path, env: Mapping[str, str]) -> Config:
    problems: Problems = []
    tree = parse(text, problems)
    if not isinstance(tree, dict):
        raise ConfigError(problems or [("file", "expected a mapping with the keys backends and models")])
    if any(reason == "refers to itself" for _, reason in problems):
        raise ConfigError(problems)
    config: Config = convert(expand(tree, env, problems), Config, problems)
    _raise_problems([*problems, *problems_of(config)])
    return msgspec.structs.replace(_with_absolute_paths(config, folder), literal_key_paths=_literal_key_paths(tree))


def _with_absolute_paths(config: Config, folder: Path) -> Config:
    """Envoy and the workers may run in another folder."""
    def absolute(path: str | None) -> str | None:
        return None if path is None else _absolute_path(path, folder)

    def of_backend(backend: Backend) -> Backend:
        keys = [msgspec.structs.replace(entry, key_file=absolute(entry.key_file))
                if isinstance(entry, ProviderKey) else entry for entry in backend.keys]
        return msgspec.structs.replace(backend, key_file=absolute(backend.key_file), ca=absolute(backend.ca), keys=keys)

    service, tls, tracing = config.limits_service, config.tls, config.tracing
    if tls is not None:
        tls = EdgeTls(certificate=_absolute_path(tls.certificate, folder), key=_absolute_path(tls.key, folder))
    if tracing is not None:
        tracing = msgspec.structs.replace(tracing, ca=absolute(tracing.ca))
    return msgspec.structs.replace(
        config, backends={name: of_backend(backend) for name, backend in config.backends.items()}, tls=tls,
        tracing=tracing, prices=msgspec.structs.replace(config.prices, file=absolute(config.prices.file)),
        limits_service=msgspec.structs.replace(service, counters=absolute(service.counters)))


def _absolute_path(path: str, folder: Path) -> str:
    return os.path.abspath(os.path.join(folder, os.path.expanduser(path)))


def _literal_key_paths(tree: dict[Any, Any]) -> tuple[str, ...]:
    """Paths of the secrets in the file itself, as opposed to variables: keys, passwords of proxies, headers for the
    collector of traces."""
    found: list[str] = []
    for section in ("backends", "teams"):
        entries = tree.get(section)
        for name, entry in entries.items() if isinstance(entries, dict) else ():
            if isinstance(entry, dict):
                found += _literals_of_entry(join(section, str(name)), entry)
    tracing = tree.get("tracing")
    headers = tracing.get("headers") if isinstance(tracing, dict) else None
    for name, value in headers.items() if isinstance(headers, dict) else ():
        if holds_secret(str(name)) and isinstance(value, str) and "${" not in value:
            found.append(join("tracing.headers", str(name)))
    return tuple(found)


def _literals_of_entry(path: str, entry: dict[Any, Any]) -> list[str]:
    """The same for one backend or team. Its keys may be one text, or a list of texts and mappings."""
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
