"""Encrypted reasoning returns byte for byte to its issuer, through every client, and to nobody else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.providers import responses as api
from tests.unit.apis.responses.provider.helpers import (
    PARAMETERS,
    answered,
    blocks,
    decode,
    events_of,
    said,
    sent,
    talk,
)

SEAL = "gAAAAABo+/_-=="
TOOLS = [{"name": "weather", "input_schema": PARAMETERS}]
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}]
CALL = api.function_call("call_1", "weather", {"town": "Ulm"})
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"}]}


def first_turn(*items: Any, client: str = "anthropic", **settings: Any) -> bytes:
    translation = talk(client, **settings)
    tools = TOOLS if client == "anthropic" else CHAT_TOOLS
    sent(said(client, "hi", stream=True, tools=tools), translation=translation)
    return answered(translation, events_of(*items))


def echoed(out: bytes) -> dict[str, Any]:
    return {"role": "assistant", "content": blocks(out)}


def second_turn(out: bytes, **settings: Any) -> list[dict[str, Any]]:
    got = sent(said("anthropic", "hi", echoed(out), RESULT, tools=TOOLS), issued=[SEAL], **settings)
    return [item for item in got["input"] if item["type"] == "reasoning"]


def test_a_messages_client_returns_the_item_with_its_summary() -> None:
    out = first_turn(api.reasoning("Two ", "parts.", encrypted=SEAL), CALL)
    assert [block["type"] for block in blocks(out)] == ["thinking", "tool_use"]
    assert blocks(out)[0]["thinking"] == "Two \n\nparts."
    assert second_turn(out) == [{"type": "reasoning", "encrypted_content": SEAL,
                                 "summary": [{"type": "summary_text", "text": "Two \n\nparts."}]}]


def test_reasoning_without_a_summary_is_a_block_of_its_own() -> None:
    out = first_turn(api.reasoning(encrypted=SEAL), CALL)
    assert [block["type"] for block in blocks(out)] == ["redacted_thinking", "tool_use"]
    assert second_turn(out) == [{"type": "reasoning", "encrypted_content": SEAL, "summary": []}]


def test_reasoning_between_text_and_call_stands_before_the_call() -> None:
    out = first_turn(api.message("Looking."), api.reasoning(encrypted=SEAL, number=1), CALL)
    assert [block["type"] for block in blocks(out)] == ["text", "redacted_thinking", "tool_use"]
    got = sent(said("anthropic", "hi", echoed(out), RESULT, tools=TOOLS), issued=[SEAL])
    assert [item["type"] for item in got["input"]] == ["message", "message", "reasoning", "function_call",
                                                       "function_call_output"]


def test_no_block_of_encrypted_reasoning_ends_a_text() -> None:
    """Clients take the last block for the answer (pain point 8)."""
    out = first_turn(api.message("Done."), api.reasoning(encrypted=SEAL, number=1))
    assert [block["type"] for block in blocks(out)] == ["text"]


def test_reasoning_between_two_calls_returns_in_its_place() -> None:
    other = api.function_call("call_2", "weather", {"town": "Jena"}, number=2)
    out = first_turn(api.reasoning("One.", encrypted="gAAA1"), CALL, api.reasoning(encrypted="gAAA2", number=1), other)
    results = [{"type": "tool_result", "tool_use_id": f"call_{n}", "content": "ok"} for n in (1, 2)]
    got = sent(said("anthropic", "hi", echoed(out), {"role": "user", "content": results}, tools=TOOLS),
               issued=["gAAA1", "gAAA2"])
    assert [item["type"] for item in got["input"][1:5]] == ["reasoning", "function_call", "reasoning", "function_call"]


def chat_message(out: bytes) -> dict[str, Any]:
    """The assistant message that the deltas of a Chat Completions stream amount to, as an SDK puts it together."""
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for line in out.decode().split("\n"):
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:]).get("choices", []):
            delta = choice["delta"]
            for name in ("content", "reasoning_content"):
                if delta.get(name):
                    message[name] = (message.get(name) or "") + delta[name]
            message.setdefault("reasoning_details", []).extend(delta.get("reasoning_details") or [])
            for call in delta.get("tool_calls") or []:
                if "id" in call:
                    message.setdefault("tool_calls", []).append(
                        {"id": call["id"], "type": "function", "function": {**call["function"]}})
                else:
                    message["tool_calls"][-1]["function"]["arguments"] += call["function"]["arguments"]
    return message


@pytest.mark.parametrize("kept", [("reasoning_content", "reasoning_details"), ("reasoning_details",), ()])
@pytest.mark.parametrize("summary", [("Think.",), ()])
def test_a_chat_client_returns_it_in_details_or_in_the_id_of_the_call(kept: tuple[str, ...],
                                                                      summary: tuple[str, ...]) -> None:
    out = first_turn(api.reasoning(*summary, encrypted=SEAL), CALL, client="openai")
    message = chat_message(out)
    for name in {"reasoning_content", "reasoning_details"} - set(kept):
        message.pop(name, None)
    result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "sunny"}
    got = sent(said("openai", "hi", message, result, tools=CHAT_TOOLS), "openai", issued=[SEAL])
    assert [item["type"] for item in got["input"]] == ["message", "reasoning", "function_call", "function_call_output"]
    assert got["input"][1]["encrypted_content"] == SEAL


@pytest.mark.parametrize("elsewhere", [
    {"model": "gpt-5.6-sol"}, {"url": "https://name.openai.azure.com/openai/v1"},
    {"url": "http://127.0.0.1:9/v1", "endpoint": "responses"}])
def test_r15_reasoning_of_another_issuer_is_dropped_and_never_a_400(elsewhere: dict[str, Any]) -> None:
    out = first_turn(api.reasoning("Think.", encrypted=SEAL), CALL)
    assert second_turn(out, **elsewhere) == []


def test_r15_reasoning_of_anthropic_is_dropped() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "ErUBCkYIBxgCIkDh"}
    call = {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}}
    translation = talk()
    got = sent(said("anthropic", "hi", {"role": "assistant", "content": [thinking, call]}, RESULT, tools=TOOLS),
               translation=translation)
    assert [item["type"] for item in got["input"]] == ["message", "function_call", "function_call_output"]
    assert translation.dropped.hints == ["messages.thinking"]


def test_a_dated_version_is_the_same_model() -> None:
    out = first_turn(api.reasoning("Think.", encrypted=SEAL), CALL)
    assert len(second_turn(out, model="gpt-6-sol-2026-09-30")) == 1


def test_r17_reasoning_without_a_follower_is_dropped() -> None:
    out = first_turn(api.reasoning("Think.", encrypted=SEAL), CALL)
    alone = {"role": "assistant", "content": blocks(out)[:1]}
    got = sent(said("anthropic", "hi", alone, "go on", tools=TOOLS), issued=[SEAL])
    assert [item["type"] for item in got["input"]] == ["message", "message"]


def test_raw_reasoning_of_open_models_is_thinking() -> None:
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm ok"}]}
    added = {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}}
    delta = {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 0, "delta": "Hm "}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    end = {"type": "response.completed", "response": api.response([item])}
    from tests.playbook import script

    assert script(decode(added, delta, done, end)) == ["start", "think", "think: Hm ok", "stop", "finish stop"]
