"""Anthropic's errors as failures: status, kind, retry delay, context overflow (P1, P14)."""

from __future__ import annotations

import json

import pytest

from extproc.apis.anthropic.provider import PROVIDER


@pytest.mark.parametrize(("status", "type", "kind"), [
    (400, "invalid_request_error", "invalid_request"), (401, "authentication_error", "authentication"),
    (402, "billing_error", "billing"), (403, "permission_error", "permission"), (404, "not_found_error", "not_found"),
    (409, "conflict_error", "conflict"), (413, "request_too_large", "too_large"),
    (429, "rate_limit_error", "rate_limit"), (500, "api_error", "server"), (504, "timeout_error", "timeout"),
    (529, "overloaded_error", "overloaded"), (500, "overloaded_error", "overloaded")])
def test_p14_types_and_statuses(status: int, type: str, kind: str) -> None:
    body = json.dumps({"type": "error", "error": {"type": type, "message": "No."}, "request_id": "req_1"}).encode()
    failure = PROVIDER.decode_error(status, {"retry-after": "7"}, body)
    assert (failure.status, failure.kind, failure.message, failure.code) == (status, kind, "No.", type)
    assert failure.retry_after == "7"


@pytest.mark.parametrize(("message", "prompt", "limit", "output"), [
    ("prompt is too long: 210000 tokens > 200000 maximum", 210_000, 200_000, None),
    ("input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease input length or "
     "`max_tokens` and try again", 190_000, 200_000, 32_000)])
def test_p14_an_overflow_keeps_its_figures(message: str, prompt: int, limit: int, output: int | None) -> None:
    body = json.dumps({"type": "error", "error": {"type": "invalid_request_error", "message": message}}).encode()
    failure = PROVIDER.decode_error(400, {}, body)
    assert (failure.kind, failure.prompt_tokens, failure.context_limit, failure.max_tokens) == (
        "context_length", prompt, limit, output)
