"""The kinds of limits: one record each, named as in the configuration.

Windows are fixed and aligned to the clock: a minute begins at second 0, a day at midnight UTC. envoyproxy/ratelimit
does the same, so that its gateways and ours refuse the same requests. A burst across the border of two windows can
therefore use up to twice the limit in a short time.
"""

from __future__ import annotations

from typing import NamedTuple


class LimitKind(NamedTuple):
    """One kind of limit.

    `noun`: what is counted. `unit`: the window's name in Envoy. `window_seconds`: the length of the window, 0 for
    requests in progress. `counted_afterwards`: Envoy asks with 0 hits before the request and reports the usage after
    it, when nothing can be refused.
    """

    name: str
    noun: str
    unit: str
    window_seconds: int
    counted_afterwards: bool = False

    def describe(self, limit: int) -> str:
        """The limit in words: "3 requests per minute"."""
        counted = f"{limit} {self.noun if limit != 1 else self.noun.removesuffix('s')}"
        return f"{counted} per {self.unit}" if self.window_seconds else f"{counted} at the same time"


LIMIT_KINDS = {kind.name: kind for kind in (
    LimitKind("requests_per_minute", "requests", "minute", 60),
    LimitKind("tokens_per_minute", "tokens", "minute", 60, counted_afterwards=True),
    LimitKind("tokens_per_day", "tokens", "day", 86400, counted_afterwards=True),
    LimitKind("concurrent_streams", "requests", "", 0),
)}

DOMAIN = "extproc"
"""The domain of all descriptors."""

TEAM, RULE, LIMIT, STREAM, API = "team", "model", "limit", "stream", "api"
"""The keys of a descriptor's entries: the team; the model rule's `match` (absent for a limit on all models together);
the kind of limit; the id of a request in progress; and, in a descriptor of its own, the client's API."""
