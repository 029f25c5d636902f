"""Gemini's responses as an Anthropic client gets them: the provider's bytes in, the client's bytes out; and the history
that such a client sends back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.anthropic.client.grammar import check
from extproc.conversation.signatures import extract_from_id
from extproc.translation.exchange import Translation
from tests.unit.apis.gemini.response.conversation import call, chunk, sse, text, thought

MODEL = "gemini-3-pro-preview"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
TOOLS = [{"name": name, "description": name, "input_schema": SCHEMA}
         for name in ("lookup_tide", "ping")]
USAGE = {"promptTokenCount": 100, "cachedContentTokenCount": 80, "candidatesTokenCount": 5, "thoughtsTokenCount": 7,
         "totalTokenCount": 112}
PARTS = (thought("hm"), text("Hello"), call("lookup_tide", {"a": "é"}, "QUJD/+=="), call("ping", id="fc1"))


def translation(messages: list[Any] | None = None, *, stream: bool = True, **settings: Any) -> tuple[Translation, Any]:
    """The exchange, and the body that goes to the provider."""
    exchange = Translation("anthropic", "gemini", MODEL, url="https://generativelanguage.googleapis.com/v1beta",
                           **settings)
    request = {"model": "m", "max_tokens": 100, "stream": stream, "tools": TOOLS,
               "messages": messages or [{"role": "user", "content": "hi"}]}
    return exchange, json.loads(exchange.request(json.dumps(request).encode()).body)


def translated(body: bytes, *, stream: bool = True, content_type: str = "text/event-stream", status: int = 200,
           **settings: Any) -> tuple[int, bytes]:
    exchange, _ = translation(stream=stream, **settings)
    exchange.start(status, {"content-type": content_type})
    out = exchange.feed(body) + exchange.finish()
    assert exchange.head is not None
    return exchange.head.status, out


def events(out: bytes) -> list[Any]:
    return [json.loads(block.split("data: ", 1)[1]) for block in out.decode().split("\n\n") if block]


def content_of(stream: list[Any]) -> list[Any]:
    """The blocks of a stream as the message that a client makes of it."""
    blocks: list[Any] = []
    for event in stream:
        if event["type"] == "content_block_start":
            blocks.append({**event["content_block"], "_json": ""})
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "input_json_delta":
                blocks[-1]["_json"] += delta["partial_json"]
            else:
                name = delta["type"].removesuffix("_delta")
                blocks[-1][name] += delta[name]
    for block in blocks:
        arguments = block.pop("_json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(arguments or "{}")
    return blocks


def test_a_stream_and_a_whole_message_say_the_same() -> None:
    status, out = translated(sse(*(chunk(part) for part in PARTS), chunk(finish="STOP", usage=USAGE)))
    stream = events(out)
    check(stream)
    whole = json.dumps(chunk(*PARTS, finish="STOP", usage=USAGE), indent=2).encode()
    whole_status, body = translated(whole, stream=False, content_type="application/json; charset=UTF-8")
    message = json.loads(body)
    assert status == whole_status == 200
    assert content_of(stream) == message["content"]
    assert [block["type"] for block in message["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert message["stop_reason"] == stream[-2]["delta"]["stop_reason"] == "tool_use"
    assert message["usage"] == {**stream[-2]["usage"], "input_tokens": 20, "cache_read_input_tokens": 80,
                                "output_tokens": 12}


def test_p8_the_signature_returns_byte_for_byte_through_a_client_that_keeps_only_id_name_and_input() -> None:
    _, out = translated(sse(chunk(*PARTS), chunk(finish="STOP")))
    calls = [{key: block[key] for key in ("type", "id", "name", "input")}
             for block in content_of(events(out)) if block["type"] == "tool_use"]
    assert extract_from_id(calls[1]["id"]) == ("fc1", None)
    results = [{"type": "tool_result", "tool_use_id": one["id"], "content": "ok"} for one in calls]
    _, body = translation([{"role": "user", "content": "hi"}, {"role": "assistant", "content": calls},
                           {"role": "user", "content": results}])
    parts = body["contents"][1]["parts"]
    assert [part.get("thoughtSignature") for part in parts] == ["QUJD/+==", None]
    assert [part["functionCall"]["name"] for part in parts] == ["lookup_tide", "ping"]


def test_p8_the_signature_of_a_text_returns_on_the_text() -> None:
    _, out = translated(sse(chunk(thought("hm")), chunk(text("so it is", "U0lH")), chunk(finish="STOP")))
    content = content_of(events(out))
    assert [block["type"] for block in content] == ["thinking", "text"]
    _, body = translation([{"role": "user", "content": "hi"}, {"role": "assistant", "content": content},
                           {"role": "user", "content": "and?"}])
    assert body["contents"][1]["parts"] == [{"text": "so it is", "thoughtSignature": "U0lH"}]


def test_p8_the_signature_of_a_thought_returns_on_the_thought() -> None:
    _, out = translated(sse(chunk(thought("h")), chunk(thought("m", "VEg=")), chunk(text("so")), chunk(finish="STOP")))
    _, body = translation([{"role": "user", "content": "hi"}, {"role": "assistant", "content": content_of(events(out))},
                           {"role": "user", "content": "and?"}])
    assert body["contents"][1]["parts"] == [{"text": "hm", "thought": True, "thoughtSignature": "VEg="}, {"text": "so"}]


def test_p1_an_error_after_the_first_content_is_an_error_event() -> None:
    body = sse(chunk(text("hi")), {"error": {"code": 503, "message": "The model is overloaded.",
                                             "status": "UNAVAILABLE"}})
    stream = events(translated(body)[1])
    check(stream)
    assert stream[-1] == {"type": "error", "error": {"type": "overloaded_error", "message": "The model is overloaded."}}


@pytest.mark.parametrize("body", [
    sse({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "print(x)", "index": 0}]}),
    sse(chunk(thought(""))), b"", b"[]"])
def test_a_failure_before_the_first_content_is_a_status(body: bytes) -> None:
    status, out = translated(body, withhold=True)
    assert (status, json.loads(out)["error"]["type"]) == (502, "api_error")


def test_p13_an_overflow_has_the_text_that_claude_code_recognises() -> None:
    error = [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": (
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).")}}]
    status, out = translated(json.dumps(error).encode(), status=400, content_type="application/json")
    assert (status, json.loads(out)["error"]) == (400, {
        "type": "invalid_request_error", "message": "prompt is too long: 1200000 tokens > 1048576 maximum"})


def test_p14_a_rate_limit_says_when_to_retry() -> None:
    exchange, _ = translation()
    exchange.start(429, {"content-type": "application/json"})
    exchange.feed(json.dumps({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota.", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "33.2s"}]}}).encode())
    assert json.loads(exchange.finish())["error"]["type"] == "rate_limit_error"
    assert exchange.head is not None
    assert (exchange.head.status, exchange.head.headers["retry-after"]) == (429, "34")
