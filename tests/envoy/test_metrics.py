"""/metrics of a whole gateway: `extproc up`, real Envoy, real workers that are killed and replaced."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.gateway import Gateway, configuration, descendants
from tests.e2e.wire import payload, post, request, stream
from tests.providers.openai import OpenAIProvider, calls, openai_error, status, text
from tests.unit.deploy.test_alerts import rules
from tests.unit.deploy.test_dashboard import PATH as DASHBOARD
from tests.unit.deploy.test_dashboard import questions, selectors

TOOL = {"name": "weather", "description": "w", "input_schema": {
    "type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}}
HERMES = '<tool_call>\n{"name": "weather", "arguments": {"town": "Ulm"}}\n</tool_call>'
LIMITS = {"requests_per_minute": 500, "tokens_per_day": 10_000_000}
WHERE = {"gen_ai_operation_name": "chat", "gen_ai_provider_name": "generic", "team": "test", "backend": "plain",
         "client_api": "anthropic", "provider_api": "openai"}


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenAIProvider]:
    running = OpenAIProvider()
    running.start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def gateway(provider: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = configuration(provider.url)
    config["teams"]["test"]["limits"] = LIMITS
    config["models"] += [
        {"match": "pair", "attempts": [{"backend": "plain", "model": name} for name in ("first", "second")]},
        {"match": "text", "attempts": [{"backend": "plain", "model": "qwen/qwen2.5-72b-instruct"}]}]
    running = Gateway(config, tmp_path_factory.mktemp("metrics"))
    yield running
    assert running.terminate() == 0, running.output


class Scrape:
    """/metrics as it is now."""

    def __init__(self, gateway: Gateway) -> None:
        answer = request(f"http://{gateway.admin}", "GET", "/metrics")
        assert answer.status == 200
        self.text = answer.body.decode()
        self.samples = [sample for family in text_string_to_metric_families(self.text) for sample in family.samples]

    def __call__(self, name: str, /, **labels: str) -> float:
        return sum(sample.value for sample in self.samples
                   if sample.name == name and labels.items() <= sample.labels.items())

    @property
    def labels(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for sample in self.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
        return found


def until(gateway: Gateway, holds: Callable[[Scrape], bool], seconds: float = 20) -> Scrape:
    """The first scrape of which this holds."""
    end = time.monotonic() + seconds
    while not holds(found := Scrape(gateway)):
        assert time.monotonic() < end, found.text
        time.sleep(0.3)  # a page costs a tenth of a second of CPU
    return found


def records(gateway: Gateway) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in list(gateway.lines) if line.startswith("{")]
    return [line for line in lines if line.get("event") == "exchange"]


def until_told(gateway: Gateway, number: int) -> None:
    """The log has this many records. A worker writes each behind its figures, and other processes pass it on."""
    end = time.monotonic() + 20
    while len(records(gateway)) < number:
        assert time.monotonic() < end, gateway.output
        time.sleep(0.02)


@pytest.fixture(scope="module")
def after(gateway: Gateway, provider: OpenAIProvider) -> Scrape:
    """After one of everything: a stream, tool calls in two ways, a failover, a loss, refusals."""
    usage = {"prompt_tokens": 100, "completion_tokens": 21, "total_tokens": 121,
             "prompt_tokens_details": {"cached_tokens": 80}, "completion_tokens_details": {"reasoning_tokens": 7}}
    provider.script(text("a b c d e", usage=usage), calls(("c1", "weather", {"town": "Ulm"})), text(HERMES),
                    status(429, openai_error("slow down")), text("from the second"), text("x", usage=usage))
    with stream(gateway.base_url) as answer:
        answer.read()
    assert post(gateway.base_url, payload(tools=[TOOL])).status == 200
    assert post(gateway.base_url, payload("text", tools=[TOOL])).json()["stop_reason"] == "tool_use"
    assert post(gateway.base_url, payload("pair")).status == 200
    assert post(gateway.base_url, payload("glob/a-name-of-the-client", mcp_servers=[{"url": "x"}],
                                          a_field_of_the_client=1)).status == 200
    assert post(gateway.base_url, payload("no-such-model")).status == 404
    assert request(gateway.base_url, "POST", "/v1/no/such/path", b"{}").status == 404
    provider.clear()
    until_told(gateway, 8)
    return until(gateway, lambda seen: seen("extproc_streams") == 0 and seen("extproc_requests_total") >= 8)


def test_figures_of_a_stream(after: Scrape) -> None:
    where = {**WHERE, "gen_ai_request_model": "claude-test", "gen_ai_response_model": "scripted/model-1"}
    assert after("gen_ai_client_token_usage_count", gen_ai_token_type="input", **where) == 2
    assert after("gen_ai_client_inference_usage_cache_read_input_tokens_total", **where) >= 80
    assert after("gen_ai_client_inference_usage_reasoning_output_tokens_total", **where) >= 7
    assert after("gen_ai_client_operation_duration_seconds_count", error_type="", **where) == 2
    assert after("gen_ai_server_time_to_first_token_seconds_count", **where) == 1
    assert after("gen_ai_server_time_per_output_token_seconds_count", **where) == 1


def test_tokens_are_those_of_the_log(gateway: Gateway, after: Scrape) -> None:
    told = [record["usage"] for record in records(gateway) if "usage" in record]
    assert sum(one.get("input", 0) + one.get("output", 0) for one in told) == after("gen_ai_client_token_usage_sum")


def test_tool_calls_failovers_drops_and_refusals(after: Scrape) -> None:
    assert after("extproc_tool_calls_total", dialect="native", gen_ai_request_model="claude-test") == 1
    assert after("extproc_tool_calls_total", dialect="qwen3-hermes", gen_ai_request_model="text") == 1
    assert after("extproc_failovers_total", reason="rate_limit", gen_ai_response_model="first", **WHERE) == 1
    assert after("extproc_requests_total", attempt="2", outcome="ok", gen_ai_response_model="second") == 1
    assert after("extproc_dropped_total", name="mcp_servers", kind="loss", gen_ai_response_model="*") == 1
    assert after("extproc_dropped_total", name="other", kind="hint") == 1
    assert after("extproc_refusals_total", reason="unknown_model", status="404", hop="select", team="test") == 1
    assert after("extproc_refusals_total", reason="unknown_path", hop="select") == 1


def test_what_lives_and_what_is_in_force(after: Scrape) -> None:
    assert after("extproc_workers") == 2
    assert after("extproc_ready") == 1
    assert after("extproc_build_info") == 1
    assert after("extproc_config_info") == 1
    assert after("extproc_event_loop_lag_seconds_count") > 0
    assert after("extproc_event_loop_lag_max_seconds") >= 0


def test_no_name_of_the_client_is_on_the_page(after: Scrape) -> None:
    assert "of-the-client" not in after.text
    assert "of_the_client" not in after.text


def test_every_question_of_the_dashboard_and_the_alerts_is_one_that_this_gateway_answers(after: Scrape) -> None:
    """By name and by label, but for what happens only when something is wrong."""
    rare = {"extproc_tool_calls_failed_total", "extproc_tool_calls_repaired_total", "extproc_tool_call_repairs_total",
            "extproc_estimated_tokens_total", "extproc_limit_refusals_total",
            "gen_ai_client_inference_usage_cache_write_input_tokens_total"}
    asked = dict(selectors([*questions(json.loads(DASHBOARD.read_text(encoding="utf-8"))),
                            *(rule["expr"] for rule in rules())]))
    assert len(asked) > 25
    assert not asked.keys() - after.labels.keys() - rare
    for name, matchers in asked.items():
        labels = {label for label, _, _ in matchers} - {"instance"}
        assert name in rare or labels <= after.labels[name], (name, labels - after.labels[name])


# ------------------------------------------------------------------------------------------------- workers come and go


def files_of(gateway: Gateway) -> Path:
    """Where the workers keep their figures."""
    for pid in descendants(gateway.process.pid):
        with contextlib.suppress(OSError):
            found = re.search(rb"PROMETHEUS_MULTIPROC_DIR=([^\0]+)", Path(f"/proc/{pid}/environ").read_bytes())
            if found:
                return Path(found[1].decode())
    raise AssertionError("no worker")


def count(gateway: Gateway, provider: OpenAIProvider, number: int) -> None:
    provider.always(text("counted"))
    before = len(records(gateway))
    for _ in range(number):
        assert post(gateway.base_url, payload()).status == 200
    until_told(gateway, before + number)


def test_killed_and_replaced_workers_stay_counted(gateway: Gateway, provider: OpenAIProvider, after: Scrape) -> None:
    """Counters never go back, live figures of the dead vanish, and files do not pile up."""
    def requests(seen: Scrape) -> float:
        return seen("extproc_requests_total", gen_ai_request_model="claude-test")

    before = requests(after)
    count(gateway, provider, 6)
    tokens = until(gateway, lambda seen: requests(seen) == before + 6)("gen_ai_client_token_usage_sum")
    directory = files_of(gateway)
    usual = len(list(directory.iterdir()))
    for pid in gateway.worker_pids():
        if b"worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    seen = until(gateway, lambda seen: seen("extproc_workers") == 2 and seen("extproc_worker_starts_total") >= 4)
    assert requests(seen) == before + 6
    assert seen("gen_ai_client_token_usage_sum") == tokens
    assert seen("extproc_streams") == 0
    starts = seen("extproc_worker_starts_total")
    for number in (1, 2):
        gateway.process.send_signal(signal.SIGUSR1)
        until(gateway, lambda seen, wanted=starts + 2 * number: seen("extproc_worker_starts_total") == wanted  # type: ignore[misc]
              and seen("extproc_workers") == 2)
    count(gateway, provider, 1)
    # The worker of the other hop ends its stream in its own time.
    until(gateway, lambda seen: requests(seen) == before + 7 and seen("extproc_streams") == 0)
    # The process that counts limits is replaced as well, and its predecessor may take a moment to go.
    until(gateway, lambda _: len(list(directory.iterdir())) <= usual + 2)
