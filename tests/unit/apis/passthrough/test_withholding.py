"""When the head of a passing response is sent, what keeps it alive, and how it ends when nothing comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from tests.unit.apis.anthropic.provider.helpers import event, stream, thinking, tool_use
from tests.unit.apis.passthrough.helpers import (
    JSON,
    LOOK,
    READ,
    STREAM,
    choice,
    chunk,
    event_data,
    event_names,
    send_request,
    sse,
)

MESSAGE = stream(thinking("Hm."), "ok", tool_use("toolu_1", "read", "{}"), stop="tool_use")
ANSWER = sse(chunk(choice(role="assistant", content="")), chunk(choice(content="ok")), chunk(choice("stop")))
BODIES = {"anthropic": MESSAGE, "openai": ANSWER}
ERRORS = {
    "anthropic": event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    "openai": sse({"error": {"message": "Overloaded", "code": 529}}, done=False)}
TOOLS = {"anthropic": [READ], "openai": [LOOK]}
COMMENT = b": keepalive\n\n"


def begun(api: str, *, withhold: bool = True, stream: bool = True, **settings: Any) -> Translation:
    """An exchange after the request and the head of the provider's response."""
    _, talk = send_request(api, settings={"withhold": withhold, **settings}, stream=stream, tools=TOOLS[api])
    talk.start(200, STREAM if stream else JSON)
    return talk


def events_of(body: bytes) -> list[bytes]:
    return [one + b"\n\n" for one in body.split(b"\n\n") if one]


@pytest.mark.parametrize(("api", "quiet"), [("anthropic", 2), ("openai", 1)])
def test_the_head_waits_for_the_first_content(api: str, quiet: int) -> None:
    """A message start, an empty block and a role are not content yet."""
    talk = begun(api)
    events = events_of(BODIES[api])
    for one in events[:quiet]:
        assert talk.feed(one) == b""
        assert talk.head is None
    out = talk.feed(events[quiet])
    assert talk.head is not None
    assert talk.head.status == 200
    assert talk.content_began
    rest = b"".join(talk.feed(one) for one in events[quiet + 1:]) + talk.finish()
    plain = begun(api, withhold=False)
    assert out + rest == plain.feed(BODIES[api]) + plain.finish()


@pytest.mark.parametrize("block", [tool_use("t", "read")[:1], [{"type": "server_tool_use", "id": "s", "name": "x"}],
                                   [{"type": "redacted_thinking", "data": "x"}]])
def test_a_call_is_content_from_its_start(block: list[Any]) -> None:
    """A response may be a single call without arguments."""
    talk = begun("anthropic")
    assert talk.feed(events_of(stream(block))[0]) == b""
    assert talk.feed(events_of(stream(block))[1]) != b""


def test_reasoning_is_content() -> None:
    talk = begun("openai")
    assert talk.feed(sse(chunk(choice(reasoning_content="hm")), done=False)) != b""


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("before", [0, 1])
def test_an_error_before_the_first_content_is_a_status(api: str, before: int) -> None:
    talk = begun(api)
    out = b"".join(map(talk.feed, events_of(BODIES[api])[:before])) + talk.feed(ERRORS[api]) + talk.finish()
    assert talk.head is not None
    assert talk.head.status == 529
    assert talk.head.headers["content-type"] == "application/json"
    assert json.loads(out)["error"]["message"] == "Overloaded"
    assert not talk.content_began


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("before", [0, 1])
def test_rule_2_an_end_before_the_first_content_is_a_status(api: str, before: int) -> None:
    talk = begun(api)
    out = b"".join(map(talk.feed, events_of(BODIES[api])[:before])) + talk.finish()
    assert talk.head is not None
    assert talk.head.status == 502
    assert json.loads(out)["error"]["message"]


@pytest.mark.parametrize("api", BODIES)
def test_held_bytes_come_first_after_the_commit(api: str) -> None:
    talk = begun(api)
    events = events_of(BODIES[api])
    assert talk.feed(events[0]) == b""
    talk.commit()
    assert talk.head is not None
    out = talk.feed(events[1])
    plain = begun(api, withhold=False)
    assert out == plain.feed(events[0]) + plain.feed(events[1])


@pytest.mark.parametrize("api", BODIES)
def test_after_the_commit_an_error_is_an_event(api: str) -> None:
    talk = begun(api)
    talk.commit()
    out = talk.feed(ERRORS[api])
    assert talk.head is not None
    assert talk.head.status == 200
    assert event_data(out)[-1]["error"]["message"] == "Overloaded"


# ---------------------------------------------------------------------------------------------------------------- pings


def test_before_the_message_starts_a_ping_is_a_comment() -> None:
    """The start of the message, with its id and usage, is the provider's. The grammar requires it first."""
    talk = begun("anthropic", withhold=False)
    assert talk.tick(0.0) == b""
    assert talk.tick(10.0) == COMMENT
    assert talk.tick(15.0) == b""
    out = talk.feed(MESSAGE, 16.0) + talk.finish()
    assert event_names(out)[0] == "message_start"
    assert event_data(out)[0]["message"]["id"] == "msg_1"


def test_a_response_of_the_ordinary_encoder_has_its_pings() -> None:
    talk = begun("anthropic", withhold=False)
    assert event_names(talk.feed(stream("ok", start=False, stop=None, end=False), 0.0))[0] == "message_start"
    assert event_names(talk.tick(10.0)) == ["ping"]


@pytest.mark.parametrize(("api", "ping"), [("anthropic", b'event: ping\ndata: {"type":"ping"}\n\n'),
                                           ("openai", COMMENT)])
def test_pings_come_between_whole_events(api: str, ping: bytes) -> None:
    """Also when the provider fell silent inside one."""
    talk = begun(api, withhold=False)
    half = len(BODIES[api]) // 2
    first = talk.feed(BODIES[api][:half], 0.0)
    assert first.endswith(b"\n\n")
    assert talk.tick(10.0) == ping
    assert talk.tick(20.0) == ping
    rest = talk.feed(BODIES[api][half:], 21.0) + talk.finish()
    plain = begun(api, withhold=False)
    assert first + rest == plain.feed(BODIES[api]) + plain.finish()
    assert talk.tick(60.0) == b""


@pytest.mark.parametrize("api", BODIES)
def test_no_ping_before_the_head_and_none_in_a_whole_response(api: str) -> None:
    talk = begun(api)
    assert talk.tick(0.0) + talk.tick(30.0) == b""
    talk = begun(api, stream=False)
    assert talk.tick(0.0) + talk.tick(30.0) == b""


def test_a_whole_response_after_a_ping_still_becomes_a_stream() -> None:
    talk = begun("anthropic", withhold=False)
    talk.tick(0.0)
    pinged = talk.tick(10.0)
    out = talk.feed(json.dumps({"id": "m", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn",
                                "usage": {"input_tokens": 1, "output_tokens": 1}}).encode(), 11.0) + talk.finish()
    assert pinged == COMMENT
    assert event_names(out)[0] == "message_start"
    assert event_names(out)[-1] == "message_stop"


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.parametrize("events", [0, 1, 3])
def test_rule_2_silence_ends_in_an_error(api: str, events: int) -> None:
    talk = begun(api, withhold=False, idle_timeout=30.0)
    for one in events_of(BODIES[api])[:events]:
        talk.feed(one, 0.0)
    talk.tick(0.0)
    out = talk.tick(30.0)
    assert "error" in event_data(out)[-1]
    assert talk.failure is not None
    assert talk.failure.kind == "timeout"
    assert talk.feed(BODIES[api]) + talk.finish() == b""


@pytest.mark.parametrize("api", BODIES)
def test_rule_2_silence_before_the_head_is_a_status(api: str) -> None:
    talk = begun(api, idle_timeout=30.0)
    talk.tick(0.0)
    assert json.loads(talk.tick(30.0))["error"]
    assert talk.head is not None
    assert talk.head.status == 504


@pytest.mark.parametrize("api", BODIES)
def test_nothing_follows_the_end(api: str) -> None:
    talk = begun(api, withhold=False)
    whole = talk.feed(BODIES[api])
    assert whole
    assert talk.done
    assert talk.feed(BODIES[api]) + talk.finish() + talk.tick(0.0) + talk.tick(100.0) == b""
