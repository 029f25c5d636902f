"""Paths that are not translated: bytes pass in any cut, and what breaks off ends in an error event, never in torn JSON
or a clean end (rules 1 and 2)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.translation.untranslated import UntranslatedExchange
from tests.providers.openai_endpoints import response_events

BODY = json.dumps({"model": "m", "input": "hello", "stream": True}).encode()
EVENTS = response_events("Grüße aus Köln 🎈")
for _event in EVENTS:
    if "response" in _event:
        _event["response"]["model"] = "m"  # what the client asked for: nothing is to change
LINES = [f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode() for event in EVENTS]
WHOLE = b"".join(LINES)


def passed(*pieces: bytes) -> bytes:
    exchange = UntranslatedExchange("openai", "m", "/responses")
    exchange.request(BODY)
    exchange.start(200, {"content-type": "text/event-stream"})
    return b"".join(exchange.feed(piece) for piece in pieces) + exchange.finish()


def told(out: bytes) -> list[dict[str, Any]]:
    """The data of every event, as a strict reader of streams sees it."""
    return [json.loads(line.removeprefix("data: ")) for line in out.decode().split("\n") if line.startswith("data: ")]


@given(st.lists(st.integers(0, len(WHOLE)), max_size=12), st.integers(0, len(WHOLE)))
@settings(max_examples=150)
def test_rule_1_any_cut_same_bytes(cuts: list[int], length: int) -> None:
    body = WHOLE[:length]
    at = [0, *sorted(min(cut, length) for cut in cuts), length]
    assert passed(*(body[a:b] for a, b in itertools.pairwise(at))) == passed(body)


def test_a_whole_stream_passes_as_it_is() -> None:
    assert passed(WHOLE) == WHOLE
    assert passed(*(bytes([byte]) for byte in WHOLE)) == WHOLE


ENDS = [end + more for end in itertools.accumulate(map(len, LINES)) for more in (-3, -2, -1, 0)]


@given(st.integers(0, len(WHOLE) - 1) | st.sampled_from(ENDS[:-1]))
@settings(max_examples=200)
def test_rule_2_what_breaks_off_ends_in_an_error_behind_whole_events(length: int) -> None:
    events = told(passed(WHOLE[:length]))
    complete = [event for event in events if event["type"] != "error"]
    assert complete == EVENTS[:len(complete)]
    if len(complete) < len(EVENTS):
        assert events[-1]["type"] == "error"
        assert events[-1]["sequence_number"] == len(complete)
        assert events[-1]["error"]["message"] == events[-1]["message"]


@pytest.mark.parametrize("missing", [1, 2])
def test_a_last_event_without_its_blank_line_is_whole(missing: int) -> None:
    assert told(passed(WHOLE[:-missing])) == EVENTS
    assert passed(WHOLE[:-missing]).endswith(b"\n\n")


def test_streams_without_event_names_are_read_as_well() -> None:
    body = b"".join(line.partition(b"\n")[2] for line in LINES)
    assert passed(body) == body


def test_usage_is_read_on_the_way() -> None:
    exchange = UntranslatedExchange("openai", "m", "/responses")
    exchange.request(BODY)
    exchange.start(200, {"content-type": "text/event-stream"})
    exchange.feed(WHOLE)
    exchange.finish()
    assert (exchange.usage.input, exchange.usage.output) == (21, 7)
    assert exchange.failure is None
