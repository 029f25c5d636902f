"""What a worker counts: finished exchanges -> Prometheus metrics.

`Metrics` is the interface the streams know. With PROMETHEUS_MULTIPROC_DIR in the environment every process writes its
figures into files there, and whoever serves /metrics adds them up; labels come from the configuration only, never from
what a client sends, so their number is bounded.
"""

from __future__ import annotations

from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from extproc.exchange.record import Record
from extproc.schema_cache import SHARED, Figures, SchemaCache

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Metrics(Protocol):
    """Told of every stream."""

    def began(self, hop: str) -> None: ...
    def finished(self, record: Record) -> None: ...


class PrometheusMetrics:
    """One instance per process."""

    def __init__(self, registry: CollectorRegistry | None = None, schemas: SchemaCache = SHARED) -> None:
        self.registry = registry or CollectorRegistry()
        self._schemas = schemas
        self._schemas_told = Figures(0, 0, 0)
        of = {"registry": self.registry}
        self._active = Gauge("extproc_streams", "ext_proc streams in progress", ["hop"],
                             multiprocess_mode="livesum", **of)  # type: ignore[arg-type]
        self._requests = Counter("extproc_requests", "Finished exchanges",
                                 ["hop", "rule", "backend", "team", "outcome", "status"], **of)  # type: ignore[arg-type]
        self._tokens = Counter("extproc_tokens", "Tokens as the providers report them",
                               ["rule", "backend", "team", "kind"], **of)  # type: ignore[arg-type]
        self._seconds = Histogram("extproc_request_seconds", "Duration of exchanges with a provider",
                                  ["backend"], buckets=_SECONDS, **of)  # type: ignore[arg-type]
        self._first = Histogram("extproc_first_token_seconds", "Time until the first bytes of an answer",
                                ["backend"], buckets=_SECONDS, **of)  # type: ignore[arg-type]
        self._calls = Counter("extproc_tool_calls", "Tool calls of answers: all, written as text, of unknown tools",
                              ["rule", "backend", "kind"], **of)  # type: ignore[arg-type]
        self._repairs = Counter("extproc_repairs", "Repairs of damaged tool call arguments",
                                ["backend", "what"], **of)  # type: ignore[arg-type]
        self._dropped = Counter("extproc_dropped", "Requests of which something could not be carried",
                                ["backend"], **of)  # type: ignore[arg-type]
        self._schema_hits = Counter("extproc_schema_cache_hits", "Tool schemas found rewritten already",
                                    **of)  # type: ignore[arg-type]
        self._schema_misses = Counter("extproc_schema_cache_misses", "Tool schemas that had to be rewritten",
                                      **of)  # type: ignore[arg-type]
        self._schema_entries = Gauge("extproc_schema_cache_entries", "Rewritten tool schemas kept",
                                     multiprocess_mode="livesum", **of)  # type: ignore[arg-type]

    def began(self, hop: str) -> None:
        self._active.labels(hop).inc()

    def finished(self, record: Record) -> None:
        self._active.labels(record.hop).dec()
        if record.hop == "select" and record.reason is None:
            return  # The backend hop counts what was routed.
        self._tell_schemas()
        rule, backend, team = record.rule or "", record.backend or "", record.team or ""
        self._requests.labels(record.hop, rule, backend, team, record.outcome or "", str(record.status or 0)).inc()
        if record.usage is not None:
            for kind in ("input", "output", "cached", "reasoning"):
                if count := getattr(record.usage, kind):
                    self._tokens.labels(rule, backend, team, kind).inc(count)
        for kind, count in (("all", record.tool_calls or 0), ("text", record.text_calls),
                            ("unoffered", record.unoffered_calls)):
            if count:
                self._calls.labels(rule, backend, kind).inc(count)
        for repair in record.repairs:
            self._repairs.labels(backend, repair.reason).inc()
        if record.dropped:
            self._dropped.labels(backend).inc()
        if record.attempt is not None:
            if record.ms is not None:
                self._seconds.labels(backend).observe(record.ms / 1000)
            if record.ms_first_token is not None:
                self._first.labels(backend).observe(record.ms_first_token / 1000)

    def _tell_schemas(self) -> None:
        """What the cache of schemas counted since the last time: files of several processes are added up, so nobody
        can ask the cache itself when /metrics is read."""
        now, told = self._schemas.figures, self._schemas_told
        if now != told:
            self._schemas_told = now
            self._schema_hits.inc(now.hits - told.hits)
            self._schema_misses.inc(now.misses - told.misses)
            self._schema_entries.set(now.entries)
