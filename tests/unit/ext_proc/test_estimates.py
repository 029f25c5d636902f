"""What a response that breaks off has used is estimated, at the limits and in the record, however early it broke."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.ext_proc.playbook import Playbook, response_body, response_headers
from tests.unit.ext_proc.test_translate import HELLO, SSE, asked

JSON = {"content_type": "application/json"}


def whole(**changes: Any) -> Playbook:
    """A request whose response comes in one piece."""
    return asked(stream=False, **changes)


def test_a_fast_stream_tells_its_estimate_by_its_size() -> None:
    """Not only as time passes: a client that leaves after a second has used what came in it."""
    play = asked()
    play >> response_headers(**SSE)
    for _ in range(200):
        play >> response_body(HELLO)
    assert 200 - play.metadata()["output"] * 200 / len(HELLO) <= 4096 / len(HELLO) + 1


@pytest.mark.parametrize("body", [b'{"choices":[{"message":{"con', b'{"choices":[{"mess": \xff}'])
def test_half_of_a_whole_response_was_used_all_the_same(body: bytes) -> None:
    play = whole()
    play >> response_headers(**JSON) >> response_body(body, end=True)
    assert play.exchange.record.status == 502
    assert play.metadata()["estimated"] is True
    assert play.metadata()["total"] > 0
    usage = play.exchange.close(play.now).usage
    assert usage is not None
    assert usage.estimated


def test_a_reset_before_anything_went_on_was_used_all_the_same() -> None:
    play = whole()
    play >> response_headers(**JSON) >> response_body(b'{"choices":[')
    usage = play.exchange.close(play.now).usage
    assert usage is not None
    assert (usage.input > 0, usage.estimated) == (True, True)


def test_a_client_that_leaves_before_the_response_has_used_the_prompt() -> None:
    """As the limits count it, which cannot know better then."""
    play = asked()
    usage = play.exchange.close(play.now).usage
    assert usage is not None
    assert (usage.input, usage.output) == (play.metadata()["input"], 0)


def test_a_client_that_leaves_an_error_has_used_nothing() -> None:
    play = asked()
    play >> response_headers(503, **JSON)
    assert play.exchange.close(play.now).usage is None


@pytest.mark.parametrize("stream", [True, False])
def test_an_error_in_place_of_a_response_costs_nothing(stream: bool) -> None:
    """Also under status 200, where another attempt follows."""
    play = asked("two", stream=stream)
    error = b'{"error":{"message":"busy","code":503}}'
    play >> response_headers(**(SSE if stream else JSON))
    play >> response_body(b"data: " + error + b"\n\n" if stream else error, end=True)
    assert play.exchange.close(play.now).usage is None
    assert play.metadata()["total"] == 0
