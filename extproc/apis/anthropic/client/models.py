"""The two small answers of the Messages API that need no provider: the list of models and a token count.

Called by the exchange for `GET /v1/models` and `POST /v1/messages/count_tokens`. Knows neither the configuration nor
the tokenizer: names and numbers are handed in.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

_encode = msgspec.json.Encoder().encode

_UNKNOWN_DATE = "1970-01-01T00:00:00Z"
"""The API gives the epoch where a release date is not known."""


def models_body(names: Sequence[str]) -> bytes:
    """The body of `GET /v1/models`: all names on one page."""
    data = [{"type": "model", "id": name, "display_name": name, "created_at": _UNKNOWN_DATE} for name in names]
    return _encode({"data": data, "has_more": False, "first_id": names[0] if names else None,
                    "last_id": names[-1] if names else None})


def count_body(tokens: int) -> bytes:
    """The body of a token count."""
    return _encode({"input_tokens": tokens})
