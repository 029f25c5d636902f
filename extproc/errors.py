"""Failures of an exchange, and the errors for requests that are refused before anything is sent to a provider.

`BadRequest` is internal and knows no API. `RequestError` is its public form, with a body in the client's own shape
(design rule 3).
"""

from __future__ import annotations

from typing import Literal

import msgspec

FailureKind = Literal["invalid_request", "authentication", "billing", "permission", "not_found", "conflict",
                      "too_large", "context_length", "rate_limit", "server", "timeout", "overloaded", "unavailable"]

GATEWAY_REFUSALS: dict[FailureKind, str] = {
    "authentication": "Missing or wrong API key. Send your team's key as x-api-key or as authorization: Bearer KEY.",
    "permission": "The gateway refused the request.",
    "too_large": "The request body is larger than this gateway takes.",
    "rate_limit": "Too many requests. Please try again later.",
}
"""Messages to clients for requests that the proxy itself refused: in Envoy's own replies, and in those that the
processor rewrites."""

FAILOVER_STATUSES = [401, 402, 403, 404, 408, 429]
"""Response statuses below 500 that trigger failover: another provider may serve the request. 5xx always does. Used in
Envoy's retry policy and in access records."""

INVALID_TOOL_RESULTS = "invalid_tool_results"
"""The error code for tool results without a call."""

INVALID_REASONING = "invalid_encrypted_content"
"""The error code for encrypted reasoning that its reader cannot decrypt: OpenAI's, and the gateway's own."""


def triggers_failover(status: int | None) -> bool:
    """True if an attempt that ends with this status is followed by the next one, if there is one."""
    return status is not None and (status >= 500 or status in FAILOVER_STATUSES)


class Failure(msgspec.Struct, frozen=True, gc=False):
    """Why an exchange failed. The client gets an HTTP error (`status`) before the response head was sent, else an error
    event as the last one of its stream. `message` is for people: no stack trace, no key.

    `retry_after` is the provider's header value, unchanged. `prompt_tokens`, `context_limit` and `max_tokens` are known
    only for some context_length failures.
    """

    kind: FailureKind
    message: str
    status: int = 502
    retry_after: str | None = None
    code: str | None = None
    prompt_tokens: int | None = None
    context_limit: int | None = None
    max_tokens: int | None = None
    tool: str | None = None
    """The tool named by a call of the model, if that call was refused."""


class BadRequest(Exception):  # noqa: N818 - HTTP's word
    """The client's request cannot be served. The message says what is wrong, where, and what to do about it."""

    def __init__(self, message: str, *, kind: FailureKind = "invalid_request", status: int = 400,
                 code: str | None = None) -> None:
        super().__init__(message)
        self.failure = Failure(kind=kind, message=message, status=status, code=code)


class RequestError(Exception):
    """A refused request. `status`, `headers` and `body` are the response, in the client API's error shape."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes, failure: Failure) -> None:
        super().__init__(f"{status}: {failure.message}")
        self.status = status
        self.headers = headers
        self.body = body
        self.failure = failure
