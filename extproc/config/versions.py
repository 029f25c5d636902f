"""Names for backends that change while requests still run on their old version: `name~2` beside `name`.

Only a reload uses this. Envoy and the workers tell the two versions apart by name, so that during the change no request
is translated for one and sent to the other. Names in a configuration file cannot contain `~`. Operators see the plain
name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from extproc.config.backends import Backend
from extproc.config.configuration import Config


def plain_name(backend: str) -> str:
    """The backend's name in the configuration file."""
    return backend.partition("~")[0]


def fingerprint(backend: Backend) -> str:
    """A digest of the backend: without the values of its keys, which the running version takes over, but with the
    content of the certificates that it trusts."""
    plain = msgspec.structs.replace(backend, key="key" if backend.key else None, keys=[
        msgspec.structs.replace(entry, key="key" if entry.key else None) for entry in backend.key_entries])
    trusted = b""
    if backend.ca:
        try:
            trusted = Path(backend.ca).read_bytes()
        except OSError:
            trusted = b"?"
    return hashlib.sha256(msgspec.json.encode(plain) + trusted).hexdigest()


def rename_changed_backends(config: Config, prints: Mapping[str, str], known: Sequence[Mapping[str, str]]) -> Config:
    """`config` with new names for the backends that differ from those in use. `prints`: its backends' fingerprints by
    name; `known`: those of the configurations in use, by their names there, the newest first. A backend that is
    unchanged since one of them gets its name from there."""
    names = {name: _version_name(name, prints[name], known) for name in config.backends}
    if all(new == old for old, new in names.items()):
        return config
    rules = [msgspec.structs.replace(rule, attempts=[
        msgspec.structs.replace(attempt, backend=names[attempt.backend]) for attempt in rule.attempts])
        for rule in config.models]
    return msgspec.structs.replace(
        config, backends={names[name]: backend for name, backend in config.backends.items()}, models=rules,
        one_hop=None if config.one_hop is None else names[config.one_hop])


def _version_name(name: str, print_: str, known: Sequence[Mapping[str, str]]) -> str:
    taken = set()
    for backends in known:
        for old, other in backends.items():
            if plain_name(old) == name:
                if other == print_:
                    return old
                taken.add(old)
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}~{number}"
    return free
