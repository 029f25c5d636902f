"""Names of the parts of a request or a response that the other API cannot carry.

Decoders and encoders add them; they are shown in `x-extproc-dropped`, the log and the metrics. They decide nothing.
"""

from __future__ import annotations

import msgspec


class Dropped(msgspec.Struct):
    """Names of parts that were left out, in order of discovery, without duplicates (design rule 4).

    `losses` change what the model sees or may do; `hints` do not (cache marks, betas, metadata, service tiers).
    """

    losses: list[str] = []
    hints: list[str] = []

    def loss(self, name: str) -> None:
        """Leaving this out changed what the model sees or may do."""
        _note(self.losses, name)

    def hint(self, name: str) -> None:
        """This was left out without an effect on what the model sees or may do."""
        _note(self.hints, name)

    def remove(self, field: str) -> None:
        """Removes the names of this field and of its members, because the provider gets the client's field after
        all."""
        for names in (self.losses, self.hints):
            names[:] = [name for name in names if name != field and not name.startswith(f"{field}.")]


_MOST_NAMES = 100
_LONGEST_NAME = 100


def _note(names: list[str], name: str) -> None:
    """Adds a name. Clients choose the names (unknown fields, types of blocks), so length and number are bounded; a last
    name `...` stands for further ones."""
    name = name[:_LONGEST_NAME]
    if len(names) < _MOST_NAMES and name not in names:
        names.append(name if len(names) < _MOST_NAMES - 1 else "...")
