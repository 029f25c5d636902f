"""Limits under `extproc up`: the process that counts is started, watched, told of new limits, seen in the metrics."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import grpc
import openai
import pytest

from extproc.ratelimit.pb.rate_limit_service_pb2 import RateLimitRequest, RateLimitResponse
from extproc.ratelimit.service import SERVICE
from tests.e2e.gateway import CLIENT_KEY, Gateway, Process, configuration, descendants
from tests.providers.openai import OpenAIProvider, text

ASKED: dict[str, Any] = {"model": "claude-test", "max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}
DAYS = 86400


@pytest.fixture(scope="module")
def limited(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Two teams with a day's budget of two answers of 28 tokens: no minute ends in the middle of a test."""
    limits = {"tokens_per_day": 28 * 2}
    config = configuration(provider_server.url, teams={
        "red": {"key": CLIENT_KEY, "limits": limits}, "sdk": {"key": "sk-sdk", "limits": limits},
        "next": {"key": "sk-next", "limits": limits},
        "free": {"key": "sk-free"}})
    running = Gateway(config, tmp_path_factory.mktemp("limits"))
    yield running
    assert running.terminate() == 0, running.output


@pytest.fixture
def gateway(limited: Gateway, provider: OpenAIProvider) -> Gateway:
    provider.always(text("Hello."))
    return limited


def ask(gateway: Gateway, key: str = CLIENT_KEY) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=20)
    try:
        connection.request("POST", "/v1/messages", json.dumps(ASKED), {
            "content-type": "application/json", "x-api-key": key})
        return connection.getresponse().status
    finally:
        connection.close()


def metrics(gateway: Gateway) -> dict[str, float]:
    host, _, port = gateway.admin.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return {name: float(value) for name, value in re.findall(r"^(extproc_limit\S*) (\S+)$", text, re.M)}


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def counting(gateway: Gateway) -> list[int]:
    """The processes that count."""
    found = []
    for pid in descendants(gateway.process.pid):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"limits" in command and b"--accepted" in command and b"-c" not in command:
            found.append(pid)
    return found


def written(pid: int) -> list[int]:
    """What the counters' file of this process holds."""
    command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    try:
        kept = json.loads(Path(command[command.index("--counters") + 1]).read_bytes())
    except FileNotFoundError:
        return []
    return [used for *_, used in kept]


def left(gateway: Gateway, team: str = "red") -> float | None:
    return metrics(gateway).get(f'extproc_limit_remaining{{limit="tokens_per_day",model="",team="{team}"}}')


@pytest.mark.parametrize("command", ["serve", "limits"])
@pytest.mark.fault
def test_an_envoy_elsewhere_finds_the_process_that_counts(tmp_path: Path, command: str) -> None:
    """`extproc serve` brings it along, `extproc limits` is it alone; a restart of the latter goes on with its file."""
    _not_near_midnight()
    config, socket, counters = tmp_path / "extproc.yaml", tmp_path / "limits.sock", tmp_path / "counters.json"
    config.write_text(json.dumps(configuration("http://127.0.0.1:1/v1", teams={
        "red": {"key": CLIENT_KEY, "limits": {"tokens_per_day": 10}}})))
    options = {"serve": ["--listen", f"unix:{tmp_path}/w.sock", "--limits", f"unix:{socket}"],
               "limits": ["--listen", f"unix:{socket}", "--counters", str(counters)]}[command]
    said = {"serve": "processor ready", "limits": "limits_ready"}[command]
    runs = {"serve": [[(10, True), (0, False)]], "limits": [[(10, True)], [(0, False)]]}[command]
    for asked in runs:
        process = Process(command, [sys.executable, "-m", "extproc", command, "--config", str(config), *options])
        process.wait_for_line(re.compile(said), 60)
        assert [_ask_service(socket, hits) for hits, _ in asked] == [fits for _, fits in asked]
        assert process.terminate() == 0, process.output


def _ask_service(socket: Path, hits: int) -> bool:
    request = RateLimitRequest(domain="extproc")
    descriptor = request.descriptors.add()
    descriptor.hits_addend.value = hits
    for key, value in (("team", "red"), ("limit", "tokens_per_day")):
        descriptor.entries.add(key=key, value=value)
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        ask_it = channel.unary_unary(f"/{SERVICE}/ShouldRateLimit",
                                     request_serializer=RateLimitRequest.SerializeToString,
                                     response_deserializer=RateLimitResponse.FromString)
        answer: RateLimitResponse = ask_it(request, timeout=10)
    return answer.overall_code == RateLimitResponse.OK


def _not_near_midnight() -> None:
    if DAYS - time.time() % DAYS < 60:  # the budget of the day would be a new one in the middle
        pytest.skip("a minute before midnight UTC")


def test_a_budget_survives_the_end_of_the_process_that_counts_and_a_change_of_limits(gateway: Gateway) -> None:
    _not_near_midnight()
    assert ask(gateway) == 200
    until(lambda: left(gateway) == 28, "the tokens are not counted")
    [first] = counting(gateway)
    until(lambda: 28 in written(first), "the counters are not written")
    os.kill(first, signal.SIGKILL)
    until(lambda: counting(gateway) not in ([], [first]), "the process that counts is not started again")
    gateway.wait_for_line(re.compile("process that counts limits"), 10)
    assert ask(gateway, "sk-free") == 200
    # Until it answers again requests pass; those that do are counted, if at all, by the new one.
    until(lambda: ask(gateway) == 429, "what was counted is forgotten")
    refused = 'extproc_limit_refusals_total{limit="tokens_per_day",model="",team="red"}'
    until(lambda: metrics(gateway).get(refused, 0) > 0, "the refusal is not in the metrics")
    used = metrics(gateway)
    assert "extproc_limits_unanswered_total" in used

    config = json.loads(gateway.config_file.read_text())
    config["teams"]["red"]["limits"]["tokens_per_day"] = 1_000_000
    beside = gateway.config_file.with_name("beside.json")
    beside.write_text(json.dumps(config))
    beside.replace(gateway.config_file)
    until(lambda: ask(gateway) == 200, "the new limit is not in force")
    until(lambda: (left(gateway) or 0) > 0, "the new limit is not told")
    assert (left(gateway) or 0) <= 1_000_000 - 28 * 2, "what was counted counts on"


def test_the_rate_limit_service_outlives_a_replacement_of_the_workers(gateway: Gateway) -> None:
    """SIGUSR1, as after an upgrade of the package: no budget restarts, and Envoy gets an answer to every question."""
    _not_near_midnight()
    key = "sk-next"
    assert [ask(gateway, key) for _ in range(2)] == [200, 200]
    until(lambda: ask(gateway, key) == 429, "the budget is not used up")
    [first], unanswered = counting(gateway), metrics(gateway)["extproc_limits_unanswered_total"]
    gateway.process.send_signal(signal.SIGUSR1)
    statuses = []

    def replaced() -> bool:
        statuses.append(ask(gateway, key))
        return gateway.said("the workers are replaced")

    until(replaced, "the workers are not replaced")
    statuses += [ask(gateway, key) for _ in range(5)]
    assert set(statuses) == {429}
    assert counting(gateway) == [first]
    assert metrics(gateway)["extproc_limits_unanswered_total"] == unanswered


def test_the_sdks_wait_as_long_as_they_are_told(gateway: Gateway) -> None:
    _not_near_midnight()
    for _ in range(2):
        ask(gateway, "sk-sdk")
    until(lambda: left(gateway, "sdk") == 0, "the tokens are not counted")
    with (anthropic.Anthropic(base_url=gateway.base_url, api_key="sk-sdk", max_retries=0, timeout=30) as one,
          pytest.raises(anthropic.RateLimitError) as caught):
        one.messages.create(**ASKED)
    assert "56 tokens per day (tokens_per_day)" in caught.value.message
    told = caught.value.response.headers
    assert 0 < int(told["retry-after"]) <= DAYS
    assert told["anthropic-ratelimit-tokens-limit"] == "56"
    with (openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key="sk-sdk", max_retries=0, timeout=30) as two,
          pytest.raises(openai.RateLimitError) as other):
        two.chat.completions.create(model="claude-test", messages=[{"role": "user", "content": "hi"}])
    assert other.value.response.headers["x-ratelimit-remaining-tokens"] == "0"


@pytest.mark.fault
def test_limits_that_come_with_a_reload_are_counted_from_the_first_request(
        provider: OpenAIProvider, start_gateway: Callable[..., Gateway]) -> None:
    _not_near_midnight()
    provider.always(text("Hello."))
    gateway = start_gateway(teams={"red": {"key": CLIENT_KEY}})
    assert counting(gateway) == [], "nobody is limited"
    config = json.loads(gateway.config_file.read_text())
    config["teams"]["red"]["limits"] = {"tokens_per_day": 1}
    beside = gateway.config_file.with_name("beside.json")
    beside.write_text(json.dumps(config))
    beside.replace(gateway.config_file)
    until(lambda: ask(gateway) == 429, "the new limit is not in force")
    assert len(counting(gateway)) == 1
    until(lambda: metrics(gateway).get("extproc_limits_unanswered_total") == 0, "a question was not answered")
