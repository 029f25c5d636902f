"""A provider that fails again and again is put aside for a while, on the real Envoy: attempts that another backend
follows pass by it, the last attempt asks all the same, and afterwards it is asked again."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from extproc.config import Attempt, Backend, Config, Ejection, ModelRule
from extproc.envoy_config import static_bootstrap
from tests.envoy.running import Provider, RunningEnvoy
from tests.ports import free_port

FAILURES = 4
QUICK = Ejection(failures=FAILURES, time=1, longest=1)
LASTING = Ejection(failures=FAILURES, time=600, longest=600)
"""For tests that count what is asked meanwhile: a second may be over before they are through."""


class Resetting:
    """A provider that takes connections and resets each as soon as it is asked something."""

    def __init__(self) -> None:
        self.asked = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._socket.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection = self._socket.accept()[0]
                self.asked += bool(connection.recv(65536))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

    def stop(self) -> None:
        self._socket.close()


def configuration(bad: int, good: int, **changes: Any) -> Config:
    backends = {name: Backend(api="openai", url=f"http://127.0.0.1:{port}/v1", key="k")
                for name, port in (("bad", bad), ("good", good))}
    rules = [ModelRule(match=match, attempts=[Attempt(backend=backend, model=model) for backend, model in attempts])
             for match, attempts in {
                 "pair": [("bad", "x"), ("good", "x")], "alone": [("bad", "x")], "last": [("good", "x"), ("bad", "x")],
                 "same": [("bad", "x"), ("bad", "y")]}.items()]
    return Config(**{"listen": f"127.0.0.1:{free_port()}", "backends": backends, "models": rules, "ejection": QUICK,
                     **changes})


@pytest.fixture
def good() -> Iterator[Provider]:
    made = Provider().start()
    yield made
    made.stop()


@pytest.fixture
def bad() -> Iterator[Provider]:
    made = Provider(status=500, body=b'{"error":{"message":"broken"}}').start()
    yield made
    made.stop()


@pytest.fixture
def envoy(good: Provider, bad: Provider) -> Iterator[RunningEnvoy]:
    running = RunningEnvoy(configuration(bad.port, good.port))
    yield running
    running.stop()


def test_after_errors_in_a_row_it_is_passed_by(good: Provider, bad: Provider) -> None:
    envoy = RunningEnvoy(configuration(bad.port, good.port, ejection=LASTING))
    try:
        answers = [envoy.ask("pair") for _ in range(12)]
    finally:
        envoy.stop()
    assert [answer.status for answer in answers] == [200] * 12
    assert len(bad.requests) == FAILURES


def test_it_is_asked_again_later(envoy: RunningEnvoy, bad: Provider) -> None:
    for _ in range(FAILURES):
        assert envoy.ask("pair").headers["x-served-by"] == "good"
    bad.status = 200
    end = time.monotonic() + 10
    while (answer := envoy.ask("pair")).headers["x-served-by"] != "bad":
        assert (answer.status, time.monotonic() < end) == (200, True)
        time.sleep(0.02)


def test_who_has_no_other_provider_to_go_to_asks_all_the_same(envoy: RunningEnvoy, bad: Provider) -> None:
    """And so gets the provider's own error."""
    for _ in range(FAILURES):
        envoy.ask("pair")
    before = len(bad.requests)
    answer = envoy.ask("alone")
    assert (answer.status, answer.body) == (500, bad.body)
    assert envoy.ask("same").body == bad.body
    assert len(bad.requests) == before + 3


def test_the_last_attempt_asks_all_the_same(envoy: RunningEnvoy, bad: Provider, good: Provider) -> None:
    for _ in range(FAILURES):
        envoy.ask("pair")
    good.status = 503
    answer = envoy.ask("last")
    assert (answer.status, answer.body) == (500, bad.body)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 429])
def test_what_is_about_a_request_or_a_key_puts_nobody_aside(envoy: RunningEnvoy, bad: Provider, status: int) -> None:
    bad.status = status
    for _ in range(2 * FAILURES):
        envoy.ask("pair")
    assert len(bad.requests) == 2 * FAILURES


def test_an_answer_in_between_starts_the_count_anew(envoy: RunningEnvoy, bad: Provider) -> None:
    for _ in range(3):
        bad.status = 500
        for _ in range(FAILURES - 1):
            envoy.ask("pair")
        bad.status = 200
        assert envoy.ask("pair").headers["x-served-by"] == "bad"
    assert len(bad.requests) == 3 * FAILURES


def test_connections_that_break_count_as_well(good: Provider) -> None:
    broken = Resetting()
    envoy = RunningEnvoy(configuration(broken.port, good.port, ejection=LASTING))
    try:
        answers = [envoy.ask("pair") for _ in range(10)]
    finally:
        envoy.stop()
        broken.stop()
    assert [answer.headers.get("x-served-by") for answer in answers] == ["good"] * 10
    assert broken.asked == FAILURES


def test_only_who_needs_it_gets_a_second_cluster() -> None:
    made = static_bootstrap(configuration(1, 2), with_secrets=False, sockets=["127.0.0.1:1"])["static_resources"]
    clusters = {cluster["name"]: cluster for cluster in made["clusters"]}
    assert {name for name in clusters if name.startswith("early-")} == {"early-bad", "early-good"}
    assert clusters["early-bad"]["common_lb_config"] == {"healthy_panic_threshold": {}}, "else all would be asked again"
    found = clusters["early-bad"]["outlier_detection"]
    assert (found["max_ejection_percent"], found["consecutive_5xx"]) == (100, FAILURES)
    same = ModelRule(match="m", attempts=[Attempt(backend="bad", model="x"), Attempt(backend="bad", model="y")])
    made = static_bootstrap(configuration(1, 2, models=[same]), with_secrets=False, sockets=["127.0.0.1:1"])
    assert not [cluster for cluster in made["static_resources"]["clusters"] if cluster["name"].startswith("early-")]
