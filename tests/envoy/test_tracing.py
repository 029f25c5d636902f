"""Traces: which provider is told of one, and the spans that Envoy sends to a collector."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from typer.testing import CliRunner

from extproc.cli import app
from tests.e2e.gateway import Gateway, configuration
from tests.e2e.wire import ANTHROPIC, Stream, payload, post, request, stream
from tests.envoy.log_lines import added_by
from tests.ports import free_port
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, raw, status, text
from tests.providers.openai import stream as deltas
from tests.providers.otlp import Collector, Span

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"
NOT_SAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"
TRACED = {**ANTHROPIC, "traceparent": TRACEPARENT, "tracestate": "vendor=1", "baggage": "user=hidden"}


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenAIProvider]:
    made = OpenAIProvider(strict=False)
    made.start()
    yield made
    made.stop()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()
    assert made.violations == []


class Traced:
    """One gateway for several tests; each sets the tracing that it needs, by a reload. Old listeners may still send
    spans to a new collector."""

    def __init__(self, config: dict[str, Any], directory: Path) -> None:
        self.gateway = Gateway(config, directory)
        self._plain = config
        self._tracing: dict[str, Any] | None = None
        self._generation = 1

    def set_tracing(self, tracing: dict[str, Any] | None) -> None:
        """Returns when new connections are traced so. The first request after it may still take a connection between
        the hops that was there before."""
        if tracing == self._tracing:
            return
        self._generation += 1
        self._tracing = tracing
        changes = {} if tracing is None else {"tracing": tracing}
        self.gateway.config_file.write_text(json.dumps({**self._plain, **changes}))
        self.gateway.wait_for_line(re.compile(rf"in force now \(generation {self._generation},"), 20)


@pytest.fixture(scope="module")
def traced(provider: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    made = Traced(settings(provider), tmp_path_factory.mktemp("traced"))
    yield made
    assert made.gateway.terminate() == 0, made.gateway.output


def traced_by(traced: Traced, provider: OpenAIProvider, tracing: dict[str, Any] | None) -> Gateway:
    """The gateway with this tracing on all its connections."""
    traced.set_tracing(tracing)
    ask(traced.gateway, provider, "private")
    ask(traced.gateway, provider, "public")
    return traced.gateway


def settings(provider: OpenAIProvider, **changes: Any) -> dict[str, Any]:
    """`private` is on loopback and so told of traces, `public` is said not to be."""
    config = configuration(provider.url, workers=1, **changes)
    config["backends"] = {"private": {"api": "openai", "url": provider.url, "key": "k"},
                          "public": {"api": "openai", "url": provider.url, "key": "k", "trace": False}}
    config["models"] = [{"match": name, "attempts": [{"backend": name, "model": "scripted"}]}
                        for name in ("private", "public")]
    config["models"].append({"match": "both", "attempts": [{"backend": "public", "model": "one"},
                                                           {"backend": "private", "model": "two"}]})
    return config


def ask(gateway: Gateway, provider: OpenAIProvider, model: str,
        headers: dict[str, str] | None = None) -> dict[str, str]:
    """The headers that the provider got."""
    provider.clear()
    provider.always(text("hello"))
    assert post(gateway.base_url, payload(model), headers=headers or ANTHROPIC).status == 200
    return provider.last.headers


def test_without_a_collector_a_trace_is_passed_on_where_it_may(provider: OpenAIProvider, traced: Traced) -> None:
    gateway = traced_by(traced, provider, None)
    told = ask(gateway, provider, "private", TRACED)
    assert (told["traceparent"], told["tracestate"]) == (TRACEPARENT, "vendor=1")
    assert "baggage" not in told
    assert not {"traceparent", "tracestate", "baggage"} & set(ask(gateway, provider, "public", TRACED))
    for broken in ("nonsense", TRACEPARENT.upper(), f"{TRACEPARENT}-more", f"00-{'0' * 32}-b7ad6b7169203331-01"):
        told = ask(gateway, provider, "private", {**TRACED, "traceparent": broken})
        assert not {"traceparent", "tracestate"} & set(told)
    assert "traceparent" not in ask(gateway, provider, "private")


def test_only_what_is_sampled(provider: OpenAIProvider, traced: Traced, collector: Collector) -> None:
    """The share counts for requests that bring no trace; one that does says it itself. What is not sampled is still
    handed on as a trace."""
    collector.start_grpc()
    gateway = traced_by(traced, provider, {"otlp": collector.url, "sampling": 0})
    told = ask(gateway, provider, "private")
    assert told["traceparent"].endswith("-00")
    assert ask(gateway, provider, "private", {
        **ANTHROPIC, "traceparent": NOT_SAMPLED.replace(TRACE, "3" * 32)})["traceparent"].endswith("-00")
    ask(gateway, provider, "private", {**ANTHROPIC, "x-client-trace-id": "1"})
    ask(gateway, provider, "private", TRACED)
    spans = collector.wait_for(lambda spans: len(spans) >= 2, "those that were asked for")
    assert {span.trace for span in spans} == {TRACE}


def hops(spans: list[Span], trace: str) -> tuple[list[Span], list[Span]]:
    """The spans of the edge and those of attempts, in this trace. (Envoy adds one for each call of the processor.)"""
    mine = [span for span in spans if span.trace == trace and not span.name.startswith("async ")]
    return ([span for span in mine if not span.name.startswith("attempt ")],
            [span for span in mine if span.name.startswith("attempt ")])


@pytest.mark.parametrize("kind", ["grpc", "http"])
def test_both_hops_are_spans_of_one_trace(provider: OpenAIProvider, tmp_path: Path, collector: Collector,
                                          kind: str) -> None:
    (collector.start_grpc if kind == "grpc" else collector.start_http)()
    tenant = "blue" if kind == "grpc" else "50%"
    gateway = Gateway(settings(provider, tracing={
        "otlp": collector.url, "service": "my-gateway", "headers": {"X-Tenant": tenant}}), tmp_path)
    try:
        told = ask(gateway, provider, "private", TRACED)
        spans = collector.wait_for(lambda spans: all(map(len, hops(spans, TRACE))), "two spans")
        [edge], [attempt] = hops(spans, TRACE)
        assert edge.parent == TRACEPARENT[36:52]
        assert attempt.parent == edge.id
        # The provider is told of the attempt.
        assert told["traceparent"] == f"00-{TRACE}-{attempt.id}-01"
        assert told["tracestate"] == "vendor=1"
        assert "baggage" not in told
        assert {span.service for span in spans} == {"my-gateway"}
        assert (edge.name, edge.kind, attempt.kind) == ("POST /v1/messages", "SERVER", "CLIENT")
        assert attempt.name == "attempt private"
        assert {name: attempt.attributes.get(name) for name in (
            "gen_ai.operation.name", "gen_ai.request.model", "gen_ai.response.model", "gen_ai.provider.name",
            "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.response.finish_reasons",
            "extproc.backend", "extproc.attempt", "extproc.team", "http.status_code")} == {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "private", "gen_ai.response.model": "scripted",
            "gen_ai.provider.name": "generic", "gen_ai.usage.input_tokens": "21", "gen_ai.usage.output_tokens": "7",
            "gen_ai.response.finish_reasons": "stop", "extproc.backend": "private", "extproc.attempt": "1",
            "extproc.team": "test", "http.status_code": "200"}
        assert (edge.attributes["gen_ai.request.model"], edge.attributes["extproc.team"]) == ("private", "test")
        assert collector.headers[0]["x-tenant"] == tenant

        # A provider that is not told has its spans all the same.
        assert "traceparent" not in ask(gateway, provider, "public", {
            **ANTHROPIC, "traceparent": TRACEPARENT.replace(TRACE, "1" * 32)})
        collector.wait_for(lambda spans: len(hops(spans, "1" * 32)[1]) == 1, "the attempt at a public provider")

        # Each attempt is a span; the query is in none.
        provider.clear()
        provider.script(status(500), text("hello"))
        assert request(gateway.base_url, "POST", "/v1/messages?key=hidden", payload("both"), {
            **ANTHROPIC, "traceparent": TRACEPARENT.replace(TRACE, "2" * 32)}).status == 200
        spans = collector.wait_for(lambda spans: len(hops(spans, "2" * 32)[1]) == 2 and
                                   len(hops(spans, "2" * 32)[0]) == 1, "two attempts")
        [edge], attempts = hops(spans, "2" * 32)
        assert [(span.attributes["extproc.backend"], span.attributes["extproc.attempt"], span.failed)
                for span in sorted(attempts, key=lambda span: span.attributes["extproc.attempt"])] == [
            ("public", "1", True), ("private", "2", False)]
        assert {span.parent for span in attempts} == {edge.id}
        assert "hidden" not in repr(collector.spans)
    finally:
        assert gateway.terminate() == 0


def test_a_stream_that_the_provider_breaks_off_is_an_error_of_its_spans(provider: OpenAIProvider, traced: Traced,
                                                                         collector: Collector) -> None:
    """Its status was 200, so nothing else tells; a client that leaves is none."""
    collector.start_grpc()
    gateway = traced_by(traced, provider, {"otlp": collector.url})
    half = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'

    def spans_of(trace: str) -> list[Span]:
        spans = collector.wait_for(lambda spans: all(map(len, hops(spans, trace))), "two spans")
        return [span for part in hops(spans, trace) for span in part]

    def ask_until_half(trace: str, gate: Gate, end: Literal["reset", "hang"]) -> AbstractContextManager[Stream]:
        provider.clear()
        provider.script(raw([half, gate], end=end))
        return stream(gateway.base_url, payload("private"), headers={
            **ANTHROPIC, "traceparent": TRACEPARENT.replace(TRACE, trace)})

    gate = Gate()
    with ask_until_half("4" * 32, gate, "reset") as answer:
        answer.until("content_block_delta")
        gate.open()
        with pytest.raises((OSError, http.client.HTTPException)):
            answer.read()
    edge, attempt = spans_of("4" * 32)
    assert (edge.attributes["error"], attempt.attributes["error"]) == ("true", "true")
    assert attempt.attributes["error.type"] == "server"

    gate = Gate()
    with ask_until_half("5" * 32, gate, "hang") as answer:
        answer.until("content_block_delta")
        answer.leave()
    assert not any("error" in name for span in spans_of("5" * 32) for name in span.attributes)
    gate.open()


def test_tracing_comes_and_goes_while_a_stream_runs(provider: OpenAIProvider, traced: Traced,
                                                    collector: Collector) -> None:
    """It changes every listener: new ones take what comes, the old ones finish what they have."""
    collector.start_grpc()
    gateway = traced_by(traced, provider, None)

    def ask_twice() -> str:
        """The first request after a change may still take a connection between the hops that was there before, and
        ends it. What the provider is told by the second one."""
        ask(gateway, provider, "private", TRACED)
        return ask(gateway, provider, "private", TRACED)["traceparent"]

    gate = Gate()
    provider.script(deltas([{"content": "before "}, gate, {"content": "after"}]))
    with stream(gateway.base_url, payload("private")) as running:
        running.until("content_block_delta")
        traced.set_tracing({"otlp": collector.url})
        told = ask_twice()
        spans = collector.wait_for(lambda spans: len(hops(spans, TRACE)[0]) == 2 and hops(spans, TRACE)[1] != [],
                                   "spans of both hops")
        assert told.split("-")[2] in [span.id for span in hops(spans, TRACE)[1]]
        traced.set_tracing(None)
        assert ask_twice() == TRACEPARENT
        gate.open()
        running.read()
        assert running.text == "before after"


def test_a_collector_that_is_away_costs_no_request(provider: OpenAIProvider, traced: Traced) -> None:
    gateway = traced_by(traced, provider, {"otlp": f"http://127.0.0.1:{free_port()}"})
    added_by(gateway, lambda: [ask(gateway, provider, "private") for _ in range(5)], at_least=5)
    [entry] = added_by(gateway, lambda: ask(gateway, provider, "private", TRACED))
    assert (entry["trace_id"], entry["outcome"]) == (TRACE, "ok")


def test_a_printed_bootstrap_has_it_all_but_the_keys(provider: OpenAIProvider, tmp_path: Path) -> None:
    """`extproc envoy-config` for an Envoy that runs elsewhere."""
    file = tmp_path / "extproc.yaml"
    file.write_text(json.dumps(settings(provider, tracing={
        "otlp": "https://collector.example", "sampling": 0.1, "headers": {"Authorization": "Bearer ${TOKEN}"}})))

    def printed(*options: str) -> str:
        return CliRunner(env={"TOKEN": "hidden-token"}).invoke(
            app, ["envoy-config", "--config", str(file), *options], catch_exceptions=False).stdout

    shown = printed()
    assert "hidden-token" not in shown
    assert "Bearer hidden-token" in printed("--with-secrets")
    made = yaml.safe_load(shown)
    [collector] = [one for one in made["static_resources"]["clusters"] if one["name"] == "traces"]
    assert collector["transport_socket"]["name"] == "envoy.transport_sockets.tls"
    assert shown.count("https://collector.example:4318/v1/traces") == 3  # the edge and two hops
