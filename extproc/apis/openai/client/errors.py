"""A failure of the exchange -> an error in the shape of the OpenAI API, as a response or inside a stream.

Called by the response encoders and as `ClientApi.encode_error`. Clients decide by status and `code` whether to retry,
to shorten the conversation or to give up; some recognise a context overflow only by its wording. All three are chosen
in this module only.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extproc.apis.base import HttpError
from extproc.apis.openai.wire_request import ClientBody
from extproc.apis.shared.client_errors import error_status, place_in_message, plain_message, specific_code
from extproc.apis.shared.rate_limits import OPENAI_FORMAT
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.errors import Failure, FailureKind

TYPES: dict[FailureKind, tuple[str, str | None]] = {
    "invalid_request": ("invalid_request_error", None),
    "authentication": ("authentication_error", "invalid_api_key"),
    "billing": ("insufficient_quota", "insufficient_quota"),
    "permission": ("permission_error", None),
    "not_found": ("invalid_request_error", None),  # OpenAI's own type for 404s and `model_not_found`
    "conflict": ("invalid_request_error", None),
    "too_large": ("invalid_request_error", "request_too_large"),
    "context_length": ("invalid_request_error", "context_length_exceeded"),
    "rate_limit": ("rate_limit_error", "rate_limit_exceeded"),
    "server": ("server_error", None),
    "timeout": ("server_error", "timeout"),
    "overloaded": ("server_error", "overloaded"),
    "unavailable": ("server_error", "unavailable"),
}
"""The type of each kind, and its code where the provider gave none that is more specific."""

_FIELDS = frozenset(field.name for field in msgspec.structs.fields(ClientBody))

_encode = msgspec.json.Encoder().encode


class _Detail(msgspec.Struct):
    message: str
    type: str
    param: str | None
    code: str | None


class _Error(msgspec.Struct):
    error: _Detail


def http_error(failure: Failure, request_id: str | None = None) -> HttpError:
    """The whole response. The status is the provider's, except for a context overflow, which is always a 400."""
    headers = {"content-type": "application/json"}
    if failure.retry_after is not None:
        headers["retry-after"] = failure.retry_after
    if request_id is not None:
        headers["x-request-id"] = request_id
    return HttpError(error_status(failure), headers, error_body(failure))


def error_chunk(failure: Failure) -> bytes:
    """The last event of a broken stream. Clients raise on it, and no `[DONE]` follows."""
    return b"data: " + error_body(failure) + b"\n\n"


def error_body(failure: Failure) -> bytes:
    """`{"error": {message, type, param, code}}`."""
    return _encode(_Error(error_detail(failure)))


def error_detail(failure: Failure) -> _Detail:
    """The members of the error object."""
    kind, code = TYPES[failure.kind]
    return _Detail(message(failure), kind, _param(failure), specific_code(failure) or code)


def _param(failure: Failure) -> str | None:
    """The place at the start of the message, if it is a field of the request."""
    if failure.kind == "context_length":
        return "messages"
    return place_in_message(failure, _FIELDS) if failure.kind == "invalid_request" else None


def message(failure: Failure) -> str:
    """The message. A context overflow uses OpenAI's own phrase, by which coding clients decide to compact the
    conversation."""
    if failure.kind != "context_length":
        return plain_message(failure)
    prompt, limit, output = failure.prompt_tokens, failure.context_limit, failure.max_tokens
    if prompt is not None and limit is not None:
        if prompt > limit or output is None:
            return (f"This model's maximum context length is {limit} tokens. However, your messages resulted in "
                    f"{prompt} tokens. Please reduce the length of the messages.")
        return (f"This model's maximum context length is {limit} tokens. However, you requested {prompt + output} "
                f"tokens ({prompt} in the messages, {output} in the completion). Please reduce the length of the "
                "messages or completion.")
    if "maximum context length" in failure.message:
        return failure.message
    return f"This model's maximum context length is exceeded. {failure.message}".rstrip()


class OpenAIConventions:
    """The parts of `ClientApi` that chat completions and application events share."""

    call_prefix = "call_"
    request_id_header = "x-request-id"
    rate_limits = OPENAI_FORMAT

    def encode_error(self, failure: Failure, request_id: str | None = None) -> HttpError:
        """The error response in the OpenAI API's shape."""
        return http_error(failure, request_id)

    def decode_count_request(self, body: bytes, limits: Limits) -> Request:
        """Raises NotImplementedError: no path of this API counts tokens."""
        raise NotImplementedError

    def encode_models(self, names: Sequence[str]) -> bytes:
        """The body of `GET /v1/models`."""
        rows = [{"id": name, "object": "model", "created": _UNKNOWN_DATE, "owned_by": "extproc"} for name in names]
        return _encode({"object": "list", "data": rows})

    def encode_token_count(self, tokens: int) -> bytes:
        """Raises NotImplementedError: no path of this API counts tokens."""
        raise NotImplementedError


_UNKNOWN_DATE = 0
"""A fixed value, because a model name has no date: the same configuration gives the same bytes."""
