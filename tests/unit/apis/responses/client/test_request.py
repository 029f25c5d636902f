"""Responses requests -> the conversation model. R-numbers are those of the reference on this API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.responses.client import API
from extproc.apis.responses.client.envelopes import pack_summary, pack_thinking
from extproc.apis.responses.client.items import SUMMARY_HEAD
from extproc.bounds import Limits
from extproc.conversation.model import (
    Media,
    OutputFormat,
    ServerTool,
    Signature,
    Text,
    Thinking,
    ThinkingConfig,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from extproc.conversation.signatures import embed_in_id
from extproc.conversation.tool_results import GO_ON, pair
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from tests.unit.apis.responses.client.helpers import HI, blocks, custom, decode, function, namespace

CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a": 1}',
        "status": "completed"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}


def reasoning(content: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": content, **fields}


def said(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}], "phase": "commentary"}


def refusal(*items: dict[str, Any], **fields: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        decode(*items, **fields)
    return caught.value


# ------------------------------------------------------------------------------------------------------------ messages


def test_a_text_is_one_message() -> None:
    request = API.decode_request(b'{"model":"m","input":"hi"}', {}, Dropped(), Limits())
    assert [(message.role, message.content) for message in request.messages] == [("user", [Text("hi")])]


def test_r26_instructions_and_leading_developer_messages_are_the_system_prompt() -> None:
    developer = {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]}
    request = decode(developer, {**developer, "role": "system"}, HI, developer, instructions="i")
    assert request.system == [Text("i"), Text("d"), Text("d")]
    assert blocks(request) == [("user", [Text("hi")]), ("system", [Text("d")])]


def test_neighbouring_messages_of_the_user_are_one() -> None:
    assert blocks(decode(HI, {"role": "user", "content": [{"type": "input_text", "text": "you"}]})) == [
        ("user", [Text("hi"), Text("you")])]


def test_parts() -> None:
    content = [{"type": "input_text", "text": "see"}, {"type": "input_text", "text": ""},
               {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"},
               {"type": "input_image", "image_url": "https://x.example/a.png"},
               {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,BBBB"},
               {"type": "input_audio", "input_audio": {"data": "CCCC", "format": "wav"}}]
    [(_, found)] = blocks(decode({"role": "user", "content": content}))
    assert found == [
        Text("see"), Media("image", media_type="image/png", data="AAAA", detail="high"),
        Media("image", url="https://x.example/a.png"),
        Media("document", media_type="application/pdf", data="BBBB", title="a.pdf"),
        Media("audio", media_type="audio/wav", data="CCCC")]


def test_r22_empty_parts_and_null_contents_say_nothing() -> None:
    dropped = Dropped()
    items = [HI, reasoning(pack_thinking(Thinking("t"))), {"role": "assistant", "content": []},
             {"type": "message", "role": "assistant", "content": None}, CALL, OUTPUT, {"role": "user", "content": []}]
    assert blocks(decode(*items, dropped=dropped)) == [
        ("user", [Text("hi")]), ("assistant", [Thinking("t"), ToolCall("c1", "f", '{"a": 1}')]),
        ("user", [ToolResult("c1", [Text("done")])])]
    assert (dropped.losses, dropped.hints) == ([], [])


def test_an_input_that_ends_with_the_models_words_is_followed_by_a_request_to_go_on() -> None:
    assert blocks(decode(HI, said("half")))[1:] == [("assistant", [Text("half")]), ("user", [Text(GO_ON)])]


# --------------------------------------------------------------------------------------------------- calls and results


def test_everything_between_two_outputs_is_one_turn() -> None:
    items = [HI, reasoning(pack_thinking(Thinking("t", signature="s"))), said("Looking."), CALL,
             {**CALL, "call_id": "c2"}, OUTPUT, {**OUTPUT, "call_id": "c2"}, said("Done."), HI]
    assert [(role, [type(block).__name__ for block in content]) for role, content in blocks(decode(*items))] == [
        ("user", ["Text"]), ("assistant", ["Thinking", "Text", "ToolCall", "ToolCall"]),
        ("user", ["ToolResult", "ToolResult"]), ("assistant", ["Text"]), ("user", ["Text"])]


@pytest.mark.parametrize("between", [said("by the way"), HI, {"role": "developer", "content": "note"}])
def test_r19_a_message_between_call_and_output(between: dict[str, Any]) -> None:
    turns = pair(decode(HI, CALL, between, OUTPUT).messages, Dropped())
    [exchange] = [exchange for turn in turns for exchange in turn.exchanges]
    assert exchange.result is not None
    assert exchange.result.content == [Text("done")]


def test_r28_the_same_call_id_in_two_turns() -> None:
    turns = pair(decode(HI, CALL, OUTPUT, CALL, {**OUTPUT, "output": "again"}).messages, Dropped())
    exchanges = [exchange for turn in turns for exchange in turn.exchanges]
    assert len({exchange.call.id for exchange in exchanges}) == 2
    assert [exchange.result.content for exchange in exchanges if exchange.result] == [[Text("done")], [Text("again")]]


def test_an_output_without_its_call_is_text_and_a_call_without_its_output_an_error() -> None:
    dropped = Dropped()
    assert blocks(decode(HI, OUTPUT, dropped=dropped)) == [
        ("user", [Text("hi"), Text("[result of the tool call c1]"), Text("done")])]
    assert dropped.hints == ["tool_result.without_call"]
    [exchange] = [exchange for turn in pair(decode(HI, CALL).messages, Dropped()) for exchange in turn.exchanges]
    assert exchange.result is not None
    assert exchange.result.is_error


def test_several_outputs_of_one_call_are_joined() -> None:
    items = [HI, CALL, OUTPUT, {**OUTPUT, "output": "more"}]
    [exchange] = [exchange for turn in pair(decode(*items).messages, Dropped()) for exchange in turn.exchanges]
    assert exchange.result is not None
    assert exchange.result.content == [Text("done"), Text("more")]


def test_r21_an_output_with_an_image() -> None:
    output = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:image/png;base64,AA=="}]
    [*_, (_, [result])] = blocks(decode(HI, CALL, {**OUTPUT, "output": output}))
    assert result == ToolResult("c1", [Text("see"), Media("image", media_type="image/png", data="AA==")])


@pytest.mark.parametrize(("output", "expected"), [
    ("", []), (None, []), ({"a": 1}, [Text('{"a":1}')]), ([1, 2], [Text("[1,2]")]), (5, [Text("5")])])
def test_outputs_of_other_forms_are_text(output: Any, expected: list[Text]) -> None:
    body = json.dumps({"model": "m", "input": [HI, CALL, {**OUTPUT, "output": output}]}, separators=(",", ":"))
    request = API.decode_request(body.encode(), {}, Dropped(), Limits())
    [result] = request.messages[-1].content
    assert isinstance(result, ToolResult)
    assert result.content == expected


def test_signatures_in_the_ids_of_calls_come_back() -> None:
    long_id = embed_in_id("c1", Signature("SIG", "orig"))
    request = decode(HI, {**CALL, "call_id": long_id}, {**OUTPUT, "call_id": long_id})
    assert blocks(request)[1:] == [
        ("assistant", [ToolCall("c1", "f", '{"a": 1}', signature=Signature("SIG", "orig"))]),
        ("user", [ToolResult("c1", [Text("done")])])]


def test_calls_of_all_types_become_calls_of_functions() -> None:
    tools = [custom("patch"), {"type": "tool_search", "execution": "client"}, {"type": "local_shell"},
             {"type": "shell"}, {"type": "apply_patch"}, namespace("ns", function("g"))]
    items = [
        {"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": 'a "b"\n'},
        {"type": "tool_search_call", "call_id": "2", "execution": "client", "arguments": {"query": "x"}},
        {"type": "local_shell_call", "id": "lsh", "call_id": "3", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "shell_call", "call_id": "4", "action": {"commands": ["ls"], "timeout_ms": None}},
        {"type": "apply_patch_call", "call_id": "5", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "function_call", "call_id": "6", "name": "g", "namespace": "ns", "arguments": "{}"}]
    request = decode(HI, *items, HI, tools=tools)
    calls = [block for block in request.messages[1].content if isinstance(block, ToolCall)]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("patch", {"input": 'a "b"\n'}), ("tool_search", {"query": "x"}), ("local_shell", {"command": ["ls"]}),
        ("shell", {"commands": ["ls"]}), ("apply_patch", {"operation": {"type": "delete_file", "path": "a"}}),
        ("ns__g", {})]


def test_outputs_of_shells_and_patches() -> None:
    items = [
        {"type": "shell_call", "call_id": "1", "action": {"commands": ["a", "b"]}},
        {"type": "apply_patch_call", "call_id": "2", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "shell_call_output", "call_id": "1", "output": [
            {"stdout": "out", "stderr": "err", "outcome": {"type": "exit", "exit_code": 1}},
            {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}]},
        {"type": "apply_patch_call_output", "call_id": "2", "status": "failed", "output": "no such file"}]
    [*_, (_, found)] = blocks(decode(HI, *items))
    assert found == [ToolResult("1", [Text("out\nerr\nexit code: 1"), Text("timeout")]),
                     ToolResult("2", [Text("no such file")], is_error=True)]


# --------------------------------------------------------------------------------------------------------------- tools


def test_r2_r5_members_of_a_namespace_get_flat_names_of_any_length() -> None:
    request = decode(tools=[function("f"), namespace("mcp__server", function("x" * 72))])
    assert [(tool.name, tool.namespace, tool.member) for tool in request.tools] == [
        ("f", None, None), ("mcp__server__" + "x" * 72, "mcp__server", "x" * 72)]


def test_a_flat_name_that_another_tool_has_is_another_one() -> None:
    request = decode(tools=[namespace("a", function("b")), function("a__b"), namespace("a__", function("b"))])
    names = [tool.name for tool in request.tools]
    assert len(set(names)) == 3
    assert names[1] == "a__b"


def test_r3_tools_inside_the_input_are_tools_of_the_request() -> None:
    items = [{"type": "additional_tools", "role": "developer", "tools": [namespace("functions", custom("exec"))]}, HI,
             {"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {"query": "x"}},
             {"type": "tool_search_output", "call_id": "1", "execution": "client", "status": "completed", "tools": [
                 namespace("mcp", function("get", defer_loading=True))]}]
    request = decode(*items, tools=[function("f")])
    assert [(tool.name, tool.custom, tool.deferred) for tool in request.tools] == [
        ("f", False, False), ("functions__exec", True, False), ("mcp__get", False, False)]
    assert request.messages[-1].content == [ToolResult("1", [Text("Tools that are available now: mcp__get")])]


def test_r4_tools_that_only_openai_runs_are_kept_apart() -> None:
    request = decode(tools=[function("f"), {"type": "web_search"}, {"type": "mcp", "server_label": "x"}])
    assert [tool.name for tool in request.tools] == ["f"]
    assert [(tool.api, tool.type) for tool in request.server_tools] == [("responses", "web_search"),
                                                                        ("responses", "mcp")]
    assert isinstance(request.server_tools[0], ServerTool)


def test_a_tool_that_comes_again_counts_once() -> None:
    again = {"type": "additional_tools", "role": "developer", "tools": [function("f", description="new")]}
    assert [(tool.name, tool.description) for tool in decode(again, HI, tools=[function("f")] * 2).tools] == [
        ("f", "new")]
    assert "tools[1]" in str(refusal(tools=[function("f"), function("f", description="other")]))


@pytest.mark.parametrize(("choice", "expected"), [
    ("auto", ToolChoice("auto")), ("none", ToolChoice("none")), ("required", ToolChoice("required")),
    ({"type": "function", "name": "f"}, ToolChoice("tool", "f")),
    ({"type": "function", "name": "g", "namespace": "ns"}, ToolChoice("tool", "ns__g")),
    ({"type": "custom", "name": "c"}, ToolChoice("tool", "c")), ({"type": "shell"}, ToolChoice("tool", "shell")),
    ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
     ToolChoice("required", allowed=("f",))),
    ({"type": "web_search"}, None)])
def test_tool_choice(choice: Any, expected: ToolChoice | None) -> None:
    tools = [function("f"), namespace("ns", function("g")), custom("c"), {"type": "shell"}, {"type": "web_search"}]
    assert decode(tools=tools, tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize("choice", [{"type": "function", "name": "x"}, {"type": "file_search"}, "sometimes"])
def test_a_choice_of_a_tool_that_is_not_there_is_refused(choice: Any) -> None:
    assert str(refusal(tools=[function("f")], tool_choice=choice)).startswith("tool_choice")


# ----------------------------------------------------------------------------------------------------------- reasoning


def test_r14_reasoning_comes_back_byte_for_byte() -> None:
    for block in (Thinking("t ≈ ✓", signature="S+/=="), Thinking("", redacted="EnC"), Thinking("only text")):
        request = decode(HI, reasoning(pack_thinking(block)), CALL, OUTPUT)
        assert request.messages[1].content[0] == block


@pytest.mark.parametrize("content", [
    "gAAAAABforeign", None, "", "xr1.", "xr1.0000.AAAA", pack_thinking(Thinking("t"))[:-3],
    pack_thinking(Thinking("t")).replace("W", "V", 1)])
def test_r15_r16_reasoning_of_others_and_damaged_reasoning_is_left_out(content: str | None) -> None:
    dropped = Dropped()
    request = decode(HI, reasoning(content), CALL, OUTPUT, dropped=dropped)
    assert [type(block) for block in request.messages[1].content] == [ToolCall]
    assert dropped.hints == ["input.reasoning"]


def test_r17_reasoning_that_stands_alone_is_left_out() -> None:
    alone = reasoning(pack_thinking(Thinking("t")))
    assert blocks(decode(HI, alone, HI)) == [("user", [Text("hi"), Text("hi")])]
    assert blocks(decode(HI, alone)) == [("user", [Text("hi")])]


@pytest.mark.parametrize(("sent", "expected", "reads"), [
    ({"effort": "high"}, ThinkingConfig(effort="high"), False), ({"effort": "none"}, ThinkingConfig("disabled"), False),
    ({"summary": "auto"}, None, True), ({"effort": "low", "summary": "detailed"}, ThinkingConfig(effort="low"), True),
    (None, None, False)])
def test_settings_of_reasoning(sent: Any, expected: ThinkingConfig | None, reads: bool) -> None:
    request = decode(reasoning=sent)
    assert (request.thinking, request.reads_reasoning) == (expected, reads)


def test_the_last_configuration_update_counts() -> None:
    update = {"type": "configuration_update", "reasoning": {"effort": "high"}}
    assert decode(HI, {**update, "reasoning": {"effort": "low"}}, update,
                  reasoning={"effort": "medium"}).thinking == ThinkingConfig(effort="high")


# ---------------------------------------------------------------------------------------------------------- parameters


def test_structured_output() -> None:
    schema = {"type": "object", "properties": {}}
    wanted = {"type": "json_schema", "name": "n", "strict": True, "schema": schema}
    assert decode(text={"format": wanted, "verbosity": "low"}).output_format == OutputFormat(schema, "n", True)
    assert decode(text={"format": {"type": "json_object"}}).output_format == OutputFormat(None)
    assert decode(text={"format": {"type": "text"}}).output_format is None


def test_what_only_openai_understands_goes_to_extra_and_private_fields_nowhere() -> None:
    dropped = Dropped()
    request = decode(prompt_cache_key="k", client_metadata={"id": "machine"}, include=["reasoning.encrypted_content"],
                     store=False, metadata={"a": "b"}, new_field=1, dropped=dropped)
    assert set(request.extra) == {"prompt_cache_key", "metadata", "new_field"}
    assert "client_metadata" not in request.echo
    assert (dropped.losses, dropped.hints) == ([], [])


@pytest.mark.parametrize("store", [True, False, None])
def test_r32_store_of_any_value_is_accepted(store: bool | None) -> None:
    assert decode(store=store).messages


# ---------------------------------------------------------------------------------------------------------- compaction


def test_r24_a_compaction_trigger_asks_for_a_summary_without_tools() -> None:
    request = decode(HI, CALL, OUTPUT, {"type": "compaction_trigger"}, tools=[function("f")], tool_choice="auto")
    assert request.compaction
    assert (request.tools, request.tool_choice) == ([], None)
    assert request.messages[-1].role == "user"


def test_a_compaction_comes_back_as_the_summary() -> None:
    item = {"type": "compaction", "id": "cmp_1", "encrypted_content": pack_summary("They met.")}
    assert blocks(decode(item, HI)) == [("user", [Text(SUMMARY_HEAD + "They met."), Text("hi")])]
    refused = refusal({**item, "encrypted_content": "gAAAforeign"}, HI)
    assert refused.failure.code == "invalid_encrypted_content"


# ----------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(("fields", "code"), [
    ({"previous_response_id": "resp_1"}, "previous_response_not_found"),
    ({"conversation": {"id": "conv_1"}}, "unsupported_parameter"),
    ({"conversation": "conv_1"}, "unsupported_parameter"),
    ({"prompt": {"id": "pmpt_1"}}, "unsupported_parameter"), ({"background": True}, "unsupported_parameter")])
def test_r33_what_needs_a_store_is_refused_with_its_name(fields: dict[str, Any], code: str) -> None:
    refused = refusal(**fields)
    assert refused.failure.code == code
    assert str(refused).startswith(f"{next(iter(fields))}: ")


def test_r33_a_reference_to_an_item_is_refused_with_its_place() -> None:
    refused = refusal(HI, {"type": "item_reference", "id": "rs_1"})
    assert (str(refused)[:9], refused.failure.status) == ("input[1]:", 400)


def test_an_item_of_an_unknown_type_is_left_out_and_named() -> None:
    dropped = Dropped()
    request = decode(HI, {"type": "hologram", "content": {"depth": 3}, "tools": 5}, dropped=dropped)
    assert blocks(request) == [("user", [Text("hi")])]
    assert dropped.losses == ["input.hologram"]


def test_unknown_fields_are_named_and_those_of_codex_are_not() -> None:
    dropped = Dropped()
    decode({**HI, "internal_chat_message_metadata_passthrough": {"a": 1}, "color": "red"}, dropped=dropped)
    assert dropped.hints == ["input.message.color"]


@pytest.mark.parametrize(("body", "place"), [
    (b"", "the body is empty"), (b"[]", "the body"), (b'{"model":"m","input":[', "the body is not valid JSON"),
    (b'{"model":"m"}', "input"), (b'{"model":"m","input":[]}', "input"), (b'{"model":"m","input":5}', "input"),
    (b'{"input":"hi"}', "model"), (b'{"model":"m","input":[5]}', "input[0]"),
    (b'{"model":"m","input":[{"role":"user","content":[{"type":"input_image"}]}]}', "input[0].content[0].image_url"),
    (b'{"model":"m","input":[{"role":"user","content":[{"text":5}]}]}', "input[0].content[0].text"),
    (b'{"model":"m","input":[{"role":"wizard","content":"x"}]}', "input[0].role"),
    (b'{"model":"m","input":[{"type":"function_call","call_id":"c","arguments":"{}"}]}', "input[0].name"),
    (b'{"model":"m","input":"hi","tools":[{"type":"function"}]}', "tools[0].name"),
    (b'{"model":"m","input":"hi","tools":[{"type":"namespace","tools":[]}]}', "tools[0].name"),
    (b'{"model":"m","input":"hi","max_output_tokens":0}', "max_output_tokens"),
    (b'{"model":"m","input":"hi","text":{"format":{"type":"json_schema","name":"x"}}}', "text.format.schema"),
    (b'{"model":"m","input":"\xff"}', "the body is not valid UTF-8"),
])
def test_a_malformed_request_is_refused_with_the_place(body: bytes, place: str) -> None:
    with pytest.raises(BadRequest) as caught:
        API.decode_request(body, {}, Dropped(), Limits())
    assert str(caught.value).startswith(place)


@pytest.mark.parametrize("field", ["tools", "text", "metadata", "x"])
def test_deep_nesting_is_refused(field: str) -> None:
    deep = b'{"a":' * 500 + b"1" + b"}" * 500
    value = b'[{"type":"function","name":"f","parameters":' + deep + b"}]" if field == "tools" else deep
    for body in (b'{"model":"m","input":"hi","%b":%b}' % (field.encode(), value),
                 b'{"model":"m","input":[{"type":"shell_call","call_id":"1","action":%b}]}' % deep):
        with pytest.raises(BadRequest, match="nested deeper"):
            API.decode_request(body, {}, Dropped(), Limits())


def test_half_a_surrogate_pair_does_not_refuse_a_request() -> None:
    body = b'{"model":"m","input":[{"role":"user","content":"a\\ud83d"},{"type":"function_call","call_id":"c",' \
           b'"name":"f","arguments":"{\\"a\\":\\"\\ud83d\\"}"}]}'
    request = API.decode_request(body, {}, Dropped(), Limits())
    assert request.messages[0].content == [Text("a\ufffd")]


def test_ten_megabytes_are_read() -> None:
    request = decode({"role": "user", "content": "x" * 10_000_000}, *[CALL, OUTPUT] * 3)
    assert isinstance(request.messages[0].content[0], Text)
