"""Errors of AI Studio and Vertex (P13, P14): status and body in, the failure of the conversation model out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.gemini.provider import PROVIDER
from extproc.apis.shared.google_errors import seconds
from extproc.errors import Failure

RPC = "type.googleapis.com/google.rpc."


def google(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    return {"error": {**error, "details": list(details)} if details else error}


def decode(body: object, status: int | None = None, headers: dict[str, str] | None = None) -> Failure:
    code = body["error"]["code"] if isinstance(body, dict) else 500
    return PROVIDER.decode_error(status or code, headers or {}, json.dumps(body, indent=2).encode())


def reason(word: str) -> dict[str, Any]:
    return {"@type": RPC + "ErrorInfo", "reason": word, "domain": "googleapis.com", "metadata": {"service": "x"}}


def retry(delay: object) -> dict[str, Any]:
    return {"@type": RPC + "RetryInfo", "retryDelay": delay}


@pytest.mark.parametrize(("code", "status", "kind"), [
    (400, "INVALID_ARGUMENT", "invalid_request"), (400, "FAILED_PRECONDITION", "invalid_request"),
    (401, "UNAUTHENTICATED", "authentication"), (403, "PERMISSION_DENIED", "permission"),
    (404, "NOT_FOUND", "not_found"), (429, "RESOURCE_EXHAUSTED", "rate_limit"), (499, "CANCELLED", "invalid_request"),
    (500, "INTERNAL", "server"), (503, "UNAVAILABLE", "unavailable"), (504, "DEADLINE_EXCEEDED", "timeout"),
])
def test_p14_every_status_of_google(code: int, status: str, kind: str) -> None:
    for body in (google(code, status, "said so"), [google(code, status, "said so")]):
        failure = decode(body, code)
        assert (failure.kind, failure.status, failure.message, failure.code) == (kind, code, "said so", status)


def test_p14_an_error_in_an_array() -> None:
    """The overloaded model: its message says that the state is temporary."""
    failure = decode([google(503, "UNAVAILABLE", "The model is overloaded. Please try again later.")], 503)
    assert (failure.kind, failure.status) == ("overloaded", 503)


@pytest.mark.parametrize("body", [
    google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", reason("API_KEY_INVALID"),
           {"@type": RPC + "LocalizedMessage", "locale": "en-US", "message": "API key not valid."}),
    google(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    google(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key.", reason("API_KEY_INVALID")),
    google(400, "INVALID_ARGUMENT", "API Key not found. Please pass a valid API key."),
    google(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers (callers without established "
                                     "identity). Please use API Key or other form of API consumer identity."),
    google(403, "PERMISSION_DENIED", "Your API key was reported as leaked. Please use another API key."),
    google(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.", reason("ACCESS_TOKEN_EXPIRED")),
])
def test_p14_a_bad_key_is_a_401_whatever_its_status(body: dict[str, Any]) -> None:
    assert (decode(body).kind, decode(body).status) == ("authentication", 401)


@pytest.mark.parametrize(("body", "kind", "status"), [
    (google(403, "PERMISSION_DENIED", "Gemini API has not been used in project 1 before or it is disabled.",
            reason("SERVICE_DISABLED")), "permission", 403),
    (google(403, "PERMISSION_DENIED", "Permission denied: Consumer 'projects/1' has been suspended.",
            reason("CONSUMER_SUSPENDED")), "permission", 403),
    (google(403, "PERMISSION_DENIED", "This API method requires billing to be enabled.", reason("BILLING_DISABLED")),
     "billing", 403),
    (google(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), "permission", 403),
    (google(400, "FAILED_PRECONDITION", "Gemini API free tier is not available in your country. Please enable billing "
                                        "on your project in Google AI Studio."), "billing", 402),
    (google(400, "INVALID_ARGUMENT", "Request payload size exceeds the limit: 20971520 bytes."), "too_large", 413),
    (google(429, "RESOURCE_EXHAUSTED", "You exceeded your current quota.\n* Quota exceeded for metric: "
            "generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 0, model: gemini-3-pro\n"
            "Please retry in 34.07s.", retry("34s")), "billing", 402),
    (google(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), "billing", 402),
])
def test_p14_reasons_that_are_more_precise_than_their_status(body: dict[str, Any], kind: str, status: int) -> None:
    failure = decode(body)
    assert (failure.kind, failure.status, failure.retry_after) == (kind, status, None)


def test_a_quota_that_is_not_zero_is_a_rate_limit() -> None:
    message = "* Quota exceeded for metric: x/generate_requests, limit: 0.5\n* Quota exceeded for metric: y, limit: 20"
    assert decode(google(429, "RESOURCE_EXHAUSTED", message)).kind == "rate_limit"


@pytest.mark.parametrize(("delay", "wait"), [
    ("34s", "34"), ("34.074824224s", "35"), ("1.5s", "2"), ("0.2s", "1"), ("21599.9s", "21600"), ("200ms", "1"),
    ({"seconds": 34, "nanos": 5}, "35"), ({"seconds": "7"}, "7"), ("0s", None), ("", None), ("soon", None),
    (None, None), ("9999999999s", None), (7, None),
])
def test_the_retry_delay_is_whole_seconds_rounded_up(delay: object, wait: str | None) -> None:
    assert decode(google(429, "RESOURCE_EXHAUSTED", "Quota exceeded.", retry(delay))).retry_after == wait


def test_the_retry_delay_is_read_from_the_message_without_details() -> None:
    assert decode(google(429, "RESOURCE_EXHAUSTED", "Quota. Please retry in 47.434392449s.")).retry_after == "48"
    assert decode(google(429, "RESOURCE_EXHAUSTED", "Quota. Please retry in 1h2m3.5s.")).retry_after == "3724"
    assert seconds("2m") == 120


def test_the_header_takes_precedence_and_permanent_errors_have_no_delay() -> None:
    body = google(429, "RESOURCE_EXHAUSTED", "Quota.", retry("34s"))
    assert decode(body, headers={"retry-after": "5"}).retry_after == "5"
    assert decode(google(503, "UNAVAILABLE", "Busy.", retry("3s"))).retry_after == "3"
    assert decode(google(400, "INVALID_ARGUMENT", "No.", retry("3s"))).retry_after is None


def test_the_wrong_fields_are_listed_if_the_message_does_not_name_them() -> None:
    violations = {"@type": RPC + "BadRequest", "fieldViolations": [
        {"field": "contents[0].parts", "description": "must not be empty"}, {"description": "and so on"}, {}]}
    assert decode(google(400, "INVALID_ARGUMENT", "Request contains an invalid argument.", violations)).message == (
        "Request contains an invalid argument. (contents[0].parts: must not be empty; and so on)")
    assert decode(google(400, "INVALID_ARGUMENT", "It must not be empty, and so on", violations)).message == (
        "It must not be empty, and so on")


def test_an_error_that_a_proxy_wrapped_again() -> None:
    inner = json.dumps([google(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted.", retry("7s"))], indent=2)
    failure = decode({"error": {"message": inner, "code": 429, "status": "Too Many Requests"}})
    assert (failure.message, failure.kind, failure.retry_after) == ("Resource has been exhausted.", "rate_limit", "7")
    assert decode({"error": {"message": "{not json", "code": 400}}).message == "{not json"


def test_an_error_in_the_framing_of_a_stream() -> None:
    body = b"data: " + json.dumps(google(429, "RESOURCE_EXHAUSTED", "Quota.", retry("7s"))).encode() + b"\r\n\r\n"
    failure = PROVIDER.decode_error(429, {}, body)
    assert (failure.message, failure.kind, failure.retry_after) == ("Quota.", "rate_limit", "7")


@pytest.mark.parametrize("details", [None, {}, [None, 1, "x", [], {"@type": 5}], [{"@type": RPC + "RetryInfo"}], "x",
                                     [{"@type": RPC + "BadRequest", "fieldViolations": "none"}]])
def test_details_of_any_shape_are_tolerated(details: object) -> None:
    failure = decode({"error": {"code": 429, "message": "m", "details": details}})
    assert (failure.kind, failure.message, failure.retry_after) == ("rate_limit", "m", None)


@pytest.mark.parametrize(("message", "figures"), [
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", (1200000, 1048576)),
    ("The input token count exceeds the maximum number of tokens allowed 1048576.", (None, 1048576)),
    ("The input token count exceeds the maximum number of tokens allowed (1048576).", (None, 1048576)),
    ("Unable to submit request because the input token count is 1055555 but model only supports up to 1048576. Reduce "
     "the input token count and try again. You can also use the CountTokens API.", (1055555, 1048576)),
])
def test_p13_an_overflow_is_recognised_with_its_figures(message: str, figures: tuple[int | None, int]) -> None:
    failure = decode([google(400, "INVALID_ARGUMENT", message)], 400)
    assert (failure.kind, failure.status) == ("context_length", 400)
    assert (failure.prompt_tokens, failure.context_limit) == figures


def test_p13_a_quota_of_tokens_is_no_overflow() -> None:
    message = ("Quota exceeded for metric: generativelanguage.googleapis.com/"
               "generate_content_paid_tier_input_token_count, limit: 4000000\nPlease retry in 47.4s.")
    failure = decode(google(429, "RESOURCE_EXHAUSTED", message))
    assert (failure.kind, failure.retry_after) == ("rate_limit", "48")
