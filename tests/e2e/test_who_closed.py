"""A stream that ends in the middle: the provider that breaks it off and the client that leaves are told apart, in the
log, in the metrics and on the span."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.gateway import Gateway, configuration
from tests.e2e.hand_written import BACKEND, adapted, running
from tests.e2e.wire import payload, post, request, stream
from tests.ports import free_port
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, raw, text

HALF = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenAIProvider]:
    made = OpenAIProvider(strict=False)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module", params=["native", "grpcio"])
def gateway(provider: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory,
            request: pytest.FixtureRequest) -> Iterator[Gateway]:
    config = configuration(provider.url)
    config["models"].append({"match": "pair", "attempts": [
        {"backend": "plain", "model": "first"}, {"backend": "official", "model": "gpt-5"}]})
    made = Gateway(config, tmp_path_factory.mktemp("gateway"), {"EXTPROC_TRANSPORT": request.param})
    yield made
    assert made.terminate() == 0, made.output


def lines_of(log: list[str], action: Callable[[], object], count: int = 1) -> list[dict[str, Any]]:
    """The lines of attempts that an action adds."""
    before = len(log)
    action()

    def found() -> list[dict[str, Any]]:
        entries = [json.loads(line) for line in log[before:] if line.startswith("{")]
        return [entry for entry in entries if entry["event"] == "exchange" and entry["hop"] in ("translate", "onehop")]

    end = time.monotonic() + 10
    while len(found()) < count:
        assert time.monotonic() < end, "\n".join(log[-20:])
        time.sleep(0.01)
    return found()


def is_cut_off(url: str, gate: Gate) -> None:
    """A stream of which the client has seen the beginning when the provider breaks it off."""
    with stream(url, payload(stream=True)) as answer:
        answer.until("content_block_delta")
        gate.open()
        with pytest.raises((OSError, http.client.HTTPException)):
            answer.read()


def leaves(url: str) -> None:
    """A client that has seen enough."""
    with stream(url, payload(stream=True)) as answer:
        answer.until("content_block_delta")
        answer.leave()


def figures(gateway: Gateway, name: str, **labels: str) -> float:
    text = request(f"http://{gateway.admin}", "GET", "/metrics", headers={}).body.decode()
    return sum(sample.value for family in text_string_to_metric_families(text) for sample in family.samples
               if sample.name == name and labels.items() <= sample.labels.items())


@pytest.mark.parametrize("how", ["cut", "reset"])
def test_a_provider_that_breaks_its_stream_off(gateway: Gateway, provider: OpenAIProvider, how: Any) -> None:
    """Both alerts about failures ask for these figures."""
    def count() -> tuple[float, float]:
        return (figures(gateway, "extproc_requests_total", outcome="provider_error", status="200"),
                figures(gateway, "gen_ai_client_operation_duration_seconds_count", error_type="server"))

    requests, durations = count()
    gate = Gate()
    provider.script(raw([HALF, gate], end=how))
    [line] = lines_of(gateway.lines, lambda: is_cut_off(gateway.base_url, gate))
    assert (line["level"], line["outcome"], line["closed_by"]) == ("warning", "provider_error", "provider")
    assert (line["failure"], line["reason"], line["status"]) == ("server", "stream_broken", 200)
    assert count() == (requests + 1, durations + 1)


def test_a_client_that_leaves(gateway: Gateway, provider: OpenAIProvider) -> None:
    gate = Gate()
    provider.script(raw([HALF, gate], end="hang"))
    [line] = lines_of(gateway.lines, lambda: leaves(gateway.base_url))
    assert (line["level"], line["outcome"], line["closed_by"]) == ("info", "client_closed", "client")
    assert "failure" not in line
    gate.open()


def test_a_client_that_leaves_before_the_first_byte(gateway: Gateway, provider: OpenAIProvider) -> None:
    def leave() -> None:
        with pytest.raises(TimeoutError):
            request(gateway.base_url, "POST", "/v1/messages", payload(), timeout=0.5)

    gate = Gate()
    provider.script(raw([gate], end="hang"))
    [line] = lines_of(gateway.lines, leave)
    assert (line["outcome"], line["closed_by"]) == ("client_closed", "client")
    gate.open()


def test_a_break_that_nobody_saw_fails_over(gateway: Gateway, provider: OpenAIProvider) -> None:
    """The head was withheld: the next attempt answers, and the first one is the provider's failure all the same."""
    failovers = figures(gateway, "extproc_failovers_total")
    provider.script(raw([b": nothing yet\n\n"], end="reset"), text("hello"))

    def ask() -> None:
        assert post(gateway.base_url, payload("pair", stream=True)).status == 200

    first, second = sorted(lines_of(gateway.lines, ask, 2), key=lambda line: line["attempt"])
    assert (first["outcome"], first["closed_by"], first["retried"]) == ("provider_error", "provider", True)
    assert (second["outcome"], second["attempt"]) == ("ok", 2)
    assert figures(gateway, "extproc_failovers_total") == failovers + 1


def test_behind_another_gateway(provider: OpenAIProvider, tmp_path: Path) -> None:
    """The shipped configuration of one-hop mode tells the processor as well."""
    edge, processor = free_port(), free_port()
    config = configuration(provider.url, workers=1)
    config["backends"] = {BACKEND: config["backends"]["plain"]}
    config["models"] = [{"match": "claude-test", "attempts": [{"backend": BACKEND, "model": "m"}]}]
    del config["teams"]
    with running(config, adapted(edge, processor, provider.port), tmp_path, edge, processor) as found:
        gate = Gate()
        provider.script(raw([HALF, gate], end="reset"))
        [line] = lines_of(found.log, lambda: is_cut_off(found.url, gate))
        assert (line["hop"], line["outcome"], line["closed_by"]) == ("onehop", "provider_error", "provider")
        gate = Gate()
        provider.script(raw([HALF, gate], end="hang"))
        [line] = lines_of(found.log, lambda: leaves(found.url))
        assert (line["hop"], line["outcome"], line["closed_by"]) == ("onehop", "client_closed", "client")
        gate.open()
