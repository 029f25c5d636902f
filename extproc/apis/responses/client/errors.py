"""A failure of the exchange -> an error of this API, as a response or as the failed response at the end of a stream.

Codex decides by status, `retry-after` and code whether it tries again, shortens the conversation or gives up: a 429
without `retry-after` ends its run, and only the code `context_length_exceeded` makes it compact. Source: measured with
Codex CLI 0.169.
"""

from __future__ import annotations

import msgspec

from extproc.apis.base import HttpError
from extproc.apis.responses.wire_request import ClientBody
from extproc.apis.shared.client_errors import error_status, place_in_message, plain_message, specific_code
from extproc.errors import Failure, FailureKind

TYPES: dict[FailureKind, tuple[str, str | None]] = {
    "invalid_request": ("invalid_request_error", None),
    "authentication": ("invalid_request_error", "invalid_api_key"),
    "billing": ("insufficient_quota", "insufficient_quota"),
    "permission": ("invalid_request_error", None),
    "not_found": ("invalid_request_error", None),
    "conflict": ("invalid_request_error", None),
    "too_large": ("invalid_request_error", "request_too_large"),
    "context_length": ("invalid_request_error", "context_length_exceeded"),
    "rate_limit": ("rate_limit_error", "rate_limit_exceeded"),
    "server": ("server_error", "server_error"),
    "timeout": ("server_error", "server_error"),
    "overloaded": ("server_error", "server_error"),
    "unavailable": ("server_error", "server_error"),
}
"""The type of each kind, and its code where the provider gave none that is more specific."""

_STREAM_CODES: dict[FailureKind, str] = {
    "context_length": "context_length_exceeded",
    "billing": "insufficient_quota",
    "rate_limit": "rate_limit_exceeded",
    "invalid_request": "invalid_prompt",
    "too_large": "invalid_prompt",
}
"""The code of a failed response, by which clients decide whether to try again; `server_error` for all other kinds."""

DEFAULT_RETRY_AFTER = "5"
"""Seconds. For a 429 and a 503 whose provider did not name any."""
_COME_BACK: tuple[FailureKind, ...] = ("rate_limit", "overloaded", "unavailable")

_ENDS_RUNS = frozenset({"server_is_overloaded", "slow_down", "usage_limit_reached", "usage_not_included"})
"""Codes of OpenAI's service that make Codex give up, or mean its own accounts."""
_FIELDS = frozenset(field.name for field in msgspec.structs.fields(ClientBody))

_encode = msgspec.json.Encoder().encode


def http_error(failure: Failure, request_id: str | None = None) -> HttpError:
    """The whole response. The status is the provider's, except for a context overflow, which is always a 400, and for
    529, which clients of this API do not know."""
    status = error_status(failure)
    status = 503 if status == 529 else status
    headers = {"content-type": "application/json"}
    if failure.retry_after is not None or status in (429, 503) or failure.kind in _COME_BACK:
        headers["retry-after"] = failure.retry_after or DEFAULT_RETRY_AFTER
    if request_id is not None:
        headers["x-request-id"] = request_id
    return HttpError(status, headers, _encode({"error": error_detail(failure)}))


def error_detail(failure: Failure) -> dict[str, str | None]:
    """The members of `error`, all four of them."""
    kind, code = TYPES[failure.kind]
    said = specific_code(failure)
    if said is not None and said not in _ENDS_RUNS:
        code = said
    return {"message": message(failure), "type": kind, "param": _param(failure), "code": code}


def stream_error(failure: Failure) -> dict[str, str]:
    """`error` of a failed response."""
    text = message(failure)
    if failure.kind == "rate_limit":  # Codex takes the time to wait from these words
        seconds = failure.retry_after or DEFAULT_RETRY_AFTER
        if seconds.isdecimal() and "try again in" not in text.lower():
            text = f"{text.rstrip()} Please try again in {seconds}s."
    return {"code": _STREAM_CODES.get(failure.kind, "server_error"), "message": text}


def message(failure: Failure) -> str:
    """The message. A context overflow names its figures where they are known."""
    if failure.kind != "context_length":
        return plain_message(failure)
    prompt, limit = failure.prompt_tokens, failure.context_limit
    head = "Your input exceeds the context window of this model."
    if prompt is not None and limit is not None:
        return f"{head} It has {prompt} tokens, and the limit is {limit}. Please reduce the input and try again."
    return f"{head} {failure.message}".rstrip()


def _param(failure: Failure) -> str | None:
    """The place at the start of the message, if it is a field of the request."""
    if failure.kind == "context_length":
        return "input"
    return place_in_message(failure, _FIELDS) if failure.kind in ("invalid_request", "not_found") else None
