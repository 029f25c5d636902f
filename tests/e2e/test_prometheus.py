"""Every documented metric and every shipped alert on a real Prometheus that reads a running gateway.

The tests cause what each of them reports. Metrics are those of docs/metrics.md, alerts those of alerts.yml: a new
one needs its cause here (`everything_happens`, `PROVOCATIONS`). The tests share one gateway and run in the order of
this file: first nothing happens, then all metrics are caused, then all alerts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from extproc.gateway.workers import ACCEPTED
from extproc.worker.generations import Accepted
from extproc.worker.metrics import LABELS
from extproc.worker.worker import LAG_INTERVAL
from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, ROOT, Gateway, configuration, descendants
from tests.e2e.prometheus_server import Prometheus, needs_prometheus
from tests.e2e.wire import ANTHROPIC, payload, post, request, stream
from tests.providers.http import Gate, Reply
from tests.providers.openai import OpenAIProvider, Seen, calls, openai_error, status, text
from tests.providers.openai import stream as deltas
from tests.unit.deploy.test_alerts import PATH as ALERTS
from tests.unit.deploy.test_alerts import rules

pytestmark = needs_prometheus

LIMITED_KEY = "sk-limited"
TOOLS = [{"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
         "prompt_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 10},
         "completion_tokens_details": {"reasoning_tokens": 5}}
WORKER, COUNTER = "extproc.worker.worker_process", "limits"
AFTER_AN_EVENT = {"extproc_refusals_total"}
"""Metrics without the labels of exchanges that have a series only after their event: their labels' values are not known
before."""

Again = Callable[[], object]
"""Makes it happen once more: rates need more than one event."""


def documented() -> dict[str, tuple[str, set[str]]]:
    """The table of metrics in docs/metrics.md: name -> (type, labels)."""
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    table = page.split("<!-- table: metrics -->")[1].split("<!-- end -->")[0]
    found = {name: (kind, set(re.findall(r"`(\w+)`", labels)) | (set(LABELS) if "..." in labels else set()))
             for name, kind, labels in re.findall(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", table, re.M)}
    assert found
    return found


def series_of(name: str, kind: str) -> str:
    """The series that tells whether there is anything: a histogram's is its number of observations."""
    return f"{name}_count" if kind == "histogram" else name


class Observed:
    """A gateway under observation. The provider answers by the model's name (`_answer`)."""

    def __init__(self, gateway: Gateway, prometheus: Prometheus) -> None:
        self.gateway = gateway
        self.prometheus = prometheus
        self.gate = Gate()
        """Holds the answers of the model `held`."""

    def ask(self, model: str, key: str = CLIENT_KEY, **fields: Any) -> int:
        return post(self.gateway.base_url, payload(model, **fields), headers={**ANTHROPIC, "x-api-key": key}).status

    def answer(self, seen: Seen) -> Reply:
        answers: dict[str, Any] = {
            "plain": text("Hello there.", usage=USAGE), "guessed": text("Hello.", usage=None),
            "broken": status(500, openai_error("It broke.", kind="server_error")),
            "keyless": status(401, openai_error("Incorrect API key provided.", code="invalid_api_key")),
            "calls": calls(("call_1", "weather", '```json\n{"city": "Brest"}\n```'), usage=USAGE),
            "bad-calls": calls(("call_1", "stock_price", {"symbol": "X"})),
            "held": deltas([{"role": "assistant", "content": "Hel"}, self.gate, {"content": "lo."}])}
        found = answers[seen.body["model"]]
        return found if isinstance(found, Reply) else found(seen)

    def figure(self, name: str) -> float:
        """A metric without labels, as /metrics says it now."""
        page = request(f"http://{self.gateway.admin}", "GET", "/metrics").body.decode()
        found = re.search(rf"^{name} (\S+)$", page, re.M)
        return float(found[1]) if found else -1

    def pids(self, argument: str) -> list[int]:
        """The gateway's processes whose command has this argument: `WORKER`, `COUNTER`."""
        found = []
        for pid in descendants(self.gateway.process.pid):
            with suppress(OSError):
                arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                if argument in arguments and "--accepted" in arguments:
                    found.append(pid)
        return found

    def add_model(self, match: str) -> None:
        """Changes the configuration: a further model rule."""
        config = json.loads(self.gateway.config_file.read_text())
        config["models"].append({"match": match, "attempts": [{"backend": "plain", "model": "plain"}]})
        self.write(json.dumps(config))

    def write(self, content: str) -> None:
        """Replaces the configuration by rename, as editors do."""
        beside = self.gateway.config_file.with_suffix(".new")
        beside.write_text(content)
        beside.replace(self.gateway.config_file)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observed]:
    provider = OpenAIProvider(strict=False)
    provider.start()
    models = ("plain", "guessed", "broken", "keyless", "bad-calls", "held")
    config = configuration(
        provider.url,
        backends={name: {"api": "openai", "url": provider.url, "key": PROVIDER_KEY} for name in ("plain", "second")},
        models=[*({"match": name, "attempts": [{"backend": "plain", "model": name}]} for name in models),
                {"match": "calls", "attempts": [
                    {"backend": "plain", "model": "calls", "tools": {"arguments": "repair"}}]},
                {"match": "prompted", "attempts": [
                    {"backend": "plain", "model": "calls", "tools": {"style": "prompted"}}]},
                {"match": "failover", "attempts": [{"backend": "plain", "model": "broken"},
                                                   {"backend": "second", "model": "plain"}]}],
        teams={"test": {"key": CLIENT_KEY},
               "limited": {"key": LIMITED_KEY, "limits": {
                   "tokens_per_day": 150, "models": {"plain": {"requests_per_minute": 1000}}}}})
    directory = tmp_path_factory.mktemp("prometheus")
    gateway = Gateway(config, directory)
    prometheus = Prometheus(gateway.admin, ALERTS, directory)
    made = Observed(gateway, prometheus)
    provider.always(made.answer)
    yield made
    provider.stop()
    codes = [process.terminate() for process in (prometheus, gateway) if process.process.poll() is None]
    assert not any(codes), (codes, gateway.output)


# ------------------------------------------------------------------------------------------------------------- nothing
def test_series_begin_before_anything_happens(observed: Observed) -> None:
    """So a panel shows 0 and not "no data", and the first event is an increase."""
    observed.prometheus.until(lambda: observed.prometheus.ask("extproc_ready == 1"), "a scrape")
    expected = {name: series_of(name, kind) for name, (kind, labels) in documented().items()
                if not labels >= set(LABELS) and name not in AFTER_AN_EVENT}
    missing = [name for name, series in expected.items() if not observed.prometheus.ask(series)]
    assert not missing


def test_a_quiet_gateway_fires_no_alert(observed: Observed) -> None:
    prometheus = observed.prometheus
    # Some requests, and six seconds of evaluated rules: before the first scrape there is no gateway for Prometheus.
    prometheus.until(lambda: prometheus.ask('extproc_requests_total{outcome="ok"} > 5 '
                                            "and on () count_over_time(extproc_ready[10m]) >= 12"),
                     "traffic that was scraped", again=lambda: observed.ask("plain"))
    fired = {found["metric"]["alertname"] for found in prometheus.ask("count_over_time(ALERTS[4s])")}
    # On a busy machine these can be true.
    if prometheus.ask("extproc_event_loop_lag_max_seconds > 0.2"):
        fired.discard("ExtprocEventLoopLag")
    if prometheus.ask("min_over_time(up[6s]) == 0"):
        fired.discard("ExtprocGone")
    assert not fired


# ------------------------------------------------------------------------------------------------------------- metrics
def everything_happens(observed: Observed) -> None:
    """Whatever a metric tells of; whoever adds a metric provokes it here."""
    for body in ({"stream": False}, {"stream": True}):
        observed.ask("plain", top_k=3, **body)
        observed.ask("guessed", **body)
        observed.ask("calls", tools=TOOLS, **body)
        observed.ask("bad-calls", tools=TOOLS, **body)
        observed.ask("prompted", tools=TOOLS, **body)
        observed.ask("failover", **body)
    assert observed.ask("unknown-model") == 404
    while observed.ask("plain", key=LIMITED_KEY) != 429:
        pass
    with stream(observed.gateway.base_url, payload("held")) as answer:
        answer.until("content_block_delta")
        observed.prometheus.until(lambda: observed.prometheus.ask("extproc_streams > 0"), "a stream that runs")
        observed.gate.open()
        answer.read()
    observed.add_model("added")
    for alert, metric in (("ExtprocLimitsUnanswered", "extproc_limits_unanswered_total"),
                          ("ExtprocLogLinesDropped", "extproc_log_lines_dropped_total")):
        with PROVOCATIONS[alert](observed) as again:
            observed.prometheus.until(lambda name=metric: observed.prometheus.ask(f"{name} > 0"), metric, again)


def test_every_documented_metric_has_a_series_with_a_value(observed: Observed) -> None:
    metrics = documented()
    everything_happens(observed)

    def without_value() -> list[str]:
        return [name for name, (kind, _) in metrics.items()
                if not observed.prometheus.ask(f"max_over_time({series_of(name, kind)}[10m]) > 0")]

    try:
        observed.prometheus.until(lambda: not without_value(), "every metric has a value")
    except AssertionError:
        pytest.fail(f"no series above 0 of {without_value()}: `everything_happens` provokes it, or /metrics lacks it")
    for name, (kind, labels) in metrics.items():
        found = {label for series in observed.prometheus.series(series_of(name, kind))
                 for label, value in series.items() if value}
        assert labels <= found, f"{name}: the documented labels {labels - found} have no value on any series"


# -------------------------------------------------------------------------------------------------------------- alerts
def traffic(model: str, **fields: Any) -> Callable[[Observed], AbstractContextManager[Again]]:
    """Requests for this model, again and again."""
    @contextmanager
    def provoke(observed: Observed) -> Iterator[Again]:
        yield lambda: observed.ask(model, **fields)
    return provoke


@contextmanager
def dying_workers(observed: Observed) -> Iterator[Again]:
    """All workers die whenever all are there; the gateway starts them again."""
    def kill() -> None:
        if observed.figure("extproc_workers") == 2:
            for pid in observed.pids(WORKER):
                os.kill(pid, signal.SIGKILL)
    yield kill


@contextmanager
def nobody_counts(observed: Observed) -> Iterator[Again]:
    """The process that counts limits dies; before it is there again, a limited team asks."""
    def ask() -> None:
        for pid in observed.pids(COUNTER):
            os.kill(pid, signal.SIGKILL)
        observed.ask("plain", key=LIMITED_KEY)
    yield ask


@contextmanager
def stalled_event_loop(observed: Observed) -> Iterator[Again]:
    """A worker stands still for longer than a look at the clock may be late."""
    pid = observed.pids(WORKER)[0]

    def stall() -> None:
        os.kill(pid, signal.SIGSTOP)
        threading.Event().wait(LAG_INTERVAL + 0.4)  # how long it is late
        os.kill(pid, signal.SIGCONT)
    yield stall


@contextmanager
def refused_file(observed: Observed) -> Iterator[Again]:
    before = observed.gateway.config_file.read_text()
    observed.write("models: 1\n")
    try:
        yield lambda: None
    finally:
        observed.write(before)
    observed.prometheus.until(lambda: observed.prometheus.ask("extproc_config_last_reload_successful == 1"),
                              "the file is in force again")


@contextmanager
def worker_that_hangs_in_a_reload(observed: Observed) -> Iterator[Again]:
    """Envoy is stopped, so that the reload waits for it when the workers know both configurations. Then one worker
    hangs while the other one takes the new one."""
    envoy, worker = observed.gateway.envoy_pids()[0], observed.pids(WORKER)[0]
    command = Path(f"/proc/{worker}/cmdline").read_text().split("\0")
    accepted = Path(command[command.index("--accepted") + 1])
    until = observed.prometheus.until
    until(lambda: len(Accepted.read(accepted)[0].known) == 1, "what was changed before is finished")
    os.kill(envoy, signal.SIGSTOP)
    try:
        observed.add_model("added-during-a-hang")
        until(lambda: b"added-during-a-hang" in accepted.read_bytes() and _all_know(accepted),
              "both workers know the new configuration")
        os.kill(worker, signal.SIGSTOP)
        os.kill(envoy, signal.SIGCONT)
        yield lambda: None
    finally:
        os.kill(envoy, signal.SIGCONT)
        os.kill(worker, signal.SIGCONT)
    until(lambda: observed.figure("extproc_config_generation") == observed.figure("extproc_config_generation_newest"),
          "both workers have the new configuration")


def _all_know(accepted: Path) -> bool:
    """Whether each worker has read this file, as the gateway itself asks them."""
    asked = health_pb2.HealthCheckRequest(service=ACCEPTED + Accepted.read(accepted)[1])
    found = []
    for socket in accepted.parent.glob("w*.sock"):
        with grpc.insecure_channel(f"unix:{socket}") as channel, suppress(grpc.RpcError):
            answer = health_pb2_grpc.HealthStub(channel).Check(asked, timeout=5)
            found.append(answer.status == health_pb2.HealthCheckResponse.SERVING)
    return found == [True, True]


@contextmanager
def output_without_reader(observed: Observed) -> Iterator[Again]:
    """Nobody reads the gateway's output from now on, so its log cannot be written."""
    output = observed.gateway.process.stdout
    assert output is not None
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), output.fileno())  # a thread may read: what it holds must not be closed
    yield lambda: observed.ask("plain")


@contextmanager
def gone(observed: Observed) -> Iterator[Again]:
    assert observed.gateway.terminate() == 0, observed.gateway.output
    yield lambda: None


PROVOCATIONS: dict[str, Callable[[Observed], AbstractContextManager[Again]]] = {
    "ExtprocErrors": traffic("broken"),
    "ExtprocProviderFails": traffic("broken"),
    "ExtprocProviderRefusesKey": traffic("keyless"),
    "ExtprocFailovers": traffic("failover"),
    "ExtprocToolCallsFail": traffic("bad-calls", tools=TOOLS),
    "ExtprocLimitsUnanswered": nobody_counts,
    "ExtprocLogLinesDropped": output_without_reader,
    "ExtprocEventLoopLag": stalled_event_loop,
    "ExtprocWorkersDisagree": worker_that_hangs_in_a_reload,
    "ExtprocReloadRefused": refused_file,
    "ExtprocWorkersRestart": dying_workers,
    "ExtprocNotReady": dying_workers,
    "ExtprocNoWorker": dying_workers,
    "ExtprocGone": gone,
}
"""What makes each alert fire, in the order of the tests. Deaths of workers come late: the gateway waits longer and
longer before it starts them again."""


def test_every_alert_is_provoked() -> None:
    missing = {rule["alert"] for rule in rules()} - PROVOCATIONS.keys()
    assert not missing, f"PROVOCATIONS says nothing about {missing}: add what makes a running gateway fire it"


@pytest.mark.parametrize("alert", [name for name in PROVOCATIONS if name in {rule["alert"] for rule in rules()}])
def test_an_alert_fires(alert: str, observed: Observed) -> None:
    found: dict[str, list[dict[str, Any]]] = {}

    def fires() -> bool:
        found.update(observed.prometheus.firing())
        return alert in found

    with PROVOCATIONS[alert](observed) as again:
        observed.prometheus.until(fires, f"{alert} fires", again)
    for sentence in found[alert][0]["annotations"].values():
        # A template that fails says <error ...>, a label that is not there "<no value>" or nothing.
        assert "<" not in sentence, sentence
        assert "  " not in f" {sentence} ", sentence
