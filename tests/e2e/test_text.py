"""Text, thinking and finish reasons through the official SDK, streamed and whole."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest

from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, Gateway
from tests.e2e.wire import HELLO, blocks_of, payload, post, stream
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, calls, chunk, completion, raw, sse, text
from tests.providers.openai import stream as deltas


def test_text_stream(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(text("Grüße, 世界! 🌍 and more"))
    with sdk.messages.stream(model="claude-test", max_tokens=100, messages=HELLO, system="Be brief.") as answer:
        pieces = list(answer.text_stream)
        message = answer.get_final_message()
    assert "".join(pieces) == "Grüße, 世界! 🌍 and more"
    assert len(pieces) > 1, "text must flow as it comes"
    assert (message.stop_reason, message.role, message.type) == ("end_turn", "assistant", "message")
    assert (message.usage.input_tokens, message.usage.output_tokens) == (21, 7)
    assert message.model == "claude-test"
    sent = provider.last
    assert sent.path == "/v1/chat/completions"
    assert sent.body["model"] == "scripted/model-1"
    assert sent.body["stream"] is True
    assert sent.body["max_tokens"] == 100
    assert sent.roles() == ["system", "user"]
    assert sent.headers["authorization"] == f"Bearer {PROVIDER_KEY}"


def test_whole_text(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(text("hello there"))
    message = sdk.messages.create(model="claude-test", max_tokens=100, messages=HELLO)
    assert [(b.type, b.text) for b in message.content if b.type == "text"] == [("text", "hello there")]
    assert message.stop_reason == "end_turn"
    assert message.usage.input_tokens == 21
    assert provider.last.body.get("stream") in (None, False)


def test_text_flows_before_the_provider_has_finished(gateway: Gateway, provider: OpenAIProvider) -> None:
    gate = Gate()
    provider.script(deltas([{"content": "first"}, gate, {"content": " second"}]))
    with stream(gateway.base_url) as answer:
        for event in answer.events():
            if event["type"] == "content_block_delta":
                break
        assert answer.text == "first"
        gate.open()
        answer.read()
        assert answer.text == "first second"


@pytest.mark.parametrize(("finish", "expected"), [
    ("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("eos", "end_turn"),
    ("tool_calls", "end_turn"),
])
def test_finish_reasons(gateway: Gateway, provider: OpenAIProvider, finish: str, expected: str) -> None:
    provider.script(text("partial", finish=finish), text("partial", finish=finish))
    with stream(gateway.base_url) as answer:
        assert answer.read()[-2]["delta"]["stop_reason"] == expected
    assert post(gateway.base_url, payload()).json()["stop_reason"] == expected


@pytest.mark.parametrize("shape", [
    lambda t: {"reasoning_content": t}, lambda t: {"reasoning": t}, lambda t: {"reasoning": t, "reasoning_content": t},
    lambda t: {"reasoning": t, "reasoning_details": [{"type": "reasoning.text", "text": t, "index": 0}]},
    lambda t: {"reasoning_details": [{"type": "reasoning.text", "text": t, "index": 0}]},
], ids=["reasoning_content", "reasoning", "both", "details+reasoning", "details"])
def test_p02_reasoning_becomes_thinking_blocks(gateway: Gateway, provider: OpenAIProvider, shape: Any) -> None:
    provider.script(deltas([
        shape("Let me "), shape("think."), {"content": "Answer"}, shape("More."), {"content": "!"}]))
    with stream(gateway.base_url) as answer:
        blocks = blocks_of(answer.read())
    assert [(b["type"], b.get("thinking", b.get("text"))) for b in blocks] == [
        ("thinking", "Let me think."), ("text", "Answer"), ("thinking", "More."), ("text", "!")]


def test_p02_thinking_through_the_sdk(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(text("42", reasoning="six times seven"), text("42", reasoning="six times seven"))
    with sdk.messages.stream(model="claude-test", max_tokens=3000, messages=HELLO,
                             thinking={"type": "enabled", "budget_tokens": 2000}) as answer:
        streamed = answer.get_final_message()
    whole = sdk.messages.create(model="claude-test", max_tokens=3000, messages=HELLO,
                                thinking={"type": "enabled", "budget_tokens": 2000})
    for message in (streamed, whole):
        assert [b.type for b in message.content] == ["thinking", "text"]
        assert message.content[0].type == "thinking"
        assert message.content[0].thinking == "six times seven"


def test_provider_answers_json_to_a_stream_request(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(completion({"role": "assistant", "content": "all at once"}))
    with stream(gateway.base_url) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = answer.read()
    assert blocks_of(events)[0]["text"] == "all at once"
    assert events[-2]["usage"]["output_tokens"] == 7


def test_provider_answers_a_stream_to_a_json_request(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(deltas([{"content": "piece"}, {"content": " by piece"}]))
    answer = post(gateway.base_url, payload())
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json()["content"] == [{"type": "text", "text": "piece by piece"}]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_p20_framing_of_the_provider(gateway: Gateway, provider: OpenAIProvider, newline: str) -> None:
    """Comments, a byte order mark, no space after the colon, odd line ends, a last event without its blank line."""
    nl = newline
    whole = (f"\ufeff: OPENROUTER PROCESSING{nl}{nl}data:{{\"choices\":[{{\"delta\":{{\"content\":\"ä\"}}}}]}}{nl}{nl}"
             f"event: x{nl}data: {{\"choices\":{nl}data: [{{\"delta\":{{\"content\":\"€😀\"}}}}]}}{nl}{nl}"
             f"data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}").encode()
    provider.script(raw([whole[i:i + 1] for i in range(len(whole))]))
    with stream(gateway.base_url) as answer:
        assert blocks_of(answer.read())[0]["text"] == "ä€😀"


def test_p20_many_events_in_one_chunk_and_one_huge_event(gateway: Gateway, provider: OpenAIProvider) -> None:
    many = b"".join(p for p in sse([chunk({"content": "x"})] * 200, done=False).body if isinstance(p, bytes))
    provider.script(raw([many, *[p for p in deltas([{"content": "y" * 1_000_000}]).body if isinstance(p, bytes)]]))
    with stream(gateway.base_url) as answer:
        assert blocks_of(answer.read())[0]["text"] == "x" * 200 + "y" * 1_000_000


def test_stop_sequences_and_sampling(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    answer = sdk.messages.with_raw_response.create(
        model="claude-test", max_tokens=9, messages=HELLO, stop_sequences=["END"],
        extra_body={"temperature": 0.5, "top_p": 0.25, "top_k": 3})
    assert (provider.last.body["stop"], provider.last.body["temperature"], provider.last.body["top_p"]) == (
        ["END"], 0.5, 0.25)
    assert "top_k" not in provider.last.body
    assert "top_k" in answer.headers["x-extproc-dropped"]


def test_an_answer_with_text_before_its_calls(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(calls(("call_1", "look", {"at": "it"}), content="I will look."))
    with sdk.messages.stream(model="claude-test", max_tokens=99, messages=HELLO,
                             tools=[{"name": "look", "input_schema": {"type": "object", "properties": {}}}]) as answer:
        message = answer.get_final_message()
    assert [block.type for block in message.content] == ["text", "tool_use"]


CITED = {"type": "url_citation", "url_citation": {"url": "https://ulm.example/a", "title": "Ulm", "start_index": 0,
                                                  "end_index": 3}}
SOURCES = ["https://ulm.example/b"]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_rule_4_sources_of_a_search_reach_both_sdks(gateway: Gateway, sdk: anthropic.Anthropic,
                                                    provider: OpenAIProvider, streamed: bool) -> None:
    def script() -> None:
        if streamed:
            provider.script(sse([chunk({"content": "Ulm [1]"}, citations=SOURCES),
                                 chunk({"annotations": [CITED]}, citations=SOURCES), chunk({}, finish="stop")]))
        else:
            provider.script(completion({"content": "Ulm [1]", "annotations": [CITED]}, citations=SOURCES))

    script()
    with openai.OpenAI(base_url=f"{gateway.base_url}/v1", api_key=CLIENT_KEY, max_retries=0, timeout=30) as gpt:
        asked: Any = {"model": "claude-test", "messages": HELLO}
        if streamed:
            chunks = list(gpt.chat.completions.create(**asked, stream=True))
            told = [one for one in chunks if one.choices and getattr(one.choices[0].delta, "annotations", None)]
            assert len(told) == 1
            annotations, beside = told[0].choices[0].delta.annotations, told[0]
        else:
            whole = gpt.chat.completions.create(**asked)
            annotations, beside = [one.model_dump() for one in whole.choices[0].message.annotations or ()], whole
    assert annotations == [CITED]
    assert beside.citations == SOURCES
    script()
    if streamed:
        with sdk.messages.stream(model="claude-test", max_tokens=100, messages=HELLO) as answer:
            message = answer.get_final_message()
    else:
        message = sdk.messages.create(model="claude-test", max_tokens=100, messages=HELLO)
    assert "".join(block.text for block in message.content if block.type == "text") == (
        "Ulm [1]\n\nSources:\n1. https://ulm.example/b\n2. [Ulm](https://ulm.example/a)\n")
