"""One structured record per finished exchange, for the log, the metrics and the terminal.

The exchanges fill it, the worker writes it. It never holds bodies, keys or header values of a provider. The docstrings
are the reference of the log in docs/logs.md.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.conversation.call_counts import BadCall, CallCounts
from extproc.conversation.model import Usage
from extproc.dialects.call_writer import Repair
from extproc.endpoints import OperationName
from extproc.errors import Failure

MAX_REPAIRS = 20

Outcome = Literal["ok", "error", "provider_error", "client_closed"]
ClosedBy = Literal["client", "provider", "gateway", "unknown"]


class Record(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Times are milliseconds since the exchange began, sizes are bytes. Unknown and empty values are left out."""

    event: str = msgspec.field(default="exchange")
    """Always `exchange`; other lines of the log have other events."""
    hop: str
    """Where it was: `select` (the edge, only what was answered or refused there), `translate` (one attempt at a
    provider), `onehop` (the same behind another gateway)."""
    request_id: str = ""
    """`x-request-id`, which all attempts of a request share."""
    trace_id: str | None = None
    """The trace of the request, if it has a `traceparent` or `tracing` is on."""
    path: str = ""
    """The path of the request, without its query."""
    api: str = ""
    """The name of the client's API, such as `anthropic` or `events`."""
    team: str | None = None
    """The team whose key it was."""
    key: str | None = None
    """The name of that key, if the team has several."""
    user: str | None = None
    """The user, if the request names one that can be trusted."""
    operation: OperationName | None = None
    """The operation, in the terms of the OpenTelemetry conventions (`gen_ai.operation.name`)."""
    rule: str | None = None
    """The `match` of the model rule."""
    model: str | None = None
    """The model's name as the client wrote it, at most 200 characters."""
    provider_model: str | None = None
    """The provider's name of the model, at most 200 characters."""
    model_setting: str | None = None
    """`model` of the attempt in the configuration, which may be `*`."""
    backend: str | None = None
    """The name of the backend."""
    provider: str | None = None
    """The owner of the endpoint (`gen_ai.provider.name` of the OpenTelemetry conventions)."""
    provider_api: str | None = None
    """The API that the attempt used: `openai` (Chat Completions), `responses`, `anthropic` or `gemini`."""
    attempt: int | None = None
    """The number of the attempt of this request, from 1."""
    retried: bool = False
    """True if the attempt failed and Envoy learned it in time to make the next one."""
    stream: bool | None = None
    """True if the client asked for a stream."""
    status: int | None = None
    """The HTTP status that the client got; for an attempt that was retried, the status that Envoy got."""
    outcome: Outcome | None = None
    """`ok`; `error`: refused or failed here; `provider_error`: the provider failed, or broke its stream off;
    `client_closed`: the client left before the response was complete."""
    closed_by: ClosedBy | None = None
    """Who ended the stream before the response was complete: `client`, `provider`, `gateway` (it stopped), or `unknown`
    if Envoy did not report it: then a response that had begun counts as the provider's error."""
    reason: str | None = None
    """Why the processor itself answered, as in Envoy's response code details after `extproc_`."""
    failure: str | None = None
    """The kind of the failure: `rate_limit`, `overloaded`, `context_length`..."""
    finish: str | None = None
    """The finish reason of a complete response: `stop`, `tool_calls`, `length`..."""
    usage: Usage | None = None
    """Tokens: `input` with `cached` (read from a cache) and `cache_write` as parts of it, `output` with `reasoning` as
    a part of it. `estimated`: the provider sent no figures, or the stream ended before it did."""
    cost: float | None = None
    """The cost of the attempt in `currency`, with at most 6 digits after the point. Missing if no price is known, and
    if the attempt used no tokens."""
    currency: str | None = None
    """The currency of `cost`, such as `USD`."""
    cost_estimated: bool = False
    """True if `cost` follows from estimated tokens."""
    tool_calls: int | None = None
    """Tool calls that went to the client."""
    calls: dict[str, CallCounts] = {}
    """The model's calls by the form in which they were written, `native` or the name of a dialect: `total`, and among
    these `repaired`, `unreadable`, `unoffered` (of tools that the request did not have), `refused`
    (`tools.arguments: strict`), `unexpected` (native, although the tools were written into the prompt) and `dropped`
    (`tools.parallel: enforce`, `tools.duplicates: drop`)."""
    bad_calls: list[BadCall] = []
    """The first 20 calls that no client can run as they are: tool (empty if the call names none) and reason,
    `unreadable`, `unoffered` or `refused`. A line with any is a warning. Tools that `events.tools` labels `hidden` are
    not named, here and in `repairs`."""
    repairs: list[Repair] = []
    """The first 20 repairs of calls: tool, path, reason."""
    repaired: int = 0
    """The number of repairs."""
    dropped: list[str] = []
    """Parts of the request or the response that were not carried and matter to the model or the client."""
    hints: list[str] = []
    """Parts that were not carried and do not matter: cache marks, betas, unknown fields."""
    ms_head: float | None = None
    """Until the response head went to the client."""
    ms_first_token: float | None = None
    """Until the first content of the response went to the client."""
    ms_response: float | None = None
    """Until the response was complete; `ms` may be longer while the provider keeps its stream open."""
    ms: float | None = None
    """Until the exchange was over."""
    request_bytes: int = 0
    """The client's body, before decompression."""
    response_bytes: int = 0
    """The body that went to the client."""

    def set_failure(self, failure: Failure, outcome: Outcome) -> None:
        self.outcome = outcome
        self.failure = failure.kind

    def round_times(self) -> None:
        """Rounds times to a tenth of a millisecond, once at the end: before the first token it would be a delay."""
        for name in ("ms_head", "ms_first_token", "ms_response", "ms"):
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, round(value, 1))

    def to_json(self) -> bytes:
        """One line of the log."""
        return msgspec.json.encode(self)


def usage_figures(usage: Usage) -> dict[str, float]:
    """The figures for dynamic metadata, from which Envoy counts tokens against limits."""
    return {"input": usage.input, "output": usage.output, "cached": usage.cached, "reasoning": usage.reasoning,
            "total": usage.input + usage.output, "cost": 0}
