"""Metrics of the rate limit service: decisions -> Prometheus metrics.

All labels come from the configuration, so their number is bounded. With PROMETHEUS_MULTIPROC_DIR in the environment
the figures go into files there, beside those of the workers.
"""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge

from extproc.config import LimitKey
from extproc.ratelimit.counters import Charge, LimitStatus


class DecisionObserver(Protocol):
    """Receives limits and decisions."""

    def limit_known(self, status: LimitStatus) -> None: ...
    def charged(self, charge: Charge, status: LimitStatus) -> None: ...
    def refused(self, status: LimitStatus) -> None: ...


class NoObserver:
    """Ignores everything."""

    def limit_known(self, status: LimitStatus) -> None:
        """Ignored."""

    def charged(self, charge: Charge, status: LimitStatus) -> None:
        """Ignored."""

    def refused(self, status: LimitStatus) -> None:
        """Ignored."""


class LimitMetrics:
    """Counts charges and refusals, and shows what is left of each limit."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ["team", "model", "limit"]
        self._hits = Counter("extproc_limit_hits", "Requests or tokens counted towards a limit", labels,
                             registry=self.registry)
        self._refusals = Counter("extproc_limit_refusals", "Requests refused by a limit", labels,
                                 registry=self.registry)
        # A process that died has left its files behind: the newest value counts.
        self._remaining = Gauge("extproc_limit_remaining", "Remaining amount of a limit at its last check",
                                labels, registry=self.registry, multiprocess_mode="livemostrecent")

    def limit_known(self, status: LimitStatus) -> None:
        """Starts the series of a limit in force, before its first request."""
        labels = _labels(status.key)
        self._hits.labels(*labels)
        self._refusals.labels(*labels)
        self._remaining.labels(*labels).set(status.remaining)

    def charged(self, charge: Charge, status: LimitStatus) -> None:
        if status.counted and not charge.refund:
            self._hits.labels(*_labels(status.key)).inc(charge.amount)
        self._remaining.labels(*_labels(status.key)).set(status.remaining)

    def refused(self, status: LimitStatus) -> None:
        self._refusals.labels(*_labels(status.key)).inc()


def _labels(key: LimitKey) -> tuple[str, str, str]:
    return key.team, key.rule, key.kind
