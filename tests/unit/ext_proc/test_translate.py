"""The backend hop: an Anthropic client on a provider of the OpenAI format, message by message."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from extproc.bounds import Limits
from extproc.config import Attempt, Backend, ModelRule, Timeouts
from extproc.ext_proc.translate import TranslateExchange
from extproc.translation.exchange import Translation
from tests.unit.ext_proc.playbook import (
    FDS,
    Playbook,
    config,
    request_body,
    request_headers,
    request_trailers,
    response_body,
    response_headers,
    response_trailers,
)

ASK = {"model": "one", "max_tokens": 10, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
SSE = {"content_type": "text/event-stream"}


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One event of the provider's stream."""
    body = {"id": "c1", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


HELLO = chunk({"role": "assistant", "content": "Hello"})
STOP = chunk(finish="stop", usage={"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9})
DONE = b"data: [DONE]\n\n"


def hop(backend: str = "alpha", *, one_hop: bool = False, make: Any = None, **changes: Any) -> Playbook:
    extra = {"make": make} if make else {}
    return Playbook(TranslateExchange(config(**changes), backend, request_id="id-1", now=1000.0, one_hop=one_hop,
                                      **extra))


def routed(play: Playbook, model: str = "one", attempt: int = 1, **headers: str) -> Any:
    """Request headers as they come from the edge hop."""
    rule = next(rule for rule in play.exchange.config.models if rule.matches(model))
    return request_headers(x_extproc_route=rule.id, x_extproc_api="anthropic", x_envoy_attempt_count=str(attempt),
                           x_request_id="req-7", **headers)


def asked(model: str = "one", attempt: int = 1, backend: str = "alpha", stream: bool = True,
          offered: list[dict[str, Any]] | None = None, **changes: Any) -> Playbook:
    """An exchange whose request is on its way to the provider, with the tools `offered`."""
    play = hop(backend, **changes)
    tools = {} if offered is None else {"tools": offered}
    play >> routed(play, model, attempt) >> request_body({**ASK, "model": model, "stream": stream, **tools})
    assert play.take()[0][0] == "request head"
    return play


def events(parts: list[tuple[Any, ...]]) -> list[str]:
    """Names of the Anthropic events in body parts."""
    text = b"".join(part[1] for part in parts if part[0] == "response body").decode()
    return [line[7:] for line in text.splitlines() if line.startswith("event: ")]


# ------------------------------------------------------------------------------------------------------------- request


def test_the_request_goes_out_translated_once_its_body_is_complete() -> None:
    play = hop()
    raw = json.dumps(ASK).encode()
    play >> routed(play) << []
    play >> request_body(raw[:10], end=False) << []
    play >> request_body(raw[10:])
    head, body = play.take()
    assert head[0] == "request head"
    assert head[1][":path"] == "/base/v1/chat/completions"
    assert head[1]["content-type"] == "application/json"
    sent = json.loads(body[1])
    assert body[2] is True
    assert sent["model"] == "vendor/one"
    assert sent["stream"] is True


def test_headers_cross_by_allow_list() -> None:
    """Rule 8: nothing of the client's headers reaches the provider but what the translation sets."""
    play = hop()
    play >> routed(play, authorization="Bearer client-key", cookie="a=b", x_api_key="client-key", x_stainless_os="L",
                   anthropic_beta="x", user_agent="cli", accept_encoding="gzip", x_forwarded_for="10.0.0.1")
    play >> request_body(ASK)
    sets = play.take()[0][1]
    assert play.removed() >= {"authorization", "cookie", "x-api-key", "x-stainless-os", "anthropic-beta",
                              "x-request-id", "x-extproc-route", "x-extproc-api", "x-forwarded-for"} - set(sets)
    assert not play.removed() & {":path", ":method", ":authority", "host"}
    assert not any("client-key" in value for value in sets.values())


def test_each_attempt_has_its_own_model_and_backend() -> None:
    first = asked("two", 1)
    assert first.exchange.record.provider_model == "vendor/a"
    second = asked("two", 2, "beta")
    assert second.exchange.record.provider_model == "vendor/b"
    free = asked("free/any-name", 1, "beta")
    assert free.exchange.record.provider_model == "free/any-name"


@pytest.mark.parametrize(("backend", "attempt"), [("beta", 1), ("alpha", 2), ("gamma", 1)])
def test_an_attempt_on_the_wrong_backend_fails_and_is_logged(backend: str, attempt: int) -> None:
    play = hop(backend)
    play >> routed(play, "two", attempt)
    [(kind, status, body, details)] = play.take()
    assert (kind, status, details) == ("immediate", 500, "extproc_internal_error")
    assert body["type"] == "error"
    assert "req-7" in body["error"]["message"]
    assert play.exchange.crash is not None


def test_an_unknown_route_fails() -> None:
    play = hop()
    play >> request_headers(x_extproc_route="gone-1234", x_extproc_api="anthropic")
    assert play.take()[0][1] == 500


def test_a_bad_request_is_refused_in_the_clients_shape() -> None:
    play = hop()
    play >> routed(play) >> request_body({"model": "one", "messages": "none", "max_tokens": 1})
    [(kind, status, body, details)] = play.take()
    assert (kind, status, body["type"]) == ("immediate", 400, "error")
    assert "messages" in body["error"]["message"]
    assert details == "extproc_invalid_request"


def test_compressed_requests_are_translated() -> None:
    """P19."""
    play = hop()
    play >> routed(play, content_encoding="gzip") >> request_body(gzip.compress(json.dumps(ASK).encode()))
    head, body = play.take()
    assert json.loads(body[1])["model"] == "vendor/one"
    assert "content-encoding" in play.removed()
    assert "content-encoding" not in head[1]


@pytest.mark.parametrize(("message", "status"), [
    (request_trailers(), 400), (request_body(b"{" * 5), 400), (request_body(b""), 400),
])
def test_requests_that_cannot_be_served(message: Any, status: int) -> None:
    play = hop()
    play >> routed(play) >> message
    [(kind, got, body, _)] = play.take()
    assert (kind, got, body["type"]) == ("immediate", status, "error")


def test_a_request_without_a_body_is_answered_at_once() -> None:
    """No body message follows such headers."""
    play = hop()
    rule = play.exchange.config.models[0]
    play >> request_headers(end=True, x_extproc_route=rule.id, x_extproc_api="anthropic")
    assert play.take()[0][1] == 400


@pytest.mark.parametrize("modes", [(2, FDS), (FDS, 1), (0, 0)])
def test_other_body_modes_are_refused(modes: tuple[int, int]) -> None:
    play = hop(one_hop=True)
    play >> request_headers(modes=modes)
    [(_, status, body, details)] = play.take()
    assert (status, details) == (500, "extproc_body_mode")
    assert "FULL_DUPLEX_STREAMED" in body["error"]["message"]


def test_a_body_past_the_limit() -> None:
    play = hop(limits=Limits(body=50))
    play >> routed(play) >> request_body(b"x" * 51, end=False)
    assert play.take()[0][1] == 413


# ------------------------------------------------------------------------------------------------------------ response


def test_a_stream_flows_event_by_event() -> None:
    play = asked()
    play >> response_headers(**SSE, content_length="99", set_cookie="s=1", x_ratelimit_remaining="5", server="up")
    play << []
    play >> response_body(HELLO)
    head, *parts = play.take()
    assert head[0] == "response head"
    assert head[1][":status"] == "200"
    assert head[1]["content-type"].startswith("text/event-stream")
    assert play.removed() >= {"content-length", "set-cookie", "server"}
    assert "x-ratelimit-remaining" not in play.removed()
    assert "content_block_delta" in events(parts)
    play >> response_body(STOP) >> response_body(DONE)
    assert events(play.take())[-1] == "message_stop"
    play >> response_body(b"", end=True) << [("response body", b"", True)]
    record = play.exchange.close(play.now)
    assert (record.outcome, record.finish, record.status) == ("ok", "stop", 200)
    assert (record.usage.input, record.usage.output) == (7, 2)
    assert {key: play.metadata()[key] for key in ("input", "output", "total", "estimated", "backend", "model")} == {
        "input": 7, "output": 2, "total": 9, "estimated": False, "backend": "alpha", "model": "one"}


def test_a_whole_response_comes_at_the_end() -> None:
    play = asked(stream=False)
    response = {"id": "c", "object": "chat.completion", "model": "m", "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}
    raw = json.dumps(response).encode()
    play >> response_headers(content_type="application/json", content_encoding="identity")
    play >> response_body(raw[:50]) << []
    play >> response_body(raw[50:], end=True)
    head, body = play.take()
    assert head[1][":status"] == "200"
    assert json.loads(body[1])["content"] == [{"type": "text", "text": "Hello"}]
    assert body[2] is True


def test_pings_while_the_provider_is_silent_then_an_error_and_an_end() -> None:
    """P12."""
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO)
    play.take()
    play.wait(9.5) << []
    play.wait(1.5)
    assert events(play.take()) == ["ping"]
    play.wait(200)
    assert set(events(play.take())) == {"ping"}
    play.wait(60)
    parts = play.take()
    assert events(parts)[-1] == "error"
    assert "message_stop" not in events(parts)
    assert parts[-1][2] is True
    assert play.exchange.done
    assert play.exchange.close(play.now).outcome == "provider_error"


def test_a_quiet_stream_is_looked_at_for_its_pings_only() -> None:
    """Thousands of streams wait for a model that thinks: a look a second at each would cost a core."""
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO)
    looks, look = [], TranslateExchange.on_deadline

    def count(exchange: TranslateExchange, now: float) -> Any:
        looks.append(now)
        return look(exchange, now)

    with patch.object(TranslateExchange, "on_deadline", count):
        play.wait(105)
    assert events(play.take()).count("ping") == 10
    assert len(looks) <= 12
    play >> response_body(HELLO)
    play.wait(9.9)
    assert "ping" not in events(play.take())
    play.wait(0.2)
    assert events(play.take()) == ["ping"]


def test_a_stream_that_ends_early_never_looks_finished() -> None:
    """P1: EOF without an end."""
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO) >> response_body(b"", end=True)
    parts = play.take()
    assert events(parts)[-1] == "error"
    assert "message_stop" not in events(parts)
    assert [part[2] for part in parts if part[0] == "response body"][-1] is True


def test_an_error_inside_the_stream_ends_it_at_once() -> None:
    """P1: Envoy then closes the provider's connection; what still comes is ignored."""
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO)
    play.take()
    play >> response_body(b'data: {"error":{"message":"overloaded","code":502},"choices":[]}\n\n')
    parts = play.take()
    assert events(parts)[-1] == "error"
    assert parts[-1][2] is True
    play >> response_body(HELLO) >> response_body(b"", end=True) << []
    play.wait(100) << []


def test_a_provider_that_does_not_close_after_the_end_is_not_waited_for() -> None:
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO + STOP + DONE)
    assert play.take()[-1][2] is False
    play.wait(1.1) << [("response body", b"", True)]
    assert play.exchange.close(play.now).outcome == "ok"


def test_trailers_of_the_provider_do_not_cross() -> None:
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO + STOP + DONE)
    play.take()
    play >> response_trailers(x_checksum="1") << [("response trailers",)]
    assert list(play.said[-1].response_trailers.header_mutation.remove_headers) == ["x-checksum"]
    assert play.exchange.close(play.now).outcome == "ok"


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_errors_keep_their_status_and_get_the_clients_shape(status: int) -> None:
    """P14."""
    play = asked()
    play >> response_headers(status, content_type="application/json", retry_after="7") << []
    play >> response_body(b'{"error":{"message":"no, sk-alpha-secret"}}', end=True)
    head, body = play.take()
    assert head[1][":status"] == str(status)
    assert json.loads(body[1])["type"] == "error"
    assert b"sk-alpha-secret" not in body[1]
    assert body[2] is True
    assert play.exchange.close(play.now).outcome == "provider_error"


def test_envoys_own_reply_is_a_response_like_any_other() -> None:
    play = asked()
    play >> response_headers(503, content_type="text/plain", content_length="19")
    play >> response_body(b"no healthy upstream", end=True)
    head, body = play.take()
    assert head[1][":status"] == "503"
    assert json.loads(body[1])["type"] == "error"


@pytest.mark.parametrize("status", [200, 204, 500])
def test_a_response_without_a_body_gets_one_together_with_its_head(status: int) -> None:
    """A chunk would be dropped there."""
    play = asked()
    play >> response_headers(status, end=True)
    [(kind, headers, body)] = play.take()
    assert kind == "response head"
    assert int(headers[":status"]) >= 500
    assert json.loads(body)["type"] == "error"
    assert play.exchange.done


# ---------------------------------------------------------------------------------------------------------- withholding


def test_an_error_before_the_first_content_becomes_a_status_while_an_attempt_remains() -> None:
    play = asked("two")
    play >> response_headers(**SSE) << []
    play >> response_body(chunk({"role": "assistant"})) << []
    play >> response_body(b'data: {"error":{"message":"overloaded","code":503},"choices":[]}\n\n')
    head, body = play.take()
    assert int(head[1][":status"]) >= 500
    assert head[1]["content-type"] == "application/json"
    assert json.loads(body[1])["type"] == "error"
    assert body[2] is True


def test_an_early_end_before_the_first_content_becomes_a_status_as_well() -> None:
    play = asked("two")
    play >> response_headers(**SSE) >> response_body(b": hello\n\n", end=True)
    head, body = play.take()
    assert int(head[1][":status"]) >= 500
    assert body[2] is True


def test_the_first_content_ends_withholding() -> None:
    play = asked("two")
    play >> response_headers(**SSE) >> response_body(HELLO)
    parts = play.take()
    assert parts[0][1][":status"] == "200"
    assert events(parts)[0] == "message_start"


def test_after_commit_after_the_head_goes_out_and_pings_begin() -> None:
    play = asked("two")
    play >> response_headers(**SSE) >> response_body(b": hm\n\n")
    play.wait(7.9) << []
    play.wait(0.2)
    assert play.take()[0][0] == "response head"
    play.wait(10)
    assert events(play.take())[-1] == "ping"
    play >> response_body(b"", end=True)
    assert events(play.take())[-1] == "error"


def test_the_last_attempt_withholds_the_head_until_the_first_byte() -> None:
    play = asked("two", 2, "beta")
    play >> response_headers(**SSE) << []
    play >> response_body(b": hm\n\n")
    assert play.take()[0][0] == "response head"


@pytest.mark.parametrize(("model", "attempt", "backend"), [("two", 1, "alpha"), ("two", 2, "beta")])
def test_p12_a_head_and_then_silence_is_a_status(model: str, attempt: int, backend: str) -> None:
    """Envoy takes no chunk, and so no ping and no error event, before it has sent a byte of the body itself."""
    play = asked(model, attempt, backend)
    play >> response_headers(**SSE)
    play.wait(239) << []
    play.wait(2)
    [(kind, status, body, _)] = play.take()
    assert (kind, status, body["error"]["type"]) == ("immediate", 504, "timeout_error")
    record = play.exchange.close(play.now)
    assert (record.outcome, record.failure, record.status) == ("provider_error", "timeout", 504)


def test_after_commit_after_the_first_byte_opens_the_stream() -> None:
    play = asked("two")
    play >> response_headers(**SSE)
    play.wait(30) << []
    play >> response_body(b": hm\n\n")
    assert play.take()[0][0] == "response head"
    play.wait(11)
    assert events(play.take())[-1] == "ping"


def test_a_response_that_nobody_can_read_is_a_status() -> None:
    play = asked()
    play >> response_headers(content_type="application/json", content_encoding="lzw")
    [(kind, status, body, _)] = play.take()
    assert (kind, status, body["error"]["type"]) == ("immediate", 502, "api_error")


# ------------------------------------------------------------------------------------------------------------- hazards


def test_a_provider_that_never_answers_is_a_504_that_can_fail_over() -> None:
    play = asked()
    play.wait(239) << []
    play.wait(2)
    [(kind, status, body, details)] = play.take()
    assert (kind, status, details) == ("immediate", 504, "extproc_provider_timeout")
    assert body["error"]["type"] == "timeout_error"
    assert play.exchange.close(play.now).outcome == "provider_error"


class Broken:
    """A Translation that raises at one of its calls."""

    def __init__(self, at: str, real: Any) -> None:
        self._at = at
        self._real = real

    def __getattr__(self, name: str) -> Any:
        if name == self._at:
            raise ZeroDivisionError("a secret")
        return getattr(self._real, name)


def broken(at: str) -> Any:
    from extproc.ext_proc.attempt import make_translation

    return lambda *arguments: Broken(at, make_translation(*arguments))


@pytest.mark.parametrize("at", ["request", "start"])
def test_an_exception_before_the_head_is_a_500_in_the_clients_shape(at: str) -> None:
    play = hop(make=broken(at))
    play >> routed(play) >> request_body(ASK) >> response_headers(**SSE)
    kind, status, body, _ = play.take()[-1]
    assert (kind, status, body["type"]) == ("immediate", 500, "error")
    assert "secret" not in body["error"]["message"]


def test_an_exception_at_the_first_byte_is_a_status() -> None:
    play = hop(make=broken("feed"))
    play >> routed(play) >> request_body(ASK)
    play.take()
    play >> response_headers(**SSE) >> response_body(HELLO)
    [(kind, status, body, _)] = play.take()
    assert (kind, status, body["error"]["type"]) == ("immediate", 500, "api_error")
    assert isinstance(play.exchange.crash, ZeroDivisionError)
    assert play.exchange.close(play.now).outcome == "error"


def test_an_exception_after_the_head_is_an_error_event_and_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO)
    play.take()

    def feed(translation: Translation, data: bytes, now: float) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(Translation, "feed", feed)
    play >> response_body(HELLO)
    parts = play.take()
    assert events(parts)[-1] == "error"
    assert parts[-1][2] is True
    assert isinstance(play.exchange.crash, ZeroDivisionError)
    assert play.exchange.close(play.now).outcome == "error"


def test_when_even_the_error_event_fails_the_stream_breaks_and_never_ends_cleanly(
        monkeypatch: pytest.MonkeyPatch) -> None:
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO)
    play.take()

    def fail(*_: object) -> bytes:
        raise KeyError

    monkeypatch.setattr(Translation, "feed", fail)
    monkeypatch.setattr(Translation, "fail", fail)
    play >> response_body(HELLO)
    [(kind, status, _, _)] = play.take()
    assert (kind, status) == ("immediate", 500)


def test_a_client_that_leaves_mid_stream() -> None:
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO)
    record = play.exchange.close(play.now)
    assert (record.outcome, record.status, record.finish) == ("client_closed", 200, None)


def test_estimates_while_the_response_streams() -> None:
    play = asked()
    assert play.metadata()["estimated"] is True
    assert play.metadata()["total"] > 0
    play >> response_headers(**SSE)
    before = play.metadata()["output"]
    for _ in range(50):
        play.wait(0.2)
        play >> response_body(HELLO)
    assert play.metadata()["output"] > before


@pytest.mark.parametrize("ending", [chunk(finish="stop") + DONE, b""])
def test_a_response_without_figures_counts_by_its_estimate(ending: bytes) -> None:
    """P15e, P1: also when the stream broke."""
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO * 40 + ending, end=True)
    figures = play.metadata()
    assert figures["estimated"] is True
    assert figures["total"] == figures["input"] + figures["output"] > figures["input"] > 0


def test_a_refusal_of_the_provider_counts_nothing() -> None:
    play = asked()
    play >> response_headers(429, content_type="application/json") >> response_body(b"{}", end=True)
    assert (play.metadata()["total"], play.metadata()["estimated"]) == (0, False)


def test_a_prompt_that_a_provider_only_counts_uses_no_tokens() -> None:
    claude = {"claude": Backend(api="anthropic", url="https://api.anthropic.com/v1", key="k")}
    play = hop("claude", backends=claude, models=[ModelRule(match="one", attempts=[
        Attempt(backend="claude", model="c")])])
    play >> routed(play, path="/v1/messages/count_tokens") >> request_body({"model": "one", "messages": []})
    assert (play.metadata()["total"], play.metadata()["estimated"]) == (0, False)
    play >> response_headers(content_type="application/json") >> response_body(b'{"input_tokens":9}', end=True)
    assert play.take()[-1][1] == b'{"input_tokens":9}'
    assert (play.metadata()["total"], play.metadata()["estimated"]) == (0, False)


def test_the_record_holds_neither_bodies_nor_keys() -> None:
    play = asked()
    play >> response_headers(**SSE) >> response_body(HELLO + STOP + DONE, end=True)
    line = play.exchange.close(play.now).to_json()
    assert b"Hello" not in line
    assert b"secret" not in line
    assert json.loads(line)["request_id"] == "req-7"


def test_an_error_that_quotes_the_key_of_its_request_is_scrubbed_when_the_file_has_another(tmp_path: Path) -> None:
    """Nobody had a reason to look at the file in between but the request itself."""
    file = tmp_path / "key"
    settings = config(backends={"alpha": Backend(api="openai", url="https://alpha.example/v1", key_file=str(file)),
                                "beta": config().backends["beta"]})
    for number in (1, 2, 3):
        file.write_text(f"token-number-{number}")
        play = Playbook(TranslateExchange(settings, "alpha", request_id="id-1", now=1000.0))
        play >> routed(play) >> request_body(ASK)
        play.take()
    file.write_text("token-number-4")
    play >> response_headers(401, content_type="application/json")
    play >> response_body(b'{"error":{"message":"not token-number-2, not token-number-3"}}', end=True)
    assert "not ***, not ***" in str(play.take())


# ------------------------------------------------------------------------------------------------------------- one hop


def test_one_hop_checks_and_translates_by_itself() -> None:
    play = hop(one_hop=True)
    play >> request_headers(path="/anthropic/v1/messages?beta=true", authority="llm.example") >> request_body(ASK)
    head, body = play.take()
    assert head[1][":path"] == "/base/v1/chat/completions"
    assert json.loads(body[1])["model"] == "vendor/one"
    play >> response_headers(**SSE) >> response_body(HELLO)
    assert play.take()[0][0] == "response head"


def test_one_hop_serves_only_models_of_its_backend() -> None:
    play = hop(one_hop=True)
    play >> request_headers() >> request_body({**ASK, "model": "free/x"})
    [(_, status, body, _)] = play.take()
    assert status == 404
    assert "alpha" in body["error"]["message"]


def test_one_hop_takes_its_backends_attempt() -> None:
    play = hop("beta", one_hop=True)
    play >> request_headers() >> request_body({**ASK, "model": "two"})
    assert json.loads(play.take()[1][1])["model"] == "vendor/b"


def test_one_hop_lists_models_and_ignores_the_edges_headers() -> None:
    play = hop(one_hop=True)
    play >> request_headers("GET", "/v1/models", end=True, anthropic_version="1", x_extproc_api="openai")
    [(_, status, body, _)] = play.take()
    assert status == 200
    assert "has_more" in body


def test_timeouts_of_the_configuration_that_routed_the_request_count_from_its_head_on() -> None:
    ours, theirs = config(timeouts=Timeouts(request=600)), config(timeouts=Timeouts(request=60))
    play = Playbook(TranslateExchange(ours, "alpha", request_id="id-1", now=1000.0, find_config=lambda rule: theirs))
    play >> routed(play)
    play.wait(59) << []
    play.wait(2)
    assert play.take()[0][:2] == ("immediate", 408)
