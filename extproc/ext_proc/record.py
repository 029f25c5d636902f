"""One structured record per finished exchange: what the log, the metrics and the terminal show of it.

The exchanges fill it, the server writes it. It never holds bodies, keys or header values of a provider. The docstrings
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
    """Times are milliseconds since the exchange began, sizes are bytes. What is unknown, none or empty is left out."""

    event: str = msgspec.field(default="exchange")
    """Always `exchange`; other lines of the log have other events."""
    hop: str
    """Where it was: `select` (the edge, only what was answered or refused there), `translate` (one attempt at a
    provider), `onehop` (the same behind another gateway)."""
    request_id: str = ""
    """`x-request-id`, which all attempts of a request share."""
    trace_id: str | None = None
    """The trace of the request, where it brought a `traceparent` or `tracing` is on."""
    path: str = ""
    """The path that was asked for, without its query."""
    api: str = ""
    """The client's API: `anthropic`, `openai`, or `events`."""
    team: str | None = None
    """Whose key it was."""
    operation: OperationName | None = None
    """What was asked for, in the words of the OpenTelemetry conventions (`gen_ai.operation.name`)."""
    rule: str | None = None
    """The `match` of the model rule."""
    model: str | None = None
    """The model's name as the client wrote it, at most 200 characters."""
    provider_model: str | None = None
    """The model's name as the provider got it, at most 200 characters."""
    model_setting: str | None = None
    """`model` of the attempt as the configuration has it, which may be `*`."""
    backend: str | None = None
    """The name of the backend."""
    provider: str | None = None
    """Whose endpoint it is (`gen_ai.provider.name` of the OpenTelemetry conventions)."""
    provider_api: str | None = None
    """The API that the backend speaks."""
    attempt: int | None = None
    """Which attempt of the request this was, from 1."""
    retried: bool = False
    """The attempt failed, and Envoy was told so in time to make the next one."""
    stream: bool | None = None
    """Whether the client asked for a stream."""
    status: int | None = None
    """The HTTP status that went to the client, or, of an attempt that was retried, to Envoy."""
    outcome: Outcome | None = None
    """`ok`; `error`: refused or failed here; `provider_error`: the provider failed, or broke its stream off;
    `client_closed`: the client left before the answer was complete."""
    closed_by: ClosedBy | None = None
    """Who ended the stream before the answer was complete: `client`, `provider`, `gateway` (it stopped), or `unknown`
    where Envoy did not say: then an answer that was on its way counts as the provider's error."""
    reason: str | None = None
    """Why the processor answered itself, as in Envoy's response code details after `extproc_`."""
    failure: str | None = None
    """The kind of the failure: `rate_limit`, `overloaded`, `context_length`..."""
    finish: str | None = None
    """The finish reason of a complete answer: `stop`, `tool_calls`, `length`..."""
    usage: Usage | None = None
    """Tokens: `input` with `cached` (read from a cache) and `cache_write` as parts of it, `output` with `reasoning` as
    a part of it. `estimated`: the provider told no figures, or the stream ended before it did."""
    tool_calls: int | None = None
    """Tool calls that went to the client."""
    calls: dict[str, CallCounts] = {}
    """The model's calls by the way in which they were written, `native` or the name of a dialect: `total`, and among
    these `repaired`, `unreadable`, `unoffered` (of tools that the request did not have), `refused`
    (`tools.arguments: strict`), `unexpected` (native, though the tools were written into the prompt) and `dropped`
    (`tools.parallel: enforce`, `tools.duplicates: drop`)."""
    bad_calls: list[BadCall] = []
    """The first 20 calls that no client can run as they are: tool (empty where none is named) and reason, `unreadable`,
    `unoffered` or `refused`. A line with any is a warning. Tools that `events.tools` calls `hidden` are not named, here
    and in `repairs`."""
    repairs: list[Repair] = []
    """What was wrong with calls and was put right: tool, path, reason; the first 20 of them."""
    repaired: int = 0
    """How many repairs there were."""
    dropped: list[str] = []
    """What of the request or the answer was not carried and makes a difference to the model or the client."""
    hints: list[str] = []
    """What was not carried and makes none: cache marks, betas, fields that nobody knows."""
    ms_head: float | None = None
    """Until the response head went to the client."""
    ms_first_token: float | None = None
    """Until the first content of the answer went to the client."""
    ms_answer: float | None = None
    """Until the answer was complete; `ms` may be longer while the provider keeps its stream open."""
    ms: float | None = None
    """Until the exchange was over."""
    request_bytes: int = 0
    """The client's body as it came."""
    response_bytes: int = 0
    """The body that went to the client."""

    def set_failure(self, failure: Failure, outcome: Outcome) -> None:
        self.outcome = outcome
        self.failure = failure.kind

    def round_times(self) -> None:
        """To a tenth of a millisecond, once at the end: on the way to a first token nobody needs it."""
        for name in ("ms_head", "ms_first_token", "ms_answer", "ms"):
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, round(value, 1))

    def to_json(self) -> bytes:
        """One line of the log."""
        return msgspec.json.encode(self)


def usage_figures(usage: Usage) -> dict[str, float]:
    """The figures that go into dynamic metadata, where tokens are counted against limits."""
    return {"input": usage.input, "output": usage.output, "cached": usage.cached, "reasoning": usage.reasoning,
            "total": usage.input + usage.output}
