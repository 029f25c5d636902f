"""The table of endings: which facts make a response complete, empty or broken, and its finish reason."""

import pytest

from extproc.apis.shared.endings import (
    BROKEN,
    COMPLETE,
    EMPTY,
    EMPTY_OUTPUT,
    OUTCOMES,
    EndedBy,
    EndFacts,
    client_finish_reason,
    failure_at_end,
    failure_without_output,
)
from extproc.conversation.model import FinishReason, Required
from extproc.errors import Failure


@pytest.mark.parametrize("ended_by", list(OUTCOMES))
def test_a_finish_reason_makes_any_response_complete(ended_by: EndedBy) -> None:
    facts = EndFacts(finish_reason=True, nothing_came=True, open_call=True)
    assert failure_at_end(ended_by, facts) is COMPLETE


@pytest.mark.parametrize(("ended_by", "facts", "outcome"), [
    ("end mark", EndFacts(finish_reason=False), COMPLETE),
    ("end mark", EndFacts(finish_reason=False, nothing_came=True), EMPTY),
    ("end mark", EndFacts(finish_reason=False, open_call=True), BROKEN),
    ("end of stream", EndFacts(finish_reason=False), BROKEN),
    ("end of stream", EndFacts(finish_reason=False, nothing_came=True), EMPTY),
    ("end of stream", EndFacts(finish_reason=False, open_call=True), BROKEN),
    ("end of stream", EndFacts(finish_reason=False, whole_calls_last=True), COMPLETE),
    ("whole body", EndFacts(finish_reason=False), COMPLETE),
    ("whole body", EndFacts(finish_reason=False, nothing_came=True), COMPLETE),
    ("whole body", EndFacts(finish_reason=False, open_call=True), BROKEN),
])
def test_a_response_without_a_finish_reason(ended_by: EndedBy, facts: EndFacts, outcome: Failure | None) -> None:
    assert failure_at_end(ended_by, facts) is outcome


@pytest.mark.parametrize(("reason", "calls", "truncated_call", "expected"), [
    ("stop", False, False, "stop"),
    ("stop", True, False, "tool_calls"),
    ("tool_calls", True, False, "tool_calls"),
    ("tool_calls", False, False, "stop"),
    ("stop", True, True, "length"),
    ("tool_calls", True, True, "length"),
    ("stop_sequence", True, True, "length"),
    ("pause", False, True, "length"),
    ("content_filter", True, True, "content_filter"),
    ("context_length", True, True, "context_length"),
    ("length", True, False, "length"),
])
def test_the_finish_reason_agrees_with_the_blocks(reason: FinishReason, calls: bool, truncated_call: bool,
                                                  expected: FinishReason) -> None:
    assert client_finish_reason(reason, calls=calls, truncated_call=truncated_call) == expected


@pytest.mark.parametrize(("required", "reason", "block", "text", "outcome"), [
    ("nothing", "stop", False, False, COMPLETE),
    ("block", "stop", False, False, EMPTY_OUTPUT),
    ("block", "pause", False, False, EMPTY_OUTPUT),
    ("block", "stop", True, False, COMPLETE),
    ("block", "length", False, False, COMPLETE),
    ("block", "content_filter", False, False, COMPLETE),
    ("block", "refusal", False, False, COMPLETE),
    ("text", "stop", True, False, EMPTY_OUTPUT),
    ("text", "stop", True, True, COMPLETE),
])
def test_a_client_that_needs_output_gets_it_or_a_failure(required: Required, reason: FinishReason, block: bool,
                                                         text: bool, outcome: Failure | None) -> None:
    assert failure_without_output(required, reason, block=block, text=text) is outcome
