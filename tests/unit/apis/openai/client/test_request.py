"""Parameters and tools of chat clients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.openai.client import API
from extproc.apis.openai.client.request import ChatRequest
from extproc.apis.shared.extras import name_extras
from extproc.bounds import Limits
from extproc.conversation.model import OutputFormat, ServerTool, ThinkingConfig, Tool, ToolChoice
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from tests.unit.apis.openai.client.helpers import USER, decode

NO_FIELDS = {"type": "object", "properties": {}}
FUNCTION = {"type": "function", "function": {"name": "f"}}


def refusal(**fields: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        decode(**fields)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------------ the body


@pytest.mark.parametrize(("body", "words"), [
    (b"", "empty"), (b"[]", "the body: expected a JSON object"), (b'{"model": "m", }', "line 1"),
    (b'{"messages": []}', "model: this field is required"), (b'{"model": "m"}', "messages: this field is required"),
    (b'{"model": 5, "messages": []}', "model: expected a string"), (b'{"model": "\xff"}', "UTF-8"),
    (b'{"model":"m","messages":[],"x":' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper"),
])
def test_a_body_that_cannot_be_read_is_refused_with_the_place(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        API.decode_request(body, {}, Dropped(), Limits())
    assert words in str(caught.value)


def test_half_an_emoji_does_not_break_the_request() -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":"a\\ud83d"}]}'
    request = API.decode_request(body, {}, Dropped(), Limits())
    assert request.messages[0].content[0].text == "a\ufffd"  # type: ignore[union-attr]


def test_fields_with_a_place_in_the_model() -> None:
    request = decode(temperature=0.5, top_p=1, top_k=40, seed=7, presence_penalty=0.1, frequency_penalty=-0.2,
                     logprobs=True, top_logprobs=3, n=2, user="u", stop=["a", "", "b"], max_tokens=9, stream=False)
    assert (request.temperature, request.top_p, request.top_k, request.seed) == (0.5, 1.0, 40, 7)
    assert (request.presence_penalty, request.frequency_penalty) == (0.1, -0.2)
    assert (request.logprobs, request.top_logprobs, request.choices) == (True, 3, 2)
    assert (request.user, request.stop, request.max_output_tokens, request.stream) == ("u", ["a", "b"], 9, False)
    assert (request.api, request.extra) == ("openai", {})


def test_nulls_mean_the_same_as_nothing() -> None:
    fields = ["temperature", "stop", "n", "seed", "max_tokens", "max_completion_tokens", "user", "tools", "tool_choice",
              "response_format", "reasoning_effort", "stream", "stream_options", "logit_bias", "store", "reasoning"]
    assert decode(**dict.fromkeys(fields)) == decode()


def test_limits_of_the_output() -> None:
    assert decode(max_tokens=5, max_completion_tokens=6).max_output_tokens == 6
    assert decode(max_tokens=-1).max_output_tokens is None
    assert refusal(max_tokens=0) == "max_tokens: expected at least 1, got 0"
    assert refusal(n=0).startswith("n: ")


@pytest.mark.parametrize("stop", ["x", ["x"]])
def test_stop_is_a_string_or_a_list(stop: Any) -> None:
    assert decode(stop=stop).stop == ["x"]


@pytest.mark.parametrize(("fields", "wanted"), [
    ({}, True), ({"stream": True}, False), ({"stream": True, "stream_options": {}}, False),
    ({"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}}, True),
    ({"stream": True, "usage": {"include": True}}, True),
])
def test_p15_usage_in_a_stream_only_on_request(fields: dict[str, Any], wanted: bool) -> None:
    request = decode(**fields)
    assert request.want_usage is wanted
    assert set(request.extra) == {"usage"} & set(fields)


def test_p23_fields_without_a_place_are_kept_for_providers_of_this_api_and_named_for_others() -> None:
    extra = {"logit_bias": {"5": 1}, "store": True, "metadata": {"a": "b"}, "service_tier": "flex",
             "prediction": {"type": "content", "content": "x"}, "modalities": ["text", "audio"],
             "audio": {"voice": "a", "format": "mp3"}, "web_search_options": {}, "prompt_cache_key": "k",
             "safety_identifier": "s", "verbosity": "low", "brand_new": [1, 2]}
    request = decode(**extra)
    assert {name: json.loads(bytes(value)) for name, value in request.extra.items()} == extra
    dropped = Dropped()
    name_extras(request, dropped)
    assert dropped.losses == ["logit_bias", "modalities", "audio", "web_search_options", "verbosity"]
    assert dropped.hints == ["store", "metadata", "service_tier", "prediction", "prompt_cache_key",
                             "safety_identifier", "brand_new"]


@pytest.mark.parametrize("extra", [
    {"store": True}, {"brand_new": 1}, {"verbosity": "low", "store": True}, {"store": True, "verbosity": "low"},
    {"store": True, "brand_new": 1, "audio": {}}])
def test_fields_without_a_place_keep_their_order_and_bytes(extra: dict[str, Any]) -> None:
    """Rule 6: a request with known fields only is read in one pass, any other in two."""
    request = decode(metadata=None, **extra)
    assert [(name, bytes(value)) for name, value in request.extra.items()] == [
        (name, json.dumps(value).encode()) for name, value in extra.items()]


@pytest.mark.parametrize(("fields", "read"), [
    ({"max_tokens": "100"}, ("max_output_tokens", 100)), ({"max_tokens": 100.0}, ("max_output_tokens", 100)),
    ({"temperature": "0.5"}, ("temperature", 0.5)), ({"stream": "true"}, ("stream", True)),
    ({"seed": 3.0, "max_tokens": None}, ("seed", 3))])
def test_numbers_as_most_servers_of_this_format_take_them(fields: dict[str, Any], read: tuple[str, Any]) -> None:
    name, value = read
    assert getattr(decode(**fields), name) == value


def test_a_repeated_tool_counts_once() -> None:
    dropped = Dropped()
    assert len(decode(tools=[FUNCTION, FUNCTION], dropped=dropped).tools) == 1
    assert dropped.hints == ["tools.repeated"]


def test_p23_neutral_values_are_not_named() -> None:
    dropped = Dropped()
    name_extras(decode(store=False, logit_bias={}, modalities=["text"], service_tier="auto", verbosity="medium",
                       min_p=0), dropped)
    assert dropped == Dropped()


# --------------------------------------------------------------------------------------------------------------- tools


def test_functions_in_every_form() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    request = decode(tools=[
        {"type": "function", "function": {"name": "nested", "description": "d", "parameters": schema, "strict": True}},
        {"type": "function", "name": "flat", "parameters": schema}, {"name": "claude", "input_schema": schema},
        {"type": "function", "function": {"name": "bare"}}, {"function": {"name": "null", "parameters": None}},
        {"type": "function", "function": {"name": "marked"}, "cache_control": {"type": "ephemeral"}}])
    assert request.tools == [Tool("nested", "d", schema, strict=True), Tool("flat", None, schema),
                             Tool("claude", None, schema), Tool("bare", None, NO_FIELDS), Tool("null", None, NO_FIELDS),
                             Tool("marked", None, NO_FIELDS, cache=True)]


def test_a_custom_tool_takes_one_text() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
    tool, plain = decode(tools=[{"type": "custom", "custom": {"name": "c", "description": "d", "format": grammar}},
                                {"type": "custom", "name": "p"}]).tools
    assert (tool.name, tool.description, tool.custom, plain.custom, plain.format) == ("c", "d", True, True, None)
    assert tool.schema["required"] == ["input"]
    assert json.loads(bytes(tool.format or b"")) == grammar


def test_tools_of_the_provider_are_no_functions() -> None:
    request = decode(tools=[{"type": "web_search_preview"}, FUNCTION])
    assert request.server_tools == [ServerTool("openai", "web_search_preview", "web_search_preview",
                                               b'{"type": "web_search_preview"}')]
    assert [tool.name for tool in request.tools] == ["f"]


def test_legacy_functions() -> None:
    request = decode(functions=[{"name": "f", "parameters": NO_FIELDS}], function_call={"name": "f"})
    assert isinstance(request, ChatRequest)
    assert (request.legacy_functions, request.parallel_tool_calls) == (True, False)
    assert request.tools == [Tool("f", None, NO_FIELDS)]
    assert request.tool_choice == ToolChoice("tool", "f")


@pytest.mark.parametrize(("fields", "place"), [
    ({"tools": [FUNCTION, {**FUNCTION, "function": {**FUNCTION["function"], "description": "other"}}]}, "tools[1]: "),
    ({"tools": [{"type": "function"}]}, "tools[0].function.name: "),
    ({"tools": [{"type": "function", "function": {"name": ""}}]}, "tools[0].function.name: "),
    ({"tools": [5]}, "tools[0]: "),
    ({"tool_choice": "always"}, "tool_choice: "),
    ({"tool_choice": {"type": "function"}}, "tool_choice.function.name: "),
    ({"tool_choice": {"type": "mystery"}}, "tool_choice.type: "),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "never", "tools": [FUNCTION]}}},
     "tool_choice.allowed_tools.mode: "),
    ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}},
     "tool_choice.allowed_tools.tools: "),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema: "),
    ({"temperature": "hot"}, "temperature: expected a number"),
])
def test_an_error_names_its_place(fields: dict[str, Any], place: str) -> None:
    assert refusal(**fields).startswith(place)


@pytest.mark.parametrize(("choice", "expected"), [
    ("none", ToolChoice("none")), ("auto", ToolChoice("auto")), ("required", ToolChoice("required")),
    ("any", ToolChoice("required")), ({"type": "auto"}, ToolChoice("auto")),
    (FUNCTION, ToolChoice("tool", "f")), ({"type": "function", "name": "f"}, ToolChoice("tool", "f")),
    ({"type": "custom", "custom": {"name": "c"}}, ToolChoice("tool", "c")),
    ({"type": "tool", "name": "f"}, ToolChoice("tool", "f")),
    ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
        FUNCTION, {"type": "custom", "custom": {"name": "c"}}]}}, ToolChoice("required", allowed=("f", "c"))),
    ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
     ToolChoice("auto", allowed=("f",))),
])
def test_p24_every_form_of_choice(choice: Any, expected: ToolChoice) -> None:
    assert decode(tools=[FUNCTION], tool_choice=choice).tool_choice == expected


@pytest.mark.parametrize("parallel", [True, False])
def test_parallel_calls(parallel: bool) -> None:
    assert decode(tools=[FUNCTION], parallel_tool_calls=parallel).parallel_tool_calls is parallel


# ---------------------------------------------------------------------------------------------------- output, reasoning


@pytest.mark.parametrize(("wanted", "expected"), [
    ({"type": "text"}, None), ({"type": "json_object"}, OutputFormat(None)),
    ({"type": "json_object", "schema": NO_FIELDS}, OutputFormat(NO_FIELDS)),
    ({"type": "json_schema", "json_schema": {"name": "n", "schema": NO_FIELDS, "strict": True}},
     OutputFormat(NO_FIELDS, name="n", strict=True)),
])
def test_structured_output(wanted: dict[str, Any], expected: OutputFormat | None) -> None:
    assert decode(response_format=wanted).output_format == expected


def test_an_unknown_format_is_a_loss() -> None:
    dropped = Dropped()
    decode(response_format={"type": "grammar", "grammar": "x"}, dropped=dropped)
    assert dropped.losses == ["response_format.grammar"]


@pytest.mark.parametrize(("fields", "expected"), [
    ({"reasoning_effort": "high"}, ThinkingConfig(effort="high")),
    ({"reasoning_effort": "none"}, ThinkingConfig("disabled")),
    ({"reasoning_effort": "quantum"}, None),
    ({"reasoning": {"effort": "low"}}, ThinkingConfig(effort="low")),
    ({"reasoning": {"max_tokens": 2000}}, ThinkingConfig("enabled", 2000)),
    ({"reasoning": {"enabled": True}}, ThinkingConfig("enabled")),
    ({"reasoning": {"enabled": False}}, ThinkingConfig("disabled")),
    ({"reasoning": {"effort": "none"}}, ThinkingConfig("disabled")),
    ({"thinking": {"type": "enabled", "budget_tokens": 3000}}, ThinkingConfig("enabled", 3000)),
    ({"thinking": {"type": "disabled"}}, ThinkingConfig("disabled")),
    ({"thinking": {"type": "adaptive"}, "reasoning_effort": "max"}, ThinkingConfig("adaptive", effort="max")),
    ({"enable_thinking": False}, ThinkingConfig("disabled")),
    ({"enable_thinking": True, "thinking_budget": 100}, ThinkingConfig("enabled", 100)),
])
def test_reasoning_settings_in_every_spelling(fields: dict[str, Any], expected: ThinkingConfig | None) -> None:
    assert decode(**fields).thinking == expected


@pytest.mark.parametrize("fields", [{"reasoning": {"exclude": True}}, {"include_reasoning": False}])
def test_reasoning_that_the_client_excludes(fields: dict[str, Any]) -> None:
    request = decode(**fields)
    assert isinstance(request, ChatRequest)
    assert not request.show_reasoning


def test_the_same_body_is_the_same_request() -> None:
    assert decode(USER, seed=1) == decode(USER, seed=1)
