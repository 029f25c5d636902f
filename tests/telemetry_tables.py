"""The tables of docs/metrics.md and docs/logs.md that come from the code: log fields and events, metrics, alerts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families

import extproc
from extproc.config.reference import field_docstrings
from extproc.ext_proc import record
from extproc.process.output import DROPPED
from extproc.worker.metrics import LABELS
from tests.unit.deploy.test_alerts import rules
from tests.unit.deploy.test_dashboard import metrics_text

_SOURCE = Path(extproc.__file__).parent
_LEVELS = ("debug", "info", "warning", "error")

ON_METRICS = {
    "hop": "hop", "api": "client_api", "team": "team", "operation": "gen_ai_operation_name",
    "rule": "gen_ai_request_model", "model_setting": "gen_ai_response_model", "backend": "backend",
    "provider": "gen_ai_provider_name", "provider_api": "provider_api", "attempt": "attempt", "status": "status",
    "outcome": "outcome", "reason": "reason", "failure": "error_type",
}
"""Fields of the log that are labels of the metrics."""

EVENTS: Mapping[str, str] = {
    "ready": "The gateway serves on this `url`, or its workers on these `addresses`.",
    "serving": "A worker listens and takes requests.",
    "configured": "A worker uses another configuration: its generation, and the number of running streams.",
    "handing_over": "A worker has a successor and finishes its streams.",
    "draining": "A worker was told to stop and will soon take no new streams.",
    "closed": "A worker no longer listens and finishes its streams.",
    "stopped": "A worker has ended.",
    "not_started": "A process could not listen on its address, with the reason.",
    "http2_connection": "A worker closed Envoy's connection, which violated HTTP/2.",
    "http2_stream": "A worker reset one stream of such a connection for the same reason.",
    "too_many_connections": "A worker refused connections, as it has 1024. Envoy needs a few.",
    "connection_crashed": "A fault of the processor ended a connection and all calls on it.",
    "call_crashed": "A fault of the processor ended a call; the client got an error.",
    "not_configured": "A worker could not read a new configuration and keeps the previous one.",
    "internal_error": "A fault of the gateway: the exception with its traceback, under the request's id.",
    "library": "A warning of a library.",
    "routed": "A request left the edge for an attempt.",
    DROPPED: "The log works again. The line has the number of missing lines (`lines`) and the reason.",
    "limits_ready": "The rate limit service listens and counts.",
    "limits_reloaded": "The rate limit service uses another configuration.",
    "limits_not_reloaded": "The rate limit service could not read a new configuration and keeps the previous one.",
    "counters_not_read": "The file of counters could not be read; all counters start at zero.",
    "counters_not_saved": "The file of counters could not be written.",
}
"""The meaning of each event except `exchange`."""


def log_record() -> str:
    """Every field of an exchange's line."""
    meanings = field_docstrings(record.Record)
    return _table(("field", "meaning", "label on `/metrics`"), (
        (f"`{field.encode_name}`", _one_line(meanings[field.name]),
         f"`{ON_METRICS[field.name]}`" if field.name in ON_METRICS else "")
        for field in msgspec.structs.fields(record.Record)))


def log_events() -> str:
    """Every other event, with its level."""
    seen = set(_events())
    missing = {event for _, event in seen} - EVENTS.keys()
    assert not missing, f"tests/telemetry_tables.py does not say what these events of the log mean: {missing}"
    found = sorted(seen, key=lambda one: (list(EVENTS).index(one[1]), one[0]))
    return _table(("event", "level", "meaning"), ((f"`{event}`", level, EVENTS[event]) for level, event in found))


def _events() -> Iterator[tuple[str, str]]:
    """Calls of `Log.write_event` with the texts of level and event; the log's own event is written by none."""
    yield "warning", DROPPED
    for path in _SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr in ("log", "_log") and node.args and isinstance(node.args[0], ast.Constant):
                yield "warning", node.args[0].value  # what the transport tells (`extproc.transport.servers`)
            if node.func.attr != "write_event":
                continue
            level, event = [one.value if isinstance(one, ast.Constant) else None for one in node.args[:2]]
            if isinstance(event, str):
                for one in [level] if level in _LEVELS else ("warning", "error"):
                    yield str(one), event


def metrics() -> str:
    """Every metric of /metrics with its labels; those that all figures of exchanges have are `...`."""
    rows = []
    for family in text_string_to_metric_families(metrics_text()):
        name = family.name + ("_total" if family.type == "counter" else "")
        if name.endswith("_created"):
            continue
        labels = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
        own = [f"`{label}`" for label in labels if label not in LABELS]
        shared = set(LABELS) <= set(labels)
        some = [] if shared else [f"`{label}`" for label in labels if label in LABELS]
        rows.append((f"`{name}`", family.type, ", ".join([*(["..."] if shared else some), *own]),
                     family.documentation))
    return _table(("metric", "type", "labels", "meaning"), rows)


def alerts() -> str:
    """Every rule of alerts.yml."""
    return _table(("alert", "severity", "after", "meaning"), (
        (f"`{rule['alert']}`", rule["labels"]["severity"], rule.get("for", "at once"),
         rule["annotations"]["description"].replace("{{ ", "`").replace(" }}", "`")) for rule in rules()))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _table(head: tuple[str, ...], rows: object) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
             for row in (head, *rows)]  # type: ignore[misc]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]]) + "\n"
