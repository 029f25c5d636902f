"""What the process that counts tells Prometheus: decisions -> metrics.

Labels come from the configuration only, so their number is bounded. With PROMETHEUS_MULTIPROC_DIR in the environment
the figures go into files there, beside those of the workers.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from extproc.config import LimitKey
from extproc.ratelimit.counters import Hit, State


class LimitMetrics:
    """Prometheus metrics of what is counted and refused. Labels come from the configuration only."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["team", "model", "limit"]
        self._hits = Counter("extproc_limit_hits", "What was counted towards a limit: requests, or tokens", labels,
                             registry=self.registry)
        self._refusals = Counter("extproc_limit_refusals", "Requests that a limit refused", labels,
                                 registry=self.registry)
        # Of a process and its successor the one that was asked last knows.
        self._left = Gauge("extproc_limit_remaining", "What was left of a limit when it was last asked about", labels,
                           registry=self.registry, multiprocess_mode="livemostrecent")

    def known(self, state: State) -> None:
        """The limit is in force and stands like this: its series begin, before a request comes."""
        labels = _labels(state.key)
        self._hits.labels(*labels)
        self._refusals.labels(*labels)
        self._left.labels(*labels).set(state.remaining)

    def used(self, hit: Hit, state: State) -> None:
        if state.counted and not hit.back:
            self._hits.labels(*_labels(state.key)).inc(hit.hits)
        self._left.labels(*_labels(state.key)).set(state.remaining)

    def refused(self, state: State) -> None:
        self._refusals.labels(*_labels(state.key)).inc()


def _labels(key: LimitKey) -> tuple[str, str, str]:
    return key.team, key.rule, key.kind
