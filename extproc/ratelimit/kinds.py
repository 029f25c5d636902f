"""The kinds of limits: one record each, named as in the configuration.

Windows are fixed and aligned to the clock (a minute begins at second 0, a day at midnight UTC), as those of
envoyproxy/ratelimit are, so that a gateway of its own and a fleet refuse the same requests. A burst across the border
of two windows may so reach twice the number in a short time.
"""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """One kind of limit. `seconds`: the length of its window, 0 for what is in use now. `afterwards`: it is asked
    about with 0 hits and counted when the request is over, then without refusing."""

    name: str
    thing: str
    unit: str
    seconds: int
    afterwards: bool = False

    def words(self, number: int) -> str:
        """The limit for people: "3 requests per minute"."""
        counted = f"{number} {self.thing if number != 1 else self.thing.removesuffix('s')}"
        return f"{counted} per {self.unit}" if self.seconds else f"{counted} at the same time"


KINDS = {kind.name: kind for kind in (
    Kind("requests_per_minute", "requests", "minute", 60),
    Kind("tokens_per_minute", "tokens", "minute", 60, afterwards=True),
    Kind("tokens_per_day", "tokens", "day", 86400, afterwards=True),
    Kind("concurrent_streams", "requests", "", 0),
)}

DOMAIN = "extproc"
"""The domain of all descriptors."""

TEAM, RULE, LIMIT, STREAM, API = "team", "model", "limit", "stream", "api"
"""The keys of a descriptor's entries: the team, the model rule's `match` (left out for all models together), the kind,
the id of a running request, and in a descriptor of its own the client's API."""
