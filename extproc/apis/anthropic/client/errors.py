"""A failure of the exchange -> an error in the shape of the Messages API, as a response or as an event of a stream.

Called by the response encoder and through `API.error`. Anthropic's clients decide by status, by type and, for a context
overflow, by the wording of the message whether to retry, to shorten the conversation or to give up. All three are
chosen in this module only.
"""

from __future__ import annotations

import msgspec

from extproc.apis.base import HttpError
from extproc.apis.shared.client_errors import error_status, plain_message
from extproc.errors import INVALID_REASONING, INVALID_TOOL_RESULTS, Failure, FailureKind

TYPES: dict[FailureKind, str] = {
    "invalid_request": "invalid_request_error",
    "authentication": "authentication_error",
    "billing": "billing_error",
    "permission": "permission_error",
    "not_found": "not_found_error",
    "conflict": "conflict_error",
    "too_large": "request_too_large",
    "context_length": "invalid_request_error",
    "rate_limit": "rate_limit_error",
    "server": "api_error",
    "timeout": "timeout_error",
    "overloaded": "overloaded_error",
    # An unreachable provider (503) has no type of its own in this API. Clients that see overloaded_error inside a
    # stream retry the stream later; any other type makes Claude Code ask again at once without streaming.
    "unavailable": "overloaded_error",
}

_CODES = frozenset({INVALID_TOOL_RESULTS})
"""The gateway's own codes. The API has none, so those of providers are left out."""

_encode = msgspec.json.Encoder().encode


class _Detail(msgspec.Struct, omit_defaults=True):
    type: str
    message: str
    code: str | None = None


class _Error(msgspec.Struct, omit_defaults=True, tag="error"):
    error: _Detail
    request_id: str | None = None


def http_error(failure: Failure, request_id: str | None = None) -> HttpError:
    """The whole response. The status is the provider's, except for a context overflow, which is always a 400."""
    headers = {"content-type": "application/json"}
    if failure.retry_after is not None:
        headers["retry-after"] = failure.retry_after
    if request_id is not None:
        headers["request-id"] = request_id
    return HttpError(error_status(failure), headers, _body(failure, request_id))


def error_event(failure: Failure, request_id: str | None = None) -> bytes:
    """The last event of a broken stream."""
    return b"event: error\ndata: " + _body(failure, request_id) + b"\n\n"


def _body(failure: Failure, request_id: str | None) -> bytes:
    code = failure.code if failure.code in _CODES else None
    return _encode(_Error(_Detail(TYPES[failure.kind], message(failure), code), request_id))


def message(failure: Failure) -> str:
    """The message. A context overflow uses the two phrases that Claude Code recognises: after the first it compacts the
    conversation, after the second it retries with a smaller `max_tokens`. Results without a call use the API's own
    words, by which clients detect a damaged history. So does reasoning that the provider cannot decrypt: Claude Code
    then sends the request again without thinking."""
    if failure.code == INVALID_TOOL_RESULTS:
        return f"unexpected `tool_use_id` found in `tool_result` blocks: {failure.message}"
    if failure.code == INVALID_REASONING:
        return f"Invalid `signature` in `thinking` block: {failure.message}"
    if failure.kind != "context_length":
        return plain_message(failure)
    prompt, limit, output = failure.prompt_tokens, failure.context_limit, failure.max_tokens
    if prompt is not None and limit is not None:
        if prompt > limit:
            return f"prompt is too long: {prompt} tokens > {limit} maximum"
        if output is not None and prompt + output > limit:
            return (f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {limit}, "
                    "decrease input length or `max_tokens` and try again")
    if "prompt is too long" in failure.message:
        return failure.message
    return f"prompt is too long: {failure.message}" if failure.message else "prompt is too long"
