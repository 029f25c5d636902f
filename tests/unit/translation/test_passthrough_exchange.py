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
JSON = {"content-type": "application/json"}
EMBEDDINGS = {"object": "list", "model": "gpt-theirs", "data": [{"embedding": [0.1, -1e-5]}],
              "usage": {"prompt_tokens": 21, "total_tokens": 21}}


def passing(path: str = "/embeddings", client: str = "openai", **settings: Any) -> UntranslatedExchange:
    url = OPENAI if client == "openai" else ANTHROPIC
    return UntranslatedExchange(client, "theirs", path, **{"url": url, **settings})


def answered(body: bytes, *, status: int = 200, headers: dict[str, str] | None = None,
             **settings: Any) -> tuple[bytes, UntranslatedExchange]:
    talk = passing(**settings)
    talk.request(json.dumps(ASK).encode())
    talk.start(status, JSON if headers is None else headers)
    return talk.feed(body) + talk.finish(), talk


# ------------------------------------------------------------------------------------------------------------- requests


def test_the_model_is_the_only_change_in_a_request() -> None:
    body = b'{"model": "mine", "input" : [1.0, "\\u00e9"],  "brand_new":{"a":  1},"stream":true}'
    request = passing().request(body, {"OpenAI-Beta": "x=1", "authorization": "Bearer client", "cookie": "a"})
    assert request.body == b'{"model":"theirs","input":[1.0, "\\u00e9"],"brand_new":{"a":  1},"stream":true}'
    assert request.path == "/v1/embeddings"
    assert request.headers == {"content-type": "application/json", "accept-encoding": "identity", "openai-beta": "x=1"}


def test_half_of_a_surrogate_pair_becomes_a_replacement_character() -> None:
    assert b'"a \\ufffd"' in passing().request(b'{"model":"mine","input":"a \\ud83d"}').body


@pytest.mark.parametrize(("client", "path", "url", "expected"), [
    ("openai", "/embeddings", "http://127.0.0.1:1234/v1", "/v1/embeddings"),
    ("openai", "/embeddings", "https://x.openai.azure.com/openai",
     "/openai/deployments/theirs/embeddings?api-version=2024-10-21"),
    ("openai", "/embeddings", "https://x.openai.azure.com/openai/v1", "/openai/v1/embeddings"),
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


def test_a_whole_response_passes() -> None:
    out, talk = answered(json.dumps(EMBEDDINGS).encode())
    assert json.loads(out) == {**EMBEDDINGS, "model": "mine"}
    assert talk.usage.input == 21
    assert talk.head is not None
    assert talk.head.headers["content-type"] == "application/json"


def test_a_token_count_passes() -> None:
    talk = passing("/messages/count_tokens", "anthropic")
    talk.request(b'{"model":"mine","messages":[{"role":"user","content":"x"}]}')
    talk.start(200, JSON)
    assert talk.feed(b'{"input_tokens":7}') + talk.finish() == b'{"input_tokens":7}'
    assert talk.usage == Usage(), "counting costs nothing"


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_p19_a_coding_that_nobody_asked_for_is_undone(size: int) -> None:
    talk = passing()
    talk.request(json.dumps(ASK).encode())
    talk.start(200, {**JSON, "content-encoding": "gzip"})
    packed = gzip.compress(json.dumps(EMBEDDINGS).encode())
    out = b"".join(talk.feed(packed[at:at + size]) for at in range(0, len(packed), size)) + talk.finish()
    assert json.loads(out) == {**EMBEDDINGS, "model": "mine"}
    assert talk.head is not None
    assert "content-encoding" not in talk.head.headers


# ------------------------------------------------------------------------------------------------- errors and ends


@pytest.mark.parametrize(("body", "status"), [
    (b'{"error":{"message":"no","code":"rate_limit_exceeded"}}', 429), (b'{"id":"resp', 502), (b"", 502),
    (b"<html>no</html>", 502), (b'data: {"data":[]}\n\n', 502)])
def test_rule_3_a_torn_or_failed_whole_response_is_a_status(body: bytes, status: int) -> None:
    out, talk = answered(body)
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


