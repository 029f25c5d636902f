"""Failures in the words that Messages clients understand, and the responses that need no provider."""

from __future__ import annotations

import json

import pytest

from extproc.apis.anthropic.client import API
from extproc.apis.anthropic.client.errors import error_event
from extproc.apis.shared.provider_errors import decode_error
from extproc.errors import Failure, FailureKind


def message_of(failure: Failure) -> str:
    return str(json.loads(API.encode_error(failure).body)["error"]["message"])


@pytest.mark.parametrize(("kind", "status", "wire_type"), [
    ("invalid_request", 400, "invalid_request_error"), ("invalid_request", 422, "invalid_request_error"),
    ("authentication", 401, "authentication_error"), ("billing", 402, "billing_error"),
    ("permission", 403, "permission_error"), ("not_found", 404, "not_found_error"), ("conflict", 409, "conflict_error"),
    ("too_large", 413, "request_too_large"), ("rate_limit", 429, "rate_limit_error"), ("server", 500, "api_error"),
    ("server", 502, "api_error"), ("unavailable", 503, "overloaded_error"), ("timeout", 504, "timeout_error"),
    ("overloaded", 529, "overloaded_error")])
def test_p14_type_and_status(kind: FailureKind, status: int, wire_type: str) -> None:
    error = API.encode_error(Failure(kind, 'it said "no"\nand left', status))
    assert error.status == status
    assert error.headers == {"content-type": "application/json"}
    assert json.loads(error.body) == {"type": "error",
                                      "error": {"type": wire_type, "message": 'it said "no"\nand left'}}


def test_p14_retry_after_and_request_id_are_kept() -> None:
    error = API.encode_error(Failure("rate_limit", "slow down", 429, retry_after="17"), "req_7")
    assert error.headers == {"content-type": "application/json", "retry-after": "17", "request-id": "req_7"}
    assert json.loads(error.body)["request_id"] == "req_7"


def test_the_same_error_as_an_event() -> None:
    assert error_event(Failure("timeout", "silent"), "req_7") == (
        b'event: error\ndata: {"type":"error","error":{"type":"timeout_error","message":"silent"},'
        b'"request_id":"req_7"}\n\n')


def test_a_status_below_400_becomes_502() -> None:
    assert API.encode_error(Failure("server", "odd", 200)).status == 502


def test_an_error_is_never_empty() -> None:
    assert message_of(Failure("server", "", 500)) == "the provider failed with status 500"


def test_reasoning_that_the_provider_cannot_decrypt_is_the_refusal_after_which_claude_code_drops_thinking() -> None:
    """OpenAI's words after a change of its encryption, or with a key of another organisation. Claude Code knows only
    Anthropic's words: then it sends the request once more without thinking."""
    refused = decode_error(400, {}, b'{"error": {"message": "The encrypted content could not be verified.", "type": '
                                    b'"invalid_request_error", "param": null, "code": "invalid_encrypted_content"}}')
    error = API.encode_error(refused)
    assert error.status == 400
    assert json.loads(error.body)["error"] == {
        "type": "invalid_request_error",
        "message": "Invalid `signature` in `thinking` block: The encrypted content could not be verified."}


def test_p13_an_overflow_is_a_400_with_the_phrase_that_starts_a_compaction() -> None:
    overflow = Failure("context_length", "maximum context length is 100", 502, prompt_tokens=120, context_limit=100)
    error = API.encode_error(overflow)
    assert error.status == 400
    assert json.loads(error.body)["error"] == {"type": "invalid_request_error",
                                               "message": "prompt is too long: 120 tokens > 100 maximum"}


def test_p13_without_figures_the_providers_words_stay() -> None:
    assert message_of(Failure("context_length", "input token count exceeds", 400)) == (
        "prompt is too long: input token count exceeds")
    assert message_of(Failure("context_length", "prompt is too long: 3 tokens > 2 maximum")) == (
        "prompt is too long: 3 tokens > 2 maximum")
    assert message_of(Failure("context_length", "")) == "prompt is too long"


def test_p13_an_overflow_by_max_tokens_says_so() -> None:
    failure = Failure("context_length", "x", 400, prompt_tokens=90, context_limit=100, max_tokens=32)
    assert message_of(failure).startswith(
        "input length and `max_tokens` exceed context limit: 90 + 32 > 100")


def test_p13_a_prompt_that_is_too_long_by_itself_is_not_blamed_on_max_tokens() -> None:
    assert message_of(Failure("context_length", "x", 400, prompt_tokens=120, context_limit=100, max_tokens=32)) == (
        "prompt is too long: 120 tokens > 100 maximum")


def test_models_and_counts() -> None:
    assert json.loads(API.encode_models(["a", "b/c"])) == {
        "data": [{"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
                 for name in ("a", "b/c")], "has_more": False, "first_id": "a", "last_id": "b/c"}
    assert json.loads(API.encode_models([])) == {"data": [], "has_more": False, "first_id": None, "last_id": None}
    assert json.loads(API.encode_token_count(12)) == {"input_tokens": 12}
