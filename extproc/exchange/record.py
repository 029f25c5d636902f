"""One structured record per finished exchange: what the log, the metrics and the terminal show of it.

The exchanges fill it, the server writes it. It never holds bodies, keys or header values of a provider.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.conversation import Failure, Usage
from extproc.dialects.reading import Repair

MAX_REPAIRS = 20

Outcome = Literal["ok", "error", "provider_error", "client_closed"]


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Times are milliseconds since the exchange began, sizes are bytes."""

    event: str = msgspec.field(default="exchange")
    hop: str
    request_id: str = ""
    path: str = ""
    api: str = ""
    """The client's API."""
    team: str | None = None
    rule: str | None = None
    """The `match` of the model rule."""
    model: str | None = None
    """The model's name as the client wrote it."""
    provider_model: str | None = None
    backend: str | None = None
    attempt: int | None = None
    stream: bool | None = None
    status: int | None = None
    outcome: Outcome | None = None
    """`error`: refused or failed here; `provider_error`: the provider failed; `client_closed`: the stream ended from
    outside before the answer was complete."""
    reason: str | None = None
    """Why the processor answered itself, as in Envoy's response code details after `extproc_`."""
    failure: str | None = None
    """The kind of the failure."""
    finish: str | None = None
    """The finish reason of a complete answer."""
    usage: Usage | None = None
    tool_calls: int | None = None
    text_calls: int = 0
    """Calls among them that the model wrote as text."""
    unoffered_calls: int = 0
    """Calls among them of tools that were not offered."""
    repairs: list[Repair] = []
    """What was wrong with calls and was put right: tool, path, reason; the first `MAX_REPAIRS` of them."""
    repaired: int = 0
    """How many repairs there were."""
    dropped: list[str] = []
    ms_head: float | None = None
    """Until the response head went to the client."""
    ms_first_token: float | None = None
    """Until the first bytes of the answer went to the client."""
    ms: float | None = None
    request_bytes: int = 0
    response_bytes: int = 0

    def failed(self, failure: Failure, outcome: Outcome) -> None:
        self.outcome = outcome
        self.failure = failure.kind

    def to_json(self) -> bytes:
        """One line of the log."""
        return msgspec.json.encode(self)


def usage_figures(usage: Usage) -> dict[str, float]:
    """The figures that go into dynamic metadata, where tokens are counted against limits."""
    return {"input": usage.input, "output": usage.output, "cached": usage.cached, "reasoning": usage.reasoning,
            "total": usage.input + usage.output}
