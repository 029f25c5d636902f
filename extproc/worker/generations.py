"""The configurations that a worker knows: the one that new requests get, and those that running requests still need.

The parent process accepts a configuration, writes it here as a file that only its user can read, and signals the
workers; a worker that is started reads the same file, so that one that dies while the user's own file is being edited
comes back with what was accepted. A request that the edge hop has routed names its rule by an id that changes with the
rule's content: `find` looks for it in every generation, so the attempts of one request meet one and the same rule,
whichever worker gets them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from extproc.config import Config
from extproc.process.private_files import write_private


class Generation(msgspec.Struct, frozen=True):
    """One accepted configuration."""

    number: int
    config: Config


class Accepted(msgspec.Struct, frozen=True):
    """What the workers are to know. `known` holds the generations whose rules are found by id, the newest first."""

    serving: Generation
    known: list[Generation] = []

    @classmethod
    def only(cls, config: Config) -> Accepted:
        """A first configuration."""
        first = Generation(1, config)
        return cls(first, [first])

    def find(self, rule_id: str) -> Config | None:
        """The newest configuration that has the rule with this id."""
        for one in self.known:
            if one.config.rule_by_id(rule_id) is not None:
                return one.config
        return None

    def write(self, path: Path) -> str:
        """Replaces the file at once; returns the digest of its content. It holds keys: only this user can read it."""
        data = msgspec.json.encode(self)
        write_private(path, data.decode())
        return _digest(data)

    @classmethod
    def read(cls, path: Path) -> tuple[Accepted, str]:
        """What the file holds, and its digest. Raises OSError or ValueError."""
        data = path.read_bytes()
        try:
            return msgspec.json.decode(data, type=cls), _digest(data)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
