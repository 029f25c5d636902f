"""Failures in the words that OpenAI clients understand, and the list of models."""

from __future__ import annotations

import json

import pytest

from extproc.apis.openai.client import API
from extproc.apis.shared.overflow import find_overflow
from extproc.errors import BadRequest, Failure, FailureKind


@pytest.mark.parametrize(("kind", "status", "wire_type", "code"), [
    ("invalid_request", 400, "invalid_request_error", None), ("invalid_request", 422, "invalid_request_error", None),
    ("authentication", 401, "authentication_error", "invalid_api_key"),
    ("billing", 402, "insufficient_quota", "insufficient_quota"), ("permission", 403, "permission_error", None),
    ("not_found", 404, "invalid_request_error", None), ("conflict", 409, "invalid_request_error", None),
    ("too_large", 413, "invalid_request_error", "request_too_large"),
    ("rate_limit", 429, "rate_limit_error", "rate_limit_exceeded"), ("server", 500, "server_error", None),
    ("unavailable", 503, "server_error", "unavailable"), ("timeout", 504, "server_error", "timeout"),
    ("overloaded", 529, "server_error", "overloaded")])
def test_p14_type_code_and_status(kind: FailureKind, status: int, wire_type: str, code: str | None) -> None:
    error = API.encode_error(Failure(kind, 'it said "no"\nand left', status))
    assert error.status == status
    assert error.headers == {"content-type": "application/json"}
    assert json.loads(error.body) == {"error": {"message": 'it said "no"\nand left', "type": wire_type, "param": None,
                                                "code": code}}


def test_p14_the_providers_code_retry_after_and_request_id_are_kept() -> None:
    error = API.encode_error(Failure("rate_limit", "slow down", 429, retry_after="17", code="tokens"), "req_7")
    assert error.headers == {"content-type": "application/json", "retry-after": "17", "x-request-id": "req_7"}
    assert json.loads(error.body)["error"]["code"] == "tokens"


@pytest.mark.parametrize(("failure", "code"), [
    (Failure("rate_limit", "m", 429, code="rate_limit_error"), "rate_limit_exceeded"),
    (Failure("rate_limit", "m", 429, code="RESOURCE_EXHAUSTED"), "rate_limit_exceeded"),
    (Failure("rate_limit", "m", 429, code="429"), "rate_limit_exceeded"),
    (Failure("authentication", "m", 401, code="UNAUTHENTICATED"), "invalid_api_key"),
    (Failure("server", "m", 500, code="api_error"), None),
    (Failure("not_found", "m", 404, code="model_not_found"), "model_not_found")])
def test_p14_a_code_that_only_repeats_the_kind_becomes_openais(failure: Failure, code: str | None) -> None:
    assert json.loads(API.encode_error(failure).body)["error"]["code"] == code


def test_the_place_of_a_refusal_is_its_param() -> None:
    refusal = BadRequest("messages[2].content: expected a string")
    assert json.loads(API.encode_error(refusal.failure).body)["error"]["param"] == "messages[2].content"
    other = BadRequest("error: something else")
    assert json.loads(API.encode_error(other.failure).body)["error"]["param"] is None


@pytest.mark.parametrize(("failure", "figures"), [
    (Failure("context_length", "x", 500, prompt_tokens=900, context_limit=800), (900, 800, None)),
    (Failure("context_length", "x", 400, prompt_tokens=700, context_limit=800, max_tokens=200), (700, 800, 200)),
    (Failure("context_length", "This model's maximum context length is 800 tokens", 400), (None, 800, None)),
    (Failure("context_length", "too big", 413), (None, None, None))])
def test_p13_an_overflow_uses_openais_words(failure: Failure, figures: tuple[int | None, ...]) -> None:
    error = API.encode_error(failure)
    body = json.loads(error.body)["error"]
    assert (error.status, body["code"], body["param"]) == (400, "context_length_exceeded", "messages")
    assert "maximum context length" in body["message"]
    found = find_overflow(body["message"])
    assert found is not None
    assert (found.prompt_tokens, found.context_limit, found.max_tokens) == figures


def test_a_status_below_400_becomes_502() -> None:
    assert API.encode_error(Failure("server", "odd", 200)).status == 502


def test_the_list_of_models() -> None:
    assert json.loads(API.encode_models(["a", "b"])) == {"object": "list", "data": [
        {"id": "a", "object": "model", "created": 0, "owned_by": "extproc"},
        {"id": "b", "object": "model", "created": 0, "owned_by": "extproc"}]}
