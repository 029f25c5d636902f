"""OpenAI clients at OpenAI: the request passes byte for byte, and is re-encoded where OpenAI would refuse it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.translation.exchange import Translation
from tests.providers.openai_rules import refusal

CALL: dict[str, Any] = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{ "at" : 1 }'}}
USER: dict[str, Any] = {"role": "user", "content": "hi"}
CALLED: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None, "tool_calls": [CALL]}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "a bay"}]}
IMAGE: dict[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


def sent_body(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    body = {"model": "m", "messages": list(messages)}
    talk = Translation("openai", "openai", "gpt-4o", provider="openai")
    made = json.loads(talk.request(json.dumps(body).encode()).body)
    found: list[dict[str, Any]] = made["messages"]
    return found


def test_a_valid_conversation_passes_unchanged() -> None:
    second = {**CALL, "id": "call_2"}
    messages = [USER, {**CALLED, "tool_calls": [CALL, second]}, {**RESULT, "tool_call_id": "call_2"}, RESULT,
                {"role": "assistant", "content": "ok", "annotations": []}, {**USER, "name": "mina"}]
    assert sent_body(*messages) == messages, "the order of results is the client's own"


@pytest.mark.parametrize("messages", [
    [USER, {**CALLED, "tool_calls": [{**CALL, "index": 0}]}, RESULT],
    [USER, {**CALLED, "parsed": None}, RESULT],
    [USER, {**CALLED, "tool_calls": [{**CALL, "function": {**CALL["function"], "parsed_arguments": None}}]}, RESULT],
    [USER, CALLED, {**RESULT, "name": "look"}],
    [USER, CALLED, {**RESULT, "content": [*RESULT["content"], IMAGE]}],
    [USER, CALLED, {**RESULT, "tool_call_id": None, "name": "look"}],
    [USER, CALLED],
    [USER, CALLED, USER, RESULT],
    [USER, CALLED, RESULT, RESULT],
    [USER, CALLED, RESULT, CALLED, RESULT],
    [USER, {**CALLED, "tool_calls": [{**CALL, "id": "toolu_" + "x" * 60}]},
     {**RESULT, "tool_call_id": "toolu_" + "x" * 60}],
], ids=["the index of an accumulated call", "what the SDK parsed", "parsed arguments", "the name of a tool",
        "an image in a result", "a lost id", "no result", "a late result", "a repeated result", "a repeated id",
        "a long id"])
def test_p22_invalid_histories_are_mended(messages: list[dict[str, Any]]) -> None:
    assert refusal({"model": "gpt-4o", "messages": messages}) is not None, "valid histories pass"
    made = sent_body(*messages)
    assert refusal({"model": "gpt-4o", "messages": made}) is None
    assert "a bay" in json.dumps(made) or RESULT not in messages
