"""What the processor itself says to clients, in the shape of their API: errors and the list of models.

Called by the exchanges. The registry of client APIs decides what is served: an API that joins it is served on its
paths; until then those paths answer 404 in its own shape. Nothing here reads a message or a clock.
"""

from __future__ import annotations

from extproc.apis import CLIENT_APIS
from extproc.apis.anthropic.client import count_body, models_body
from extproc.apis.base import HttpError
from extproc.apis.openai.client import API as OPENAI_CLIENT
from extproc.apis.openai.client import models_body as openai_models_body
from extproc.errors import Failure

__all__ = ["CLIENT_APIS", "count_body", "error_response", "models_response"]


def error_response(api: str, failure: Failure, request_id: str | None) -> HttpError:
    """The failure as an HTTP error of the API `api`."""
    return CLIENT_APIS.get(api, OPENAI_CLIENT).error(failure, request_id)


def models_response(api: str, names: list[str]) -> bytes:
    """The body of `GET /v1/models`."""
    return models_body(names) if api == "anthropic" else openai_models_body(names)
