"""Streams that break on either side: a broken stream never looks finished (P1), a client that leaves frees all."""

from __future__ import annotations

import http.client
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.wire import HELLO, Stream, check_grammar, payload, post, stream
from tests.providers.http import Gate, Reply
from tests.providers.openai import EVENT_STREAM, OpenAIProvider, call_start, chunk, raw, sse, stall, text
from tests.providers.openai import stream as deltas

TWO_DELTAS = [chunk({"role": "assistant", "content": "one "}), chunk({"content": "two "})]
TOOLS = [{"name": "now", "input_schema": {"type": "object"}}]
LOST = (http.client.IncompleteRead, ConnectionError)


def error_of(answer: Stream) -> dict[str, Any]:
    """The error event at the end of a stream that obeys the grammar, with what came before it kept."""
    events = answer.read()
    assert events[-1]["type"] == "error", [e["type"] for e in events]
    assert answer.text == "one two "
    error: dict[str, Any] = events[-1]["error"]
    assert error["message"].strip()
    return error


ERROR_CHUNKS: list[tuple[Any, str]] = [
    ({"error": {"message": "overloaded", "code": 502}, "choices": []}, "api_error"),
    ({"error": {"message": "Provider overloaded", "code": 503, "metadata": {"error_type": "provider_overloaded"}},
      "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}, "overloaded_error"),
    ({"object": "error", "message": "out of memory", "code": 500}, "api_error"),
    ({"error": {"message": "Slow down", "code": 429}}, "rate_limit_error"),
]


@pytest.mark.parametrize(("item", "kind"), ERROR_CHUNKS, ids=["502", "overloaded", "vllm", "429"])
def test_p01_error_chunk(gateway: Gateway, provider: OpenAIProvider, item: Any, kind: str) -> None:
    provider.script(sse([*TWO_DELTAS, item]))
    with stream(gateway.base_url) as answer:
        error = error_of(answer)
    assert error["type"] in {kind, "overloaded_error"}
    assert (item.get("error") or item)["message"] in error["message"]


@pytest.mark.parametrize("framing", ["chunked", "close"])
def test_p01_end_of_file(gateway: Gateway, provider: OpenAIProvider, framing: Any) -> None:
    body = [piece for piece in sse(TWO_DELTAS, done=False).body if isinstance(piece, bytes)]
    provider.script(raw(body, framing=framing))
    with stream(gateway.base_url) as answer:
        error_of(answer)


WRITTEN = '<tool_call>\n{"name": "now", "arguments": {"a": 1}}\n</tool_call>\n'


@pytest.mark.parametrize("more", ["<tool_call>", '<tool_call>\n{"name": "now", "arguments": ', "<tool_"])
@pytest.mark.parametrize("first", ["written", "native"])
def test_end_of_file_where_a_further_written_call_has_begun(gateway: Gateway, provider: OpenAIProvider, first: str,
                                                            more: str) -> None:
    """The first call is whole and goes out; nothing of the second one does, and it is missed all the same."""
    whole = chunk({"content": WRITTEN}) if first == "written" else chunk(call_start(0, "call_1", "now", '{"a": 1}'))
    provider.script(sse([whole, chunk({"content": more})], done=False))
    with stream(gateway.base_url, body={"tools": TOOLS}) as answer:
        events = answer.read()
    assert events[-1]["type"] == "error"
    assert [event["content_block"]["name"] for event in events
            if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use"] == ["now"]
    assert not any(event["type"] == "message_delta" for event in events)


@pytest.mark.parametrize("item", ['data: {"choices":[{"delta":{"content":"x"\n\n', "data: not json\n\n",
                                  'data: {"choices": 5}\n\n', "data: [1,2]\n\n"])
def test_p01_malformed_chunk(gateway: Gateway, provider: OpenAIProvider, item: str) -> None:
    provider.script(sse([*TWO_DELTAS, item, chunk({}, finish="stop")]))
    with stream(gateway.base_url) as answer:
        assert error_of(answer)["type"] in {"api_error", "overloaded_error"}


def test_p01_through_the_sdk(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(sse(TWO_DELTAS, done=False))
    with (pytest.raises(anthropic.APIStatusError) as caught,
          sdk.messages.stream(model="claude-test", max_tokens=9, messages=HELLO) as answer):
        for _ in answer:
            pass
    assert caught.value.body["error"]["type"] in {"api_error", "overloaded_error"}  # type: ignore[index]


@pytest.mark.parametrize("end", ["reset", "cut"])
def test_p01_transport_loss_is_never_a_clean_end(gateway: Gateway, provider: OpenAIProvider, end: Any) -> None:
    """The processor has no say when the transport breaks: the client sees a broken transport too, or an error event."""
    gate = Gate()
    provider.script(sse([*TWO_DELTAS, gate], done=False, end=end))
    with stream(gateway.base_url) as answer:
        events = answer.events()
        while answer.text != "one two ":
            next(events)
        gate.open()
        try:
            for _ in events:
                pass
        except LOST:
            return
        check_grammar(answer.seen)
        assert answer.seen[-1]["type"] == "error"


@pytest.mark.parametrize("end", ["reset", "cut", "end"])
def test_p01_loss_of_a_whole_answer(gateway: Gateway, provider: OpenAIProvider, end: Any) -> None:
    body = b'{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assi'
    provider.script(raw([body], end=end, headers={"content-type": "application/json"}))
    try:
        answer = post(gateway.base_url, payload())
    except LOST:
        return
    assert answer.status >= 500
    assert answer.error()[0] in {"api_error", "overloaded_error"}


def test_p01_loss_before_any_answer(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(raw([], end="cut", framing="close", headers={**EVENT_STREAM}))
    with stream(gateway.base_url) as answer:
        if answer.status == 200:
            assert answer.read()[-1]["type"] == "error"
        else:
            assert answer.status >= 500


def test_an_error_inside_a_call_leaves_the_call_open(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(sse([chunk(call_start(0, "a", "now", '{"x"')), {"error": {"message": "gone", "code": 500}}]))
    with stream(gateway.base_url, {"tools": TOOLS}) as answer:
        events = answer.read()
    assert [e["type"] for e in events if e["type"] != "ping"][-1] == "error"
    assert "content_block_stop" not in [e["type"] for e in events]


def test_nothing_follows_the_end(gateway: Gateway, provider: OpenAIProvider) -> None:
    """What a provider sends after [DONE] is not the client's business, and a late end does not delay the answer."""
    provider.script(sse([*TWO_DELTAS, chunk({}, finish="stop"), "data: [DONE]\n\n", chunk({"content": "ghost"})],
                        done=False))
    with stream(gateway.base_url) as answer:
        answer.read()
    assert answer.text == "one two "


# ---------------------------------------------------------------------------------------------- the client leaves
@pytest.mark.parametrize("how", ["fin", "reset"])
def test_client_leaves_mid_stream(gateway: Gateway, provider: OpenAIProvider, how: str) -> None:
    provider.script(sse(TWO_DELTAS, done=False, end="hang"))
    with stream(gateway.base_url) as answer:
        answer.until("content_block_delta")
        if how == "reset":
            answer.reset()
        else:
            answer.leave()
        assert provider.last.exchange.closed.wait(1), "the provider's connection must close within a second"


def test_client_leaves_before_the_answer(gateway: Gateway, provider: OpenAIProvider) -> None:
    gate = Gate()
    provider.script(stall(gate, text("never")))
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=10)
    connection.request("POST", "/v1/messages", b'{"model":"claude-test","max_tokens":5,"stream":true,'
                       b'"messages":[{"role":"user","content":"x"}]}',
                       {"x-api-key": "sk-test", "content-type": "application/json", "anthropic-version": "2023-06-01"})
    seen = provider.wait_for(1)
    connection.close()
    assert seen.exchange.closed.wait(1)


def test_sdk_leaves_mid_stream(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(sse(TWO_DELTAS, done=False, end="hang"))
    with sdk.messages.stream(model="claude-test", max_tokens=9, messages=HELLO) as answer:
        next(answer.text_stream)
    assert provider.last.exchange.closed.wait(1)


# --------------------------------------------------------------------------------------------------- long fault run
@pytest.mark.fault
@pytest.mark.parametrize("end", ["end", "cut", "reset"])
def test_p01_every_cut(gateway: Gateway, provider: OpenAIProvider, end: Any) -> None:
    """The stream ends after any byte of text or of a call whose arguments are not complete: never a clean stop."""
    whole = b"".join(p for p in deltas([{"content": "ab"}, call_start(0, "c", "now", '{"a":["b"')], finish=None,
                                       usage=None, done=False).body if isinstance(p, bytes))
    for at in range(0, len(whole), 3):
        provider.script(Reply(200, dict(EVENT_STREAM), [whole[:at]], end=end))
        with stream(gateway.base_url, {"tools": TOOLS}) as answer:
            if answer.status != 200:
                continue
            try:
                for _ in answer.events():
                    pass
            except LOST:
                continue
            assert "message_stop" not in [e["type"] for e in answer.seen], at
            check_grammar(answer.seen)
