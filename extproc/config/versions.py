"""Names for backends that change while requests still run on the old ones: `name~2` stands beside `name`.

Used by a reload only. Envoy and the workers then tell the two apart by name, so no request is translated for one and
sent to the other, whatever meets whatever while the change is under way. `~` is not allowed in names of a
configuration file; what an operator reads holds the plain name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from extproc.config.backend_records import Backend
from extproc.config.records import Config


def plain_name(backend: str) -> str:
    """The backend's name in the configuration file."""
    return backend.partition("~")[0]


def fingerprint(backend: Backend) -> str:
    """Changes when the backend does, except in the values of its keys: those reach the running one. The certificates
    that it trusts count by their content."""
    plain = msgspec.structs.replace(backend, key="key" if backend.key else None, keys=[
        msgspec.structs.replace(entry, key="key" if entry.key else None) for entry in backend.several_keys])
    trusted = b""
    if backend.ca:
        try:
            trusted = Path(backend.ca).read_bytes()
        except OSError:
            trusted = b"?"
    return hashlib.sha256(msgspec.json.encode(plain) + trusted).hexdigest()


def renamed(config: Config, prints: Mapping[str, str], known: Sequence[Mapping[str, str]]) -> Config:
    """`config` with names of their own for the backends that differ from those in use. `prints` are its backends'
    fingerprints by name; `known` those of the configurations in use, by the names there, the newest first. A backend
    that is as it was in one of them has its name from there."""
    names = {name: _name(name, prints[name], known) for name in config.backends}
    if all(new == old for old, new in names.items()):
        return config
    rules = [msgspec.structs.replace(rule, attempts=[
        msgspec.structs.replace(attempt, backend=names[attempt.backend]) for attempt in rule.attempts])
        for rule in config.models]
    changed = msgspec.structs.replace(
        config, backends={names[name]: backend for name, backend in config.backends.items()}, models=rules,
        one_hop=None if config.one_hop is None else names[config.one_hop])
    return changed.with_literal_keys(config.literal_keys)


def _name(name: str, print_: str, known: Sequence[Mapping[str, str]]) -> str:
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
