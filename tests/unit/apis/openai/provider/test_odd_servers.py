"""Deviations of servers beyond the usual ones: odd shapes, errors in odd places, calls that only their name tells
apart. Each is one short conversation, and the same in any cut.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.openai.provider.response import OpenAIResponseDecoder
from extproc.conversation.model import Event
from extproc.errors import Failure
from tests.playbook import call, context, delta, script, sse

TEXT = ["start", "text", "text: ab", "stop", "finish stop"]


def decode(body: bytes) -> list[Event]:
    """The events, which no cut may change."""
    results = []
    for size in (max(1, len(body)), 1, 7):
        decoder = OpenAIResponseDecoder(context())
        parts = [decoder.feed(body[at:at + size]) for at in range(0, len(body), size)]
        results.append([event for part in [*parts, decoder.finish()] for event in part])
    assert script(results[0]) == script(results[1]) == script(results[2])
    return results[0]


def failure(body: bytes) -> Failure:
    last = decode(body)[-1]
    assert isinstance(last, Failure)
    return last


def calls(*entries: dict[str, Any]) -> dict[str, Any]:
    return delta(tool_calls=list(entries))


def whole(finish: str | None = "stop", **message: object) -> bytes:
    return json.dumps({"id": "g", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}).encode()


# -------------------------------------------------------------------------------------------------------- odd shapes


@pytest.mark.parametrize("body", [
    pytest.param(b"data: \n\ndata:\n\n" + sse(delta(content="ab"), delta("stop")), id="empty data as keep-alive"),
    pytest.param(sse({"choices": [{"index": 0, "delta": ""}]}, delta(content="ab"), delta("stop")), id="delta is text"),
    pytest.param(sse(delta(content="ab"), delta(7)), id="finish reason a number"),  # type: ignore[arg-type]
    pytest.param(sse(delta(content="a"), delta(content="b"), delta("STOP")), id="finish reason in capitals"),
    pytest.param(sse({**delta(content="ab"), "error": ""}, {**delta("stop"), "error": {}}), id="an empty error"),
    pytest.param(sse(delta(content="ab"), calls({"index": 0}), delta("stop")), id="an empty call"),
    pytest.param(sse(delta(content="ab"), calls(call(0, arguments="")), delta("stop")), id="a call without anything"),
    pytest.param(sse({"choices": [{"index": 1, "delta": {"content": "ab"}, "finish_reason": "stop"}]}),
                 id="the only choice has index 1"),
    pytest.param(sse({"choices": [{"index": 0, "delta": {"role": "assistant"}, "message": {"content": "ab"},
                                   "finish_reason": "stop"}]}), id="the message beside an empty delta"),
    pytest.param(sse(delta(role="assistant", content=""), {"choices": [{"message": {"content": "ab"}}]}, delta("stop")),
                 id="the message after an empty delta"),
    pytest.param(sse(delta(content="a"), delta("stop"), delta(content="b")), id="text after the finish reason"),
    pytest.param(sse(delta(content="ab"), delta("stop"), delta("stop"), delta("length")), id="several finish reasons"),
    pytest.param(b" \r\n\n" + whole(content="ab") + b"\n\ndata: [DONE]\n\n", id="a whole response with a stream's end"),
    pytest.param(whole(content=None, audio={"id": "a", "transcript": "ab"}), id="a spoken response"),
    pytest.param(whole(content=[{"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "ab"}]),
                 id="a part that cannot be carried"),
])
def test_odd_shapes_do_not_fail_the_response(body: bytes) -> None:
    assert script(decode(body)) == TEXT


def test_rule_4_content_that_no_client_can_take_is_named() -> None:
    decode_context = context()
    decoder = OpenAIResponseDecoder(decode_context)
    decoder.feed(whole(content=[{"type": "image_url"}, {"type": "text", "text": "x"}], images=[{"url": "y"}]))
    decoder.finish()
    assert decode_context.dropped.losses == ["response.image_url", "response.images"]


@pytest.mark.parametrize(("reason", "expected"), [("MAX_TOKENS", "length"), ("model_length", "context_length"),
                                             ("recitation", "content_filter")])
def test_further_finish_reasons(reason: str, expected: str) -> None:
    assert script(decode(sse(delta(content="x"), delta(reason))))[-1] == f"finish {expected}"


def test_a_call_after_the_finish_reason_is_not_lost() -> None:
    assert script(decode(sse(delta(content="x"), delta("stop"), calls(call(0, "a", "ping", "{}"))))) == [
        "start", "text", "text: x", "stop", "call ping", "args: {}", "stop", "finish tool_calls"]


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(("body", "kind", "message"), [
    pytest.param(sse(delta(content="x"), delta("stop"), delta("error")), "server", "ended the response with an error",
                 id="a failure after a finish reason"),
    pytest.param(sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "error",
                                   "error": {"code": 429, "message": "slow down"}}]}), "rate_limit", "slow down",
                 id="inside the choice"),
    pytest.param(sse(delta(content="x"), {"choices": [], "x_groq": {"error": "over capacity"}}), "overloaded",
                 "over capacity", id="Groq"),
    pytest.param(sse(delta(content="x"), done=False) + b'event: error\ndata: {"message":"boom","code":503}\n\n',
                 "unavailable", "boom", id="an error event"),
    pytest.param(sse(delta(content="x"), done=False) + b"event: error\ndata: it died\n\n", "server", "it died",
                 id="an error event in words"),
    pytest.param(sse(delta(content="x"), {"message": "no quota", "code": 429}), "rate_limit", "no quota",
                 id="an object with a message and no choices"),
    pytest.param(b'{"detail":"model is loading"}', "server", "model is loading", id="200 with a detail"),
    pytest.param(b'{"message":"no quota","code":429}', "rate_limit", "no quota", id="200 with a message"),
    pytest.param(b"<html><title>Sign in</title></html>", "server", "Sign in", id="200 with a page"),
])
def test_rule_2_an_error_in_an_odd_place_never_looks_finished(body: bytes, kind: str, message: str) -> None:
    failed = failure(body)
    assert failed.kind == kind
    assert message in failed.message


def test_a_nameless_call_with_arguments_is_a_failure() -> None:
    assert "without a name" in failure(sse(calls(call(0, "a", None, '{"a":1}')), delta("tool_calls"))).message


# -------------------------------------------------------------------------------------------------------------- calls


def named(body: bytes) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in script(decode(body)):
        if line.startswith("call "):
            found.append((line[5:], ""))
        elif line.startswith("args: "):
            found[-1] = (found[-1][0], line[6:])
    return found


BARE_PING, BARE_TIDE = call(None, None, "ping", ""), call(None, None, "lookup_tide", "")


@pytest.mark.parametrize(("body", "expected"), [
    pytest.param(sse(calls(BARE_PING, BARE_TIDE), delta("tool_calls")), [("ping", ""), ("lookup_tide", "")],
                 id="one list, no arguments, neither index nor id"),
    pytest.param(sse(calls(BARE_PING), calls(BARE_TIDE), delta("tool_calls")), [("ping", ""), ("lookup_tide", "")],
                 id="two chunks of them"),
    pytest.param(sse(calls(BARE_PING, BARE_PING), delta("tool_calls")), [("ping", ""), ("ping", "")],
                 id="the same tool twice in a list"),
    pytest.param(sse(calls(call(0, None, "ping", "{}")), calls(call(0, None, "lookup_tide", '{"harbor":"Brest"}')),
                     delta("tool_calls")), [("ping", "{}"), ("lookup_tide", '{"harbor":"Brest"}')],
                 id="index 0 for all and no ids: {} is not a stray beginning of another tool's arguments"),
    pytest.param(sse(calls(call(None, None, "lookup_tide", "{}")),
                     calls(call(None, None, "lookup_tide", '{"day":"x"}')), delta("tool_calls")),
                 [("lookup_tide", "{}"), ("lookup_tide", '{"day":"x"}')],
                 id="neither index nor id, the same tool"),
    pytest.param(whole("tool_calls", tool_calls=[call(None, "x", "ping", "{}"), call(None, "x", "ping", "{}")]),
                 [("ping", "{}"), ("ping", "{}")], id="a whole response that repeats an id"),
    pytest.param(whole("tool_calls", tool_calls=[call(0, None, "ping"), call(0, None, "ping")]),
                 [("ping", ""), ("ping", "")], id="a whole response with index 0 for all"),
    pytest.param(sse(calls(call(0, None, None, '{"day"'), call(1, None, None, "{")),
                     calls(call(1, None, "ping", "}"), call(0, None, "lookup_tide", ':"x"}')), delta("tool_calls")),
                 [("lookup_tide", '{"day":"x"}'), ("ping", "{}")], id="names after arguments, interleaved, no ids"),
    pytest.param(sse(calls(call(0, "a", "lookup", '{"day"')), calls(call(0, None, "_tide", ':"x"}')),
                     delta("tool_calls")), [("lookup_tide", '{"day":"x"}')], id="half a name with arguments"),
    pytest.param(sse(calls({**call(None, "a", "ping", "{"), "index": "0"}), calls({**call(None), "index": 0.0,
                                                                                  "function": {"arguments": "}"}}),
                     delta("tool_calls")), [("ping", "{}")], id="indexes as text and as a float"),
    pytest.param(sse(delta(tool_calls=call(0, "a", "ping", "{}")), delta("tool_calls")), [("ping", "{}")],
                 id="a call without its list"),
    pytest.param(sse(calls({"index": 0, "id": "a", "function": None}), calls(call(0, None, "ping", "{}")),
                     delta("tool_calls")), [("ping", "{}")], id="function null"),
])
def test_calls_are_distinguished(body: bytes, expected: list[tuple[str, str]]) -> None:
    assert named(body) == expected
