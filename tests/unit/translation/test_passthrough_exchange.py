"""Paths that are not translated: what changes in a request and in a response, how errors and silence end."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from extproc.bounds import Limits
from extproc.conversation.model import Signature, Usage
from extproc.conversation.signatures import embed_in_id, embed_in_text
from extproc.errors import RequestError
from extproc.translation.untranslated import UntranslatedExchange
from tests.providers.anthropic_rules import refusal

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com/v1"
ASK = {"model": "mine", "input": "hi"}
STREAM = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
USAGE = {"input_tokens": 21, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 7,
         "output_tokens_details": {"reasoning_tokens": 3}, "total_tokens": 28}
COMMENT = b": keepalive\n\n"


def passing(path: str = "/responses", client: str = "openai", **settings: Any) -> UntranslatedExchange:
    url = OPENAI if client == "openai" else ANTHROPIC
    return UntranslatedExchange(client, "theirs", path, **{"url": url, **settings})


def event(kind: str, number: int = 0, **more: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps(
        {"type": kind, "sequence_number": number, **more}).encode())


def response(status: str = "completed", **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "gpt-theirs", "status": status, "error": None,
            "output": [{"type": "message"}], "usage": USAGE, **more}


CREATED = event("response.created", 0, response=response("in_progress", usage=None, output=[]))
DELTA = event("response.output_text.delta", 1, delta='say "model":"gpt-theirs" é')
COMPLETED = event("response.completed", 2, response=response())


def answered(body: bytes, *, stream: bool = True, status: int = 200, headers: dict[str, str] | None = None,
             path: str = "/responses", **settings: Any) -> tuple[bytes, UntranslatedExchange]:
    talk = passing(path, **settings)
    talk.request(json.dumps({**ASK, "stream": stream}).encode())
    talk.start(status, headers if headers is not None else STREAM if stream else JSON)
    return talk.feed(body) + talk.finish(), talk


def last_of(out: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads([line for line in out.split(b"\n") if line.startswith(b"data: ")][-1][6:])
    return found


# ------------------------------------------------------------------------------------------------------------- requests


def test_the_model_is_the_only_change_in_a_request() -> None:
    body = b'{"model": "mine", "input" : [1.0, "\\u00e9"],  "brand_new":{"a":  1},"stream":true}'
    request = passing().request(body, {"OpenAI-Beta": "x=1", "authorization": "Bearer client", "cookie": "a"})
    assert request.body == b'{"model":"theirs","input":[1.0, "\\u00e9"],"brand_new":{"a":  1},"stream":true}'
    assert request.path == "/v1/responses"
    assert request.headers == {"content-type": "application/json", "accept-encoding": "identity", "openai-beta": "x=1"}


def test_half_of_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert b'"a \\ufffd"' in passing().request(b'{"model":"mine","input":"a \\ud83d"}').body


@pytest.mark.parametrize(("client", "path", "url", "expected"), [
    ("openai", "/embeddings", "http://127.0.0.1:1234/v1", "/v1/embeddings"),
    ("openai", "/embeddings", "https://x.openai.azure.com/openai",
     "/openai/deployments/theirs/embeddings?api-version=2024-10-21"),
    ("openai", "/responses", "https://x.openai.azure.com/openai/deployments/d",
     "/openai/responses?api-version=2024-10-21"),
    ("openai", "/responses", "https://x.openai.azure.com/openai/v1", "/openai/v1/responses"),
    ("anthropic", "/messages/count_tokens", ANTHROPIC, "/v1/messages/count_tokens"),
    ("anthropic", "/messages/count_tokens", "https://api.deepseek.com/anthropic",
     "/anthropic/v1/messages/count_tokens"),
])
def test_paths(client: str, path: str, url: str, expected: str) -> None:
    got = passing(path, client, url=url).request(json.dumps({**ASK, "messages": []}).encode()).path
    assert got.partition("=")[0] == expected.partition("=")[0]


@pytest.mark.parametrize(("body", "words"), [
    (b"", "empty"), (b"[]", "expected a JSON object"), (b"{", "not valid JSON"), (b"{}", "model: the name"),
    (b'{"model":7}', "model: the name"), (b'{"model":"m","x":' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper"),
    (b'{"model":"m","input":"' + b"x" * 2000 + b'"}', "takes at most 1000")])
def test_rule_3_what_is_wrong_is_said(body: bytes, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        passing(limits=Limits(body=1000)).request(body)
    assert words in json.loads(refused.value.body)["error"]["message"]


def test_p17_p10_tokens_are_counted_of_what_anthropic_would_take() -> None:
    """Billing line, loaded ids and thinking of others would change the count, or be refused."""
    id = embed_in_id("toolu_1", Signature("Z2Vt", "gem1"))
    body = {"model": "mine", "system": [{"type": "text", "text": "x-anthropic-billing-header: a=1;"}], "messages": [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": embed_in_text(Signature("x", "abcd"))},
            {"type": "tool_use", "id": id, "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "r"}]}],
        "tools": [{"name": "read", "input_schema": {"type": "object", "properties": {}}}]}
    request = passing("/messages/count_tokens", "anthropic").request(json.dumps(body).encode(), {
        "anthropic-beta": "b", "anthropic-version": "2023-06-01"})
    got = json.loads(request.body)
    assert request.headers["anthropic-beta"] == "b"
    assert got.keys() == {"model", "messages", "tools"}
    assert refusal({**got, "model": "claude-sonnet-4-5", "max_tokens": 1}) is None


def test_odd_requests_to_count_are_anthropics_to_refuse() -> None:
    request = passing("/messages/count_tokens", "anthropic").request(b'{"model":"mine","messages":7}')
    assert json.loads(request.body) == {"model": "theirs", "messages": 7}


# ------------------------------------------------------------------------------------------------------------ responses


def test_events_pass_and_the_model_is_the_clients() -> None:
    out, talk = answered(CREATED + DELTA + b": comment\n\n" + COMPLETED)
    first, second, third = out.removesuffix(b"\n\n").split(b"\n\n")
    assert second + b"\n\n" == DELTA
    assert json.loads(first.split(b"data: ")[1])["response"]["model"] == "mine"
    assert json.loads(third.split(b"data: ")[1])["response"] == response(model="mine")
    assert talk.usage == Usage(input=21, output=7, cached=8, reasoning=3)
    assert (talk.failure, talk.finish_reason, talk.done) == (None, "stop", True)
    assert talk.head is not None
    assert talk.head.headers["content-type"] == "text/event-stream; charset=utf-8"


def test_an_incomplete_response_is_a_whole_response() -> None:
    _, talk = answered(CREATED + event("response.incomplete", 1, response=response("incomplete")))
    assert (talk.failure, talk.finish_reason) == (None, "length")


@pytest.mark.parametrize(("path", "body"), [
    ("/responses", response()),
    ("/embeddings", {"object": "list", "model": "gpt-theirs", "data": [{"embedding": [0.1, -1e-5]}],
                     "usage": {"prompt_tokens": 21, "total_tokens": 21}})])
def test_a_whole_response_passes(path: str, body: dict[str, Any]) -> None:
    out, talk = answered(json.dumps(body).encode(), stream=False, path=path)
    assert json.loads(out) == {**body, "model": "mine"}
    assert talk.usage.input == 21
    assert talk.head is not None
    assert talk.head.headers["content-type"] == "application/json"


def test_a_token_count_passes() -> None:
    talk = passing("/messages/count_tokens", "anthropic")
    talk.request(b'{"model":"mine","messages":[{"role":"user","content":"x"}]}')
    talk.start(200, JSON)
    assert talk.feed(b'{"input_tokens":7}') + talk.finish() == b'{"input_tokens":7}'
    assert talk.usage == Usage(), "counting costs nothing"


def test_a_stream_that_nobody_asked_for_becomes_the_whole_that_is_in_it() -> None:
    out, _ = answered(CREATED + DELTA + COMPLETED, stream=False)
    assert json.loads(out) == response(model="mine")


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_p19_a_coding_that_nobody_asked_for_is_undone(size: int) -> None:
    talk = passing()
    talk.request(json.dumps({**ASK, "stream": True}).encode())
    talk.start(200, {**STREAM, "content-encoding": "gzip"})
    packed = gzip.compress(CREATED + DELTA + COMPLETED)
    out = b"".join(talk.feed(packed[at:at + size]) for at in range(0, len(packed), size)) + talk.finish()
    assert out == answered(CREATED + DELTA + COMPLETED)[0]
    assert talk.head is not None
    assert "content-encoding" not in talk.head.headers


# ------------------------------------------------------------------------------------------------- errors and ends


@pytest.mark.parametrize(("damage", "words"), [
    (b"", "ended before"), (b"data: {\n\n", "damaged"), (b'data: {"type":"response.output_text.delta","del', "damaged"),
    (b"event: error\ndata: plain words\n\n", "plain words")])
def test_rule_2_what_breaks_off_ends_in_an_error_event(damage: bytes, words: str) -> None:
    out, talk = answered(CREATED + DELTA + damage)
    told = last_of(out)
    assert (told["type"], told["sequence_number"]) == ("error", 2)
    assert words in told["message"]
    assert told["error"]["message"] == told["message"]
    assert talk.failure is not None
    assert talk.feed(COMPLETED) + talk.finish() == b""


FAILED = event("response.failed", 2, response=response("failed", error={
    "code": "rate_limit_exceeded", "message": "no more for sk-0123456789"}))
ERROR = event("error", 2, code="rate_limit_exceeded", message="no more for sk-0123456789", param=None)


@pytest.mark.parametrize("told", [FAILED, ERROR])
def test_the_providers_own_error_event_is_the_last_and_tells_no_key(told: bytes) -> None:
    out, talk = answered(CREATED + DELTA + told, secrets=["sk-0123456789"])
    assert out.count(b"event: ") == 3
    assert b"no more for ***" in out
    assert b"0123" not in out
    assert talk.failure is not None
    assert talk.failure.kind == "rate_limit"


@pytest.mark.parametrize("told", [FAILED, ERROR])
@pytest.mark.parametrize("begun", [b"", CREATED + event("response.in_progress", 1, response=response("in_progress"))])
def test_an_error_before_the_first_content_is_a_status(told: bytes, begun: bytes) -> None:
    """So that it fails over."""
    out, talk = answered(begun + told, withhold=True)
    assert talk.head is not None
    assert talk.head.status == 429
    assert json.loads(out)["error"]["code"] == "rate_limit_exceeded"


def test_the_head_waits_for_the_first_content() -> None:
    talk = passing(withhold=True)
    talk.request(json.dumps({**ASK, "stream": True}).encode())
    talk.start(200, STREAM)
    assert talk.feed(CREATED) == b""
    assert talk.head is None
    assert talk.feed(DELTA).endswith(DELTA)
    assert talk.head is not None


@pytest.mark.parametrize(("body", "status"), [
    (b'{"error":{"message":"no","code":"rate_limit_exceeded"}}', 429), (b'{"id":"resp', 502), (b"", 502),
    (b"<html>no</html>", 502)])
@pytest.mark.parametrize("stream", [True, False])
def test_rule_3_a_torn_or_failed_whole_response_is_a_status(body: bytes, status: int, stream: bool) -> None:
    out, talk = answered(body, stream=stream, headers=JSON)
    assert talk.head is not None
    assert talk.head.status == status
    assert json.loads(out)["error"]["message"]


@pytest.mark.parametrize("status", [401, 429, 500])
def test_rule_3_an_error_of_the_provider_keeps_its_status_and_words(status: int) -> None:
    out, talk = answered(b'{"error":{"message":"bad sk-0123456789"}}', status=status, headers={"retry-after": "7"},
                         secrets=["sk-0123456789"])
    assert talk.head is not None
    assert talk.head.status == status
    assert json.loads(out)["error"]["message"] == "bad ***"
    assert talk.head.headers["retry-after"] == "7"


def test_an_error_in_the_anthropic_shape() -> None:
    talk = passing("/messages/count_tokens", "anthropic", request_id="req-1")
    talk.request(b'{"model":"mine","messages":[]}')
    talk.start(400, JSON)
    out = talk.feed(b'{"type":"error","error":{"type":"invalid_request_error","message":"no"}}') + talk.finish()
    assert json.loads(out) == {"type": "error", "error": {"type": "invalid_request_error", "message": "no"},
                               "request_id": "req-1"}


def test_pings_keep_a_stream_alive_and_silence_ends_it() -> None:
    talk = passing(idle_timeout=60.0)
    talk.request(json.dumps({**ASK, "stream": True}).encode())
    talk.start(200, STREAM)
    first = talk.feed(CREATED + DELTA[:20], 0.0)
    assert first.endswith(b"\n\n")
    assert talk.tick(10.0) == COMMENT
    assert talk.feed(DELTA[20:], 15.0) == DELTA
    assert talk.tick(20.0) == b""
    told = last_of(talk.tick(75.0))
    assert (told["type"], told["code"]) == ("error", "timeout")
    assert talk.done


def test_rule_7_an_endless_line_is_an_error() -> None:
    out, _ = answered(CREATED + b"data: " + b"x" * 5000, limits=Limits(sse_line=4000))
    assert "more than 4000 bytes" in last_of(out)["message"]
