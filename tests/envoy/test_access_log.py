"""Every request has a line in one of the two logs and none has two: Envoy tells of what the processor never answered.

The whole gateway runs, with one worker; the lines are those of its standard output.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule
from tests.e2e.gateway import BODY_LIMIT, CLIENT_KEY, Gateway, configuration
from tests.e2e.test_lifecycle import kill, wait_until
from tests.e2e.wire import ANTHROPIC, payload, post, request, stream
from tests.envoy.log_lines import added_by, entries
from tests.envoy.running import RunningEnvoy
from tests.ports import free_port
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, status, text
from tests.providers.openai import stream as deltas

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
NO_KEY = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenAIProvider]:
    made = OpenAIProvider(strict=False)
    made.start()
    yield made
    made.stop()


def settings(provider: OpenAIProvider, **changes: Any) -> dict[str, Any]:
    config = configuration(provider.url, workers=1, **changes)
    config["models"].append({"match": "pair", "attempts": [
        {"backend": "plain", "model": "first"}, {"backend": "official", "model": "gpt-5"}]})
    config["teams"]["limited"] = {"key": "sk-limited", "limits": {"requests_per_minute": 1}}
    return config


@pytest.fixture(scope="module")
def gateway(provider: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(settings(provider), tmp_path_factory.mktemp("gateway"))
    yield running
    assert running.terminate() == 0, running.output


def connected(gateway: Gateway) -> socket.socket:
    return socket.create_connection(("127.0.0.1", gateway.port), timeout=10)


def head(*headers: str, path: str = "/v1/messages") -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "host: localhost", f"x-api-key: {CLIENT_KEY}",
                        "content-type: application/json", *headers, "", ""]).encode()


def send(gateway: Gateway, data: bytes, *, answered: bool = True) -> None:
    """Bytes as they are; then the client leaves, after the first piece of an answer when there is to be one."""
    with connected(gateway) as connection:
        connection.sendall(data)
        if answered:
            connection.recv(65536)


def test_a_good_request_has_the_processors_line_only(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("hello"))
    [line] = added_by(gateway, lambda: post(gateway.base_url, payload(), headers={
        **ANTHROPIC, "traceparent": TRACEPARENT}))
    assert (line["hop"], line["outcome"], line["status"]) == ("translate", "ok", 200)
    assert line["trace_id"] == TRACEPARENT[3:35]


def test_a_request_without_a_key(gateway: Gateway) -> None:
    """The fields have the names of the processor's record; what stands in a query string is in neither log."""
    answers = []
    [line] = added_by(gateway, lambda: answers.append(request(
        gateway.base_url, "POST", "/v1/messages?key=hidden-in-the-query", payload(),
        {**NO_KEY, "x-api-key": "hidden-in-a-header", "cookie": "hidden=1", "traceparent": TRACEPARENT})))
    assert {name: line[name] for name in (
        "event", "level", "hop", "path", "api", "status", "outcome", "response_flags", "client")} == {
        "event": "exchange", "level": "warning", "hop": "edge", "path": "/v1/messages", "api": "anthropic",
        "status": 401, "outcome": "error", "response_flags": "-", "client": "127.0.0.1"}
    assert line["request_id"] == answers[0].headers["request-id"]
    assert line["traceparent"] == TRACEPARENT
    assert "team" not in line
    assert "rule" not in line
    assert line["response_bytes"] == len(answers[0].body)
    assert not [text for text in gateway.lines if "hidden" in text]


@pytest.mark.parametrize(("path", "body", "status", "reason"), [
    ("/v1/nothing", payload(), 404, "path"), ("/v1/messages", payload("unknown"), 404, "model"),
    ("/v1/messages", b"{", 400, "invalid_request")])
def test_what_the_processor_answers_has_its_line_only(gateway: Gateway, path: str, body: Any, status: int,
                                                      reason: str) -> None:
    [line] = added_by(gateway, lambda: post(gateway.base_url, body, path=path))
    assert (line["hop"], line["status"], line["outcome"]) == ("select", status, "error")
    assert line["team"] == "test"


def test_a_body_over_the_limit(gateway: Gateway) -> None:
    """Refused by its announced length, before the processor hears of it, or on the way."""
    [line] = added_by(gateway, lambda: send(gateway, head(f"content-length: {BODY_LIMIT + 1}")))
    assert (line["hop"], line["status"], line["team"]) == ("edge", 413, "test")
    piece = b"100000\r\n" + b" " * 0x100000 + b"\r\n"

    def upload() -> None:
        with connected(gateway) as connection, contextlib.suppress(OSError):
            connection.sendall(head("transfer-encoding: chunked"))
            for _ in range(BODY_LIMIT // 0x100000 + 2):
                connection.sendall(piece)
            connection.recv(65536)

    [line] = added_by(gateway, upload)
    assert (line["hop"], line["status"]) == ("edge", 413)


def test_a_limit_of_a_team(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.always(text("hello"))
    limited = {**ANTHROPIC, "x-api-key": "sk-limited"}
    answers: list[int] = []

    def ask() -> None:
        while 429 not in answers:  # the minute may turn
            answers.append(post(gateway.base_url, payload(), headers=limited).status)

    lines = added_by(gateway, ask, at_least=2)
    assert [line["hop"] for line in lines if line["hop"] != "translate"] == ["edge"]
    assert len(lines) == len(answers)
    [refused] = [line for line in lines if line["hop"] == "edge"]
    assert {name: refused[name] for name in ("status", "team", "rule", "reason")} == {
        "status": 429, "team": "limited", "rule": "claude-test", "reason": "request_rate_limited"}


@pytest.mark.parametrize(("data", "status", "reason"), [
    (b"\x16\x03\x01 no HTTP\r\n\r\n", 400, "http1.codec_error"),
    (b"GET / HTTP/1.1\r\n\r\n", 400, "missing_host_header"),
    (head("content-length: 5", "content-length: 6"), 400, "http1.codec_error"),
    (head("x-big: " + "x" * 70_000), 431, "http1.headers_too_large"),
    (b"GET / HTTP/1.0\r\n\r\n", 426, "low_version")])
def test_malformed_http(gateway: Gateway, data: bytes, status: int, reason: str) -> None:
    [line] = added_by(gateway, lambda: send(gateway, data))
    assert (line["hop"], line["status"], line["reason"]) == ("edge", status, reason)


def test_a_client_that_leaves(gateway: Gateway, provider: OpenAIProvider) -> None:
    """In the head and in the body Envoy tells of it; in the answer the processor does."""
    [line] = added_by(gateway, lambda: send(gateway, head()[:-2], answered=False))
    assert (line["hop"], line["outcome"], line["level"]) == ("edge", "client_closed", "info")
    assert "status" not in line
    [line] = added_by(gateway, lambda: send(gateway, head("content-length: 100") + b'{"model": ', answered=False))
    assert (line["hop"], line["outcome"], line["team"], line["request_bytes"]) == ("edge", "client_closed", "test", 10)

    gate = Gate()

    def leave() -> None:
        provider.script(deltas([{"content": "before "}, gate]))
        with stream(gateway.base_url) as answer:
            answer.until("content_block_delta")
            answer.reset()

    [line] = added_by(gateway, leave)
    gate.open()
    assert (line["hop"], line["outcome"], line["status"]) == ("translate", "client_closed", 200)

    waiting = Gate()
    provider.script(deltas([waiting, {"content": "x"}]))

    def leave_before_the_head() -> None:
        with connected(gateway) as connection:
            body = b'{"model": "claude-test", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}]}'
            connection.sendall(head(f"content-length: {len(body)}") + body)
            assert waiting.reached.wait(10)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    [line] = added_by(gateway, leave_before_the_head)
    waiting.open()
    assert (line["hop"], line["outcome"]) == ("translate", "client_closed")


def test_a_provider_that_fails(gateway: Gateway, provider: OpenAIProvider) -> None:
    """Envoy answers for it, but the exchange has seen that. Each attempt has a line."""
    [line] = added_by(gateway, lambda: post(gateway.base_url, payload("claude-down")))
    assert (line["hop"], line["outcome"], line["status"]) == ("translate", "provider_error", 503)
    provider.script(status(500), text("hello"))
    lines = added_by(gateway, lambda: post(gateway.base_url, payload("pair")), at_least=2)
    assert [(line["hop"], line["attempt"], line["outcome"]) for line in lines] == [
        ("translate", 1, "provider_error"), ("translate", 2, "ok")]


def test_a_worker_that_is_killed(gateway: Gateway, provider: OpenAIProvider) -> None:
    """Its exchanges can tell nothing any more: Envoy has the line of the attempt."""
    gate = Gate()

    def lose() -> None:
        provider.script(deltas([{"content": "before "}, gate, {"content": "after"}]))
        with stream(gateway.base_url) as answer, contextlib.suppress(http.client.HTTPException, OSError):
            answer.until("content_block_delta")
            [worker] = [pid for pid in gateway.worker_pids() if b"worker" in _command(pid)]
            kill(worker)
            while answer.response.read1():
                pass
        # The requests that follow need its successor.
        admin = f"http://{gateway.admin}"
        wait_until(lambda: request(admin, "GET", "/readyz").status == 200, 20, "a new worker serves")

    [line] = added_by(gateway, lose)
    gate.open()
    assert {name: line[name] for name in ("hop", "backend", "attempt", "team", "rule", "outcome", "level")} == {
        "hop": "translate", "backend": "plain", "attempt": 1, "team": "test", "rule": "claude-test",
        "outcome": "error", "level": "warning"}
    assert line["reason"].startswith("ext_proc_error")


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_liveness_is_not_worth_a_line(gateway: Gateway) -> None:
    assert added_by(gateway, lambda: request(gateway.base_url, "GET", "/healthz", headers={}), at_least=0) == []


def reload(gateway: Gateway, config: dict[str, Any]) -> None:
    def reloads() -> int:
        return sum("in force now" in line for line in gateway.lines)

    before = reloads()
    gateway.config_file.write_text(json.dumps(config))
    wait_until(lambda: reloads() > before, 20, "the new configuration is in force")


@contextlib.contextmanager
def access_log(gateway: Gateway, setting: str) -> Iterator[None]:
    """The gateway with another `access_log`."""
    usual = json.loads(gateway.config_file.read_text())
    reload(gateway, {**usual, "access_log": setting})
    yield
    reload(gateway, usual)


def test_all_tells_of_the_others_too(gateway: Gateway, provider: OpenAIProvider) -> None:
    """Apart from the lines that count, by their event."""
    with access_log(gateway, "all"):
        provider.script(text("hello"))
        lines = added_by(gateway, lambda: post(gateway.base_url, payload()), at_least=2)
        assert sorted((line["event"], line["hop"], line["status"]) for line in lines) == [
            ("access", "edge", 200), ("exchange", "translate", 200)]
        [access] = [line for line in lines if line["event"] == "access"]
        assert (access["rule"], access["team"], access["attempt"]) == ("claude-test", "test", 1)
        assert len({line["request_id"] for line in lines}) == 1
        lines = added_by(gateway, lambda: request(gateway.base_url, "POST", "/v1/messages", payload(), NO_KEY))
        assert [line["event"] for line in lines] == ["exchange"]


def test_off_leaves_it_to_the_processor(gateway: Gateway) -> None:
    before = len(gateway.lines)
    with access_log(gateway, "off"):
        assert request(gateway.base_url, "POST", "/v1/messages?off", payload(), NO_KEY).status == 401
        assert request(gateway.base_url, "GET", "/off", headers={"x-api-key": CLIENT_KEY}).status == 404
        gateway.wait_for_line(re.compile('"path":"/off"'), 10)
    # What Envoy writes of the next request comes after what it would have written of those.
    added_by(gateway, lambda: request(gateway.base_url, "POST", "/v1/messages", payload(), {**NO_KEY, "via": "1"}))
    assert [(entry["hop"], entry["path"]) for entry in entries(gateway.lines[before:])][:2] == [
        ("select", "/off"), ("edge", "/v1/messages")]


def test_no_worker_at_all() -> None:
    """No processor can be reached: Envoy has the line of the edge, and nothing else has one."""
    config = Config(listen=f"127.0.0.1:{free_port()}",
                    backends={"b": Backend(api="openai", url=f"http://127.0.0.1:{free_port()}/v1", key="k")},
                    models=[ModelRule(match="m", attempts=[Attempt(backend="b", model="x")])])
    envoy = RunningEnvoy(config, processor=False)
    try:
        status_ = envoy.ask("m").status
    finally:
        envoy.stop()
    [line] = entries(envoy.access_log)
    assert (line["hop"], line["status"], line["outcome"]) == ("edge", status_, "error")
    assert line["reason"].startswith("ext_proc_error")


def test_a_worker_that_was_lost_between_the_hops() -> None:
    """The edge was routed by a worker, the attempt finds none: the line is that of the attempt, not of the edge."""
    config = Config(listen=f"127.0.0.1:{free_port()}", access_log="all",
                    backends={"b": Backend(api="openai", url=f"http://127.0.0.1:{free_port()}/v1", key="k")},
                    models=[ModelRule(match="m", attempts=[Attempt(backend="b", model="x")])])
    envoy = RunningEnvoy(config)
    envoy.stand_in.translate = _lost  # type: ignore[assignment]
    try:
        assert envoy.ask("m").status == 502
    finally:
        envoy.stop()
    by_event = {line["event"]: line for line in entries(envoy.access_log)}
    assert (by_event["exchange"]["hop"], by_event["exchange"]["backend"], by_event["exchange"]["attempt"]) == (
        "translate", "b", 1)
    assert "rule" not in by_event["exchange"]  # only the processor could have told
    assert (by_event["access"]["hop"], by_event["access"]["status"], by_event["access"]["rule"]) == ("edge", 502, "m")
    assert len(by_event) == len(entries(envoy.access_log)) == 2


def _lost(*_: object) -> Iterator[object]:
    raise RuntimeError("killed")
    yield
