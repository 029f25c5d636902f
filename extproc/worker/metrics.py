"""The metrics of a worker: finished exchanges -> Prometheus metrics.

Names and labels follow the OpenTelemetry conventions for generative AI if these have one, in the spelling of their
Prometheus exporters (`gen_ai.client.token.usage` -> `gen_ai_client_token_usage`); the rest begins with `extproc_`.
`Metrics` is the interface for the streams. With PROMETHEUS_MULTIPROC_DIR in the environment every process writes its
figures to files there, which `metric_files` adds up for /metrics. Labels come from the configuration, never from
clients, so their number is bounded. All work is done once per exchange, none per event.
"""

from __future__ import annotations

import math
from collections import Counter as Counts
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from extproc.ext_proc.record import Record
from extproc.process.output import lines_dropped
from extproc.schemas.cache import SHARED_CACHE, CacheFigures, SchemaCache
from extproc.worker.labels import CappedLabel, dropped_name

LABELS = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "gen_ai_response_model", "team",
          "backend", "client_api", "provider_api")
"""The labels of every metric about an exchange with a provider. The request's model is the `match` of the rule, the
response's the attempt's `model`, both as configured."""

# The boundaries that the conventions advise. Durations continue beyond them, since long responses take minutes.
_TOKENS = tuple(4 ** power for power in range(14))
_DURATION = (*(0.01 * 2 ** power for power in range(14)), 163.84, 327.68, 655.36)
_FIRST_TOKEN = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
_PER_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5)
_LAG = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

MOST_NAMES, MOST_TEAMS = 200, 1000
"""How many names of dropped features and reasons, and how many teams, a process distinguishes. In one-hop mode the
gateway in front names the team."""

_LONGEST_TEAM = 100
_CANCELLED = "client_closed"
_TOKEN_TYPES = ("input", "output")
_HOPS = ("select", "translate", "onehop")
_RETRIED = "retried"
"""The outcome of an attempt whose failure the client did not see."""

T = TypeVar("T")


class Metrics(Protocol):
    """Receives the worker's lifecycle and configuration, every stream, and the event loop's delays."""

    def started(self) -> None: ...
    def configured(self, generation: int) -> None: ...
    def leaving(self) -> None: ...
    def began(self, hop: str) -> None: ...
    def finished(self, record: Record) -> None: ...
    def lagged(self, seconds: float, worst: float) -> None: ...


class PrometheusMetrics:
    """One instance per process."""

    def __init__(self, registry: CollectorRegistry | None = None, schemas: SchemaCache = SHARED_CACHE) -> None:
        self.registry = registry or CollectorRegistry()
        self._schemas = schemas
        self._schemas_counted = CacheFigures(0, 0, 0)
        self._children: dict[Hashable, Any] = {}
        self._running: Counts[str] = Counts()
        self._shown: dict[str, int] = {}
        """Streams by hop, as the gauge shows them."""
        self._series: dict[tuple[str, ...], _Series] = {}
        self._dropped_name, self._reason, self._team = (
            CappedLabel(MOST_NAMES), CappedLabel(MOST_NAMES), CappedLabel(MOST_TEAMS))

        histogram, counter, gauge = self._histogram, self._counter, self._gauge
        self.tokens = histogram(
            "gen_ai_client_token_usage", "Input and output tokens of an attempt",
            (*LABELS, "gen_ai_token_type"), _TOKENS)
        self.duration = histogram(
            "gen_ai_client_operation_duration_seconds",
            "Duration of an attempt; error_type is empty if it succeeded", (*LABELS, "error_type"), _DURATION)
        self.first_token = histogram(
            "gen_ai_server_time_to_first_token_seconds", "Time to the first token of a streamed response",
            LABELS, _FIRST_TOKEN)
        self.per_token = histogram(
            "gen_ai_server_time_per_output_token_seconds", "Time per token after the first one of a streamed response",
            LABELS, _PER_TOKEN)
        usage = "gen_ai_client_inference_usage_"
        self.cached = counter(usage + "cache_read_input_tokens", "Input tokens read from a cache", LABELS)
        self.cache_write = counter(usage + "cache_write_input_tokens", "Input tokens written to a cache", LABELS)
        self.reasoning = counter(usage + "reasoning_output_tokens", "Reasoning tokens of the output", LABELS)
        self.estimated = counter("extproc_estimated_tokens", "Tokens that no provider reported, estimated by size",
                                 (*LABELS, "gen_ai_token_type"))
        self.requests = counter(
            "extproc_requests", "Attempts, and requests that ended at the edge without one (hop: select)",
            (*LABELS, "hop", "outcome", "status", "attempt"))
        self.refusals = counter("extproc_refusals", "Requests that the processor itself refused or failed",
                                ("hop", "reason", "status", "team", "client_api"))
        self.failovers = counter("extproc_failovers", "Failed attempts that were followed by another one",
                                 (*LABELS, "reason"))
        self.calls = counter("extproc_tool_calls", "Tool calls of models, by dialect (or native)",
                             (*LABELS, "dialect"))
        self.calls_repaired = counter("extproc_tool_calls_repaired",
                                      "Tool calls that were repaired", (*LABELS, "dialect"))
        self.calls_unexpected = counter("extproc_tool_calls_unexpected",
                                        "Native tool calls by models whose tools were written into the prompt", LABELS)
        self.calls_failed = counter("extproc_tool_calls_failed",
                                    "Tool calls that cannot be run: unreadable, not offered, or refused",
                                    (*LABELS, "dialect", "reason"))
        self.repairs = counter("extproc_tool_call_repairs", "Repairs of tool calls, by the defect",
                               (*LABELS, "reason"))
        self.dropped = counter(
            "extproc_dropped", "Exchanges that lost a feature of the request (kind: loss) or ignored a hint",
            (*LABELS, "name", "kind"))
        self.streams = gauge("extproc_streams",
                             "ext_proc streams in progress: requests at the edge, attempts at providers", "livesum",
                             ["hop"])
        self.lag = histogram("extproc_event_loop_lag_seconds", "Delay of a worker's event loop", (), _LAG)
        self.worst_lag = gauge("extproc_event_loop_lag_max_seconds", "Longest delay of an event loop in the last "
                               "30 seconds", "livemax")
        self.workers = gauge("extproc_workers", "Running worker processes", "livesum")
        self.starts = counter("extproc_worker_starts", "Starts of worker processes", ())
        self.generation = gauge("extproc_config_generation", "Number of the configuration that new requests get: the "
                                "lowest of all workers", "livemin")
        self.newest_generation = gauge("extproc_config_generation_newest", "Number of the configuration that new "
                                       "requests get: the highest of all workers", "livemax")
        self._takes_requests = True
        self._show_generation(None)
        self.lines_dropped = counter("extproc_log_lines_dropped", "Lines of the log or of standard error that could "
                                     "not be written", ())
        self._dropped_counted = 0
        self.schema_hits = counter("extproc_schema_cache_hits", "Tool schemas found in the cache", ())
        self.schema_misses = counter("extproc_schema_cache_misses", "Tool schemas that the cache did not have", ())
        self.schema_entries = gauge("extproc_schema_cache_entries", "Rewritten tool schemas in the cache", "livesum")

    def started(self) -> None:
        """The worker serves."""
        self.workers.set(1)
        self.starts.inc()
        for hop in _HOPS:
            self._show_running(hop)

    def configured(self, generation: int) -> None:
        """New requests get this configuration."""
        if self._takes_requests:
            self._show_generation(generation)

    def leaving(self) -> None:
        """The worker accepts no new requests any more. The configuration of the remaining ones does not matter."""
        self._takes_requests = False
        self._show_generation(None)

    def _show_generation(self, number: int | None) -> None:
        """None changes neither the minimum nor the maximum of all workers."""
        self.generation.set(math.inf if number is None else number)
        self.newest_generation.set(number or 0)

    def began(self, hop: str) -> None:
        self._running[hop] += 1  # shown with the next lag measurement, or when a stream ends

    def lagged(self, seconds: float, worst: float) -> None:
        """The event loop was late by `seconds`; `worst`: the maximum of the last window."""
        self.lag.observe(seconds)
        self.worst_lag.set(worst)
        for hop in self._running:
            self._show_running(hop)
        if (dropped := lines_dropped()) != self._dropped_counted:
            self.lines_dropped.inc(dropped - self._dropped_counted)
            self._dropped_counted = dropped

    def _show_running(self, hop: str) -> None:
        running = self._running[hop]
        if self._shown.get(hop) != running:
            self._shown[hop] = running
            self._child(("streams", hop), lambda: self.streams.labels(hop)).set(running)

    def finished(self, record: Record) -> None:
        self._running[record.hop] -= 1
        self._show_running(record.hop)
        if record.hop == "select" and record.reason is None and record.outcome == "ok":
            return  # the backend hop counts routed requests
        key = (record.operation or "", record.provider or "", record.rule or "", record.model_setting or "",
               self._team((record.team or "")[:_LONGEST_TEAM]), record.backend or "", record.api,
               record.provider_api or "")
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _Series(self, key)
        status = str(record.status or 0)
        outcome = _RETRIED if record.retried else record.outcome or ""
        series.child(self.requests, record.hop, outcome, status, str(record.attempt or 0)).inc()
        if record.reason is not None and record.outcome == "error" and (record.status or 0) >= 400:
            refusal = (record.hop, self._reason(record.reason), status, key[4], record.api)
            self._child(("refusals", *refusal), lambda: self.refusals.labels(*refusal)).inc()
        if record.attempt is not None:
            self._attempted(record, series)
        self._count_schemas()

    def _attempted(self, record: Record, series: _Series) -> None:
        ok = record.outcome == "ok"
        whole = record.ms_response if record.ms_response is not None else record.ms
        series.begin()
        if whole is not None:
            error = "" if ok else record.failure or (_CANCELLED if record.outcome == _CANCELLED else "other")
            series.child(self.duration, error).observe(whole / 1000)
        usage, first = record.usage, record.ms_first_token
        if usage is not None:
            series.count_tokens(usage.input, usage.output, guessed=usage.estimated)
            for counter, count in ((self.cached, usage.cached), (self.cache_write, usage.cache_write),
                                   (self.reasoning, usage.reasoning)):
                if count:
                    series.child(counter).inc(count)
        if ok and record.stream and first is not None:
            series.child(self.first_token).observe(first / 1000)
            if whole is not None and usage is not None and usage.output > 1 and not usage.estimated:
                series.child(self.per_token).observe((whole - first) / 1000 / (usage.output - 1))
        if record.retried:
            series.child(self.failovers, self._reason(record.reason or record.failure or "other")).inc()
        if record.calls or record.repairs or record.dropped or record.hints:
            self._count_tool_calls_and_losses(record, series)

    def _count_tool_calls_and_losses(self, record: Record, series: _Series) -> None:
        for dialect, counts in record.calls.items():
            series.child(self.calls, dialect).inc(counts.total)
            series.child(self.calls_repaired, dialect).inc(counts.repaired)
            series.child(self.calls_unexpected).inc(counts.unexpected)
            for reason in ("unreadable", "unoffered", "refused"):
                series.child(self.calls_failed, dialect, reason).inc(getattr(counts, reason))
        for repair in record.repairs:
            series.child(self.repairs, self._reason(repair.reason)).inc()
        for kind, names in (("loss", record.dropped), ("hint", record.hints)):
            for name in {self._dropped_name(dropped_name(name)) for name in names}:
                series.child(self.dropped, name, kind).inc()

    def _count_schemas(self) -> None:
        """Adds what the schema cache has counted since the last time: the files of several processes are added up, so
        the cache itself cannot be asked when /metrics is read."""
        now, before = self._schemas.figures, self._schemas_counted
        if now != before:
            self._schemas_counted = now
            self.schema_hits.inc(now.hits - before.hits)
            self.schema_misses.inc(now.misses - before.misses)
            self.schema_entries.set(now.entries)

    # --------------------------------------------------------------------------------------------------------- metrics

    def _histogram(self, name: str, text: str, labels: tuple[str, ...], buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

    def _counter(self, name: str, text: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, mode: Any, labels: list[str] | None = None) -> Gauge:
        return Gauge(name, text, labels or [], multiprocess_mode=mode, registry=self.registry)

    def _child(self, key: Hashable, make: Callable[[], T]) -> T:
        """A metric with its labels, looked up once."""
        found: T | None = self._children.get(key)
        if found is None:
            found = self._children[key] = make()
        return found


class _Series:
    """The metrics of one value of `LABELS`, each looked up once."""

    def __init__(self, metrics: PrometheusMetrics, key: tuple[str, ...]) -> None:
        self._key = key
        self._children: dict[Hashable, Any] = {}
        self._metrics = metrics
        self._has_begun = False

    def begin(self) -> None:
        """Starts rare counters at 0 with the first attempt: Prometheus sees no increase in a series that begins with
        its first increment, and shows nothing without a series."""
        if self._has_begun:
            return
        self._has_begun = True
        for counter in (self._metrics.cached, self._metrics.cache_write, self._metrics.reasoning):
            self.child(counter)
        for kind in _TOKEN_TYPES:
            self.child(self._metrics.estimated, kind)

    def child(self, metric: T, *more: str) -> T:
        """The metric with this series' labels and its own."""
        found: T | None = self._children.get((metric, more))
        if found is None:
            found = self._children[metric, more] = metric.labels(*self._key, *more)  # type: ignore[attr-defined]
        return found

    def count_tokens(self, *counts: int, guessed: bool) -> None:
        """Tokens of the input and of the output."""
        for kind, count in zip(_TOKEN_TYPES, counts, strict=True):
            if count:
                self.child(self._metrics.tokens, kind).observe(count)
                if guessed:
                    self.child(self._metrics.estimated, kind).inc(count)
