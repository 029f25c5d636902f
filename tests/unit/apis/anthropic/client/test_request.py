"""Messages requests as clients send them, and the conversations they become."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.anthropic.client import API
from extproc.apis.anthropic.client.request import decode_count_request
from extproc.bounds import Limits
from extproc.conversation.model import (
    Media,
    Message,
    Opaque,
    OutputFormat,
    Request,
    ServerTool,
    Text,
    Thinking,
    ThinkingConfig,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.headers import in_lower_case

HELLO = {"role": "user", "content": "hello"}
NO_FIELDS = {"type": "object", "properties": {}}


def decode(*messages: object, dropped: Dropped | None = None, headers: dict[str, str] | None = None,
           **fields: object) -> Request:
    body = {"model": "m", "max_tokens": 100, "messages": list(messages) or [HELLO], **fields}
    return API.decode_request(json.dumps(body).encode(), in_lower_case(headers or {}),
                              Dropped() if dropped is None else dropped, Limits())


def content(role: str, *blocks: object, dropped: Dropped | None = None) -> list[Any]:
    return list(decode({"role": role, "content": list(blocks)}, dropped=dropped).messages[0].content)


def result_content(value: object, dropped: Dropped | None = None) -> list[object]:
    block = {"type": "tool_result", "tool_use_id": "a", "content": value}
    return list(content("user", block, dropped=dropped)[0].content)


def complaint(body: bytes | dict[str, object]) -> str:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(BadRequest) as caught:
        API.decode_request(data, {}, Dropped(), Limits())
    assert caught.value.failure.status == 400
    return caught.value.failure.message


# --------------------------------------------------------------------------------------------------- system, messages


def test_plain_strings_become_text_blocks() -> None:
    request = decode({"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes?"}, system="be kind")
    assert request.system == [Text("be kind")]
    assert request.messages == [Message("user", [Text("hi")]), Message("assistant", [Text("yes?")])]


def test_p23_a_system_message_keeps_its_position_as_string_or_blocks() -> None:
    request = decode(HELLO, {"role": "system", "content": [{"type": "text", "text": "env"}]},
                     {"role": "system", "content": "more"})
    assert request.messages[1:] == [Message("system", [Text("env")]), Message("system", [Text("more")])]


def test_p17_the_attribution_line_never_reaches_a_foreign_provider() -> None:
    def system(nonce: str) -> list[Text]:
        return decode(system=[{"type": "text", "text": f"x-anthropic-billing-header: cc_version=2; cch={nonce};"},
                              {"type": "text", "text": "You are", "cache_control": {"type": "ephemeral"}}]).system
    assert system("abcde") == system("12345") == [Text("You are", cache=True)]


def test_text_below_the_attribution_line_is_kept() -> None:
    assert decode(system="x-anthropic-billing-header: v;\nBe brief.").system == [Text("Be brief.")]


def test_empty_texts_are_left_out() -> None:
    request = decode({"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "a"}]},
                     {"role": "assistant", "content": ""}, system="")
    assert request.system == []
    assert [m.content for m in request.messages] == [[Text("a")], []]


def test_cache_marks_stay_on_their_blocks() -> None:
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    assert content("user", {"type": "text", "text": "a", **mark}, {"type": "text", "text": "b", "cache_control": None},
                   {"type": "tool_result", "tool_use_id": "x", "content": "r", **mark}) == [
        Text("a", cache="1h"), Text("b"), ToolResult("x", [Text("r")], cache="1h")]


@pytest.mark.parametrize(("ttl", "mark"), [("5m", "5m"), ("1h", "1h"), ("2h", True), (None, True), (60, True),
                                           ({}, True)])
def test_a_cache_mark_says_how_long_it_lives(ttl: object, mark: object) -> None:
    control = {"cache_control": {"type": "ephemeral", "ttl": ttl}}
    request = decode({"role": "user", "content": [{"type": "text", "text": "a", **control}]},
                     system=[{"type": "text", "text": "s", **control}],
                     tools=[{"name": "f", "input_schema": {"type": "object"}, **control}])
    assert request.messages[0].content == [Text("a", cache=mark)]  # type: ignore[arg-type]
    assert request.system[0].cache == request.tools[0].cache == mark


# -------------------------------------------------------------------------------------------------- images, documents


@pytest.mark.parametrize(("source", "media"), [
    ({"type": "base64", "media_type": "image/png", "data": "iVBO"},
     Media("image", media_type="image/png", data="iVBO")),
    ({"type": "url", "url": "https://x/y.png"}, Media("image", url="https://x/y.png")),
    ({"type": "file", "file_id": "file_1"}, Media("image", file_id="file_1")),
])
def test_images(source: object, media: Media) -> None:
    assert content("user", {"type": "image", "source": source}) == [media]


def test_documents_keep_title_and_context() -> None:
    about = {"title": "T", "context": "C"}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}
    text = {"type": "text", "media_type": "text/plain", "data": "words"}
    assert content("user", {"type": "document", "source": pdf, **about},
                   {"type": "document", "source": text, **about},
                   {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}}) == [
        Media("document", media_type="application/pdf", data="JVBE", title="T", context="C"),
        Media("document", media_type="text/plain", text="words", title="T", context="C"),
        Media("document", url="https://x/a.pdf")]


def test_a_document_made_of_blocks_keeps_its_text_and_its_images() -> None:
    blocks = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"},
              {"type": "image", "source": {"type": "url", "url": "https://i"}}]
    assert content("user", {"type": "document", "title": "T", "source": {"type": "content", "content": blocks}}) == [
        Media("document", media_type="text/plain", text="one\ntwo", title="T"), Media("image", url="https://i")]
    assert content("user", {"type": "document", "source": {"type": "content", "content": "whole"}}) == [
        Media("document", media_type="text/plain", text="whole")]


def test_requested_citations_are_a_loss() -> None:
    dropped = Dropped()
    content("user", {"type": "document", "citations": {"enabled": True},
                     "source": {"type": "text", "media_type": "text/plain", "data": "x"}}, dropped=dropped)
    assert dropped == Dropped(losses=["citations"])


def test_search_results_become_text() -> None:
    assert content("user", {"type": "search_result", "title": "T", "source": "https://s",
                            "content": [{"type": "text", "text": "found"}]}) == [Text("T\nhttps://s\nfound")]


# ------------------------------------------------------------------------------------------- tool calls and results


def test_arguments_are_the_clients_own_bytes() -> None:
    body = (b'{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t1",'
            b'"name":"f","input": {"z": 1.0,  "a": 1e3, "u": "\\u00e4"}}]}]}')
    request = API.decode_request(body, {}, Dropped(), Limits())
    assert request.messages[0].content == [ToolCall("t1", "f", '{"z": 1.0,  "a": 1e3, "u": "\\u00e4"}')]


def test_absent_input_means_no_arguments() -> None:
    call = {"type": "tool_use", "id": "t", "name": "f"}
    assert content("assistant", call, {**call, "input": None}, {**call, "input": {}}) == [
        ToolCall("t", "f", ""), ToolCall("t", "f", ""), ToolCall("t", "f", "{}")]


@pytest.mark.parametrize(("value", "blocks"), [
    ("done", [Text("done")]),
    ("", []),
    (None, []),
    ([], []),
    ([{"type": "text", "text": "a"}, {"type": "image", "source": {"type": "url", "url": "u"}}],
     [Text("a"), Media("image", url="u")]),
    ([{"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "J"}}],
     [Media("document", media_type="application/pdf", data="J")]),
    ([{"type": "search_result", "title": "T", "source": "s", "content": [{"type": "text", "text": "x"}]}],
     [Text("T\ns\nx")]),
    ([{"type": "tool_reference", "tool_name": "A"}, {"type": "tool_reference", "tool_name": "B"}],
     [Text("loaded tool: A"), Text("loaded tool: B")]),
])
def test_p21_tool_results_of_every_kind(value: object, blocks: list[object]) -> None:
    assert result_content(value) == blocks


def test_p21_an_error_result_stays_an_error() -> None:
    assert content("user", {"type": "tool_result", "tool_use_id": "a", "is_error": True},
                   {"type": "tool_result", "tool_use_id": "b", "is_error": False, "content": "ok"}) == [
        ToolResult("a", [], is_error=True), ToolResult("b", [Text("ok")])]


def test_an_unknown_block_inside_a_result_is_named() -> None:
    dropped = Dropped()
    blocks = [{"type": "browser_state", "tabs": []}, {"type": "text", "text": "a"}]
    assert result_content(blocks, dropped) == [Text("a")]
    assert dropped.losses == ["tool_result.browser_state"]


def test_results_are_not_paired_here() -> None:
    assert content("user", {"type": "tool_result", "tool_use_id": "nobody"}) == [ToolResult("nobody", [])]


# ------------------------------------------------------------------------------------------- thinking, server blocks


def test_p11_thinking_history() -> None:
    assert content("assistant", {"type": "thinking", "thinking": "hm", "signature": "s="},
                   {"type": "thinking", "thinking": "foreign", "signature": ""},
                   {"type": "redacted_thinking", "data": "enc"}) == [
        Thinking("hm", signature="s="), Thinking("foreign"), Thinking("", redacted="enc")]


def test_web_search_history_becomes_text() -> None:
    search, results = content(
        "assistant",
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "envoy"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [
            {"type": "web_search_result", "title": "Envoy", "url": "https://e", "encrypted_content": "..."}]})
    assert isinstance(search, Opaque)
    assert isinstance(results, Opaque)
    assert (search.api, search.type, search.text) == ("anthropic", "server_tool_use", "Web search: envoy")
    assert results.text == "Web search results:\n- Envoy: https://e"
    assert json.loads(results.raw)["tool_use_id"] == "srvtoolu_1"


@pytest.mark.parametrize(("block", "text"), [
    ({"type": "web_search_tool_result", "content": {"type": "web_search_tool_result_error", "error_code": "too_many"}},
     "web search failed: too_many"),
    ({"type": "web_fetch_tool_result", "content": {"type": "web_fetch_result", "url": "https://p", "content": {
        "type": "document", "source": {"type": "text", "data": "page"}}}}, "https://p\npage"),
    ({"type": "bash_code_execution_tool_result", "content": {"stdout": "out", "stderr": "", "return_code": 1}},
     "out\nexit code 1"),
    ({"type": "mcp_tool_result", "content": [{"type": "text", "text": "said"}]}, "said"),
    ({"type": "compaction", "content": "summary"}, "summary"),
    ({"type": "container_upload", "file_id": "f"}, None),
    ({"type": "from_the_future", "shape": [1]}, None),
])
def test_blocks_of_the_servers_are_opaque_with_text_where_there_is_one(block: dict[str, object],
                                                                       text: str | None) -> None:
    assert content("assistant", block) == [Opaque("anthropic", str(block["type"]), json.dumps(block).encode(), text)]


# -------------------------------------------------------------------------------------------------------------- tools


def test_tools() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    request = decode(tools=[
        {"name": "a", "description": "A", "input_schema": schema, "strict": True, "cache_control": {"type": "e"}},
        {"type": "custom", "name": "b", "input_schema": schema, "defer_loading": True},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
        {"name": "DeferredToolPlaceholder", "defer_loading": True, "input_schema": NO_FIELDS}])
    assert request.tools == [Tool("a", "A", schema, strict=True, cache=True), Tool("b", None, schema, deferred=True)]
    assert request.server_tools == [ServerTool("anthropic", "web_search_20250305", "web_search", json.dumps(
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}).encode())]


@pytest.mark.parametrize("tool", [{}, {"input_schema": None}, {"input_schema": []}, {"input_schema": "x"}])
def test_p24_a_tool_without_a_schema_gets_an_empty_object_schema(tool: dict[str, object]) -> None:
    assert decode(tools=[{"name": "a", **tool}]).tools == [Tool("a", None, NO_FIELDS)]


@pytest.mark.parametrize(("choice", "meant", "parallel"), [
    ({"type": "auto"}, ToolChoice("auto"), None),
    ({"type": "any"}, ToolChoice("required"), None),
    ({"type": "none"}, ToolChoice("none"), None),
    ({"type": "tool", "name": "f"}, ToolChoice("tool", "f"), None),
    ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice("auto"), False),
    ({"type": "any", "disable_parallel_tool_use": False}, ToolChoice("required"), None),
])
def test_p24_tool_choice(choice: object, meant: ToolChoice, parallel: bool | None) -> None:
    request = decode(tool_choice=choice)
    assert (request.tool_choice, request.parallel_tool_calls) == (meant, parallel)


# --------------------------------------------------------------------------------------------------------- parameters


def test_sampling_limits_and_user() -> None:
    request = decode(temperature=0.5, top_p=1, top_k=40, stop_sequences=["END"], stream=True,
                     metadata={"user_id": "{\"device_id\":1}"})
    assert (request.temperature, request.top_p, request.top_k, request.stop) == (0.5, 1.0, 40, ["END"])
    assert (request.stream, request.user, request.max_output_tokens) == (True, '{"device_id":1}', 100)


@pytest.mark.parametrize(("fields", "config"), [
    ({}, None),
    ({"thinking": {"type": "enabled", "budget_tokens": 31999}}, ThinkingConfig("enabled", budget=31999)),
    ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
     ThinkingConfig("adaptive", effort="high")),
    ({"thinking": {"type": "disabled"}}, ThinkingConfig("disabled")),
    ({"thinking": {"type": "between_tools"}}, ThinkingConfig("adaptive")),
    ({"output_config": {"effort": "max"}}, ThinkingConfig(effort="max")),
    ({"output_config": {"effort": "heroic"}}, None),
])
def test_thinking_and_effort(fields: dict[str, object], config: ThinkingConfig | None) -> None:
    assert decode(**fields).thinking == config


def test_structured_output_old_and_new() -> None:
    wanted = {"type": "json_schema", "schema": {"type": "object"}}
    assert decode(output_config={"format": wanted}).output_format == OutputFormat({"type": "object"})
    assert decode(output_format=wanted).output_format == OutputFormat({"type": "object"})


def test_p23_fields_of_anthropic_only_are_named_not_refused() -> None:
    dropped = Dropped()
    request = decode(
        {"role": "user", "name": "bob", "content": [{"type": "text", "text": "hi", "citations": [], "sparkle": 1}]},
        dropped=dropped, headers={"Anthropic-Beta": "context-1m-2025-08-07"}, context_management={"edits": []},
        service_tier="auto", betas=["b"], mcp_servers=[{"type": "url", "url": "https://m", "name": "m"}],
        thinking={"type": "adaptive", "display": "updates"}, metadata={"user_id": "u", "team": "x"},
        output_config={"task_budget": {}}, tools=[{"name": "a", "eager_input_streaming": True, "input_examples": [{}]}])
    assert request.messages == [Message("user", [Text("hi")])]
    assert dropped.losses == ["mcp_servers", "tools.input_examples"]
    assert dropped.hints == ["betas", "anthropic-beta", "context_management", "service_tier",
                             "tools.eager_input_streaming", "output_config.task_budget", "thinking.display",
                             "messages.name", "text.citations", "text.sparkle", "metadata.team"]


def test_nothing_is_named_for_a_plain_request() -> None:
    dropped = Dropped()
    decode(dropped=dropped, system="s", temperature=1.0, tools=[{"name": "a", "input_schema": NO_FIELDS}])
    assert dropped == Dropped()


def test_a_count_request_needs_no_output_limit() -> None:
    body = json.dumps({"model": "m", "messages": [HELLO], "tools": [{"name": "a"}]}).encode()
    request = decode_count_request(body, Limits())
    assert request.max_output_tokens is None
    assert request.tools == [Tool("a", None, NO_FIELDS)]


# ---------------------------------------------------------------------------------------------------------- complaints


@pytest.mark.parametrize(("body", "words"), [
    (b"", "the body is empty"),
    (b"[]", "the body: expected a JSON object"),
    (b'{"model":"m",\n "x" 1}', "line 2, column 6 (byte 19): expected ':'"),
    (b'{"model":"m"', "it ends too early, after line 1, column 13 (byte 12)"),
    (b'{"model":"m\xff"}', "not valid UTF-8: line 1, column 12 (byte 11)"),
])
def test_malformed_json_names_the_place(body: bytes, words: str) -> None:
    assert words in complaint(body)


def block_body(role: str, block: object) -> dict[str, object]:
    return {"model": "m", "max_tokens": 1, "messages": [HELLO, {"role": role, "content": [block]}]}


@pytest.mark.parametrize(("body", "words"), [
    ({"max_tokens": 1, "messages": [HELLO]}, "model: this field is required"),
    ({"model": "m", "max_tokens": 1}, "messages: this field is required"),
    ({"model": "m", "max_tokens": 1, "messages": []}, "messages: expected at least one message"),
    ({"model": "m", "max_tokens": 1, "messages": "hi"}, "messages: expected a list, got a string"),
    ({"model": "m", "messages": [HELLO]}, "max_tokens: this field is required"),
    ({"model": "m", "max_tokens": 0, "messages": [HELLO]}, "max_tokens: expected at least 1, got 0"),
    ({"model": "m", "max_tokens": 1, "messages": [{"role": "tool", "content": "x"}]}, "messages[0].role: unknown role"),
    ({"model": "m", "max_tokens": 1, "messages": [{"role": "user"}]}, "messages[0].content: this field is required"),
    (block_body("user", {"type": "text", "text": 3}), "messages[1].content[0].text: expected a string, got an integer"),
    (block_body("user", {"text": "x"}), "messages[1].content[0].type: this field is required"),
    (block_body("user", {"type": "image", "source": {"type": "base64", "data": "x"}}),
     "messages[1].content[0].source.media_type: this field is required"),
    (block_body("user", {"type": "image", "source": {"type": "tape"}}), "messages[1].content[0].source.type: unknown"),
    (block_body("assistant", {"type": "tool_use", "id": 7, "name": "f"}),
     "messages[1].content[0].id: expected a string"),
    (block_body("assistant", {"type": "tool_use", "id": "a", "name": "f", "input": "x"}),
     "messages[1].content[0].input: expected an object"),
    (block_body("user", {"type": "tool_use", "id": "a", "name": "f"}), "tool_use block is not allowed"),
    (block_body("assistant", {"type": "tool_result", "tool_use_id": "a"}), "tool_result block is not allowed"),
    (block_body("user", {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": 1}]}),
     "messages[1].content[0].content[0].text: expected a string"),
    ({"model": "m", "max_tokens": 1, "messages": [HELLO], "unknown": 1, "temperature": "hot"},
     "temperature: expected a number or null, got a string"),
    ({"model": "m", "max_tokens": 1, "messages": [HELLO], "tools": [{"description": "x"}]}, "tools[0].name"),
    ({"model": "m", "max_tokens": 1, "messages": [HELLO], "tools": [{"name": "a"}, {"name": "a"}]}, "tools[1].name"),
    ({"model": "m", "max_tokens": 1, "messages": [HELLO], "tool_choice": {"type": "maybe"}}, "tool_choice.type"),
    ({"model": "m", "max_tokens": 1, "messages": [HELLO], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
])
def test_wrong_fields_are_named_by_path(body: dict[str, object], words: str) -> None:
    assert words in complaint(body)


def nested(levels: int) -> bytes:
    """A body with this many levels of nesting."""
    inner = levels - 2      # the body and its list of tools come first
    tool = b'{"name":"a","input_schema":' + b'{"a":' * (inner - 1) + b"1" + b"}" * inner
    return b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[' + tool + b"]}"


def test_a_body_nested_too_deep_is_refused_with_a_reason() -> None:
    API.decode_request(nested(128), {}, Dropped(), Limits())
    assert "nested deeper than 128 levels" in complaint(nested(129))
    assert "nested deeper than 128 levels" in complaint(nested(50_000))
    with pytest.raises(BadRequest, match="nested deeper than 20 levels"):
        API.decode_request(nested(21), {}, Dropped(), Limits(json_depth=20))


def test_half_an_emoji_does_not_end_the_session() -> None:
    body = rb'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"a \ud83d b \\ud83d \ud83d\ude00"}]}'
    assert API.decode_request(body, {}, Dropped(), Limits()).messages == [Message("user", [Text("a � b \\ud83d 😀")])]
