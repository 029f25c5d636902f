"""The configurations that a worker knows: the one for new requests, and those that running requests still need.

The parent process accepts a configuration, writes it to a file that only its user can read, and signals the workers. A
new worker reads the same file, so a worker that is restarted while the user edits the configuration returns with the
accepted one. A request that the edge hop has routed names its rule by an id that changes with the rule's content.
`find` looks for it in every generation, so all attempts of one request use the same rule, whichever workers serve them.
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
    """What the workers must know. `known`: the generations whose rules are found by id, the newest first."""

    serving: Generation
    known: list[Generation] = []

    @classmethod
    def only(cls, config: Config) -> Accepted:
        """A first configuration."""
        first = Generation(1, config)
        return cls(first, [first])

    def find(self, rule_id: str) -> Config | None:
        """The newest configuration with the rule of this id."""
        for one in self.known:
            if one.config.rule_by_id(rule_id) is not None:
                return one.config
        return None

    def write(self, path: Path) -> str:
        """Replaces the file atomically. Returns the digest of its content. It holds keys: only this user can read it.
        """
        data = msgspec.json.encode(self)
        write_private(path, data.decode())
        return _digest(data)

    @classmethod
    def read(cls, path: Path) -> tuple[Accepted, str]:
        """The file's content and its digest. Raises OSError or ValueError."""
        data = path.read_bytes()
        try:
            return msgspec.json.decode(data, type=cls), _digest(data)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
