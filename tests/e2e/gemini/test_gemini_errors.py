"""What goes wrong at Gemini, through the real Envoy: errors in the client's shape, blocked and malformed answers,
streams that break, and never a clean end where there was none (P1, P13-P16)."""

from __future__ import annotations

import http.client
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.gemini.talk import TOOLS
from tests.e2e.wire import HELLO, blocks_of, check_grammar, payload, post, stream
from tests.providers.gemini import GeminiProvider, blocked, call, calls, parts, stopped, text
from tests.providers.gemini_wire import (
    BLOCK_REASONS,
    FINISH_REASONS,
    array,
    error,
    error_body,
    overloaded,
    quota,
    response,
    sse,
)
from tests.providers.http import Gate

LOST = (http.client.IncompleteRead, ConnectionError)
TWO = [response([{"text": "one "}]), response([{"text": "two "}])]
BAD_REASONS = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
               "MALFORMED_RESPONSE", "OTHER"}
REFUSALS = {"SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"}


# ------------------------------------------------------------------------------------------------------------ statuses
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("model", ["wrong-key", "wrong-token"])
def test_p14_a_wrong_key_is_an_authentication_error(client: anthropic.Anthropic, gemini: GeminiProvider, model: str,
                                                    streamed: bool) -> None:
    """AI Studio answers 400 to it."""
    with pytest.raises(anthropic.AuthenticationError) as caught:
        client.messages.create(model=model, max_tokens=9, messages=HELLO, stream=streamed)
    assert caught.value.body["error"]["type"] == "authentication_error"  # type: ignore[index]
    assert "wrong-0123456789" not in str(caught.value.body)
    gemini.clear()  # the refusal of the key is what this test is about


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("delay", "seconds"), [("34s", "34"), ("1.5s", "2"), (None, None)])
def test_p14_the_delay_of_a_429_is_retry_after(client: anthropic.Anthropic, gemini: GeminiProvider, streamed: bool,
                                               delay: str | None, seconds: str | None) -> None:
    gemini.script(quota(delay))
    with pytest.raises(anthropic.RateLimitError) as caught:
        client.messages.create(model="three", max_tokens=9, messages=HELLO, stream=streamed)
    assert caught.value.response.headers.get("retry-after") == seconds
    assert caught.value.body["error"]["type"] == "rate_limit_error"  # type: ignore[index]
    assert "exceeded your current quota" in caught.value.message


@pytest.mark.parametrize("in_array", [True, False])
@pytest.mark.parametrize(("code", "kind"), [
    (400, "invalid_request_error"), (401, "authentication_error"), (403, "permission_error"), (404, "not_found_error"),
    (500, "api_error"), (503, "overloaded_error"), (504, "timeout_error")])
def test_statuses(gateway: Gateway, gemini: GeminiProvider, code: int, kind: str, in_array: bool) -> None:
    gemini.script(error(code, "said by Google", in_array=in_array))
    answer = post(gateway.base_url, payload("three"))
    found, message = answer.error()
    assert "said by Google" in message
    assert found in {kind, "api_error"} if code >= 500 else found == kind
    assert answer.status == code if code < 500 else answer.status >= 500


def test_p15_context_overflow_in_the_clients_words(gateway: Gateway, gemini: GeminiProvider) -> None:
    gemini.script(error(400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."))
    answer = post(gateway.base_url, payload("three"))
    assert (answer.status, answer.error()[0]) == (400, "invalid_request_error")
    assert "prompt is too long" in answer.error()[1]
    assert "1200000" in answer.error()[1]


# ------------------------------------------------------------------------------------------------- ends without a stop
@pytest.mark.parametrize("reason", sorted({*FINISH_REASONS} - {"STOP", "MAX_TOKENS", "CONTINUATION"}))
def test_every_other_finish_reason(gateway: Gateway, gemini: GeminiProvider, reason: str) -> None:
    """A refusal is a stop reason, a failure is an error that names it; nothing looks like an ordinary end."""
    gemini.script(parts([[{"text": "Half "}], []], finish=reason))
    with stream(gateway.base_url, payload("three")) as answer:
        events = answer.read()
    assert answer.text.startswith("Half ")
    if reason in BAD_REASONS:
        assert events[-1]["type"] == "error", reason
        assert reason in events[-1]["error"]["message"]
    elif reason in REFUSALS or reason.startswith("IMAGE_"):
        assert events[-2]["delta"]["stop_reason"] == "refusal", reason
    else:
        assert events[-1]["type"] == "error" or events[-2]["delta"]["stop_reason"] == "refusal", reason


@pytest.mark.parametrize("streamed", [True, False])
def test_p16_a_malformed_call_is_one_clear_error(gateway: Gateway, gemini: GeminiProvider, streamed: bool) -> None:
    gemini.script(stopped("MALFORMED_FUNCTION_CALL", "Malformed function call: print(default_api.weather("))
    if streamed:
        with stream(gateway.base_url, payload("three", tools=TOOLS)) as answer:
            events = answer.read()
        assert [event["type"] for event in events].count("error") == 1
        message = events[-1]["error"]["message"]
    else:
        whole = post(gateway.base_url, payload("three", tools=TOOLS))
        assert whole.status >= 500
        message = whole.error()[1]
    assert "MALFORMED_FUNCTION_CALL" in message
    assert "default_api.weather" in message


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("reason", BLOCK_REASONS)
def test_a_blocked_prompt(client: anthropic.Anthropic, gemini: GeminiProvider, reason: str, streamed: bool) -> None:
    gemini.script(blocked(reason))
    asked: Any = {"model": "three", "max_tokens": 9, "messages": HELLO}
    if streamed:
        with client.messages.stream(**asked) as answer:
            message = answer.get_final_message()
    else:
        message = client.messages.create(**asked)
    assert message.stop_reason == "refusal"
    (block,) = message.content
    assert block.type == "text"
    assert reason in block.text


@pytest.mark.parametrize("with_call", [True, False])
def test_the_token_limit(gateway: Gateway, gemini: GeminiProvider, with_call: bool) -> None:
    gemini.script(parts([[{"text": "Half"}], [call("now")] if with_call else []], finish="MAX_TOKENS"))
    with stream(gateway.base_url, payload("three", tools=TOOLS)) as answer:
        events = answer.read()
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    assert [block["type"] for block in blocks_of(events)] == ["text", "tool_use"][:1 + with_call]


# -------------------------------------------------------------------------------------------------------------- breaks
def ends_in_error(gateway: Gateway, **fields: Any) -> dict[str, Any]:
    with stream(gateway.base_url, payload("three", **fields)) as answer:
        events = answer.read()
    assert events[-1]["type"] == "error", [event["type"] for event in events]
    found: dict[str, Any] = events[-1]["error"]
    assert found["message"].strip()
    return found


@pytest.mark.parametrize("answer", [
    parts([[{"text": "one "}]], finish=None), parts([[{"text": "a", "thought": True}]], finish=None),
    calls(("now", {}), finish=None), calls(("now", {}), ("now", {"a": 1}), together=False, finish=None)])
def test_p01_an_end_without_a_finish_reason(gateway: Gateway, gemini: GeminiProvider, answer: Any) -> None:
    """Google always sends one, also after a whole call."""
    gemini.script(answer)
    ends_in_error(gateway, tools=TOOLS)


@pytest.mark.parametrize(("code", "kind"), [(503, "overloaded_error"), (429, "rate_limit_error"), (500, "api_error")])
@pytest.mark.parametrize("form", [sse, array])
def test_p01_an_error_in_the_stream(gateway: Gateway, gemini: GeminiProvider, form: Any, code: int, kind: str) -> None:
    gemini.script(form([*TWO, error_body(code, "said by Google")]))
    found = ends_in_error(gateway)
    assert found["type"] == kind
    assert "said by Google" in found["message"]


@pytest.mark.parametrize("item", ['data: {"candidates":[{"content":{"parts":[{"te\r\n\r\n', "data: not json\r\n\r\n",
                                  'data: {"candidates": [nul]}\r\n\r\n', "data: [1,2]\r\n\r\n"])
def test_p01_a_malformed_chunk(gateway: Gateway, gemini: GeminiProvider, item: str) -> None:
    gemini.script(sse([*TWO, item, response([], finish="STOP")]))
    ends_in_error(gateway)


def test_p01_a_stream_cut_inside_an_event(gateway: Gateway, gemini: GeminiProvider) -> None:
    gemini.script(sse([*TWO, 'data: {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"']))
    ends_in_error(gateway)


def test_p01_an_array_without_an_end(gateway: Gateway, gemini: GeminiProvider) -> None:
    gemini.script(array([*TWO, '{"candidates": [{"finishReason": "ST']))
    with stream(gateway.base_url, payload("three")) as answer:
        if answer.status == 200:
            assert answer.read()[-1]["type"] == "error"
        else:
            assert answer.status >= 500


@pytest.mark.parametrize("end", ["cut", "reset"])
def test_p01_transport_loss_is_never_a_clean_end(gateway: Gateway, gemini: GeminiProvider, end: Any) -> None:
    gate = Gate()
    gemini.script(sse([*TWO, gate], end=end))
    with stream(gateway.base_url, payload("three")) as answer:
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


def test_p01_loss_of_a_whole_answer(gateway: Gateway, gemini: GeminiProvider) -> None:
    gemini.script(text("hello", split=20, end="cut"))
    try:
        answer = post(gateway.base_url, payload("three"))
    except LOST:
        return
    assert answer.status >= 500
    assert answer.error()[0] in {"api_error", "overloaded_error"}


def test_the_sdk_sees_an_overloaded_model(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    gemini.script(overloaded())
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(model="three", max_tokens=9, messages=HELLO)
    assert caught.value.body["error"]["type"] == "overloaded_error"  # type: ignore[index]


def test_a_client_that_leaves_frees_the_provider(gateway: Gateway, gemini: GeminiProvider) -> None:
    gemini.script(sse(TWO, end="hang"))
    with stream(gateway.base_url, payload("three")) as answer:
        answer.until("content_block_delta")
        answer.leave()
        assert gemini.last.exchange.closed.wait(1)
