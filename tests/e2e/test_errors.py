"""Errors, the provider's and the gateway's own: status, type and words that the client understands (P13, P14)."""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, Gateway
from tests.e2e.wire import ANTHROPIC, HELLO, payload, post, request
from tests.providers.openai import OpenAIProvider, openai_error, status, text

TABLE = [
    (400, "invalid_request_error"), (401, "authentication_error"), (402, "billing_error"), (403, "permission_error"),
    (404, "not_found_error"), (413, "request_too_large"), (422, "invalid_request_error"), (429, "rate_limit_error"),
    (500, "api_error"), (502, "api_error"), (503, None), (504, "timeout_error"), (408, "timeout_error"),
    (529, "overloaded_error"),
]


@pytest.mark.parametrize(("code", "kind"), TABLE)
@pytest.mark.parametrize("streamed", [False, True])
def test_p14_status_and_type(gateway: Gateway, provider: OpenAIProvider, code: int, kind: str | None,
                             streamed: bool) -> None:
    provider.script(status(code, openai_error('It said "no"\nand\tmore \\ ü')))
    answer = post(gateway.base_url, payload(stream=streamed))
    found, message = answer.error()
    assert answer.status == code
    assert found == kind or (kind is None and found in {"api_error", "overloaded_error"})
    assert 'It said "no"\nand\tmore \\ ü' in message
    assert answer.headers.get("request-id") or answer.json().get("request_id")


@pytest.mark.parametrize("body", [
    b"", b"<html><body><h1>502 Bad Gateway</h1></body></html>", b'[{"error":{"code":500,"message":"array-wrapped"}}]',
    b'{"detail":"just a detail"}', b'{"error":"a string"}', b'{"error":{}}', b'{"message":null}', b"\xff\xfe\x00", b"{",
    b'{"object":"error","message":"vllm style","code":500}',
], ids=["empty", "html", "array", "detail", "string", "nothing", "null", "binary", "cut", "vllm"])
def test_p14_odd_bodies(gateway: Gateway, provider: OpenAIProvider, body: bytes) -> None:
    provider.script(status(500, body))
    answer = post(gateway.base_url, payload())
    assert answer.status == 500
    assert answer.error()[0] == "api_error"
    assert "<html" not in answer.error()[1]


def test_p14_rate_limit_through_the_sdk(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(status(429, openai_error("Slow down", kind="rate_limit"), {
        "retry-after": "7", "x-request-id": "req_provider"}))
    with pytest.raises(anthropic.RateLimitError) as caught:
        sdk.messages.create(model="claude-test", max_tokens=9, messages=HELLO)
    assert caught.value.status_code == 429
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.body["error"]["type"] == "rate_limit_error"  # type: ignore[index]
    assert len(provider.seen) == 1


def test_p14_keys_are_scrubbed(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(status(401, openai_error(f"Incorrect API key provided: {PROVIDER_KEY}.")))
    answer = post(gateway.base_url, payload())
    assert answer.error()[0] == "authentication_error"
    assert PROVIDER_KEY.encode() not in answer.body
    assert PROVIDER_KEY not in str(answer.headers)


OVERFLOWS = [
    ({"message": "This model's maximum context length is 131072 tokens. However, your messages resulted in 140000 "
                 "tokens. Please reduce the length of the messages.", "type": "invalid_request_error",
      "param": "messages", "code": "context_length_exceeded"}, "140000", "131072"),
    ({"message": "This model's maximum context length is 32768 tokens. However, you requested 40000 tokens in the "
                 "messages, Please reduce the length of the messages.", "type": "BadRequestError", "code": 400},
     "40000", "32768"),
]


@pytest.mark.parametrize(("error", "tokens", "limit"), OVERFLOWS, ids=["openai", "vllm"])
def test_p13_context_overflow(gateway: Gateway, provider: OpenAIProvider, error: Any, tokens: str, limit: str) -> None:
    provider.script(status(400, {"error": error}))
    answer = post(gateway.base_url, payload())
    kind, message = answer.error()
    assert (answer.status, kind) == (400, "invalid_request_error")
    assert "prompt is too long" in message
    assert f"{tokens} tokens > {limit} maximum" in message


def test_p13_output_overflow(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(status(400, openai_error(
        "This model's maximum context length is 8192 tokens. However, you requested 17000 tokens (9000 in the "
        "messages, 8000 in the completion). Please reduce the length of the messages or completion.",
        code="context_length_exceeded")))
    message = post(gateway.base_url, payload(max_tokens=8000)).error()[1]
    if "prompt is too long" not in message:
        assert "input length and `max_tokens` exceed context limit: 9000 + 8000 > 8192" in message


# --------------------------------------------------------------------------------------------- the gateway's own
def test_an_unreachable_provider(gateway: Gateway) -> None:
    for streamed in (False, True):
        answer = post(gateway.base_url, payload("claude-down", stream=streamed))
        assert answer.status in {502, 503}
        assert answer.error()[0] in {"api_error", "overloaded_error"}


def test_malformed_json_names_the_place(gateway: Gateway, provider: OpenAIProvider) -> None:
    answer = post(gateway.base_url, b'{"model": "claude-test", "messages": [')
    assert answer.status == 400
    kind, message = answer.error()
    assert kind == "invalid_request_error"
    assert any(character.isdigit() for character in message), message
    wrong = post(gateway.base_url, payload(messages=[{"role": "user", "content": [{"type": "text", "text": 5}]}]))
    assert wrong.status == 400
    assert "messages" in wrong.error()[1]
    assert provider.seen == []


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b'"text"', b"\xff\xfe", b"[" * 5000])
def test_bodies_that_are_no_request(gateway: Gateway, body: bytes) -> None:
    answer = post(gateway.base_url, body)
    assert answer.status == 400
    assert answer.error()[0] == "invalid_request_error"


def test_unknown_model_names_the_nearest(gateway: Gateway) -> None:
    answer = post(gateway.base_url, payload("claude-tset"))
    assert answer.status == 404
    kind, message = answer.error()
    assert kind == "not_found_error"
    assert "claude-test" in message


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_wrong_method(gateway: Gateway, method: str) -> None:
    answer = request(gateway.base_url, method, "/v1/messages")
    assert answer.status == 405
    assert answer.error()[0] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/nothing", "/v1/nothing", "/v2/messages", "/v1/messages/other"])
def test_wrong_path(gateway: Gateway, path: str) -> None:
    answer = post(gateway.base_url, payload(), path=path)
    assert answer.status == 404
    assert answer.error()[0] == "not_found_error"


@pytest.mark.parametrize("key", [None, "sk-wrong", ""])
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
def test_missing_or_wrong_key(gateway: Gateway, provider: OpenAIProvider, key: str | None, path: str) -> None:
    headers = {name: value for name, value in ANTHROPIC.items() if name != "x-api-key"}
    if key is not None:
        headers["x-api-key"] = key
    answer = post(gateway.base_url, payload(), path=path, headers=headers)
    assert answer.status == 401
    assert answer.error()[0] == "authentication_error"
    assert provider.seen == []


def test_the_gateways_errors_never_show_keys(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    post(gateway.base_url, payload())
    post(gateway.base_url, payload("nothing-like-it"))
    post(gateway.base_url, payload("claude-down"))
    for secret in (PROVIDER_KEY, f"Bearer {CLIENT_KEY}"):
        assert not gateway.said(secret)
