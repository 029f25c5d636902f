"""Limits of teams through the real Envoy: two workers, one process that counts, a clock that stands still."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from extproc.config import ModelLimits, TeamLimits
from tests.envoy.limited import HELLO, NOON, Limited, until
from tests.envoy.running import Answer
from tests.providers.http import Gate
from tests.providers.openai import USAGE, OpenAIProvider, chunk, openai_error, sse, status, text

CHAT = "/v1/chat/completions"
TEAMS: dict[str, TeamLimits | None] = {
    "free": None,
    "parallel": TeamLimits(requests_per_minute=20),
    "window": TeamLimits(requests_per_minute=1),
    "once": TeamLimits(requests_per_minute=1),
    "shapes": TeamLimits(requests_per_minute=1),
    "tokens": TeamLimits(tokens_per_minute=USAGE["total_tokens"] * 2),
    "day": TeamLimits(tokens_per_day=USAGE["total_tokens"]),
    "counting": TeamLimits(requests_per_minute=1000, tokens_per_minute=1_000_000),
    "streams": TeamLimits(concurrent_streams=2),
    "models": TeamLimits(requests_per_minute=100, models={"glob-*": ModelLimits(requests_per_minute=1),
                                                          "m": ModelLimits(tokens_per_minute=1_000_000)}),
    "strange": TeamLimits(models={"50% Ü/*": ModelLimits(requests_per_minute=1, tokens_per_minute=1_000_000)}),
    "changing": TeamLimits(requests_per_minute=3),
}


@pytest.fixture(scope="module")
def running() -> Iterator[Limited]:
    provider = OpenAIProvider()
    provider.start()
    limited = Limited(provider, TEAMS)
    yield limited
    limited.stop()
    provider.stop()


@pytest.fixture
def gateway(running: Limited) -> Limited:
    """One gateway for all; every test has a team of its own."""
    running.provider.clear()
    running.provider.always(text("Hello."))
    running.seen.charges.clear()
    running.seen.refusals.clear()
    return running


def statuses(answers: list[Answer]) -> list[int]:
    return sorted(answer.status for answer in answers)


def test_a_limit_is_exact_whatever_the_number_of_workers(gateway: Limited) -> None:
    assert statuses(gateway.at_once(50, team="parallel")) == [200] * 20 + [429] * 30
    assert len(gateway.provider.seen) == 20
    assert all(worker.streams.began > 0 for worker in gateway.workers), "both workers served"


def test_the_next_minute_is_a_new_one(gateway: Limited) -> None:
    gateway.now = NOON + 600 + 43
    assert gateway.ask("window").status == 200
    refused = gateway.ask("window")
    assert (refused.status, refused.headers["retry-after"]) == (429, "17")
    gateway.now += 16.5
    assert gateway.ask("window").headers["retry-after"] == "1"
    gateway.now += 0.5
    assert gateway.ask("window").status == 200


def test_a_refusal_never_fails_over_and_asks_no_provider(gateway: Limited) -> None:
    """Unlike a provider's 429, which does."""
    gateway.provider.script(status(429, openai_error("slow down")), text("From the second."))
    first = gateway.ask("once", model="pair")
    assert (first.status, b"From the second." in first.body) == (200, True)
    assert gateway.used("requests_per_minute", team="once") == 1, "one request, two attempts"
    assert gateway.ask("once", model="pair").status == 429
    assert [seen.body["model"] for seen in gateway.provider.seen] == ["first", "second"]


def test_the_refusal_in_the_words_of_both_apis(gateway: Limited) -> None:
    gateway.now = NOON + 1200 + 20
    gateway.ask("shapes")
    said = ('Rate limit reached: team "shapes" may have 1 request per minute (requests_per_minute). '
            "It resets in 40 seconds.")
    answer = gateway.ask("shapes")
    body: Any = answer.json
    assert body == {"type": "error", "error": {"type": "rate_limit_error", "message": said},
                    "request_id": answer.headers["request-id"]}
    assert answer.headers["content-type"] == "application/json"
    told = {name: value for name, value in answer.headers.items() if "ratelimit" in name or name == "retry-after"}
    assert told == {"retry-after": "40", "anthropic-ratelimit-requests-limit": "1",
                    "anthropic-ratelimit-requests-remaining": "0",
                    "anthropic-ratelimit-requests-reset": "2027-01-15T12:21:00Z"}

    answer = gateway.ask("shapes", path=CHAT)
    body = answer.json
    assert body == {"error": {"message": said, "type": "rate_limit_error", "param": None,
                              "code": "rate_limit_exceeded"}}
    told = {name: value for name, value in answer.headers.items() if "ratelimit" in name or name == "retry-after"}
    assert told == {"retry-after": "40", "x-ratelimit-limit-requests": "1", "x-ratelimit-remaining-requests": "0",
                    "x-ratelimit-reset-requests": "40s"}


def test_a_refusal_keeps_its_retry_after_for_an_api_with_a_default_one(gateway: Limited) -> None:
    """Codex gives up on a 429 without this header, so the Responses API always has one."""
    gateway.now = NOON + 1260 + 20
    gateway.ask("shapes")
    refused = gateway.ask("shapes", path="/v1/responses", input="hi")
    assert (refused.status, refused.headers["retry-after"]) == (429, "40")


@pytest.mark.parametrize("streamed", [True, False])
def test_the_sdks_raise_their_rate_limit_error(gateway: Limited, streamed: bool) -> None:
    gateway.ask("shapes")
    url = f"http://127.0.0.1:{gateway.envoy.port}"
    with (anthropic.Anthropic(base_url=url, api_key="key-shapes", max_retries=0) as one,
          pytest.raises(anthropic.RateLimitError) as caught):
        one.messages.create(model="m", stream=streamed, **HELLO)
    assert caught.value.response.headers["retry-after"].isdigit()
    with (openai.OpenAI(base_url=f"{url}/v1", api_key="key-shapes", max_retries=0) as two,
          pytest.raises(openai.RateLimitError) as other):
        two.chat.completions.create(model="m", stream=streamed, messages=[{"role": "user", "content": "hi"}])
    assert other.value.response.headers["retry-after"].isdigit()
    assert other.value.code == "rate_limit_exceeded"


# ------------------------------------------------------------------------------------------------------------- tokens


@pytest.mark.parametrize("path", ["/v1/messages", CHAT])
@pytest.mark.parametrize("streamed", [True, False])
def test_tokens_are_counted_when_the_answer_has_ended(gateway: Limited, streamed: bool, path: str) -> None:
    before = gateway.used("tokens_per_minute", team="counting")
    assert gateway.ask("counting", path=path, stream=streamed).status == 200
    gateway.until_used("tokens_per_minute", before + USAGE["total_tokens"], team="counting")


def test_a_used_up_budget_refuses_and_the_next_window_does_not(gateway: Limited) -> None:
    gateway.now = NOON + 3000
    for used in (1, 2):
        assert gateway.ask("tokens", stream=True).status == 200
        gateway.until_used("tokens_per_minute", USAGE["total_tokens"] * used, team="tokens")
    refused = gateway.ask("tokens")
    assert refused.status == 429
    assert b"56 tokens per minute (tokens_per_minute)" in refused.body
    assert refused.headers["anthropic-ratelimit-tokens-remaining"] == "0"
    gateway.now += 60
    assert gateway.ask("tokens").status == 200


def test_a_day_ends_at_midnight(gateway: Limited) -> None:
    gateway.now = NOON + 6 * 3600
    gateway.ask("day")
    gateway.until_used("tokens_per_day", USAGE["total_tokens"], team="day")
    refused = gateway.ask("day")
    assert (refused.status, refused.headers["retry-after"]) == (429, str(6 * 3600))
    assert b"6 hours and 0 minutes" in refused.body
    gateway.now += 6 * 3600
    assert gateway.ask("day").status == 200


def test_each_attempt_counts_its_own_tokens_and_a_failed_one_none(gateway: Limited) -> None:
    gateway.now = NOON + 8 * 3600
    gateway.provider.script(status(503, openai_error("down")), text("Hello."))
    assert gateway.ask("counting", model="pair").status == 200
    gateway.until_used("tokens_per_minute", USAGE["total_tokens"], team="counting")
    assert gateway.used("requests_per_minute", team="counting") == 1
    gateway.provider.script(status(400, openai_error("bad")))
    assert gateway.ask("counting").status == 400
    assert gateway.ask("counting", model="nowhere").status == 503
    counted = [charge.amount for charge, _ in gateway.seen.charges
               if charge.key.kind == "tokens_per_minute" and charge.amount]
    assert counted == [USAGE["total_tokens"]]


def test_a_stream_that_the_client_leaves_counts_an_estimate(gateway: Limited) -> None:
    gateway.now = NOON + 8 * 3600 + 600
    gate = Gate()
    gateway.provider.script(sse([chunk({"content": "Once upon"}), gate]))
    connection = http.client.HTTPConnection("127.0.0.1", gateway.envoy.port, timeout=20)
    prompt = {**HELLO, "model": "m", "stream": True, "messages": [{"role": "user", "content": "word " * 800}]}
    connection.request("POST", "/v1/messages", json.dumps(prompt).encode(),
                       {"content-type": "application/json", "x-api-key": "key-counting"})
    answer = connection.getresponse()
    read = b""
    while b"Once upon" not in read:
        read += answer.read1()
    answer.close()
    connection.close()
    until(lambda: gateway.used("tokens_per_minute", team="counting") > 0, lambda: "no tokens were counted")
    gate.open()
    assert 800 <= gateway.used("tokens_per_minute", team="counting") <= 1600, "about a token for four bytes"


# --------------------------------------------------------------------------------------------------- requests at once


def test_requests_at_the_same_time_are_limited_and_their_ends_make_room(gateway: Limited) -> None:
    gates = [Gate(), Gate()]
    gateway.provider.script(*(sse([chunk({"content": "x"}), gate, chunk({}, finish="stop"), chunk(usage=USAGE)])
                              for gate in gates), text("Room again."))
    open_streams = []
    for gate in gates:
        open_streams.append(_stream(gateway, "streams"))
        assert gate.reached.wait(10)
    for _ in range(3):  # a refusal takes no place, and gives none back
        refused = gateway.ask("streams")
        assert refused.status == 429
        assert refused.headers["retry-after"] == "5"
        assert b"2 requests at the same time (concurrent_streams)" in refused.body
        assert gateway.used("concurrent_streams", team="streams") == 2
    open_streams[0].close()  # the client leaves
    gateway.until_used("concurrent_streams", 1, team="streams")
    gates[1].open()
    assert b"message_stop" in open_streams[1].getresponse().read()
    gateway.until_used("concurrent_streams", 0, team="streams")
    gates[0].open()
    assert gateway.ask("streams").status == 200


def test_nobody_leaves_a_place_taken(gateway: Limited) -> None:
    """Clients that leave at any time, even while the service is being asked."""
    for _ in range(40):
        connection = http.client.HTTPConnection("127.0.0.1", gateway.envoy.port, timeout=20)
        connection.request("POST", "/v1/messages", json.dumps({**HELLO, "model": "m"}).encode(),
                           {"content-type": "application/json", "x-api-key": "key-streams"})
        connection.close()
    gateway.at_once(20, team="streams")
    gateway.until_used("concurrent_streams", 0, team="streams")
    assert gateway.ask("streams").status == 200


def _stream(gateway: Limited, team: str) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection("127.0.0.1", gateway.envoy.port, timeout=20)
    connection.request("POST", "/v1/messages", json.dumps({**HELLO, "model": "m", "stream": True}).encode(),
                       {"content-type": "application/json", "x-api-key": f"key-{team}"})
    return connection


# ------------------------------------------------------------------------------------------------- who and what counts


def test_a_team_without_limits_costs_no_call(gateway: Limited) -> None:
    assert gateway.ask("free").status == 200
    assert [charge for charge, _ in gateway.seen.charges if charge.key.team == "free"] == []


def test_what_needs_no_provider_counts_as_nothing(gateway: Limited) -> None:
    count = gateway.ask("once", path="/v1/messages/count_tokens")
    assert (count.status, "input_tokens" in count.json) == (200, True)
    assert gateway.envoy.request("GET", "/v1/models", headers={"x-api-key": "key-once"}).status == 200
    assert gateway.ask("once", model="unknown").status == 404
    assert gateway.envoy.request("POST", "/v1/messages", b"{", {
        "x-api-key": "key-once", "content-type": "application/json"}).status == 400
    assert [charge for charge, _ in gateway.seen.charges if charge.key.team == "once"] == []


def test_a_client_cannot_choose_for_whom_it_counts(gateway: Limited) -> None:
    before = gateway.used("requests_per_minute", team="counting")
    answer = gateway.envoy.request("POST", "/v1/messages", json.dumps({**HELLO, "model": "m"}).encode(), {
        "content-type": "application/json", "x-api-key": "key-counting", "x-extproc-limited-team": "free",
        "x-extproc-team": "free", "x-extproc-stream": "mine"})
    assert answer.status == 200
    assert gateway.used("requests_per_minute", team="counting") == before + 1
    assert not {"x-extproc-limited-team", "x-extproc-stream"} & gateway.provider.seen[-1].headers.keys()


def test_a_rule_has_limits_of_its_own_beside_those_of_the_team(gateway: Limited) -> None:
    assert [gateway.ask("models", model="glob-1").status, gateway.ask("models", model="glob-2").status] == [200, 429]
    assert gateway.ask("models", model="m").status == 200
    assert b'for the model \\"glob-*\\"' in gateway.ask("models", model="glob-1").body
    gateway.until_used("tokens_per_minute", USAGE["total_tokens"], team="models", rule="m")
    assert gateway.used("requests_per_minute", team="models") == 2, "what the rule refused is not the team's"


def test_a_rules_name_is_only_ever_a_name(gateway: Limited) -> None:
    assert [gateway.ask("strange", model="50% Ü/x").status for _ in range(2)] == [200, 429]
    gateway.until_used("tokens_per_minute", USAGE["total_tokens"], team="strange", rule="50% Ü/*")


@pytest.mark.parametrize("team", ["counting", "once"])
def test_a_large_request_passes_whole_or_is_refused_in_words(gateway: Limited, team: str) -> None:
    """Envoy holds the body back while it asks."""
    gateway.now = NOON + 9 * 3600
    gateway.ask("once")
    large = [{"role": "user", "content": "x" * 6_000_000}]
    answer = gateway.ask(team, messages=large)
    if team == "once":
        assert (answer.status, b"requests_per_minute" in answer.body) == (429, True)
    else:
        assert answer.status == 200
        assert len(gateway.provider.seen[-1].body["messages"][-1]["content"]) == 6_000_000


def test_changed_limits_keep_what_was_counted(gateway: Limited) -> None:
    counters = gateway.limits_server.service.counters
    assert statuses(gateway.at_once(4, team="changing")) == [200] * 3 + [429]
    more = {**gateway.config.limit_numbers,
            **{key: 5 for key in gateway.config.limit_numbers if key.team == "changing"}}
    gateway.servers.call(lambda: counters.set_limits(more))
    assert statuses(gateway.at_once(4, team="changing")) == [200] * 2 + [429] * 2
