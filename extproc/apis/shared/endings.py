"""How a response ends: complete, empty or broken, and with which finish reason. One table for all APIs.

Decoders and pass-through decoders report facts (`EndFacts`); `failure_at_end` looks up the outcome in `OUTCOMES`, and
`client_finish_reason` the reason that the client reads in `REASONS`. In both tables the first row whose fact holds
decides. docs/architecture.md has the same table for people, "How a response ends".

Not decided here: a failure that the provider reports itself (an error event, a finish reason that means failure),
damaged JSON, and limits. Each ends the response at once.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.conversation.model import FinishReason, Required
from extproc.errors import Failure

BROKEN = Failure("server", "The provider's stream ended before the response was complete.")
EMPTY = Failure("server", "The provider closed the connection without a response.")
EMPTY_OUTPUT = Failure("server", "The model's response was empty.")
COMPLETE = None

EndedBy = Literal["end mark", "end of stream", "whole body"]
"""end mark: the event that ends a stream of this API (`[DONE]`, `message_stop`). end of stream: the provider closed an
event stream that had no end mark. whole body: the response was one JSON body."""


class EndFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a decoder knows when a response ends."""

    finish_reason: bool
    """The provider said why it finished."""
    nothing_came: bool = False
    open_call: bool = False
    """The JSON of a tool call is incomplete, or nothing says that it is complete."""
    whole_calls_last: bool = False
    """The last thing that came is a tool call, or several, with complete JSON. Reported only for APIs whose servers are
    known to stop there without a finish reason."""


OUTCOMES: dict[EndedBy, tuple[tuple[str, Failure | None], ...]] = {
    "end mark": (
        ("finish_reason", COMPLETE),
        ("nothing_came", EMPTY),
        ("open_call", BROKEN),
        ("otherwise", COMPLETE),
    ),
    "end of stream": (
        ("finish_reason", COMPLETE),
        ("nothing_came", EMPTY),
        ("whole_calls_last", COMPLETE),
        ("otherwise", BROKEN),
    ),
    "whole body": (
        ("finish_reason", COMPLETE),
        ("open_call", BROKEN),
        ("otherwise", COMPLETE),
    ),
}
"""Fact -> outcome. Without a finish reason an end mark is a weak promise, and the end of a stream is none."""

CLEAN: tuple[FinishReason, ...] = ("stop", "tool_calls")
"""The model finished of its own accord: a call that only lacks closing brackets is complete."""

REASONS: tuple[tuple[tuple[FinishReason, ...], str, FinishReason], ...] = (
    ((*CLEAN, "stop_sequence", "pause"), "truncated_call", "length"),
    (("stop",), "calls", "tool_calls"),
    (("tool_calls",), "no_calls", "stop"),
)
"""(finish reasons of the provider, fact, finish reason for the client). A response that claims to be finished inside a
call was cut by a limit: no client may run half a call."""


EXPLAINED: tuple[FinishReason, ...] = ("length", "context_length", "content_filter", "refusal")
"""The client sees from the end why nothing came."""


def failure_at_end(ended_by: EndedBy, facts: EndFacts) -> Failure | None:
    """Why a response that ends now has failed; None: it is complete."""
    return next(outcome for fact, outcome in OUTCOMES[ended_by] if fact == "otherwise" or getattr(facts, fact))


def failure_without_output(required: Required, reason: FinishReason, *, block: bool, text: bool) -> Failure | None:
    """Why a complete response has failed that lacks what the client needs (`Request.requires`); None: it has not.
    `block`, `text`: the response has a block, and a text that is not blank."""
    present = {"nothing": True, "block": block, "text": text}
    return COMPLETE if present[required] or reason in EXPLAINED else EMPTY_OUTPUT


def client_finish_reason(reason: FinishReason, *, calls: bool, truncated_call: bool = False) -> FinishReason:
    """The finish reason that agrees with what the client has received. `calls`: at least one call went out."""
    facts = {"truncated_call": truncated_call, "calls": calls, "no_calls": not calls}
    return next((known for reasons, fact, known in REASONS if reason in reasons and facts[fact]), reason)
