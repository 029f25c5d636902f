"""What the record of an exchange says when it is over: the source of log, metrics and accounts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.config import Attempt, ModelRule
from extproc.conversation.model import Usage
from extproc.ext_proc.record import Record
from extproc.ext_proc.select import SelectExchange
from tests.unit.ext_proc.playbook import (
    Playbook,
    config,
    request_body,
    request_headers,
    response_body,
    response_headers,
)
from tests.unit.ext_proc.test_translate import ASK, DONE, HELLO, SSE, STOP, asked, chunk, hop, routed


def closed(play: Playbook) -> Record:
    return play.exchange.close(play.now)


def test_a_whole_stream() -> None:
    play = asked()
    play.wait(1)
    play >> response_headers(**SSE)
    play.wait(0.5)
    play >> response_body(HELLO)
    play.wait(2)
    play >> response_body(STOP + DONE)
    play.wait(0.25)
    play >> response_body(b"", end=True)
    record = closed(play)
    assert (record.operation, record.api, record.provider, record.provider_api) == (
        "chat", "anthropic", "generic", "openai")
    assert (record.rule, record.model_setting, record.provider_model) == ("one", "vendor/one", "vendor/one")
    assert (record.ms_first_token, record.ms_response, record.ms) == (1500, 3500, 3750)
    assert record.usage == Usage(input=7, output=2)
    assert (record.attempt, record.retried, record.outcome) == (1, False, "ok")


@pytest.mark.parametrize(("setting", "sent"), [("*", "free/secret-name"), ("{star}", "secret-name")])
def test_a_clients_name_of_the_model_is_told_apart_from_the_setting(setting: str, sent: str) -> None:
    """`model_setting` is what labels are made of: it is bounded, the client's name is not."""
    models = [ModelRule(match="free/*", attempts=[Attempt(backend="alpha", model=setting)])]
    play = hop(models=models)
    play >> routed(play, "free/secret-name") >> request_body({**ASK, "model": "free/secret-name"})
    record = closed(play)
    assert (record.rule, record.model_setting, record.provider_model, record.model) == (
        "free/*", setting, sent, "free/secret-name")


@pytest.mark.parametrize(("status", "attempt", "backend", "retried"), [
    (429, 1, "alpha", True), (503, 1, "alpha", True), (401, 1, "alpha", True), (400, 1, "alpha", False),
    (503, 2, "beta", False)])
def test_an_attempt_that_envoy_makes_again_elsewhere(status: int, attempt: int, backend: str, retried: bool) -> None:
    play = asked("two", attempt, backend)
    play >> response_headers(status, content_type="application/json")
    play >> response_body(b'{"error": {"message": "no"}}', end=True)
    record = closed(play)
    assert (record.retried, record.outcome) == (retried, "provider_error")


def test_an_error_after_the_first_token_is_not_made_again() -> None:
    play = asked("two")
    play >> response_headers(**SSE) >> response_body(HELLO)
    play >> response_body(b'data: {"error": {"message": "busy", "code": 502}}\n\n')
    record = closed(play)
    assert (record.status, record.outcome, record.retried) == (200, "provider_error", False)


@pytest.mark.parametrize("stream", [True, False], ids=["a stream", "a whole response"])
@pytest.mark.parametrize(("attempt", "backend", "retried"), [(1, "alpha", True), (2, "beta", False)])
def test_an_empty_response_for_a_responses_client_is_an_error(stream: bool, attempt: int, backend: str,
                                                              retried: bool) -> None:
    play = hop(backend)
    rule = next(rule for rule in play.exchange.config.models if rule.matches("two"))
    play >> request_headers(path="/v1/responses", x_extproc_route=rule.id, x_extproc_api="openai",
                            x_envoy_attempt_count=str(attempt))
    play >> request_body({"model": "two", "input": "hi", "stream": stream})
    play.take()
    play >> response_headers(**SSE) >> response_body(chunk({"role": "assistant"}) + STOP + DONE, end=True)
    head, *_ = play.take()
    assert (head[1][":status"] >= "500") is (retried or not stream)
    record = closed(play)
    assert (record.outcome, record.retried) == ("provider_error", retried)


def test_tokens_of_a_response_that_was_left_are_guessed() -> None:
    """Nothing is free because the client went away; what is guessed says so."""
    play = asked()
    play >> response_headers(**SSE)
    for _ in range(20):
        play >> response_body(HELLO)
    record = closed(play)
    assert record.outcome == "client_closed"
    assert record.usage is not None
    assert record.usage.estimated
    assert record.usage.input > 0
    assert record.usage.output >= 10


def test_what_is_not_known_is_no_figure() -> None:
    play = asked()
    play >> response_headers(500, content_type="application/json") >> response_body(b"{}", end=True)
    assert closed(play).usage is None


def test_losses_and_hints_are_told_apart() -> None:
    play = hop()
    play >> routed(play) >> request_body({**ASK, "mcp_servers": [{"url": "x"}], "service_tier": "auto"})
    play >> response_headers(**SSE) >> response_body(HELLO + STOP + DONE, end=True)
    record = closed(play)
    assert (record.dropped, record.hints) == (["mcp_servers"], ["service_tier"])


def test_calls_by_the_way_they_were_written() -> None:
    play = asked()
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "nobody", "arguments": "{}"}}
    play >> response_headers(**SSE) >> response_body(chunk({"tool_calls": [call]}) + chunk(finish="tool_calls") + DONE,
                                                     end=True)
    record = closed(play)
    assert record.tool_calls == 1
    assert json.loads(record.to_json())["calls"] == {"native": {"total": 1, "unoffered": 1}}


@pytest.mark.parametrize(("path", "operation", "api"), [
    ("/v1/messages", "chat", "anthropic"), ("/v1/chat/completions", "chat", "openai"),
    ("/v1/events", "chat", "events"), ("/v1/responses", "chat", "responses"),
    ("/v1/embeddings", "embeddings", "openai")])
def test_what_was_asked_for(path: str, operation: str, api: str) -> None:
    play = hop()
    rule = config().models[0]
    play >> request_headers(path=path, x_extproc_route=rule.id, x_extproc_api="anthropic" if api == "anthropic"
                            else "openai", x_envoy_attempt_count="1")
    play >> request_body({"input": "x", **ASK})
    record = closed(play)
    assert (record.operation, record.api) == (operation, api)


def test_the_log_holds_no_word_of_the_conversation() -> None:
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO + STOP + DONE, end=True)
    line = closed(play).to_json()
    for word in (b"Hello", b'"hi"', b"sk-alpha-secret"):
        assert word not in line


def test_the_clients_name_of_a_model_is_cut() -> None:
    select: Any = SelectExchange(config(), request_id="i", now=1000.0)
    play = Playbook(select)
    play >> request_headers() >> request_body({**ASK, "model": "free/" + "x" * 500})
    assert len(closed(play).model or "") == 200
