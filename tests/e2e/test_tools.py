"""Tool calls: the cycle over turns, every deviation of a provider's deltas, ids, names, schemas and tool_choice."""

from __future__ import annotations

import re
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.wire import HELLO, blocks_of, payload, post, stream
from tests.providers.http import Reply
from tests.providers.openai import OpenAIProvider, call_arguments, call_start, calls, chunk, completion, sse, text
from tests.providers.openai import stream as deltas

WEATHER: Any = {
    "name": "weather", "description": "The weather of a town",
    "input_schema": {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}}
NOW: Any = {"name": "now", "description": "The time", "input_schema": {"type": "object"}}
TOOLS: list[Any] = [WEATHER, NOW]
LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")


def call_blocks(gateway: Gateway, provider: OpenAIProvider, reply: Reply, **fields: Any) -> list[dict[str, Any]]:
    """The tool_use blocks that the client gets for `reply`, in a stream that obeys the grammar."""
    provider.script(reply)
    with stream(gateway.base_url, {"tools": TOOLS, **fields}) as answer:
        events = answer.read()
    assert events[-1]["type"] == "message_stop", events[-1]
    blocks = [block for block in blocks_of(events) if block["type"] == "tool_use"]
    assert events[-2]["delta"]["stop_reason"] == ("tool_use" if blocks else "end_turn")
    ids = [block["id"] for block in blocks]
    assert len(set(ids)) == len(ids), "ids must be unique"
    assert all(LEGAL_ID.fullmatch(id_) for id_ in ids), ids
    return blocks


def test_three_turns_with_parallel_calls(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(
        calls(("call_a", "weather", {"town": "Ulm"}), ("call_b", "weather", {"town": "Jena"}), content="Looking."),
        calls(("call_c", "now", "")),
        text("Sunny in both, at noon."))
    messages: list[Any] = [{"role": "user", "content": "Weather in Ulm and Jena?"}]
    turns: list[list[Any]] = [["18 degrees", [{"type": "text", "text": "17 degrees"}]], [None], []]
    for results in turns:
        with sdk.messages.stream(model="claude-test", max_tokens=500, messages=messages, tools=TOOLS) as answer:
            message = answer.get_final_message()
        used = [block for block in message.content if block.type == "tool_use"]
        assert message.stop_reason == ("tool_use" if results else "end_turn")
        assert len(used) == len(results)
        messages.append({"role": "assistant", "content": message.model_dump(exclude_none=True)["content"]})
        answers = [{"type": "tool_result", "tool_use_id": block.id,
                    **({} if result is None else {"content": result})}
                   for block, result in zip(used, results, strict=True)]
        messages.append({"role": "user", "content": answers})
    assert message.content[0].type == "text"
    assert message.content[0].text == "Sunny in both, at noon."
    second, third = provider.seen[1], provider.seen[2]
    assert second.roles() == ["user", "assistant", "tool", "tool"]
    assert [m["content"] for m in second.messages[2:]] == ["18 degrees", "17 degrees"]
    assert third.roles() == ["user", "assistant", "tool", "tool", "assistant", "tool"]
    assert third.raw.startswith(second.raw[:200]), "the prefix of the conversation must not change between turns"
    called = [call["id"] for m in third.messages for call in m.get("tool_calls", ())]
    answered = [m["tool_call_id"] for m in third.messages if m["role"] == "tool"]
    assert called == answered
    assert third.messages[-1]["content"], "an empty result needs a placeholder"
    assert [call["function"]["arguments"] for call in third.messages[4]["tool_calls"]] == ["{}"]


def test_whole_tool_calls(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(calls(("call_a", "weather", {"town": "Ulm"}), ("call_b", "now", "")))
    message = sdk.messages.create(model="claude-test", max_tokens=500, messages=HELLO, tools=TOOLS)
    assert message.stop_reason == "tool_use"
    assert [(b.name, b.input) for b in message.content if b.type == "tool_use"] == [
        ("weather", {"town": "Ulm"}), ("now", {})]


# ------------------------------------------------------------------------------------- deviations of the deltas
def test_p03_whitespace_between_calls(gateway: Gateway, provider: OpenAIProvider) -> None:
    blocks = call_blocks(gateway, provider, deltas([
        call_start(0, "a", "weather"), call_arguments(0, '{"town":"U'), call_arguments(0, 'lm"}'), {"content": "\n"},
        call_start(1, "b", "weather"), call_arguments(1, '{"town":"Jena"}')], finish="tool_calls"))
    assert [b["input"] for b in blocks] == [{"town": "Ulm"}, {"town": "Jena"}]


def test_p04_no_fragment_is_lost(gateway: Gateway, provider: OpenAIProvider) -> None:
    """Text and a call in one chunk, two calls in one chunk, arguments in the opening chunk."""
    both = {"content": "text", "tool_calls": [
        {"index": 0, "id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"town":'}},
        {"index": 1, "id": "b", "type": "function", "function": {"name": "weather", "arguments": '{"town":"Jena"'}}]}
    blocks = call_blocks(gateway, provider, deltas(
        [both, call_arguments(0, '"Ulm"}'), call_arguments(1, "}")], finish="tool_calls"))
    assert [b["input"] for b in blocks] == [{"town": "Ulm"}, {"town": "Jena"}]


def test_p05_interleaved_calls_are_put_in_sequence(gateway: Gateway, provider: OpenAIProvider) -> None:
    blocks = call_blocks(gateway, provider, deltas([
        call_start(0, "a", "weather"), call_start(1, "b", "weather"), call_arguments(0, '{"town"'),
        call_arguments(1, '{"town":"Je'), call_arguments(0, ':"Ulm"}'), call_arguments(1, 'na"}')],
        finish="tool_calls"))
    assert [b["input"] for b in blocks] == [{"town": "Ulm"}, {"town": "Jena"}]


@pytest.mark.parametrize("indices", [(0, 0), (None, None), (3, 7), (1, 2)])
def test_p05_same_missing_or_sparse_index(gateway: Gateway, provider: OpenAIProvider, indices: Any) -> None:
    blocks = call_blocks(gateway, provider, deltas([
        call_start(indices[0], "a", "weather", '{"town":"Ulm"}'), call_start(indices[1], "b", "now", "{}")],
        finish="tool_calls"))
    assert [(b["name"], b["input"]) for b in blocks] == [("weather", {"town": "Ulm"}), ("now", {})]


@pytest.mark.parametrize("id_", [None, "", "null"])
def test_p05_missing_ids_are_minted(gateway: Gateway, provider: OpenAIProvider, id_: str | None) -> None:
    reply = [call_start(0, id_, "weather", '{"town":"Ulm"}'), call_start(1, id_, "now", "")]
    blocks = call_blocks(gateway, provider, deltas(reply, finish="tool_calls"))
    assert [b["name"] for b in blocks] == ["weather", "now"]
    assert "null" not in [b["id"] for b in blocks]
    again = call_blocks(gateway, provider, deltas(reply, finish="tool_calls"))
    assert {b["id"] for b in again}.isdisjoint(b["id"] for b in blocks), "two equal requests are two"


def test_p05_id_and_name_in_every_chunk(gateway: Gateway, provider: OpenAIProvider) -> None:
    blocks = call_blocks(gateway, provider, deltas([
        call_start(0, "a", "weather", '{"to'), call_start(0, "a", "weather", 'wn":"U'),
        call_start(0, "a", "weather", 'lm"}')], finish="tool_calls"))
    assert [(b["name"], b["input"]) for b in blocks] == [("weather", {"town": "Ulm"})]


def test_p05_empty_id_and_name_later(gateway: Gateway, provider: OpenAIProvider) -> None:
    blocks = call_blocks(gateway, provider, deltas([
        call_start(0, "a", "weather", '{"to'), call_start(0, "", "", 'wn":"Ulm"}')], finish="tool_calls"))
    assert [(b["name"], b["input"]) for b in blocks] == [("weather", {"town": "Ulm"})]


def test_p05_a_name_in_two_pieces(gateway: Gateway, provider: OpenAIProvider) -> None:
    blocks = call_blocks(gateway, provider, deltas([
        call_start(0, "a", "wea", ""), {"tool_calls": [{"index": 0, "function": {"name": "ther"}}]},
        call_arguments(0, '{"town":"Ulm"}')], finish="tool_calls"))
    assert [(b["name"], b["input"]) for b in blocks] == [("weather", {"town": "Ulm"})]


@pytest.mark.parametrize(("arguments", "expected"), [
    ("", {}), (None, {}), ({"town": "Ulm"}, {"town": "Ulm"}), ('{}{"town":"Ulm"}', {"town": "Ulm"}),
    ('{"town":"Ulm"', {"town": "Ulm"}),
], ids=["empty", "null", "object", "stray-prefix", "unclosed"])
@pytest.mark.parametrize("streamed", [True, False])
def test_p06_p24_odd_arguments(gateway: Gateway, provider: OpenAIProvider, arguments: Any, expected: Any,
                               streamed: bool) -> None:
    if streamed:
        reply = deltas([call_start(0, "a", "weather", arguments)], finish="tool_calls")
    else:
        reply = completion({"role": "assistant", "content": None, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": arguments}}]},
            finish="tool_calls")
    assert [b["input"] for b in call_blocks(gateway, provider, reply)] == [expected]


@pytest.mark.parametrize("finish", ["stop", "", "tool_calls", "function_call"])
def test_p06_finish_reason_with_calls(gateway: Gateway, provider: OpenAIProvider, finish: str) -> None:
    blocks = call_blocks(gateway, provider, deltas([call_start(0, "a", "now", "{}")], finish=finish))
    assert [b["name"] for b in blocks] == ["now"]


def test_p06_finish_tool_calls_without_calls(gateway: Gateway, provider: OpenAIProvider) -> None:
    assert call_blocks(gateway, provider, deltas([{"content": "no call"}], finish="tool_calls")) == []


def test_legacy_function_call(gateway: Gateway, provider: OpenAIProvider) -> None:
    blocks = call_blocks(gateway, provider, deltas([
        {"function_call": {"name": "weather", "arguments": '{"town":'}}, {"function_call": {"arguments": '"Ulm"}'}}],
        finish="function_call"))
    assert [(b["name"], b["input"]) for b in blocks] == [("weather", {"town": "Ulm"})]


def test_message_in_place_of_delta_and_null_choices(gateway: Gateway, provider: OpenAIProvider) -> None:
    call = call_start(0, "a", "weather", '{"town":"Ulm"}')
    items = [{**chunk(), "choices": None}, {**chunk(), "choices": [{"index": 0, "delta": None}]},
             {**chunk(), "choices": [{"index": 0, "message": {"role": "assistant", **call}, "finish_reason": "stop"}]}]
    assert [b["input"] for b in call_blocks(gateway, provider, sse(items))] == [{"town": "Ulm"}]


def test_p01_a_truncated_call_is_never_closed(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(sse([chunk(call_start(0, "a", "weather", '{"town":"U'))], done=False))
    with stream(gateway.base_url, {"tools": TOOLS}) as answer:
        events = answer.read()
    assert events[-1]["type"] == "error"
    assert "content_block_stop" not in [e["type"] for e in events]


def test_end_of_file_after_complete_arguments_is_an_end(gateway: Gateway, provider: OpenAIProvider) -> None:
    """Some proxies end a stream without finish chunk and [DONE]; a call whose JSON is balanced is then complete."""
    reply = sse([chunk(call_start(0, "a", "weather", '{"town":"Ulm"}'))], done=False)
    assert [b["input"] for b in call_blocks(gateway, provider, reply)] == [{"town": "Ulm"}]


# ------------------------------------------------------------------------------------------------- ids and names
def test_p05_repeated_ids_over_turns_become_unique(gateway: Gateway, provider: OpenAIProvider) -> None:
    """`call_0` in every turn sends Claude Code into an endless loop."""
    messages: list[dict[str, Any]] = list(HELLO)
    ids: list[str] = []
    for _ in range(3):
        block = call_blocks(gateway, provider, deltas([call_start(0, "call_0", "now", "{}")], finish="tool_calls"),
                            messages=messages)[0]
        ids.append(block["id"])
        messages += [{"role": "assistant", "content": [block]}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": block["id"], "content": "noon"}]}]
    assert len(set(ids)) == 3, ids


@pytest.mark.parametrize("id_", ["functions.weather:0", "chatcmpl-tool-" + "0123456789abcdef" * 4, "a b"])
def test_p22_ids_legal_for_the_client_and_back(gateway: Gateway, provider: OpenAIProvider, id_: str) -> None:
    block = call_blocks(gateway, provider, deltas([call_start(0, id_, "now", "{}")], finish="tool_calls"))[0]
    provider.script(text("done"))
    answer = post(gateway.base_url, payload(tools=TOOLS, messages=[
        *HELLO, {"role": "assistant", "content": [block]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": "noon"}]}]))
    assert answer.status == 200, answer.body
    sent = provider.last.messages
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]


def test_p22_client_ids_that_are_too_long_for_the_provider(gateway: Gateway, provider: OpenAIProvider) -> None:
    long_ids = ["toolu_" + "x" * 60 + end for end in ("1", "2")]
    provider.script(text("done"))
    assert post(gateway.base_url, payload(tools=TOOLS, messages=[
        *HELLO,
        {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "now", "input": {}} for i in long_ids]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": i[-1]} for i in long_ids]},
    ])).status == 200
    assert [m["content"] for m in provider.last.messages if m["role"] == "tool"] == ["1", "2"]


def test_p22_long_and_odd_names_are_mapped_and_restored(gateway: Gateway, provider: OpenAIProvider) -> None:
    prefix = "mcp__server__" + "x" * 64
    names = [f"{prefix}_one", f"{prefix}_two", "plain", "dots.and/slashes"]
    tools = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in names]
    provider.always(lambda seen: deltas(
        [call_start(i, f"c{i}", tool["function"]["name"], "{}") for i, tool in enumerate(seen.body["tools"])],
        finish="tool_calls"))
    with stream(gateway.base_url, {"tools": tools}) as answer:
        blocks = blocks_of(answer.read())
    assert [b["name"] for b in blocks] == names
    history = [*HELLO, {"role": "assistant", "content": blocks}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": b["id"], "content": "ok"} for b in blocks]}]
    provider.script(text("done"))
    post(gateway.base_url, payload(tools=tools, messages=history,
                                   tool_choice={"type": "tool", "name": names[1]}))
    sent = provider.last.body
    offered = [tool["function"]["name"] for tool in sent["tools"]]
    assert [call["function"]["name"] for call in sent["messages"][1]["tool_calls"]] == offered
    assert sent["tool_choice"]["function"]["name"] == offered[1]
    assert offered[2] == "plain"


# ------------------------------------------------------------------------------------------ tool_choice and schemas
@pytest.mark.parametrize(("choice", "expected"), [
    ({"type": "auto"}, "auto"), ({"type": "any"}, "required"), ({"type": "none"}, "none"),
    ({"type": "tool", "name": "now"}, {"type": "function", "function": {"name": "now"}}),
])
def test_p24_tool_choice(gateway: Gateway, provider: OpenAIProvider, choice: Any, expected: Any) -> None:
    provider.script(text("ok"))
    assert post(gateway.base_url, payload(tools=TOOLS, tool_choice=choice)).status == 200
    assert provider.last.body.get("tool_choice", "auto") == expected
    assert len(provider.last.body["tools"]) == 2
    assert "parallel_tool_calls" not in provider.last.body


def test_p24_disable_parallel(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"), text("ok"))
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    assert post(gateway.base_url, payload(tools=TOOLS, tool_choice=choice)).status == 200
    assert provider.last.body["parallel_tool_calls"] is False
    assert post(gateway.base_url, payload(tool_choice={"type": "none"})).status == 200
    assert {"tools", "tool_choice", "parallel_tool_calls"}.isdisjoint(provider.last.body)


def test_p24_schemas_that_the_provider_would_refuse(gateway: Gateway, provider: OpenAIProvider) -> None:
    schemas: list[dict[str, Any]] = [
        {"type": "object"}, {"type": "object", "properties": {}, "required": None},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
         "properties": {"a": {"type": ["integer", "null"], "exclusiveMinimum": 0}, "b": {"type": "array"},
                        "c": {"const": 1}, "d": {"enum": [1, None, "x"]}, "e": {"$ref": "#/$defs/n"}},
         "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}},
        {"oneOf": [{"type": "object", "properties": {"x": {"type": "string"}}},
                   {"type": "object", "properties": {"y": {"type": "string"}}}]},
    ]
    provider.script(text("ok"))
    answer = post(gateway.base_url, payload(tools=[
        {"name": f"t{i}", "input_schema": schema} for i, schema in enumerate(schemas)]))
    assert answer.status == 200, answer.body
    sent = [tool["function"]["parameters"] for tool in provider.last.body["tools"]]
    assert list(sent[2]["properties"]) == ["a", "b", "c", "d", "e"], "property names are untouched"


def test_p24_max_tokens_is_clamped(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"), text("ok"))
    post(gateway.base_url, payload("claude-clamped", max_tokens=128000))
    assert provider.last.body["max_tokens"] == 100
    post(gateway.base_url, payload("claude-clamped", max_tokens=10))
    assert provider.last.body["max_tokens"] == 10


def test_p24_official_profile(gateway: Gateway, provider: OpenAIProvider) -> None:
    """OpenAI itself: max_completion_tokens; reasoning models take no temperature."""
    provider.script(text("ok"))
    answer = post(gateway.base_url, payload("claude-official", temperature=0.2, metadata={"user_id": "u" * 150}))
    assert answer.status == 200, answer.body
    assert provider.last.body["max_completion_tokens"] == 256
    assert provider.last.body["model"] == "gpt-5"
    assert len(provider.last.body.get("user", "")) <= 64
