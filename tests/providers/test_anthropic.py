"""The scripted provider itself: the official SDK can read it, and it refuses what Anthropic refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from tests.providers.anthropic import AnthropicProvider, anthropic_error, calls, events, sse, status, text, text_block
from tests.providers.anthropic_rules import refusal

USER = {"role": "user", "content": "hi"}
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
CALL = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
CALLING = {"role": "assistant", "content": [CALL]}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "done"}
ANSWERED = {"role": "user", "content": [RESULT]}
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
HAIKU, OPUS = "claude-haiku-4-5", "claude-opus-5-5"
THINK = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}


@pytest.fixture(scope="module")
def provider() -> Iterator[AnthropicProvider]:
    server = AnthropicProvider()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(provider: AnthropicProvider) -> Iterator[anthropic.Anthropic]:
    provider.clear()
    version = {"anthropic-version": "2023-06-01"}
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{provider.port}", api_key="k", max_retries=0, timeout=10,
                             default_headers=version) as sdk:
        yield sdk


def ask(client: anthropic.Anthropic, **fields: Any) -> Any:
    return client.messages.create(**{"model": HAIKU, "max_tokens": 10, "messages": [USER], **fields})


def test_the_official_sdk_reads_its_answers(client: anthropic.Anthropic, provider: AnthropicProvider) -> None:
    provider.script(text("hello you", thinking="hm"), calls(("c1", "f", {"a": 1}), content="so"), text("whole"))
    with client.messages.stream(model=HAIKU, max_tokens=10, messages=[USER]) as stream:  # type: ignore[list-item]
        message: Any = stream.get_final_message()
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert (message.content[1].text, message.usage.output_tokens) == ("hello you", 7)
    with client.messages.stream(model=HAIKU, max_tokens=10, messages=[USER],  # type: ignore[list-item]
                                tools=[TOOL]) as stream:  # type: ignore[list-item]
        message = stream.get_final_message()
    assert message.content[1].input == {"a": 1}
    assert ask(client).content[0].text == "whole"
    assert provider.violations == []


def test_it_refuses_in_anthropics_shape(client: anthropic.Anthropic, provider: AnthropicProvider) -> None:
    with pytest.raises(anthropic.BadRequestError, match="seed: Extra inputs are not permitted"):
        ask(client, extra_body={"seed": 3})
    assert provider.violations == ["seed: Extra inputs are not permitted"]


def test_errors_as_scripted(client: anthropic.Anthropic, provider: AnthropicProvider) -> None:
    provider.script(status(529, anthropic_error("overloaded_error", "Busy")),
                    sse([*events([text_block("Par")], stop=None), anthropic_error("overloaded_error", "Busy")]))
    with pytest.raises(anthropic.APIStatusError, match="Busy"):
        ask(client)
    with pytest.raises(anthropic.APIStatusError, match="Busy"):
        list(ask(client, stream=True))


@pytest.mark.parametrize("body", [
    {"max_tokens": None}, {"max_tokens": 0}, {"max_tokens": 64_001}, {"temperature": 1.5}, {"top_k": 1, **THINK},
    {"temperature": 0.5, "top_p": 0.5}, {"model": OPUS, "temperature": 1}, {"stop_sequences": ["\n"]}, {"messages": []},
    {"messages": [{"role": "assistant", "content": "a"}, USER]}, {"messages": [USER, USER]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": " \n"}]}]},
    {"messages": [{"role": "user", "content": []}]}, {"messages": [USER, {"role": "system", "content": "x"}]},
    {"messages": [USER, {"role": "assistant", "content": "a "}]},
    {"messages": [USER, {"role": "assistant", "content": "a"}], "model": OPUS},
    {"messages": [USER, {"role": "assistant", "content": "a"}], **THINK},
    {"messages": [USER, {"role": "assistant", "content": [SIGNED]}, USER]},
    {"messages": [USER, {"role": "assistant", "content": [{**SIGNED, "signature": ""}, CALL]}, ANSWERED],
     "tools": [TOOL]},
    {"messages": [USER, CALLING, ANSWERED]}, {"messages": [USER, CALLING], "tools": [TOOL]},
    {"messages": [USER, CALLING, USER], "tools": [TOOL]}, {"messages": [USER, ANSWERED][1:], "tools": [TOOL]},
    {"messages": [USER, CALLING, {"role": "user", "content": [{"type": "text", "text": "x"}, RESULT]}],
     "tools": [TOOL]},
    {"messages": [USER, CALLING, {"role": "user", "content": [RESULT, RESULT]}], "tools": [TOOL]},
    {"messages": [USER, CALLING, ANSWERED, CALLING, ANSWERED], "tools": [TOOL]},
    {"messages": [USER, {"role": "assistant", "content": [{**CALL, "id": "a.b"}]},
                  {"role": "user", "content": [{**RESULT, "tool_use_id": "a.b"}]}], "tools": [TOOL]},
    {"messages": [USER, CALLING, {"role": "user", "content": [{**RESULT, "content": "", "is_error": True}]}],
     "tools": [TOOL]},
    {"messages": [USER, CALLING, ANSWERED], "tools": [TOOL], **THINK},
    {"thinking": {"type": "enabled", "budget_tokens": 1000}, "max_tokens": 2000},
    {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 2000},
    {"thinking": {"type": "adaptive"}}, {"model": OPUS, **THINK}, {"model": OPUS, "thinking": {"type": "disabled"}},
    {"tools": [TOOL], "tool_choice": {"type": "any"}, **THINK},
    {"tools": [TOOL], "tool_choice": {"type": "any"}, "model": OPUS}, {"tool_choice": {"type": "auto"}},
    {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, {"tools": [TOOL, TOOL]},
    {"tools": [{**TOOL, "name": "a.b"}]}, {"tools": [{**TOOL, "name": "x" * 129}]},
    {"tools": [{"name": "f", "input_schema": {}}]}, {"tools": [{"name": "f", "input_schema": {
        "type": "object", "properties": {"$a": {}}}}]},
    {"tools": [{"name": "f", "input_schema": {"type": "object", "anyOf": [{}]}}]},
    {"system": [{"type": "text", "text": str(n), "cache_control": {"type": "ephemeral"}} for n in range(5)]},
    {"output_config": {"effort": "low"}}, {"model": "claude-opus-5", "thinking": {"type": "disabled"},
                                           "output_config": {"effort": "max"}},
    {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}}},
    {"metadata": {"user_id": "u" * 257}}, {"seed": 3},
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "http://x"}}]}]},
])
def test_rules(body: dict[str, Any]) -> None:
    whole = {"model": HAIKU, "max_tokens": 100, "messages": [USER], **body}
    assert refusal(whole) is not None, json.dumps(whole)


def test_what_is_taken() -> None:
    thought = {"role": "assistant", "content": [SIGNED, CALL]}
    for body in ({}, {"messages": [USER, CALLING, ANSWERED], "tools": [TOOL]}, {"tools": [TOOL], "tool_choice": {
            "type": "any"}}, {"messages": [USER, thought, ANSWERED], "tools": [TOOL], **THINK},
            {"messages": [USER, {"role": "assistant", "content": "a"}]}, {"model": "claude-opus-4-8", "messages": [
                USER, {"role": "system", "content": "x"}]}):
        assert refusal({"model": HAIKU, "max_tokens": 100, "messages": [USER], **body}) is None
