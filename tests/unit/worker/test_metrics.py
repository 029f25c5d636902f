"""Finished exchanges become metrics with the names of the OpenTelemetry conventions and labels of the configuration."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import extproc
from extproc.conversation.call_counts import CallCounts
from extproc.conversation.model import Usage
from extproc.dialects.call_writer import Repair
from extproc.ext_proc.record import Record
from extproc.worker import metrics as module
from extproc.worker.labels import DROPPED_NAME_WORDS, OTHER, CappedLabel, dropped_name
from extproc.worker.metrics import LABELS, PrometheusMetrics

SOURCE = Path(extproc.__file__).parent

# opentelemetry semantic conventions, gen-ai-metrics.md: ExplicitBucketBoundaries
TOKENS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
DURATION = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
FIRST = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0]
PER_TOKEN = [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5]

WHERE = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "openrouter", "gen_ai_request_model": "claude-*",
         "gen_ai_response_model": "*", "team": "red", "backend": "router", "client_api": "anthropic",
         "provider_api": "openai"}


def record(**changes: Any) -> Record:
    """A streamed response of 21 tokens: the first after 1 s, the last after 3 s."""
    fields: dict[str, Any] = {
        "hop": "translate", "api": "anthropic", "team": "red", "operation": "chat", "rule": "claude-*",
        "model": "claude-and-whatever-a-client-writes", "provider_model": "claude-and-whatever-a-client-writes",
        "model_setting": "*", "backend": "router", "provider": "openrouter", "provider_api": "openai", "attempt": 1,
        "stream": True, "status": 200, "outcome": "ok", "finish": "stop", "ms_head": 900.0, "ms_first_token": 1000.0,
        "ms_response": 3000.0, "ms": 3900.0,
        "usage": Usage(input=100, output=21, cached=80, cache_write=5, reasoning=7)}
    return Record(**{**fields, **changes})


class Told:
    """The values of /metrics."""

    def __init__(self, *records: Record) -> None:
        self.metrics = PrometheusMetrics(CollectorRegistry())
        for one in records:
            self.metrics.began(one.hop)
            self.metrics.finished(one)
        self.samples = [sample for family in text_string_to_metric_families(
            generate_latest(self.metrics.registry).decode()) for sample in family.samples]

    def __call__(self, name: str, /, **labels: str) -> float:
        """The sum of the samples with this name and these labels."""
        return sum(sample.value for sample in self.samples
                   if sample.name == name and labels.items() <= sample.labels.items())

    def values(self, name: str, label: str) -> set[str]:
        return {sample.labels[label] for sample in self.samples if sample.name == name}

    def bounds(self, name: str) -> list[float]:
        return [float(sample.labels["le"]) for sample in self.samples
                if sample.name == f"{name}_bucket" and sample.labels["le"] != "+Inf"]


def test_one_exchange_by_the_names_of_the_conventions() -> None:
    told = Told(record())
    usage = "gen_ai_client_inference_usage_"
    assert told("gen_ai_client_token_usage_sum", gen_ai_token_type="input", **WHERE) == 100
    assert told("gen_ai_client_token_usage_sum", gen_ai_token_type="output", **WHERE) == 21
    assert told("gen_ai_client_token_usage_count", **WHERE) == 2
    assert told(f"{usage}cache_read_input_tokens_total", **WHERE) == 80
    assert told(f"{usage}cache_write_input_tokens_total", **WHERE) == 5
    assert told(f"{usage}reasoning_output_tokens_total", **WHERE) == 7
    assert told("gen_ai_client_operation_duration_seconds_sum", error_type="", **WHERE) == 3.0
    assert told("gen_ai_server_time_to_first_token_seconds_sum", **WHERE) == 1.0
    assert told("gen_ai_server_time_per_output_token_seconds_sum", **WHERE) == pytest.approx(2.0 / 20)
    assert told("extproc_requests_total", hop="translate", outcome="ok", status="200", attempt="1", **WHERE) == 1
    assert told("extproc_streams", hop="translate") == 0


def test_a_sum_over_all_types_counts_every_token_once() -> None:
    told = Told(record())
    assert told("gen_ai_client_token_usage_sum") == 121
    assert told.values("gen_ai_client_token_usage_sum", "gen_ai_token_type") == {"input", "output"}


@pytest.mark.parametrize(("name", "advised"), [
    ("gen_ai_client_token_usage", TOKENS), ("gen_ai_client_operation_duration_seconds", DURATION),
    ("gen_ai_server_time_to_first_token_seconds", FIRST), ("gen_ai_server_time_per_output_token_seconds", PER_TOKEN)])
def test_buckets_are_the_advised_ones_and_longer_times(name: str, advised: list[float]) -> None:
    found = sorted(set(Told(record()).bounds(name)))
    assert found[:len(advised)] == pytest.approx(advised)
    assert found == sorted(found)


def test_no_name_that_a_client_chose_is_a_label() -> None:
    told = Told(record(), record(hop="select", attempt=None, rule=None, model_setting=None, backend=None, status=404,
                                 outcome="error", reason="unknown_model"),
                record(dropped=["messages.my_own_field", "another"], hints=["tools.x-secret.y", "cache_control"]))
    labels = " ".join(value for sample in told.samples for value in sample.labels.values())
    for word in ("whatever", "my_own_field", "another", "secret"):
        assert word not in labels
    assert told.values("extproc_dropped_total", "name") == {"messages.other", "other", "tools.other.other",
                                                            "cache_control"}


def test_losses_and_hints_are_counted_separately_once_per_exchange() -> None:
    told = Told(record(dropped=["tools.web_search_20250305", "top_k", "one", "two"], hints=["user"]))
    assert told("extproc_dropped_total", kind="loss", name="tools.web_search", **WHERE) == 1
    assert told("extproc_dropped_total", kind="loss", name="other") == 1
    assert told("extproc_dropped_total", kind="hint") == 1


def test_times_of_the_server_are_those_of_streams_that_succeeded() -> None:
    names = ("gen_ai_server_time_to_first_token_seconds_count", "gen_ai_server_time_per_output_token_seconds_count")
    for other in (record(stream=False), record(outcome="client_closed"),
                  record(outcome="provider_error", failure="server")):
        assert [Told(other)(name) for name in names] == [0, 0]
    for usage in (None, Usage(input=5, output=1), Usage(input=5, output=9, estimated=True)):
        assert [Told(record(usage=usage))(name) for name in names] == [1, 0], "nothing to divide by"


@pytest.mark.parametrize(("changes", "error"), [
    ({}, ""), ({"outcome": "provider_error", "failure": "rate_limit", "status": 429}, "rate_limit"),
    ({"outcome": "client_closed"}, "client_closed"), ({"outcome": "error", "failure": "server"}, "server")])
def test_the_duration_has_the_error_type(changes: dict[str, Any], error: str) -> None:
    told = Told(record(**changes))
    assert told("gen_ai_client_operation_duration_seconds_count", error_type=error, **WHERE) == 1
    assert told("gen_ai_client_operation_duration_seconds_count") == 1


def test_estimated_tokens_are_counted_and_marked() -> None:
    told = Told(record(usage=Usage(input=40, output=4, estimated=True)), record())
    assert told("gen_ai_client_token_usage_sum") == 121 + 44
    assert told("extproc_estimated_tokens_total", gen_ai_token_type="input", **WHERE) == 40
    assert told("extproc_estimated_tokens_total") == 44


def test_tool_calls_by_dialect() -> None:
    told = Told(record(calls={"native": CallCounts(total=3, unoffered=1, repaired=1),
                              "hermes": CallCounts(total=2, unreadable=1, refused=1)},
                       repairs=[Repair("read", "$", "code_fence"), Repair("read", "$.a", "code_fence")]))
    assert told("extproc_tool_calls_total", dialect="native", **WHERE) == 3
    assert told("extproc_tool_calls_total") == 5
    assert told("extproc_tool_calls_repaired_total", dialect="native") == 1
    failed = {(dialect, reason): told("extproc_tool_calls_failed_total", dialect=dialect, reason=reason)
              for dialect in ("native", "hermes") for reason in ("unreadable", "unoffered", "refused")}
    assert {key for key, value in failed.items() if value} == {
        ("native", "unoffered"), ("hermes", "unreadable"), ("hermes", "refused")}
    assert told("extproc_tool_call_repairs_total", reason="code_fence", **WHERE) == 2


def test_counters_begin_at_zero_with_the_first_attempt_and_the_first_call() -> None:
    """The first event is an increase then, and a panel shows 0 in place of nothing."""
    told = Told(record(usage=None, calls={"native": CallCounts(total=1)}))
    zero = {(sample.name, sample.labels.get("reason") or sample.labels.get("gen_ai_token_type", ""))
            for sample in told.samples if WHERE.items() <= sample.labels.items() and not sample.value
            and sample.name.endswith("_total")}
    usage = "gen_ai_client_inference_usage_"
    assert zero == {
        *((f"{usage}{name}_total", "") for name in ("cache_read_input_tokens", "cache_write_input_tokens",
                                                    "reasoning_output_tokens")),
        *(("extproc_estimated_tokens_total", kind) for kind in ("input", "output")),
        ("extproc_tool_calls_repaired_total", ""), ("extproc_tool_calls_unexpected_total", ""),
        *(("extproc_tool_calls_failed_total", reason) for reason in ("unreadable", "unoffered", "refused"))}


def test_refusals_by_reason_at_either_hop() -> None:
    told = Told(record(hop="select", attempt=None, outcome="error", status=413, reason="too_large"),
                record(outcome="error", status=400, reason="invalid_request", failure="invalid_request"),
                record(hop="select", attempt=None, outcome="ok", status=200, reason="models"),
                record(outcome="provider_error", status=504, reason="first_token_timeout"))
    assert told("extproc_refusals_total", hop="select", reason="too_large", status="413", team="red") == 1
    assert told("extproc_refusals_total", hop="translate", reason="invalid_request", status="400") == 1
    assert told("extproc_refusals_total") == 2, "a greeting is no refusal, a provider's failure neither"


def test_routed_requests_are_counted_at_the_backend_hop() -> None:
    assert Told(record(hop="select", attempt=None))("extproc_requests_total") == 0
    left = record(hop="select", attempt=None, outcome="client_closed", status=None)
    assert Told(left)("extproc_requests_total", outcome="client_closed", status="0", attempt="0") == 1


def test_failovers_name_the_backend_and_the_reason() -> None:
    told = Told(record(outcome="provider_error", status=429, failure="rate_limit", retried=True),
                record(outcome="provider_error", status=504, failure="timeout", reason="first_token_timeout",
                       retried=True),
                record(attempt=3))
    assert told("extproc_failovers_total", reason="rate_limit", **WHERE) == 1
    assert told("extproc_failovers_total", reason="first_token_timeout") == 1
    assert told("extproc_failovers_total") == 2
    assert told("extproc_requests_total", outcome="retried") == 2, "no client saw these fail"
    assert told("extproc_requests_total", outcome="provider_error") == 0
    assert told("extproc_requests_total", attempt="3") == 1


def test_a_worker_that_serves_and_its_delays() -> None:
    metrics = PrometheusMetrics(CollectorRegistry())
    metrics.started()
    metrics.lagged(0.03, 0.5)
    text = generate_latest(metrics.registry).decode()
    for line in ("extproc_workers 1.0", "extproc_worker_starts_total 1.0", "extproc_event_loop_lag_seconds_count 1.0",
                 "extproc_event_loop_lag_max_seconds 0.5", 'extproc_streams{hop="select"} 0.0',
                 'extproc_streams{hop="translate"} 0.0'):
        assert f"\n{line}\n" in text


# ------------------------------------------------------------------------------------------------------- bounded labels


def test_a_client_cannot_create_unbounded_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_TEAMS", 5)
    records = [record(dropped=[f"field_{number}", f"messages.{word}"])
               for number, word in enumerate(sorted(DROPPED_NAME_WORDS))]
    told = Told(*records, *(record(team=f"team-{number}") for number in range(10)))
    assert len(told.values("extproc_dropped_total", "name")) <= module.MOST_NAMES + 1 < len(DROPPED_NAME_WORDS)
    assert len(told.values("extproc_requests_total", "team")) == 6


def test_a_cap_keeps_the_first_values() -> None:
    capped = CappedLabel(2)
    assert [capped(value) for value in ("a", "b", "c", "a", "b")] == ["a", "b", OTHER, "a", "b"]


@pytest.mark.parametrize(("name", "label"), [
    ("top_k", "top_k"), ("tools.web_search_20250305", "tools.web_search"), ("messages[3].name", "messages.name"),
    ("client_metadata", "client_metadata"), ("input.item_reference", "input.item_reference"),
    ("metadata.my_key", "metadata.other"), ("a.b.c.d.e.f", "other.other.other.other"),
    ("...", "other.other.other.other"),
    ("thinking.type.weird", "thinking.type.other")])
def test_names_of_dropped_features_as_labels(name: str, label: str) -> None:
    assert dropped_name(name) == label


def names_in_the_code() -> Iterator[tuple[str, str]]:
    """Every text, and every fixed part of one, that code gives to `loss` or `hint`."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args \
                    and node.func.attr in ("loss", "hint"):
                name = node.args[0]
                for part in name.values if isinstance(name, ast.JoinedStr) else [name]:
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield path.name, part.value


def test_every_name_that_the_code_drops_is_known() -> None:
    found = list(names_in_the_code())
    assert len(found) > 50
    unknown = {(file, word) for file, name in found for word in name.split(".")
               if word and word not in DROPPED_NAME_WORDS}
    assert not unknown, "extproc/worker/labels.py does not know these"


def test_labels_are_the_conventions() -> None:
    """gen_ai.* attributes with dots as underscores; the rest is the gateway's own."""
    assert set(LABELS) == set(WHERE)
