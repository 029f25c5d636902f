"""What the processor itself says to clients, in the shape of their API: errors and the list of models.

Called by the exchanges. The registry of client APIs decides what is served: an API that joins it is served on its
paths; until then those paths answer 404 in its own shape. Nothing here reads a message or a clock.
"""

from __future__ import annotations

import msgspec

from extproc.apis import CLIENT_APIS
from extproc.apis.anthropic import count_body, models_body
from extproc.apis.base import HttpError
from extproc.conversation import Failure

__all__ = ["CLIENT_APIS", "count_body", "error_answer", "models_answer"]

_OPENAI_TYPES = {"authentication": "authentication_error", "permission": "permission_error",
                 "not_found": "not_found_error", "rate_limit": "rate_limit_error", "billing": "insufficient_quota",
                 "server": "server_error", "timeout": "server_error", "overloaded": "server_error",
                 "unavailable": "server_error"}


def error_answer(api: str, failure: Failure, request_id: str | None) -> HttpError:
    """The failure as an HTTP error of the API `api`."""
    known = CLIENT_APIS.get(api)
    if known is not None:
        return known.error(failure, request_id)
    return _openai_error(failure, request_id)


def _openai_error(failure: Failure, request_id: str | None) -> HttpError:
    """For OpenAI's paths while that API is not in the registry."""
    headers = {"content-type": "application/json"}
    if request_id:
        headers["x-request-id"] = request_id
    if failure.retry_after:
        headers["retry-after"] = failure.retry_after
    kind = _OPENAI_TYPES.get(failure.kind, "invalid_request_error")
    error = {"message": failure.message, "type": kind, "param": None, "code": failure.code}
    return HttpError(failure.status, headers, msgspec.json.encode({"error": error}))


def models_answer(api: str, names: list[str]) -> bytes:
    """The body of `GET /v1/models`. The same configuration gives the same bytes: a name has no date of its own."""
    if api == "anthropic":
        return models_body(names)
    rows = [{"id": name, "object": "model", "created": 0, "owned_by": "extproc"} for name in names]
    return msgspec.json.encode({"object": "list", "data": rows})
