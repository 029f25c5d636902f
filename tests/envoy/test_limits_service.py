"""Who counts: a service that is away, in both failure modes, and a service that several gateways share."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from extproc.config import Config, LimitsService, ModelLimits, TeamLimits
from extproc.ratelimit.fleet import fleet_config
from tests.e2e.gateway import ROOT
from tests.envoy.limited import HELLO, NOON, Limited, configuration, until
from tests.envoy.running import Answer
from tests.ports import free_port
from tests.providers.openai import USAGE, OpenAIProvider, openai_error, status, text
from tests.ratelimit_stand_in import ConfigProblem, Memory, Redis, StandIn, read_config

TEAMS: dict[str, TeamLimits | None] = {
    "red": TeamLimits(requests_per_minute=3, tokens_per_day=1_000_000),
    "blue": TeamLimits(tokens_per_minute=USAGE["total_tokens"],
                       models={"glob-*": ModelLimits(requests_per_minute=1)}),
    "free": None}


@pytest.fixture(scope="module")
def provider_server() -> Iterator[OpenAIProvider]:
    provider = OpenAIProvider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture
def provider(provider_server: OpenAIProvider) -> OpenAIProvider:
    provider_server.clear()
    provider_server.always(text("Hello."))
    return provider_server


# ---------------------------------------------------------------------------------------------------------- it is away


def test_with_failure_mode_allow_requests_pass_until_it_is_back(provider: OpenAIProvider) -> None:
    gateway = Limited(provider, TEAMS, service=False)
    try:
        assert [gateway.ask().status for _ in range(5)] == [200] * 5
        gateway.start_service()
        until(lambda: gateway.ask().status == 429, lambda: "the limit is not in force again")
        gateway.stop_service()
        assert [gateway.ask().status for _ in range(5)] == [200] * 5
    finally:
        gateway.stop()


def test_with_failure_mode_deny_they_are_refused_in_words(provider: OpenAIProvider) -> None:
    gateway = Limited(provider, TEAMS, service=False, limits_service=LimitsService(failure_mode="deny"))
    try:
        refused = gateway.ask(model="pair")
        body: Any = refused.json
        assert (refused.status, body["error"]["type"]) == (503, "overloaded_error")
        assert "counts the limits" in body["error"]["message"]
        body = gateway.ask(path="/v1/chat/completions").json
        assert (body["error"]["type"], body["error"]["code"]) == ("server_error", "limits_unavailable")
        assert provider.seen == [], "no provider is asked, and nothing fails over"
        assert gateway.ask("free").status == 200, "who has no limits does not wait for them"
        gateway.start_service()
        until(lambda: gateway.ask().status == 200, lambda: "nothing passes although it is back")
        provider.script(status(400, openai_error("bad")))
        assert gateway.ask().status == 400
    finally:
        gateway.stop()


def test_a_service_that_hangs_is_waited_for_no_longer_than_said(provider: OpenAIProvider) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        service = LimitsService(address=f"127.0.0.1:{deaf.getsockname()[1]}", timeout=0.2)
        gateway = Limited(provider, TEAMS, service=False, limits_service=service)
        try:
            began = time.monotonic()
            assert gateway.ask().status == 200
            assert 0.15 < time.monotonic() - began < 5
        finally:
            gateway.stop()


class Hanging:
    """A proxy in front of a rate limit service, which may stop passing bytes on: calls then get no answer."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._passing = threading.Event()
        self._passing.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def hang(self) -> None:
        self._passing.clear()

    def go_on(self) -> None:
        self._passing.set()

    def close(self) -> None:
        self._passing.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            service = socket.create_connection(("127.0.0.1", self._target))
            for source, target in ((client, service), (service, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._passing.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


def test_a_shared_service_that_hangs_costs_one_request_its_timeout(provider: OpenAIProvider) -> None:
    """A dead Redis does that to `envoyproxy/ratelimit`. The limits hold again when it answers."""
    service = StandIn(read_config(fleet_config(configuration(provider, TEAMS))), Memory(), lambda: NOON).start()
    proxy = Hanging(service.port)
    gateway = Limited(provider, TEAMS, service=False,
                      limits_service=LimitsService(address=f"127.0.0.1:{proxy.port}", timeout=1.5))
    try:
        assert gateway.ask().status == 200
        proxy.hang()
        assert gateway.ask().status == 200, "the one that finds out"
        began = time.monotonic()
        assert [gateway.ask().status for _ in range(3)] == [200] * 3
        assert time.monotonic() - began < 1.5, "none of these waited"
        proxy.go_on()
        until(lambda: gateway.ask().status == 429, lambda: "the limit is not in force again")
    finally:
        gateway.stop()
        proxy.close()
        service.stop()


# -------------------------------------------------------------------------------------------------------- it is shared


class Fleet:
    """Two gateways of one configuration and one rate limit service."""

    def __init__(self, provider: OpenAIProvider, store: Memory | Redis) -> None:
        self.now = 1_800_014_443.0
        self.service = StandIn(read_config(fleet_config(_settings(provider))), store, lambda: self.now).start()
        address = LimitsService(address=f"127.0.0.1:{self.service.port}", timeout=20)
        self.gateways = [Limited(provider, TEAMS, workers=1, service=False, limits_service=address) for _ in range(2)]

    def ask(self, number: int, **what: Any) -> Answer:
        return self.gateways[number].ask(**what)

    def stop(self) -> None:
        for gateway in self.gateways:
            gateway.stop()
        self.service.stop()


def _settings(provider: OpenAIProvider) -> Config:
    return configuration(provider, TEAMS)


@pytest.fixture(params=["memory", "redis"])
def fleet(provider: OpenAIProvider, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fleet]:
    if request.param == "memory":
        made = Fleet(provider, Memory())
        yield made
        made.stop()
        return
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("Debian's redis-server is not installed (apt-get install redis-server)")
    port = free_port()
    server = subprocess.Popen([binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir",
                               str(tmp_path)], stdout=subprocess.DEVNULL)
    try:
        redis = _connected(port)
        made = Fleet(provider, redis)
        yield made
        made.stop()
        redis.close()
    finally:
        server.terminate()
        server.wait(10)


def _connected(port: int) -> Redis:
    end = time.monotonic() + 10
    while True:
        try:
            redis = Redis("127.0.0.1", port)
            redis.call("EXISTS", "x")
        except (OSError, ConfigProblem):
            assert time.monotonic() < end, "redis-server does not answer"
            time.sleep(0.02)
        else:
            return redis


def test_gateways_share_one_counter(fleet: Fleet) -> None:
    assert [fleet.ask(number % 2).status for number in range(4)] == [200, 200, 200, 429]
    fleet.now += 17
    assert fleet.ask(0).status == 200, "the next minute"


def test_its_refusal_says_the_number_and_when_to_come_back(fleet: Fleet) -> None:
    for number in range(3):
        assert fleet.ask(number % 2).status == 200
    with (anthropic.Anthropic(base_url=f"http://127.0.0.1:{fleet.gateways[1].envoy.port}", api_key="key-red",
                              max_retries=0) as sdk, pytest.raises(anthropic.RateLimitError) as caught):
        sdk.messages.create(model="m", **HELLO)
    assert caught.value.response.headers["retry-after"] == "17"
    body: Any = caught.value.body
    page = (ROOT / "docs" / "limits.md").read_text()
    said = next(match for match in re.findall(r'"message": (".*")}}\n', page) if "a limit of team" in match)
    assert body["error"]["message"] == json.loads(said), "docs/limits.md shows a real one"
    told = {name: value for name, value in caught.value.response.headers.items() if "ratelimit" in name}
    assert told == {
        "x-ratelimit-limit": '3, 3;w=60;name="requests_per_minute", 1000000;w=86400;name="tokens_per_day"',
        "x-ratelimit-remaining": "0", "x-ratelimit-reset": "17"}
    answer = fleet.ask(0, path="/v1/chat/completions")
    body = answer.json
    assert (answer.status, body["error"]["code"], answer.headers["retry-after"]) == (
        429, "rate_limit_exceeded", "17")


def test_tokens_count_for_all_gateways_too(fleet: Fleet) -> None:
    assert fleet.ask(0, team="blue", stream=True).status == 200
    counted = ([("team", "blue"), ("limit", "tokens_per_minute")], USAGE["total_tokens"])
    until(lambda: counted in fleet.service.seen, lambda: f"not counted: {fleet.service.seen}")
    # What is used up to the last token is so for our own service; this one wants one more.
    assert fleet.ask(1, team="blue").status == 200
    until(lambda: fleet.service.seen.count(counted) == 2, lambda: "not counted")
    assert fleet.ask(1, team="blue").status == 429


def test_limits_of_a_rule_are_its_own(fleet: Fleet) -> None:
    fleet.now += 3600
    assert [fleet.ask(number, team="blue", model="glob-1").status for number in (0, 1)] == [200, 429]
