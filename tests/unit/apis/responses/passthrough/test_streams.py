"""Responses that pass: the same bytes in any cut, and what breaks off ends in a failed response, never in torn JSON or
a clean end (rules 1 and 2)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.translation.exchange import Translation
from tests.providers.openai_endpoints import response_events
from tests.unit.apis.responses.client.grammar import check_stream, parse_stream

BODY = json.dumps({"model": "m", "input": "hello", "stream": True}).encode()
EVENTS = response_events("Grüße aus Köln 🎈")
for _event in EVENTS:
    if "response" in _event:
        _event["response"]["model"] = "m"  # what the client asked for: nothing is to change
LINES = [f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode() for event in EVENTS]
WHOLE = b"".join(LINES)


def talk() -> Translation:
    return Translation("responses", "openai", "gpt-6-sol", url="https://api.openai.com/v1")


def passed(*pieces: bytes) -> bytes:
    exchange = talk()
    exchange.request(BODY)
    exchange.start(200, {"content-type": "text/event-stream"})
    return b"".join(exchange.feed(piece) for piece in pieces) + exchange.finish()


@given(st.lists(st.integers(0, len(WHOLE)), max_size=12), st.integers(0, len(WHOLE)))
@settings(max_examples=150)
def test_rule_1_any_cut_same_bytes(cuts: list[int], length: int) -> None:
    body = WHOLE[:length]
    at = [0, *sorted(min(cut, length) for cut in cuts), length]
    assert passed(*(body[a:b] for a, b in itertools.pairwise(at))) == passed(body)


def test_a_whole_stream_passes_as_it_is() -> None:
    assert parse_stream(passed(WHOLE)) == EVENTS
    assert all(line in passed(WHOLE) for line, event in zip(LINES, EVENTS, strict=True) if "response" not in event)


ENDS = [end + more for end in itertools.accumulate(map(len, LINES)) for more in (-3, -2, -1, 0)]


@given(st.integers(0, len(WHOLE) - 1) | st.sampled_from(ENDS[:-1]))
@settings(max_examples=200)
def test_rule_2_what_breaks_off_ends_in_a_failed_response_behind_whole_events(length: int) -> None:
    out = passed(WHOLE[:length])
    *complete, last = parse_stream(out)
    if complete[0] != EVENTS[0]:  # nothing came: the gateway begins and ends the response
        assert check_stream(out)[-1]["type"] == "response.failed"
        return
    if last["type"] == "response.completed":  # its blank line is missing
        assert [*complete, last] == EVENTS
        return
    assert complete == EVENTS[:len(complete)]
    assert (last["type"], last["sequence_number"]) == ("response.failed", len(complete))
    assert last["response"]["status"] == "failed"


@pytest.mark.parametrize("missing", [1, 2])
def test_a_last_event_without_its_blank_line_is_whole(missing: int) -> None:
    assert parse_stream(passed(WHOLE[:-missing])) == EVENTS


def test_streams_without_event_names_are_read_as_well() -> None:
    def nameless(line: bytes) -> bytes:
        return line.partition(b"\n")[2]

    found: list[dict[str, Any]] = parse_stream(passed(b"".join(map(nameless, LINES))))
    assert found == EVENTS


def test_usage_is_read_on_the_way() -> None:
    exchange = talk()
    exchange.request(BODY)
    exchange.start(200, {"content-type": "text/event-stream"})
    exchange.feed(WHOLE)
    assert exchange.usage.input == EVENTS[-1]["response"]["usage"]["input_tokens"]
