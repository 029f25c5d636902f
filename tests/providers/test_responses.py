"""The scripted provider itself: the official SDK can read it, and it refuses what OpenAI refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.providers.responses import ResponsesProvider, calls, text
from tests.providers.responses_rules import refusal

USER = {"type": "message", "role": "user", "content": "hi"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
THOUGHT = {"type": "reasoning", "summary": [], "encrypted_content": "sealed"}
SAID = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]}
TOOL = {"type": "function", "name": "f", "strict": False, "parameters": {"type": "object", "properties": {}}}
GOOD: dict[str, Any] = {"model": "gpt-6-sol", "store": False, "input": [USER]}


@pytest.fixture(scope="module")
def provider() -> Iterator[ResponsesProvider]:
    server = ResponsesProvider()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(provider: ResponsesProvider) -> Iterator[openai.OpenAI]:
    provider.clear()
    with openai.OpenAI(base_url=provider.url, api_key="k", max_retries=0, timeout=10) as sdk:
        yield sdk


def test_the_official_sdk_reads_its_answers(client: openai.OpenAI, provider: ResponsesProvider) -> None:
    provider.script(text("hello you", thinking="Hm."), calls(("c1", "f", {"a": 1})), text("whole"))
    asked: Any = {**GOOD, "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
    with client.responses.stream(**asked) as stream:
        stream.until_done()
        done = stream.get_final_response()
    assert done.output_text == "hello you"
    assert [item.type for item in done.output] == ["reasoning", "message"]
    call: Any = client.responses.create(**GOOD, tools=[TOOL]).output[0]  # type: ignore[list-item]
    assert (call.call_id, call.arguments) == ("c1", '{"a": 1}')
    assert client.responses.create(**GOOD).output_text == "whole"
    assert provider.violations == []


def test_it_takes_back_only_the_reasoning_that_it_issued(client: openai.OpenAI, provider: ResponsesProvider) -> None:
    provider.script(calls(("c1", "f", {}), thinking="Hm."), text("done"))
    asked: Any = {**GOOD, "include": ["reasoning.encrypted_content"], "tools": [TOOL]}
    thought: Any = client.responses.create(**asked).output[0]
    back = {**THOUGHT, "encrypted_content": thought.encrypted_content}
    assert client.responses.create(**{**asked, "input": [USER, back, CALL, OUTPUT]}).output_text == "done"
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(**{**asked, "input": [USER, THOUGHT, CALL, OUTPUT]})
    assert caught.value.code == "invalid_encrypted_content"


@pytest.mark.parametrize("change", [
    {}, {"tools": [TOOL], "tool_choice": "required"}, {"input": [USER, CALL, OUTPUT]}, {"input": [USER, SAID, USER]},
    {"input": [USER, THOUGHT, CALL, OUTPUT]}, {"input": [USER, THOUGHT, SAID]}, {"max_output_tokens": 16},
    {"tools": [{"type": "custom", "name": "p"}], "tool_choice": {"type": "custom", "name": "p"}},
])
def test_it_accepts_what_the_service_accepts(change: dict[str, Any]) -> None:
    assert refusal({**GOOD, **change}, ["sealed"]) is None


@pytest.mark.parametrize("change", [
    {"model": None}, {"store": True}, {"store": None}, {"messages": []}, {"max_tokens": 5}, {"stop": ["x"]},
    {"max_output_tokens": 15}, {"temperature": 0.5}, {"previous_response_id": "resp_1"}, {"conversation": "c"},
    {"include": ["everything"]}, {"reasoning": {"effort": "huge"}}, {"reasoning": {"budget": 1}},
    {"user": "u" * 65}, {"prompt_cache_key": "k" * 65}, {"tools": []}, {"tool_choice": "required"},
    {"tools": [{**TOOL, "strict": None}]}, {"tools": [{**TOOL, "name": "a.b"}]}, {"tools": [TOOL, TOOL]},
    {"tools": [{"type": "function", "function": TOOL}]}, {"tools": [{"type": "web_search_9"}]},
    {"tools": [{**TOOL, "strict": True, "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}]},
    {"tools": [{**TOOL, "parameters": {"oneOf": []}}]}, {"tools": [{**TOOL, "parameters": None}]},
    {"tools": [TOOL], "tool_choice": {"type": "function", "name": "g"}},
    {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}},
    {"text": {"format": {"type": "json_schema", "json_schema": {}}}}, {"text": {"verbosity": "huge"}},
    {"input": []}, {"input": None}, {"input": [{**USER, "id": "msg_1"}]}, {"input": [{"type": "item_reference"}]},
    {"input": [{**USER, "role": "tool"}]}, {"input": [{**USER, "content": [{"type": "text", "text": "hi"}]}]},
    {"input": [{**SAID, "content": [{"type": "input_text", "text": "hi"}]}]},
    {"input": [{**USER, "content": [{"type": "input_image", "image_url": {"url": "x"}}]}]},
    {"input": [{**SAID, "phase": "middle"}]}, {"input": [USER, CALL]}, {"input": [USER, OUTPUT]},
    {"input": [USER, CALL, CALL, OUTPUT]}, {"input": [USER, CALL, OUTPUT, OUTPUT]},
    {"input": [USER, CALL, USER, OUTPUT]},
    {"input": [USER, {**CALL, "call_id": "c" * 65}, {**OUTPUT, "call_id": "c" * 65}]},
    {"input": [USER, {**CALL, "arguments": {}}, OUTPUT]}, {"input": [USER, {**CALL, "id": "fc_1"}, OUTPUT]},
    {"input": [USER, THOUGHT]}, {"input": [USER, THOUGHT, USER]}, {"input": [USER, CALL, THOUGHT, OUTPUT]},
    {"input": [USER, {**THOUGHT, "encrypted_content": "foreign"}, SAID]},
    {"input": [USER, {**THOUGHT, "summary": None}, SAID]}, {"input": [USER, {**THOUGHT, "content": ["x"]}, SAID]},
    {"input": [USER, {**THOUGHT, "encrypted_content": None, "id": "rs_1"}, SAID]},
])
def test_it_refuses_what_the_service_refuses(change: dict[str, Any]) -> None:
    assert refusal({**GOOD, **change}, ["sealed"]) is not None


def test_a_model_without_reasoning_refuses_everything_about_it() -> None:
    old = {**GOOD, "model": "gpt-4o"}
    assert refusal({**old, "temperature": 0.5}) is None
    assert refusal({**old, "include": ["reasoning.encrypted_content"]}) is not None
    assert refusal({**old, "reasoning": {"effort": "low"}}) is not None


def test_a_third_party_may_take_functions_only() -> None:
    custom = {**GOOD, "tools": [{"type": "custom", "name": "p"}]}
    assert refusal(custom) is None
    assert refusal(custom, only_functions=True) is not None
