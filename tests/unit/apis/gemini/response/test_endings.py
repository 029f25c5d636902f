"""Complete, stopped and broken responses (P1): chunks in, the last events out."""

from __future__ import annotations

import json

import pytest

from extproc.apis.gemini.provider.response import GeminiResponseDecoder
from extproc.conversation.model import Event, Finish, Usage
from extproc.errors import Failure
from tests.playbook import context, script
from tests.unit.apis.gemini.response.conversation import Json, call, chunk, decode, script_of, sse, text, thought

HI = ["start", "text", "text: hi"]


def failure(events: list[Event]) -> Failure:
    last = events[-1]
    assert isinstance(last, Failure), last
    return last


@pytest.mark.parametrize(("reason", "expected"), [
    ("STOP", "stop"), ("stop", "stop"), ("MAX_TOKENS", "length"),
    *((reason, "content_filter") for reason in (
        "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER")),
])
def test_finish_reasons(reason: str, expected: str) -> None:
    assert script_of(chunk(text("hi")), chunk(finish=reason)) == [*HI, "stop", f"finish {expected}"]


@pytest.mark.parametrize("reason", [
    "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE", "NO_IMAGE", "OTHER", "ESCALATION", "SOMETHING_NEW", 99])
def test_reasons_that_mean_a_failure(reason: object) -> None:
    body = sse(chunk(text("hi")), {"candidates": [{"finishReason": reason, "index": 0}]})
    assert script(decode(body)) == [*HI, "failure server"]
    assert str(reason) in failure(decode(body)).message
    assert failure(decode(body)).status == 502


def test_a_malformed_call_has_one_clear_message() -> None:
    last = failure(decode(sse({"candidates": [{
        "finishReason": "MALFORMED_FUNCTION_CALL", "index": 0,
        "finishMessage": "Malformed function call: print(default_api.Bash(\n  command='ls'))" + "x" * 9000}]})))
    assert last.message.startswith("Gemini did not finish its response: MALFORMED_FUNCTION_CALL (the model wrote a "
                                   "tool call that cannot be read). Malformed function call: print(default_api.Bash( "
                                   "command='ls'))xxx")
    assert len(last.message) < 700


def test_calls_before_a_limit_or_a_filter_are_kept() -> None:
    for reason, finish in (("MAX_TOKENS", "length"), ("SAFETY", "content_filter")):
        assert script_of(chunk(call("ping", {"a": 1})), chunk(finish=reason)) == [
            "start", "call ping", 'args: {"a": 1}', "stop", f"finish {finish}"]


@pytest.mark.parametrize("chunks", [
    pytest.param([chunk(finish="STOP")], id="no parts"),
    pytest.param([{"candidates": [{"finishReason": "STOP"}]}], id="no content"),
    pytest.param([chunk(text("")), chunk(text(""), finish="STOP")], id="empty texts"),
    pytest.param([{"candidates": [{"content": {"role": "model"}, "finishReason": "STOP", "index": 0}]}], id="role"),
])
def test_a_response_with_a_reason_and_no_content_is_complete(chunks: list[Json]) -> None:
    """Gemini ends a turn that way if it has nothing to add to a tool's result."""
    assert script_of(*chunks) == ["start", "finish stop"]


def test_thoughts_alone_are_a_response() -> None:
    assert script_of(chunk(thought("hm")), chunk(finish="STOP")) == [
        "start", "think", "think: hm", "stop", "finish stop"]


def test_max_tokens_with_a_content_without_parts() -> None:
    assert script_of({"candidates": [{"content": {"role": "model"}, "finishReason": "MAX_TOKENS", "index": 0}]}) == [
        "start", "finish length"]


@pytest.mark.parametrize(("feedback", "said"), [
    ({"blockReason": "PROHIBITED_CONTENT"}, "[The provider blocked this prompt: PROHIBITED_CONTENT.]"),
    ({"blockReason": "SAFETY", "blockReasonMessage": "The prompt\ncould not be submitted.", "safetyRatings": []},
     "[The provider blocked this prompt: SAFETY. The prompt could not be submitted.]"),
    ({"blockReason": "JAILBREAK"}, "[The provider blocked this prompt: JAILBREAK.]"),
])
def test_a_blocked_prompt_says_so(feedback: Json, said: str) -> None:
    body = sse({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}})
    events = decode(body)
    assert script(events) == ["start", "text", f"text: {said}", "stop", "finish content_filter"]
    assert events[-1] == Finish("content_filter", Usage(input=9))


def test_feedback_without_a_block_is_ignored() -> None:
    assert script_of({**chunk(text("hi"), finish="STOP"), "promptFeedback": {"safetyRatings": []}}) == [
        *HI, "stop", "finish stop"]


def test_a_stopped_response_without_content_says_why() -> None:
    assert script_of({"candidates": [{"finishReason": "SAFETY", "index": 0}]}) == [
        "start", "text", "text: [The provider stopped this response: SAFETY.]", "stop", "finish content_filter"]


def test_white_space_is_no_content() -> None:
    assert script_of(chunk(text("\n")), chunk(finish="RECITATION"))[2] == (
        "text: \n[The provider stopped this response: RECITATION.]")


def test_old_models_send_a_reason_with_every_chunk() -> None:
    assert script_of(chunk(text("h"), finish="STOP"), chunk(text("i"), finish="STOP"), chunk(finish="MAX_TOKENS")) == [
        *HI, "stop", "finish length"]


def test_a_failure_counts_after_a_reason() -> None:
    assert script_of(chunk(text("hi"), finish="STOP"), chunk(finish="MALFORMED_FUNCTION_CALL"))[-1] == "failure server"


# ------------------------------------------------------------------------------------------------------------- broken


@pytest.mark.parametrize("chunks", [
    pytest.param([chunk(text("hi"))], id="behind text"),
    pytest.param([chunk(call("ping", {"a": 1}))], id="behind a whole call"),
    pytest.param([chunk(thought("hm"))], id="behind thoughts"),
    pytest.param([chunk()], id="behind nothing"),
    pytest.param([chunk(text("hi"), finish="FINISH_REASON_UNSPECIFIED")], id="a reason that is none"),
    pytest.param([{"usageMetadata": {"promptTokenCount": 3}}], id="only usage"),
    pytest.param([chunk(text("hi")), "[DONE]"], id="the end mark of proxies"),
])
def test_p1_a_stream_without_a_finish_reason_is_broken(chunks: list[object]) -> None:
    assert failure(decode(sse(*chunks))).message == "The provider's stream ended before the response was complete."


def test_p1_an_empty_body_is_a_failure() -> None:
    for body in (b"", b"\r\n\r\n", b": comment\r\n\r\n", b"data: \r\n\r\n", b"data: [DONE]\r\n\r\n"):
        assert script(decode(body)) == ["failure server"]


def test_p1_every_truncation_is_broken() -> None:
    """At every byte before the end of the last event; only the line ends after it may be missing."""
    body = sse(chunk(thought("hm"), text("hi")), chunk(call("lookup_tide", {"a": "é"}, "QUJD"), call("ping")),
               chunk(text(""), finish="STOP", usage={"promptTokenCount": 1}))
    for at in range(len(body.rstrip())):
        assert isinstance(decode(body[:at])[-1], Failure), at
    for at in range(len(body.rstrip()), len(body) + 1):
        assert script(decode(body[:at]))[-1] == "finish tool_calls"


def test_p1_a_damaged_event_is_an_error_even_after_the_finish_reason() -> None:
    assert script_of(chunk(text("hi")), '{"candidates": [', chunk(finish="STOP")) == [*HI, "failure server"]
    assert script_of(chunk(text("hi"), finish="STOP"), '{"usageMetadata": {"prom') == [*HI, "failure server"]
    assert "damaged event" in failure(decode(sse('"text"'))).message


def test_the_end_mark_of_proxies_is_tolerated() -> None:
    assert script_of(chunk(text("hi"), finish="STOP"), "[DONE]", chunk(text("more"))) == [*HI, "stop", "finish stop"]


def test_two_events_without_a_blank_line_are_two() -> None:
    one, two = json.dumps(chunk(text("h"))), json.dumps(chunk(text("i"), finish="STOP"))
    assert script(decode(f"data: {one}\ndata: {two}\n\n".encode())) == [*HI, "stop", "finish stop"]


# ------------------------------------------------------------------------------------------------------ errors in 200

OVERLOADED: Json = {"error": {"code": 503, "message": "The model is overloaded. Please try again later.",
                              "status": "UNAVAILABLE"}}


@pytest.mark.parametrize("error", [
    pytest.param(sse(OVERLOADED), id="event"),
    pytest.param(sse([OVERLOADED]), id="event with an array"),
    pytest.param(b"event: error\ndata: " + json.dumps(OVERLOADED).encode() + b"\n\n", id="named event"),
    pytest.param(b"event: error\ndata: " + json.dumps(OVERLOADED["error"]).encode() + b"\n\n", id="named, bare"),
    pytest.param(json.dumps(OVERLOADED).encode(), id="bare line"),
    pytest.param(json.dumps(OVERLOADED, indent=2).encode() + b"\n", id="bare lines"),
    pytest.param(json.dumps([OVERLOADED], indent=2).encode(), id="bare array"),
    pytest.param((json.dumps(OVERLOADED, indent=2) + "\n" + json.dumps(OVERLOADED, indent=2)).encode(), id="twice"),
    pytest.param(b'data: {"message": "overloaded", "code": 503}\n\n', id="without its key"),
])
def test_p1_an_error_in_the_stream(error: bytes) -> None:
    body = sse(chunk(text("hi"))) + error
    for size in (1, 7, len(body)):
        decoder = GeminiResponseDecoder(context())
        events = [e for at in range(0, len(body), size) for e in decoder.feed(body[at:at + size])] + decoder.finish()
        assert script(events) == [*HI, "failure overloaded"]
        assert (failure(events).status, "overloaded" in failure(events).message) == (503, True)


def test_p13_an_overflow_in_the_stream() -> None:
    last = failure(decode(sse({"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")}})))
    assert (last.kind, last.prompt_tokens, last.context_limit) == ("context_length", 1200000, 1048576)


# --------------------------------------------------------------------------------------------------------- whole JSON


def body_of(*chunks: Json, indent: int | None = None) -> bytes:
    return json.dumps(list(chunks) if len(chunks) != 1 else chunks[0], indent=indent).encode()


def test_a_whole_response() -> None:
    whole = chunk(thought("hm"), text("hi"), call("ping", {"a": 1}, "QUJD"), finish="STOP")
    assert script(decode(body_of(whole, indent=2))) == [
        "start", "think", "think: hm", "stop", "text", "text: hi", "stop", "call ping", 'args: {"a":1}', "stop",
        "finish tool_calls"]


def test_the_array_form_of_a_stream() -> None:
    chunks = [chunk(text("h")), chunk(text("i")), chunk(finish="STOP")]
    assert script(decode(body_of(*chunks, indent=1))) == [*HI, "stop", "finish stop"]
    assert script(decode(b"[" + b"\n,\r\n".join(json.dumps(c).encode() for c in chunks) + b"]")) == [
        *HI, "stop", "finish stop"]
    assert script(decode(json.dumps([chunk(text("hi"), finish="STOP")]).encode())) == [*HI, "stop", "finish stop"]


def test_an_error_in_an_element_of_the_array() -> None:
    assert script(decode(body_of(chunk(text("hi")), OVERLOADED))) == [*HI, "failure overloaded"]
    assert script(decode(body_of(OVERLOADED, {}))) == ["failure overloaded"]


@pytest.mark.parametrize("body", [
    b"[]", b"[null]", body_of(chunk(text("hi")), chunk()), body_of(chunk(text("hi")), chunk(finish="STOP"))[:-1],
    body_of(chunk(text("hi"), finish="STOP"))[:-1], b"{}", b"<html><title>502</title>", b"[1]", b"[" * 5000,
    body_of({"usageMetadata": {"promptTokenCount": 3}}), body_of(chunk()), body_of({"candidates": []}),
])
def test_p1_whole_bodies_without_a_response(body: bytes) -> None:
    assert isinstance(decode(body)[-1], Failure)


def test_a_whole_body_is_complete_if_a_proxy_omits_the_reason() -> None:
    assert script(decode(body_of(chunk(text("hi"))))) == [*HI, "stop", "finish stop"]


def test_a_blocked_prompt_in_a_whole_body() -> None:
    assert script(decode(body_of({"promptFeedback": {"blockReason": "OTHER"}})))[-1] == "finish content_filter"
