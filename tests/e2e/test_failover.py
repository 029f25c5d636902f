"""Every way in which a provider fails before its first token, through the real Envoy and the real processor: the next
attempt answers. What fails later never does. Deadlines, equal attempts, the replay limit, the last word."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import CLIENT_KEY, Gateway, configuration
from tests.e2e.wire import Answer, payload, post, request, stream
from tests.providers.http import Gate, Reply
from tests.providers.openai import OpenAIProvider, Seen, chunk, openai_error, raw, sse, stall, status, text

REPLAY = 256 * 1024
KEYS = ["sk-provider-key-one", "sk-provider-key-two"]
OPENAI = {"authorization": f"Bearer {CLIENT_KEY}", "content-type": "application/json"}
HEAD = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant"}}]}\n\n'


@pytest.fixture(scope="module")
def gateway(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    def rule(match: str, *attempts: dict[str, Any]) -> dict[str, Any]:
        return {"match": match, "attempts": list(attempts)}

    first, second = ({"backend": "plain", "model": model} for model in ("first", "second"))
    config = configuration(
        provider_server.url, workers=1, limits={"replay": REPLAY},
        # Soon over, so that a deadline of a rule's own is seen to hold longer.
        timeouts={"commit_after": 0.5},
        models=[
            rule("pair", first, second), rule("alone", first),
            rule("down", {"backend": "down", "model": "x"}, second),
            rule("all-down", {"backend": "plain", "model": "first"}, {"backend": "down", "model": "x"}),
            rule("quick", {**first, "first_token_timeout": 1}, second),
            rule("quick-alone", {**first, "first_token_timeout": 1}),
            rule("keyed", {"backend": "keyed", "model": "first"}),
            rule("weighted", {**first, "weight": 3}, {**second, "weight": 1}, {"backend": "plain", "model": "third"}),
        ])
    config["backends"]["keyed"] = {"api": "openai", "url": provider_server.url, "keys": KEYS}
    running = Gateway(config, tmp_path_factory.mktemp("faults"))
    yield running
    assert running.terminate() == 0, running.output


def models(provider: OpenAIProvider) -> list[str]:
    """The models that were asked, in order."""
    return [seen.body["model"] for seen in provider.seen]


def told(answer: Answer) -> str:
    """The text of a whole answer."""
    assert answer.status == 200, answer.body
    return "".join(block["text"] for block in answer.json()["content"])


BREAKS = [
    pytest.param(raw([], end="reset"), id="a reset behind the head"),
    pytest.param(raw([HEAD], end="reset"), id="a reset behind the first event"),
    pytest.param(raw([HEAD], end="cut"), id="a chunked body that breaks off"),
    pytest.param(raw([HEAD[:40]], end="end"), id="an end inside an event"),
    pytest.param(raw([], end="end"), id="an empty answer"),
    pytest.param(raw([b"data: {not JSON\n\n"], end="end"), id="what is not JSON"),
    pytest.param(raw([b"<html>busy</html>"], headers={"content-type": "text/html"}, framing="close"), id="a web page"),
]


@pytest.mark.parametrize("failure", BREAKS)
def test_an_answer_that_breaks_before_the_first_token_is_asked_for_again(gateway: Gateway, provider: OpenAIProvider,
                                                                         failure: Any) -> None:
    provider.script(failure, text("From the second."))
    with stream(gateway.base_url, payload("pair")) as answer:
        answer.read()
    assert answer.text == "From the second."
    assert models(provider) == ["first", "second"]


def test_a_connection_that_cannot_be_made_is_passed_by(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("From the second."))
    assert told(post(gateway.base_url, payload("down"))) == "From the second."


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions"])
def test_when_all_have_failed_the_last_word_is_the_last_ones(gateway: Gateway, provider: OpenAIProvider,
                                                             path: str) -> None:
    """In the client's own shape, with the time to come again where the last one told it."""
    provider.script(status(503, openai_error("first")), status(429, openai_error("second"), {"retry-after": "17"}))
    body = {"model": "pair", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    answer = request(gateway.base_url, "POST", path, body, None if path == "/v1/messages" else OPENAI)
    assert (answer.status, answer.headers["retry-after"]) == (429, "17")
    error = answer.json()["error"]
    assert "second" in error["message"]
    assert error["type"] == "rate_limit_error" if path == "/v1/messages" else error["code"] == "rate_limit_exceeded"


def test_an_unreachable_last_attempt_is_an_error_of_the_gateway(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(status(429, openai_error("first"), {"retry-after": "17"}))
    answer = post(gateway.base_url, payload("all-down"))
    assert answer.status == 503
    assert answer.error()[0] == "overloaded_error"


def test_behind_the_first_token_there_is_no_other_attempt(gateway: Gateway, provider: OpenAIProvider) -> None:
    """And no clean end: what came stays, and an error follows it."""
    provider.script(sse([chunk({"content": "Half"}), {"error": {"message": "gone", "code": 503}}]), text("never"))
    with stream(gateway.base_url, payload("pair")) as answer:
        events = answer.read()
    assert answer.text == "Half"
    assert events[-1]["type"] == "error"
    assert models(provider) == ["first"]


def test_a_reset_behind_the_first_token_is_a_reset(gateway: Gateway, provider: OpenAIProvider) -> None:
    gate = Gate()
    provider.script(raw([HEAD + b'data: {"choices":[{"index":0,"delta":{"content":"Half"}}]}\n\n', gate], end="reset"),
                    text("never"))
    with stream(gateway.base_url, payload("pair")) as answer:
        answer.until("content_block_delta")
        gate.open()
        with pytest.raises((http.client.HTTPException, OSError)):
            answer.read()
    assert answer.text == "Half"
    assert models(provider) == ["first"]


# ----------------------------------------------------------------------------------------------- the first token's time


@pytest.mark.parametrize("begun", [False, True], ids=["no head", "a head and nothing else"])
def test_a_slow_first_token_goes_to_the_next_attempt(gateway: Gateway, provider: OpenAIProvider, begun: bool) -> None:
    """Also where `commit_after` is long over."""
    slow = raw([HEAD], end="hang") if begun else stall(Gate(), text("late"))
    provider.script(slow, text("In time."))
    began = time.monotonic()
    with stream(gateway.base_url, payload("quick")) as answer:
        answer.read()
    assert answer.text == "In time."
    assert 0.9 < time.monotonic() - began < 5
    assert models(provider) == ["first", "second"]
    assert provider.seen[0].exchange.closed.wait(5), "nobody waits for what nobody wants"


def test_without_another_attempt_it_is_an_error_of_kind_timeout(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(stall(Gate(), text("late")))
    answer = post(gateway.base_url, payload("quick-alone", stream=True))
    assert answer.status == 504
    kind, message = answer.error()
    assert kind == "timeout_error"
    assert "1 second" in message


def test_in_an_open_stream_it_is_an_error_event(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(raw([HEAD], end="hang"))
    with stream(gateway.base_url, payload("quick-alone")) as answer:
        assert answer.status == 200
        events = answer.read()
    assert events[-1]["error"]["type"] == "timeout_error"


# ----------------------------------------------------------------------------------------------------- equal attempts


def test_weighted_attempts_share_the_requests_by_weight(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.always(text("ok"))
    for _ in range(80):
        assert told(post(gateway.base_url, payload("weighted"))) == "ok"
    taken = Counter(models(provider))
    assert set(taken) == {"first", "second"}
    assert 45 <= taken["first"] <= 74, taken


def test_a_conversation_stays_with_one_of_them(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.always(text("ok"))
    for _ in range(12):
        post(gateway.base_url, payload("weighted", metadata={"user_id": "user_1_session_2"}))
    assert len(set(models(provider))) == 1


def test_where_one_of_them_fails_the_other_follows_and_then_the_rest(gateway: Gateway,
                                                                     provider: OpenAIProvider) -> None:
    provider.script(status(500, openai_error("a")), status(500, openai_error("b")), text("Third."))
    assert told(post(gateway.base_url, payload("weighted"))) == "Third."
    assert models(provider)[2] == "third"
    assert set(models(provider)[:2]) == {"first", "second"}


# -------------------------------------------------------------------------------------------------------- several keys


def test_a_refused_key_costs_the_client_nothing(gateway: Gateway, provider: OpenAIProvider) -> None:
    """Neither an error nor the attempt; and no key of the gateway's is in an error text, whichever was used."""
    def by_key(seen: Seen) -> Reply:
        key = seen.headers["authorization"].removeprefix("Bearer ")
        if key == KEYS[0]:
            return status(401, openai_error(f"Incorrect API key provided: {key}"))
        return text("With the other.")(seen) if gone is None else status(400, openai_error(f"bad {key} {KEYS[0]}"))

    gone: str | None = None
    provider.always(by_key)
    for _ in range(4):
        assert told(post(gateway.base_url, payload("keyed"))) == "With the other."
    keys = [seen.headers["authorization"].removeprefix("Bearer ") for seen in provider.seen]
    assert Counter(keys) == {KEYS[0]: 1, KEYS[1]: 4}
    gateway.wait_for_line(re.compile(r"backends\.keyed\.keys\[0\]: the provider answered 401"), 10)
    gone = "now"
    answer = post(gateway.base_url, payload("keyed"))
    assert (answer.status, answer.error()[1]) == (400, "bad *** ***")


# ------------------------------------------------------------------------------------------------------------- replay


@pytest.mark.parametrize(("size", "asked"), [(REPLAY // 2, ["first", "second"]), (REPLAY * 2, ["first"])])
def test_a_request_past_the_replay_limit_is_served_by_the_first_attempt_alone(
        gateway: Gateway, provider: OpenAIProvider, size: int, asked: list[str]) -> None:
    provider.script(status(500, openai_error("broken")), text("From the second."))
    body = payload("pair", messages=[{"role": "user", "content": "x" * size}])
    answer = post(gateway.base_url, body)
    assert models(provider) == asked
    assert len(provider.seen[-1].raw) > size
    if len(asked) == 2:
        assert told(answer) == "From the second."
    else:
        assert answer.status == 500
        assert answer.error()[1] == "broken"


def test_every_attempt_begins_with_the_clients_own_request(gateway: Gateway, provider: OpenAIProvider) -> None:
    """Nothing that attempt 1 made of it is left: the bodies differ by the model alone."""
    provider.script(status(500, openai_error("broken")), text("ok"))
    post(gateway.base_url, payload("pair", system="Be kind."))
    first, second = (json.loads(seen.raw) for seen in provider.seen)
    assert first.pop("model") != second.pop("model")
    assert first == second


# ------------------------------------------------------------------------------------------------- with an official SDK

ASKED: dict[str, Any] = {"model": "pair", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def client(gateway: Gateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=gateway.base_url, api_key=CLIENT_KEY, max_retries=0, timeout=30) as one:
        yield one


def said(client: anthropic.Anthropic, streamed: bool) -> str:
    if not streamed:
        return "".join(block.text for block in client.messages.create(**ASKED).content if block.type == "text")
    with client.messages.stream(**ASKED) as answer:
        return answer.get_final_text()


FAILS = [pytest.param(status(code, openai_error("no"), {"retry-after": "7"}), id=str(code))
         for code in (401, 402, 403, 404, 408, 429, 500, 502, 503, 529)]
FAILS += [pytest.param(sse([chunk({"role": "assistant", "content": ""}), {"error": {"message": "busy", "code": 502}}]),
                       id="an error in a 200 stream before the first token"),
          pytest.param(sse([chunk({"role": "assistant", "content": ""})], done=False),
                       id="an end before the first token")]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("failure", FAILS)
def test_the_next_attempt_answers(client: anthropic.Anthropic, provider: OpenAIProvider, failure: Any,
                                  streamed: bool) -> None:
    provider.script(failure, text("From the second."))
    assert said(client, streamed) == "From the second."
    assert [seen.body["model"] for seen in provider.seen] == ["first", "second"]


def test_the_last_error_reaches_the_client_in_its_shape(client: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(status(503, openai_error("first is down")),
                    status(429, openai_error("slow down"), {"retry-after": "7"}))
    with pytest.raises(anthropic.RateLimitError) as caught:
        said(client, True)
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.body["error"]["type"] == "rate_limit_error"  # type: ignore[index]
    assert "slow down" in caught.value.message


def test_a_refusal_of_the_request_itself_is_not_tried_again(client: anthropic.Anthropic,
                                                            provider: OpenAIProvider) -> None:
    provider.script(status(400, openai_error("bad temperature")))
    with pytest.raises(anthropic.BadRequestError):
        said(client, True)
    assert len(provider.seen) == 1
