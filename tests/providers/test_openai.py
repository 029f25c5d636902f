"""The scripted provider itself: the official SDK can read it, it refuses what OpenAI refuses, and breaks as told."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, calls, chunk, raw, sse, text
from tests.providers.openai_rules import refusal

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "done"}


@pytest.fixture(scope="module")
def provider() -> Iterator[OpenAIProvider]:
    server = OpenAIProvider()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(provider: OpenAIProvider) -> Iterator[openai.OpenAI]:
    provider.clear()
    with openai.OpenAI(base_url=provider.url, api_key="k", max_retries=0, timeout=10) as sdk:
        yield sdk


def test_the_official_sdk_reads_its_answers(client: openai.OpenAI, provider: OpenAIProvider) -> None:
    provider.script(text("hello you"), calls(("c1", "f", {"a": 1})), text("whole"))
    messages: Any = [USER]
    chunks = client.chat.completions.create(model="m", messages=messages, stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "hello you"
    message = client.chat.completions.create(model="m", messages=messages, tools=[TOOL]).choices[0].message  # type: ignore[list-item]
    assert message.tool_calls is not None
    assert message.tool_calls[0].function.arguments == '{"a": 1}'  # type: ignore[union-attr]
    assert client.chat.completions.create(model="m", messages=messages).choices[0].message.content == "whole"
    assert provider.violations == []


def test_it_refuses_in_openais_shape(client: openai.OpenAI, provider: OpenAIProvider) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model="m", messages=[USER], extra_body={"top_k": 3})  # type: ignore[list-item]
    assert caught.value.code == "unknown_parameter"
    assert provider.violations == ["Unknown parameter: 'top_k'."]


@pytest.mark.parametrize("body", [
    {}, {"messages": []}, {"thinking": {}}, {"temperature": 3}, {"max_tokens": 0}, {"stop": ["a"] * 5}, {"stop": []},
    {"stream_options": {"include_usage": True}}, {"user": "u" * 65}, {"tools": []}, {"tool_choice": "auto"},
    {"parallel_tool_calls": False}, {"tools": [TOOL, TOOL]}, {"tools": [TOOL], "tool_choice": "any"},
    {"max_tokens": 5, "max_completion_tokens": 5}, {"model": "gpt-5", "max_tokens": 5},
    {"messages": [{"role": "user", "content": []}]}, {"messages": [{"role": "user", "content": None}]},
    {"messages": [{**USER, "cache_control": {}}]}, {"messages": [{"role": "assistant", "content": None}]},
    {"messages": [USER, CALLING]}, {"messages": [USER, RESULT]}, {"messages": [USER, CALLING, USER]},
    {"messages": [USER, CALLING, RESULT, RESULT]}, {"messages": [USER, CALLING, RESULT, CALLING, RESULT]},
    {"messages": [{"role": "tool", "tool_call_id": "c1", "content": [{"type": "image_url", "image_url": {}}]}]},
    {"messages": [USER, {**CALLING, "reasoning_content": "hm"}, RESULT]},
    {"messages": [USER, {**CALLING, "tool_calls": [{**CALL, "id": "x" * 41}]}, {**RESULT, "tool_call_id": "x" * 41}]},
    *[{"tools": [{"type": "function", "function": f}]} for f in (
        {"name": "f"}, {"name": "f", "parameters": {}}, {"name": "f", "parameters": {"type": "object"}},
        {"name": "a.b", "parameters": {"type": "object", "properties": {}}},
        {"name": "x" * 65, "parameters": {"type": "object", "properties": {}}},
        {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "array"}}}},
        {"name": "f", "parameters": {"type": "object", "properties": {}, "required": None}},
        {"name": "f", "parameters": {"type": "object", "properties": {}}, "cache_control": {}})],
])
def test_rules(body: dict[str, Any]) -> None:
    whole = {"model": "m", "messages": [USER], **body}
    if not body:
        del whole["messages"]
    assert refusal(whole) is not None, json.dumps(whole)
    assert refusal({"model": "m", "messages": [USER, CALLING, RESULT], "tools": [TOOL], "tool_choice": "auto"}) is None


@pytest.mark.parametrize("end", ["cut", "reset"])
def test_it_breaks_as_told(provider: OpenAIProvider, end: Any) -> None:
    provider.clear()
    gate = Gate()
    provider.script(sse([chunk({"content": "x"}), gate], done=False, end=end))
    with socket.create_connection(("127.0.0.1", provider.port), timeout=10) as peer:
        body = json.dumps({"model": "m", "messages": [USER], "stream": True}).encode()
        peer.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                     b"content-length: %d\r\n\r\n%b" % (len(body), body))
        received = b""
        while b"data:" not in received:
            received += peer.recv(65536)
        gate.open()
        if end == "reset":
            with pytest.raises(ConnectionResetError):
                read_all(peer)
        else:
            received += read_all(peer)
            assert not received.endswith(b"0\r\n\r\n")


def read_all(peer: socket.socket) -> bytes:
    received = b""
    while data := peer.recv(65536):
        received += data
    return received


def test_it_sees_a_peer_that_leaves(provider: OpenAIProvider) -> None:
    provider.clear()
    provider.script(raw([b"data: x\n\n"], end="hang"))
    with socket.create_connection(("127.0.0.1", provider.port), timeout=10) as peer:
        body = json.dumps({"model": "m", "messages": [USER], "stream": True}).encode()
        peer.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                     b"content-length: %d\r\n\r\n%b" % (len(body), body))
        assert peer.recv(10)
    assert provider.wait_for(1).exchange.closed.wait(5)
