"""The edge hop: a request in, a route or a response out."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import brotli
import pytest
import zstandard

from extproc.bounds import Limits
from extproc.config import Attempt, Backend, ModelRule, Team, Timeouts
from extproc.ext_proc import incoming, messages
from extproc.ext_proc.select import SelectExchange
from tests.unit.ext_proc.playbook import FDS, Playbook, config, request_body, request_headers, request_trailers

ASK = {"model": "one", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
RAW = json.dumps(ASK).encode()


def edge(**changes: Any) -> Playbook:
    return Playbook(SelectExchange(config(**changes), request_id="id-1", now=1000.0))


def refusal(play: Playbook) -> tuple[int, str, str]:
    """(status, error message, details) of the one immediate response in Anthropic's shape."""
    [(kind, status, body, details)] = play.take()
    assert kind == "immediate"
    assert body["type"] == "error"
    return status, body["error"]["message"], details


def test_head_waits_for_the_body_and_the_bytes_pass_unchanged() -> None:
    play = edge()
    play >> request_headers() << []
    play >> request_body(RAW[:20], end=False) << []
    rule = play.exchange.config.models[0]
    play >> request_body(RAW[20:]) << [
        ("request head", {"x-extproc-route": rule.id, "x-extproc-api": "anthropic"}),
        ("request body", RAW, True),
    ]
    assert play.exchange.done
    assert play.said[0].request_headers.response.clear_route_cache


def test_end_may_come_in_a_message_of_its_own_and_twice() -> None:
    play = edge()
    play >> request_headers() >> request_body(RAW, end=False) >> request_body(b"")
    assert [part[0] for part in play.take()] == ["request head", "request body"]
    play >> request_body(b"") << []


def test_big_bodies_go_back_in_pieces() -> None:
    body = json.dumps({"model": "one", "filler": "x" * 3_000_000}).encode()
    play = edge()
    play >> request_headers()
    for start in range(0, len(body), 65536):
        play >> request_body(body[start:start + 65536], end=False)
    play >> request_body(b"")
    head, *pieces = play.take()
    assert head[0] == "request head"
    assert b"".join(piece[1] for piece in pieces) == body
    assert [piece[2] for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert all(65536 <= len(piece[1]) <= 1 << 20 for piece in pieces[:-1])


def test_internal_headers_of_the_client_are_removed() -> None:
    play = edge()
    play >> request_headers(x_extproc_route="spoof", x_extproc_team="boss", x_extproc_any="1") >> request_body(ASK)
    assert play.removed() == {"x-extproc-team", "x-extproc-any"}
    assert play.take()[0][1]["x-extproc-route"].startswith("one-")


def test_the_clients_own_wishes_reach_the_backend_hop() -> None:
    play = edge()
    play >> request_headers(x_extproc_tools="prompted", x_extproc_finalize="true", x_extproc_any="1")
    play >> request_body(ASK)
    assert play.removed() == {"x-extproc-any"}


@pytest.mark.parametrize("path", ["/v1/messages?beta=true", "/anthropic/v1/messages", "/v1/messages/"])
def test_query_strings_and_prefixes_are_tolerated(path: str) -> None:
    play = edge()
    play >> request_headers(path=path) >> request_body(ASK)
    assert play.take()[0][0] == "request head"


def test_a_suffix_that_asks_for_a_longer_context_is_not_part_of_the_name() -> None:
    play = edge()
    play >> request_headers() >> request_body({**ASK, "model": "one[1m]"})
    assert play.take()[0][1]["x-extproc-route"] == play.exchange.config.models[0].id


@pytest.mark.parametrize(("coding", "encode"), [
    ("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.compress), ("deflate", zlib.compress),
    ("deflate", lambda data: zlib.compress(data, wbits=-15)), ("gzip, br", lambda d: brotli.compress(gzip.compress(d))),
])
def test_compressed_bodies_are_read_and_pass_as_they_are(coding: str, encode: Any) -> None:
    """P19."""
    packed = encode(RAW)
    play = edge()
    play >> request_headers(content_encoding=coding) >> request_body(packed)
    head, body = play.take()
    assert head[0] == "request head"
    assert body == ("request body", packed, True)


@pytest.mark.parametrize(("coding", "encode"), [
    ("gzip", gzip.compress), ("br", brotli.compress), ("zstd", zstandard.compress), ("deflate", zlib.compress)])
def test_a_compression_bomb_is_a_413(coding: str, encode: Any) -> None:
    bomb = encode(b'{"model":"one","x":"' + b"0" * 30_000_000 + b'"}')
    play = edge(limits=Limits(body=100_000))
    assert len(bomb) < 100_000
    play >> request_headers(content_encoding=coding) >> request_body(bomb)
    assert refusal(play)[0] == 413


@pytest.mark.parametrize(("headers", "body", "status", "words"), [
    ({"content_encoding": "gzip"}, b"no gzip", 400, "gzip"),
    ({"content_encoding": "lzma"}, RAW, 415, "lzma"),
    ({}, b'{"model": "one",, }', 400, "byte"),
    ({}, b'{"model": "one"', 400, "byte 15"),
    ({"path": "/", "anthropic_version": "2023-06-01"}, RAW, 404, "POST /v1/messages"),
    ({}, b"", 400, "empty"),
    ({}, b'{"messages": []}', 400, "model: Field required"),
    ({}, b'{"model": 3}', 400, "model: Expected `str`"),
    ({}, b'{"model": ""}', 400, "model"),
    ({}, b"[1]", 400, "object"),
    ({}, b'{"model":"one","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "deeper than 128"),
    ({}, b'{"model":"own"}', 404, "one"),
    ({"content_length": "70000000"}, b"", 413, "limits.body"),
    ({"content_type": "text/plain"}, RAW, 415, "application/json"),
    ({"content_type": ""}, RAW, 415, "application/json"),
    ({"authority": "evil.example"}, RAW, 421, "evil.example"),
    ({"origin": "https://evil.example"}, RAW, 403, "https://evil.example"),
    ({"path": "/v1/nonsense", "anthropic_version": "2023-06-01"}, RAW, 404, "POST /v1/messages"),
    ({"method": "GET"}, RAW, 405, "POST"),
])
def test_refusals_come_in_the_clients_shape(headers: dict[str, str], body: bytes, status: int, words: str) -> None:
    """P14, and the gateway without teams (421, 403, 415)."""
    play = edge()
    play >> request_headers(**headers)
    if not play.exchange.done:
        play >> request_body(body)
    got, message, details = refusal(play)
    assert got == status
    assert words in message
    assert details.startswith("extproc_")
    assert " " not in details
    assert play.exchange.record.outcome == "error"


@pytest.mark.parametrize(("path", "error"), [
    ("/v1/chat/completions", {"type": "invalid_request_error", "code": "model_not_found"}),
    ("/v1/messages", {"type": "not_found_error"}),
])
def test_p14_an_unknown_model_is_told_from_an_unknown_path(path: str, error: dict[str, str]) -> None:
    """As OpenAI says it, and as Anthropic does, which has no codes."""
    play = edge()
    play >> request_headers(path=path) >> request_body({**ASK, "model": "own"})
    [(_, status, body, details)] = play.take()
    assert (status, details) == (404, "extproc_unknown_model")
    assert {key: value for key, value in body["error"].items() if key in ("type", "code")} == error


def test_nesting_just_within_the_limit_passes_whatever_strings_hold() -> None:
    play = edge()
    deep = '{"model":"one","s":"[[[\\"[{\\\\","x":' + "[" * 127 + "]" * 127 + ',"t":"\\\\"}'
    play >> request_headers() >> request_body(deep.encode())
    assert play.take()[0][0] == "request head"


def test_a_body_past_the_limit_is_refused_while_it_comes() -> None:
    """P18."""
    play = edge(limits=Limits(body=1000))
    play >> request_headers() >> request_body(b"x" * 999, end=False) << []
    play >> request_body(b"xx", end=False)
    assert refusal(play)[0] == 413
    play >> request_body(b"more") << []


def test_wrong_method_names_the_right_one() -> None:
    play = edge()
    play >> request_headers("GET", "/v1/messages", end=True)
    mutation = play.said[0].immediate_response.headers
    assert {o.header.key: o.header.raw_value for o in mutation.set_headers}["allow"] == b"POST"


def test_a_request_with_trailers_is_refused() -> None:
    """Envoy would double its body on the way up."""
    play = edge()
    play >> request_headers() >> request_body(RAW, end=False) >> request_trailers()
    assert refusal(play)[0] == 400


def test_another_body_mode_is_refused_by_the_settings_name() -> None:
    play = edge()
    play >> request_headers(modes=(2, 0))
    status, message, details = refusal(play)
    assert (status, details) == (500, "extproc_body_mode")
    assert "request_body_mode: BUFFERED" in message


def test_the_edge_filter_needs_no_response_body() -> None:
    play = edge()
    play >> request_headers(modes=(FDS, 0)) << []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_root_greets(method: str) -> None:
    play = edge()
    play >> request_headers(method, "/", end=True)
    [(_, status, body, _)] = play.take()
    assert (status, body["name"]) == (200, "extproc")
    assert play.exchange.record.outcome == "ok"


def test_models_come_in_the_shape_of_the_api_that_asks() -> None:
    play = edge()
    play >> request_headers("GET", "/v1/models?limit=1000", end=True, anthropic_version="2023-06-01")
    [(_, status, body, _)] = play.take()
    assert status == 200
    assert [(model["type"], model["id"]) for model in body["data"]] == [
        ("model", "one"), ("model", "two"), ("model", "free/x")]
    assert body["has_more"] is False
    play = edge()
    play >> request_headers("GET", "/v1/models", end=True)
    [(_, _, body, _)] = play.take()
    assert body["object"] == "list"
    assert [(model["object"], model["id"]) for model in body["data"]] == [
        ("model", "one"), ("model", "two"), ("model", "free/x")]


def test_tokens_are_counted_here() -> None:
    play = edge()
    ask = {"model": "one", "messages": [{"role": "user", "content": "word " * 50}]}
    play >> request_headers(path="/v1/messages/count_tokens?beta=true") << []
    assert play.exchange.should_offload(incoming.read_message(request_body(ask).SerializeToString()))
    play >> request_body(ask)
    [(_, status, body, _)] = play.take()
    assert status == 200
    assert 40 < body["input_tokens"] < 80


def test_a_path_of_openai_that_is_not_served_answers_in_its_shape() -> None:
    play = edge()
    play >> request_headers(path="/v1/audio/speech")
    [(_, status, body, _)] = play.take()
    assert status == 404
    assert (body["error"]["type"], body["error"]["code"]) == ("invalid_request_error", None)
    assert "type" not in body
    assert "/v1/chat/completions" in body["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/embeddings", "/openai/v1/embeddings?x=1"])
def test_what_is_not_translated_needs_a_backend_of_the_same_api(path: str) -> None:
    play = edge()
    play >> request_headers(path=path) >> request_body({"model": "one", "input": "hi"})
    assert play.take()[0][0] == "request head"
    other = {"google": Backend(api="gemini", url="https://g.example/v1beta")}
    play = edge(backends=other, models=[ModelRule(match="one", attempts=[Attempt(backend="google", model="g")])])
    play >> request_headers(path=path) >> request_body({"model": "one", "input": "hi"})
    [(_, status, body, _)] = play.take()
    assert status == 404
    assert "speaks the openai API" in body["error"]["message"]
    assert "gemini only" in body["error"]["message"]


# ------------------------------------------------------------------------------------------------------------- callers

TEAMS = {"teams": {"red": Team(key="sk-red", models=["one"]), "blue": Team(key="sk-blue")}}


def test_a_team_uses_its_models_and_no_others() -> None:
    play = edge(**TEAMS)
    play >> request_headers(x_extproc_team="red") >> request_body(ASK)
    assert play.take()[0][0] == "request head"
    assert "x-extproc-team" not in play.removed()
    play = edge(**TEAMS)
    play >> request_headers(x_extproc_team="red") >> request_body({**ASK, "model": "two"})
    assert refusal(play)[0] == 403
    play = edge(**TEAMS)
    play >> request_headers(x_extproc_team="red") >> request_body({**ASK, "model": "tow"})
    status, message, _ = refusal(play)
    assert status == 404
    assert "two" not in message


def test_a_team_sees_its_models() -> None:
    play = edge(**TEAMS)
    play >> request_headers("GET", "/v1/models", end=True, x_extproc_team="red")
    [(_, _, body, _)] = play.take()
    assert [model["id"] for model in body["data"]] == ["one"]


@pytest.mark.parametrize("team", ["", "green"])
def test_with_teams_nobody_passes_without_one(team: str) -> None:
    play = edge(**TEAMS)
    play >> request_headers(x_extproc_team=team)
    assert refusal(play)[0] == 401


def test_with_teams_keys_protect_and_names_origins_and_types_do_not_matter() -> None:
    play = edge(**TEAMS)
    play >> request_headers(x_extproc_team="blue", authority="llm.corp.example", origin="https://a.example",
                            content_type="") >> request_body(ASK)
    assert play.take()[0][0] == "request head"


def test_listed_origins_may_ask() -> None:
    play = edge(cors=["https://app.example"])
    play >> request_headers(origin="https://app.example") >> request_body(ASK)
    assert play.take()[0][0] == "request head"


@pytest.mark.parametrize("authority", ["localhost:10000", "127.0.0.1", "[::1]:10000", "LOCALHOST"])
def test_the_gateways_own_names(authority: str) -> None:
    play = edge()
    play >> request_headers(authority=authority) << []


# ------------------------------------------------------------------------------------------------------------- hazards


def test_an_exception_ends_in_an_error_and_never_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    play = edge()
    monkeypatch.setattr(messages, "request_head", lambda *arguments, **options: 1 / 0)
    play >> request_headers() >> request_body(ASK)
    status, message, details = refusal(play)
    assert (status, details) == (500, "extproc_internal_error")
    assert "id-1" in message
    assert "division" not in message
    assert isinstance(play.exchange.crash, ZeroDivisionError)


def test_a_body_that_never_comes_ends_in_an_error() -> None:
    play = edge(timeouts=Timeouts(stream_idle=30))
    play >> request_headers()
    play.wait(29) << []
    play.wait(2)
    assert refusal(play)[0] == 408


def test_a_body_that_drips_must_come_to_its_end_in_time() -> None:
    play = edge(timeouts=Timeouts(request=60, stream_idle=30))
    play >> request_headers()
    for _ in range(5):
        play.wait(11) >> request_body(b" ", end=False) << []
    play.wait(4) << []
    play.wait(2)
    assert refusal(play)[0] == 408


def test_client_gone_before_the_body_was_complete() -> None:
    play = edge()
    play >> request_headers() >> request_body(b"{", end=False)
    record = play.exchange.close(1001.5)
    assert (record.outcome, record.ms) == ("client_closed", 1500.0)
