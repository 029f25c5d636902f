"""The deadline of the first token, message by message: a further attempt where one remains, an error of kind timeout
where none does, and nothing at all once a token came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.config import Attempt, ModelRule, Timeouts, ToolSettings
from tests.unit.ext_proc.playbook import Playbook, request_body, response_body, response_headers
from tests.unit.ext_proc.test_translate import DONE, HELLO, SSE, STOP, asked, chunk, events, hop, routed


def patient(seconds: float | None, *, remaining: bool = True, general: float | None = None, stream: bool = True,
            tools: ToolSettings = ToolSettings(),  # noqa: B008 - frozen
            offered: list[dict[str, Any]] | None = None, **times: float) -> Playbook:
    """A request on its way to a provider that has `seconds` for its first token."""
    attempts = [Attempt(backend="alpha", model="a", first_token_timeout=seconds, tools=tools),
                Attempt(backend="beta", model="b")]
    rules = [ModelRule(match="two", attempts=attempts if remaining else attempts[:1])]
    return asked("two", models=rules, stream=stream, offered=offered, timeouts=Timeouts(first_token=general, **times))


def test_a_silent_provider_is_a_504_that_can_fail_over() -> None:
    play = patient(3)
    play.wait(2.9) << []
    play.wait(0.2)
    [(kind, status, body, details)] = play.take()
    assert (kind, status, details) == ("immediate", 504, "extproc_first_token_timeout")
    assert body["error"]["type"] == "timeout_error"
    assert "3 seconds" in body["error"]["message"]
    assert play.exchange.close(play.now).reason == "first_token_timeout"


@pytest.mark.parametrize("said", [b"", b": OPENROUTER PROCESSING\n\n", chunk({"role": "assistant", "content": ""})])
def test_a_head_without_a_token_is_a_504_as_well(said: bytes) -> None:
    """Comments and empty deltas are no token, however many there are."""
    play = patient(3)
    play >> response_headers(**SSE)
    for _ in range(5):
        play.wait(0.5)
        if said:
            play >> response_body(said)
    play << []
    play.wait(0.6)
    assert play.exchange.done
    if not said:
        [(kind, status, body, _)] = play.take()
        assert (kind, status, body["error"]["type"]) == ("immediate", 504, "timeout_error")
        return
    head, chunk = play.take()
    assert (head[0], head[1][":status"]) == ("response head", "504")
    assert json.loads(chunk[1])["error"]["type"] == "timeout_error"
    assert chunk[2] is True


F = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
CALL = chunk({"tool_calls": [{"index": 0, "id": "c", "type": "function",
                              "function": {"name": "f", "arguments": '{"a":'}}]})


@pytest.mark.parametrize("token", [HELLO, chunk({"role": "assistant", "reasoning_content": "Hm"}), CALL],
                         ids=["text", "reasoning", "call"])
def test_text_reasoning_and_calls_are_tokens(token: bytes) -> None:
    play = patient(3)
    play >> response_headers(**SSE) >> response_body(token)
    play.wait(60)
    play >> response_body(STOP + DONE, end=True)
    assert events(play.take())[-1] == "message_stop"


def test_a_call_that_is_held_back_to_be_checked_is_a_token() -> None:
    """The model has written for minutes; nothing of it was shown yet."""
    play = patient(3, tools=ToolSettings(arguments="strict"), offered=[F])
    play >> response_headers(**SSE) >> response_body(CALL)
    play.wait(6) << []
    play >> response_body(chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}))
    play >> response_body(chunk(finish="tool_calls") + DONE, end=True)
    assert events(play.take())[-1] == "message_stop"


def test_the_head_is_withheld_so_long_however_short_commit_after_is() -> None:
    """Else the attempt could not be given up any more."""
    play = patient(20, commit_after=2)
    play >> response_headers(**SSE)
    play.wait(19.9) << []
    play.wait(0.2)
    assert play.take()[0][1] == 504


def test_without_a_further_attempt_it_is_an_error_event_of_the_open_stream() -> None:
    play = patient(3, remaining=False)
    play >> response_headers(**SSE) >> response_body(b": hm\n\n")
    assert play.take()[0][1][":status"] == "200"
    play.wait(3.1)
    parts = play.take()
    assert events(parts)[-1] == "error"
    assert "message_stop" not in events(parts)
    assert b"timeout_error" in parts[-1][1]
    assert parts[-1][2] is True


@pytest.mark.parametrize(("own", "general", "late"), [(None, 5, 5), (2, 5, 2), (9, 5, 9), (None, None, 240)])
def test_an_attempts_own_deadline_goes_before_the_general_one(own: float | None, general: float | None,
                                                              late: float) -> None:
    play = patient(own, general=general)
    play.wait(late - 0.1) << []
    play.wait(0.2)
    assert play.take()[0][1] == 504


def test_a_response_in_one_piece_has_no_first_token() -> None:
    play = patient(3, stream=False)
    play.wait(100) << []
    response: dict[str, Any] = {"id": "c", "choices": [{"index": 0, "finish_reason": "stop", "message": {
        "role": "assistant", "content": "At last."}}]}
    play >> response_headers(content_type="application/json") >> response_body(json.dumps(response).encode(), end=True)
    assert play.take()[0][1][":status"] == "200"


def test_the_deadline_begins_when_the_request_goes_out() -> None:
    rules = [ModelRule(match="two", attempts=[Attempt(backend="alpha", model="a", first_token_timeout=3)])]
    play = hop(models=rules)
    play >> routed(play, "two")
    play.wait(60) << []
    play >> request_body({"model": "two", "max_tokens": 9, "stream": True,
                          "messages": [{"role": "user", "content": "hi"}]})
    play.take()
    play.wait(2.9) << []
    play.wait(0.2)
    assert play.take()[0][1] == 504
