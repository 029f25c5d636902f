"""The list of models in the OpenAI API's shape, an answer that needs no provider.

Called by the exchange for `GET /v1/models`. Knows no configuration: names are handed in.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

_encode = msgspec.json.Encoder().encode

_UNKNOWN_DATE = 0
"""The same configuration gives the same bytes: a name has no date of its own."""


def models_body(names: Sequence[str]) -> bytes:
    """The body of `GET /v1/models`."""
    rows = [{"id": name, "object": "model", "created": _UNKNOWN_DATE, "owned_by": "extproc"} for name in names]
    return _encode({"object": "list", "data": rows})
