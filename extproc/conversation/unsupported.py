"""What of a request or an answer could not be carried to the other side, by name.

Filled by whoever decodes or encodes, shown in `x-extproc-dropped`, the log and the metrics. It decides nothing.
"""

from __future__ import annotations

import msgspec


class Dropped(msgspec.Struct):
    """Names of what could not be carried, in order of discovery, without duplicates (design rule 4).

    `losses` change what the model sees or may do; `hints` do not (cache marks, betas, metadata, service tiers).
    """

    losses: list[str] = []
    hints: list[str] = []

    def loss(self, name: str) -> None:
        _note(self.losses, name)

    def hint(self, name: str) -> None:
        _note(self.hints, name)

    def carried(self, field: str) -> None:
        """Takes back what a decoder named of a field, as the provider gets the client's own words of it after all."""
        for names in (self.losses, self.hints):
            names[:] = [name for name in names if name != field and not name.startswith(f"{field}.")]


_MOST_NAMES = 100
_LONGEST_NAME = 100


def _note(names: list[str], name: str) -> None:
    """The names are a client's own (unknown fields, types of blocks): bounded in length and number, the last one
    says that there were more."""
    name = name[:_LONGEST_NAME]
    if len(names) < _MOST_NAMES and name not in names:
        names.append(name if len(names) < _MOST_NAMES - 1 else "...")
