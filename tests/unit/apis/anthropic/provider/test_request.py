"""All of a Messages request but its messages and thinking: head, limits, sampling, tools, formats (P15, P16)."""

from __future__ import annotations

import json
from typing import Any

import anthropic.types
import msgspec
import pydantic
import pytest
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

from extproc.apis.anthropic.provider import PROVIDER
from extproc.apis.anthropic.provider.tools import ANY_TOOL, STUB, THE_TOOL
from extproc.conversation.model import (
    OutputFormat,
    Request,
    ServerTool,
    Text,
    Thinking,
    ThinkingConfig,
    Tool,
    ToolChoice,
)
from extproc.conversation.notes import ONE_CALL
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.anthropic import find_anthropic_endpoint, messages_path
from tests.unit.apis.anthropic.provider.helpers import assistant, call, encode, result, sent, target, tool, user

TOOLS = [tool("read"), tool("write")]
LOOP = (user("go"), assistant(call("a")), user(result("a", "1")))
OFFICIAL_BODY = pydantic.TypeAdapter(MessageCreateParamsNonStreaming)
OFFICIAL_BLOCK: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(anthropic.types.ContentBlockParam)
OFFICIAL_TOOL = pydantic.TypeAdapter(anthropic.types.ToolParam)
PERSON: dict[str, object] = {
    "type": "object", "properties": {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer"}}}


# ---------------------------------------------------------------------------------------------------------------- head


def test_the_head_of_a_request() -> None:
    request = sent(stream=True)
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert request.headers == {"content-type": "application/json", "accept": "text/event-stream",
                               "accept-encoding": "identity", "anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(("base", "path"), [
    ("/v1", "/v1/messages"), ("", "/v1/messages"), ("/anthropic", "/anthropic/v1/messages"),
    ("/api/anthropic", "/api/anthropic/v1/messages"), ("/anthropic/v1", "/anthropic/v1/messages"),
    ("/v1beta", "/v1beta/messages")])
def test_base_urls_with_and_without_a_version(base: str, path: str) -> None:
    assert messages_path(base) == path
    assert sent(settings={"base_path": base}).path == path


@pytest.mark.parametrize(("host", "provider", "model", "name"), [
    ("api.anthropic.com", None, "claude-x", "anthropic"), ("proxy.corp:8443", None, "claude-sonnet-4-5", "anthropic"),
    ("proxy.corp", None, "us.anthropic.claude-opus-4-5-v1:0", "anthropic"), ("api.deepseek.com", None, "any",
                                                                             "deepseek"),
    ("127.0.0.1:8000", None, "qwen3", "compatible"), ("127.0.0.1:8000", "kimi", "kimi-k3", "moonshot"),
    ("api.z.ai", None, "glm-5", "zai"), ("", None, "m", "anthropic"), ("openrouter.ai", "openrouter", "x/y",
                                                                       "compatible")])
def test_the_endpoint_record_of_a_host(host: str, provider: str | None, model: str, name: str) -> None:
    assert find_anthropic_endpoint(host, provider, model).name == name


def test_the_provider_speaks_the_protocol() -> None:
    encoded = PROVIDER.encode_request(Request(model="m", messages=[user("hi")], tools=[tool("a.b")]), target(),
                                      Dropped())
    assert encoded.names.client_name(json.loads(encoded.request.body)["tools"][0]["name"]) == "a.b"


def test_official_types_take_a_body_with_everything() -> None:
    body = encode(user("see"), assistant(Thinking("t", signature="c2ln"), "so", call("a")), user(result("a", "1")),
                  model="claude-opus-4-8", system=[Text("s", cache=True)], tools=TOOLS, stop=["END"], user="u1",
                  tool_choice=ToolChoice("required"), parallel_tool_calls=False,
                  thinking=ThinkingConfig(effort="low"), output_format=OutputFormat(PERSON))
    OFFICIAL_BODY.validate_python(body)
    for message in body["messages"]:
        for block in message["content"]:
            OFFICIAL_BLOCK.validate_python(block)
    for definition in body["tools"]:
        OFFICIAL_TOOL.validate_python(definition)


# -------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(("model", "limit", "most", "expected"), [
    ("claude-sonnet-4-5", None, None, 32_000), ("claude-3-haiku-20240307", None, None, 4096),
    ("claude-3-5-sonnet-20241022", None, None, 8192), ("claude-sonnet-4-5", 100, None, 100),
    ("claude-sonnet-4-5", 100_000, None, 64_000), ("claude-opus-4-1", 100_000, None, 32_000),
    ("claude-sonnet-5", 200_000, None, 128_000), ("claude-sonnet-5", 50_000, 8000, 8000),
    ("claude-sonnet-5", None, 8000, 8000), ("claude-sonnet-5", 0, None, 1)])
def test_p15_max_tokens_is_always_present(model: str, limit: int | None, most: int | None, expected: int) -> None:
    body = encode(model=model, max_output_tokens=limit, settings={"max_output_tokens": most})
    assert body["max_tokens"] == expected


@pytest.mark.parametrize(("model", "given", "expected", "losses"), [
    ("claude-3-5-haiku-latest", {"temperature": 0.5, "top_p": 0.9, "top_k": 5},
     {"temperature": 0.5, "top_p": 0.9, "top_k": 5}, []),
    ("claude-sonnet-4-5", {"temperature": 1.7}, {"temperature": 1.0}, ["temperature"]),
    ("claude-sonnet-4-5", {"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5}, ["top_p"]),
    ("claude-sonnet-4-5", {"top_p": 0.9}, {"top_p": 0.9}, []),
    ("claude-opus-4-7", {"temperature": 0.5, "top_p": 0.9}, {}, ["temperature", "top_p"]),
    ("claude-opus-4-7", {"temperature": 1.0, "top_p": 1.0}, {}, []),
    ("claude-sonnet-4-5", {"seed": 3, "presence_penalty": 0.5, "frequency_penalty": 0.0, "logprobs": True}, {},
     ["seed", "presence_penalty", "logprobs"]),
])
def test_p15_sampling_as_the_model_takes_it(model: str, given: dict[str, Any], expected: dict[str, Any],
                                            losses: list[str]) -> None:
    dropped = Dropped()
    body = encode(model=model, dropped=dropped, **given)
    assert {name: body[name] for name in ("temperature", "top_p", "top_k") if name in body} == expected
    assert dropped.losses == losses


def test_other_hosts_take_higher_temperatures() -> None:
    settings = {"endpoint": "api.deepseek.com"}
    assert encode(model="deepseek-v4", settings=settings, temperature=1.7, checked=False)["temperature"] == 1.7


def test_several_choices_are_refused() -> None:
    with pytest.raises(BadRequest, match=r"^n: "):
        encode(choices=2)


def test_blank_stop_sequences_are_named() -> None:
    dropped = Dropped()
    assert encode(stop=["END", "\n", "\n\nHuman:"], dropped=dropped)["stop_sequences"] == ["END", "\n\nHuman:"]
    assert dropped.losses == ["stop"]


def test_the_user_is_metadata() -> None:
    assert encode(user="someone@x")["metadata"] == {"user_id": "someone@x"}
    assert len(encode(user="u" * 300)["metadata"]["user_id"]) == 32


def test_p23_fields_of_another_api_are_named() -> None:
    dropped = Dropped()
    extra = {"logit_bias": msgspec.Raw(b'{"1":2}'), "store": msgspec.Raw(b"true")}
    body = encode(extra=extra, api="openai", dropped=dropped)
    assert not set(extra) & set(body)
    assert (dropped.losses, dropped.hints) == (["logit_bias"], ["store"])


# --------------------------------------------------------------------------------------------------------------- tools


@pytest.mark.parametrize(("choice", "parallel", "expected"), [
    (None, None, None), (None, True, None), (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
    (ToolChoice("auto"), None, {"type": "auto"}), (ToolChoice("none"), False, {"type": "none"}),
    (ToolChoice("required"), None, {"type": "any"}),
    (ToolChoice("required"), False, {"type": "any", "disable_parallel_tool_use": True}),
    (ToolChoice("tool", "read"), False, {"type": "tool", "name": "read", "disable_parallel_tool_use": True})])
def test_p16_choices_and_the_parallel_flag(choice: ToolChoice | None, parallel: bool | None,
                                           expected: dict[str, Any] | None) -> None:
    assert encode(tools=TOOLS, tool_choice=choice, parallel_tool_calls=parallel).get("tool_choice") == expected


def test_settings_of_the_attempt_override_the_client() -> None:
    body = encode(tools=TOOLS, tool_choice=ToolChoice("none"),
                  settings={"tool_choice": "required", "parallel_tool_calls": False})
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}


@pytest.mark.parametrize(("choice", "note"), [(ToolChoice("required"), ANY_TOOL),
                                              (ToolChoice("tool", "read"), THE_TOOL.format(name="read"))])
@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-1", "claude-unheard-of"])
def test_p16_models_without_forced_choice_are_asked_in_words(model: str, choice: ToolChoice, note: str) -> None:
    dropped = Dropped()
    body = encode(model=model, tools=TOOLS, tool_choice=choice, dropped=dropped)
    assert "tool_choice" not in body
    assert body["system"] == [{"type": "text", "text": note}]
    assert dropped.losses == ["tool_choice"]


def test_p16_a_flag_without_effect_is_said_in_words() -> None:
    dropped = Dropped()
    body = encode(model="deepseek-v4", settings={"endpoint": "api.deepseek.com"}, tools=TOOLS, checked=False,
                  parallel_tool_calls=False, dropped=dropped)
    assert body["system"][0]["text"] == ONE_CALL
    assert dropped.losses == ["parallel_tool_calls"]


def test_allowed_tools() -> None:
    body = encode(tools=TOOLS, tool_choice=ToolChoice("auto", allowed=("write",)))
    assert [definition["name"] for definition in body["tools"]] == ["write"]
    body = encode(tools=TOOLS, tool_choice=ToolChoice("required", allowed=("write",)))
    assert (len(body["tools"]), body["tool_choice"]) == (2, {"type": "tool", "name": "write"})
    with pytest.raises(BadRequest, match="'nope'"):
        encode(tools=TOOLS, tool_choice=ToolChoice("auto", allowed=("nope",)))


def test_a_choice_of_a_tool_that_is_not_offered_is_refused() -> None:
    with pytest.raises(BadRequest, match="'nope'"):
        encode(tools=TOOLS, tool_choice=ToolChoice("tool", "nope"))
    with pytest.raises(BadRequest, match="at most 1"):
        encode(tools=TOOLS, settings={"max_tools": 1})


def test_a_history_with_calls_declares_its_tools() -> None:
    body = encode(*LOOP)
    assert body["tools"] == [{"name": "read", "input_schema": {"type": "object", "properties": {}},
                              "description": STUB}]
    assert body["tool_choice"] == {"type": "none"}
    assert encode(*LOOP, tools=TOOLS, settings={"tool_style": "off"})["tool_choice"] == {"type": "none"}


def test_custom_tools_are_functions_with_one_text() -> None:
    dropped = Dropped()
    schema: dict[str, object] = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    grammar = msgspec.Raw(b'{"type":"grammar","grammar":{"syntax":"lark","definition":"start: WORD"}}')
    body = encode(tools=[Tool("shell", "Runs it.", schema, custom=True, format=grammar)], dropped=dropped)
    assert body["tools"][0]["description"].endswith("must follow this lark grammar:\nstart: WORD")
    assert dropped.losses == ["tools.format"]


def test_strict_tools_only_where_they_can_be_compiled() -> None:
    closed: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                                 "additionalProperties": False}
    bounded = {**closed, "properties": {"a": {"type": "string", "minLength": 1}}}
    dropped = Dropped()
    body = encode(tools=[Tool("a", None, closed, strict=True), Tool("b", None, bounded, strict=True)], dropped=dropped)
    assert [definition.get("strict") for definition in body["tools"]] == [True, None]
    assert dropped.hints == ["tools.strict"]
    assert "strict" not in encode(model="claude-opus-4-1", tools=[Tool("a", None, closed, strict=True)])["tools"][0]


def test_p7_property_names_that_the_api_refuses_are_described() -> None:
    schema: dict[str, object] = {"type": "object", "properties": {"$filter": {"type": "string"}, "top": {}},
                                 "required": ["$filter", "top"], "additionalProperties": False}
    found = encode(tools=[tool("query", schema)])["tools"][0]["input_schema"]
    assert list(found["properties"]) == ["top"]
    assert found["required"] == ["top"]
    assert '"$filter" (required)' in found["description"]
    assert "additionalProperties" not in found


def test_server_tools_are_sent_to_anthropic_only() -> None:
    search = ServerTool("anthropic", "web_search_20250305", "web_search",
                        b'{"type":"web_search_20250305","name":"web_search","max_uses":3}')
    assert encode(server_tools=[search])["tools"][0]["max_uses"] == 3
    dropped = Dropped()
    body = encode(server_tools=[search], model="glm-5", settings={"endpoint": "api.z.ai"}, checked=False,
                  dropped=dropped)
    assert "web_search" in body["system"][0]["text"]
    assert dropped.losses == ["tools.web_search_20250305"]


def test_prompted_tools_leave_no_blocks_of_tools() -> None:
    body = encode(*LOOP, tools=TOOLS, settings={"tool_style": "prompted"})
    assert "tools" not in body
    assert {block["type"] for message in body["messages"] for block in message["content"]} == {"text"}


def test_p17_cache_marks_on_tools() -> None:
    marked = Tool("read", None, {"type": "object", "properties": {}}, cache=True)
    assert encode(tools=[marked])["tools"][0]["cache_control"] == {"type": "ephemeral"}


# ------------------------------------------------------------------------------------------------------------- formats


def test_a_schema_is_closed_and_its_bounds_are_described() -> None:
    body = encode(output_format=OutputFormat(PERSON))
    assert body["output_config"]["format"] == {"type": "json_schema", "schema": {
        "type": "object", "properties": {"name": {"type": "string", "description": "minLength: 2"},
                                         "age": {"type": "integer"}}, "additionalProperties": False}}
    assert "system" not in body


@pytest.mark.parametrize("schema", [
    None, {"type": "object"}, {"type": "object", "additionalProperties": {"type": "string"}},
    {"type": "object", "properties": {"next": {"$ref": "#"}}}, {"type": "array", "items": {}},
    {"type": "object", "properties": {"a": {"$ref": "https://x/y.json"}}}])
def test_schemas_beyond_the_grammar_are_described_in_words(schema: dict[str, object] | None) -> None:
    body = encode(output_format=OutputFormat(schema))
    assert "output_config" not in body
    assert "Answer with one JSON" in body["system"][0]["text"]


def test_older_models_and_prefills_get_the_format_in_words() -> None:
    assert "output_config" not in encode(model="claude-opus-4-1", output_format=OutputFormat(PERSON))
    body = encode(user("who?"), assistant("{"), output_format=OutputFormat(PERSON))
    assert body["messages"][-1]["role"] == "assistant"
    assert "output_config" not in body


def test_an_output_schema_without_a_type_gets_type_object() -> None:
    """Pydantic and zod always send it; people who write schemas by hand do not."""
    schema: dict[str, object] = {"properties": {"a": {"properties": {"b": {"type": "string"}}}}}
    sent = encode(output_format=OutputFormat(schema))["output_config"]["format"]["schema"]
    assert sent["type"] == sent["properties"]["a"]["type"] == "object"
