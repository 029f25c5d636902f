"""Errors of the Responses API, as Codex and the SDKs decide by them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.responses.client import API
from extproc.errors import Failure, FailureKind


def error(failure: Failure) -> tuple[int, dict[str, str], dict[str, Any]]:
    found = API.encode_error(failure, "req-1")
    body: dict[str, Any] = json.loads(found.body)["error"]
    assert set(body) == {"message", "type", "param", "code"}
    return found.status, found.headers, body


@pytest.mark.parametrize(("failure", "status", "retry_after"), [
    (Failure("rate_limit", "slow down", 429), 429, "5"),
    (Failure("rate_limit", "slow down", 429, retry_after="9"), 429, "9"),
    (Failure("overloaded", "busy", 503), 503, "5"), (Failure("overloaded", "busy", 529), 503, "5"),
    (Failure("server", "broke", 500), 500, None)])
def test_r12_a_refusal_for_now_always_says_when_to_come_back(failure: Failure, status: int,
                                                             retry_after: str | None) -> None:
    found, headers, _ = error(failure)
    assert (found, headers.get("retry-after")) == (status, retry_after)


def test_r13_an_overflow_of_any_provider_has_the_code_by_which_codex_compacts() -> None:
    status, _, body = error(Failure("context_length", "too long", 413, prompt_tokens=9, context_limit=5))
    assert (status, body["code"], body["type"]) == (400, "context_length_exceeded", "invalid_request_error")
    assert "9" in body["message"]
    assert "5" in body["message"]


@pytest.mark.parametrize(("kind", "status", "code"), [
    ("authentication", 401, "invalid_api_key"), ("not_found", 404, None), ("too_large", 413, "request_too_large"),
    ("billing", 402, "insufficient_quota"), ("server", 500, "server_error"), ("timeout", 504, "server_error")])
def test_codes(kind: FailureKind, status: int, code: str | None) -> None:
    found, headers, body = error(Failure(kind, "why", status))
    assert (found, body["code"], headers["x-request-id"]) == (status, code, "req-1")


def test_a_code_that_would_end_a_run_is_not_passed_on() -> None:
    assert error(Failure("overloaded", "busy", 503, code="server_is_overloaded"))[2]["code"] == "server_error"


def test_the_place_is_the_parameter() -> None:
    assert error(Failure("invalid_request", "input[0].role: unknown role", 400))[2]["param"] == "input[0].role"
    assert error(Failure("invalid_request", "Sorry: not today", 400))[2]["param"] is None
