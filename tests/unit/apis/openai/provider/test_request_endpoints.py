"""What endpoints take of tools, formats, sampling and an OpenAI client's own fields, and what replaces the rest."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec
import pytest
from msgspec.structs import replace

from extproc.apis.openai.provider.request import encode_request
from extproc.conversation.model import Media, OutputFormat, Request, Text, Tool, ToolCall, ToolChoice, ToolResult
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles import find_profile
from extproc.profiles.target import Target
from tests.unit.apis.openai.provider.helpers import assistant, call, encode, result, tool, user

FREE = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
PATCH = Tool("patch", "applies", FREE, custom=True, format=msgspec.Raw(b'{"type":"text"}'))
TWO = [tool("read"), tool("write")]


def sent(provider: str, model: str, *messages: Any, dropped: Dropped | None = None,
         settings: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    target = Target(model=model, profile=find_profile(provider, None, model), **(settings or {}))
    request = Request(model="m", messages=list(messages) or [user("hi")], **fields)
    encoded = encode_request(request, target, Dropped() if dropped is None else dropped)
    body: dict[str, Any] = json.loads(encoded.request.body)
    return body


def system_of(body: dict[str, Any]) -> str:
    message = body["messages"][0]
    return message["content"] if message["role"] == "system" else ""


# -------------------------------------------------------------------------------------------------------------- tools


def test_p24_mistrals_word_for_required_is_any():
    assert sent("mistral", "devstral", tools=TWO, tool_choice=ToolChoice("required"))["tool_choice"] == "any"


@pytest.mark.parametrize("provider", ["xai", "deepinfra", "featherless", "zai", "ollama", "minimax"])
def test_p24_an_unsupported_forced_choice_is_requested_in_words(provider):
    dropped = Dropped()
    body = sent(provider, "any-model", tools=TWO, tool_choice=ToolChoice("required"), dropped=dropped)
    assert body["tool_choice"] == "auto"
    assert "calling at least one of the tools" in system_of(body)
    assert dropped.losses == ["tool_choice"]


def test_a_named_choice_becomes_required_with_only_that_tool():
    for provider in ("llama.cpp", "lmstudio"):
        dropped = Dropped()
        body = sent(provider, "m", tools=TWO, tool_choice=ToolChoice("tool", "write"), dropped=dropped)
        assert body["tool_choice"] == "required"
        assert [entry["function"]["name"] for entry in body["tools"]] == ["write"]
        assert dropped.losses == []


def test_moonshot_gets_a_named_choice_for_required_when_there_is_one_tool():
    body = sent("moonshot", "moonshot-v1-8k", tools=TWO[:1], tool_choice=ToolChoice("required"))
    assert body["tool_choice"] == {"type": "function", "function": {"name": "read"}}


def test_p24_an_unsupported_none_leaves_the_tools_out():
    body = sent("zai", "glm-5", tools=TWO, tool_choice=ToolChoice("none"))
    assert "tools" not in body
    assert "tool_choice" not in body
    assert sent("deepinfra", "m", tools=TWO, tool_choice=ToolChoice("none"))["tool_choice"] == "none"


@pytest.mark.parametrize("provider", ["deepseek", "moonshot", "xai", "zai", "ollama", "lmstudio", "sglang"])
def test_one_call_at_a_time_is_requested_in_words_without_the_flag(provider):
    dropped = Dropped()
    body = sent(provider, "m", tools=TWO, settings={"parallel_tool_calls": False}, dropped=dropped)
    assert "parallel_tool_calls" not in body
    assert "at most one tool" in system_of(body)
    assert dropped.losses == ["parallel_tool_calls"]
    assert "at most one" not in system_of(sent(provider, "m", tools=TWO, settings={"parallel_tool_calls": True}))


def test_the_attempts_choice_and_flag_at_an_endpoint_that_takes_neither():
    body = sent("xai", "grok-4", tools=TWO, settings={"tool_choice": "required", "parallel_tool_calls": False})
    assert body["tool_choice"] == "auto"
    assert "calling at least one" in system_of(body)
    assert "at most one tool" in system_of(body)


def test_allowed_tools_are_sent_where_supported_else_only_they_are_offered():
    choice = ToolChoice("required", allowed=("write",))
    body = sent("openai", "gpt-5", tools=TWO, tool_choice=choice)
    assert body["tool_choice"] == {"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "function", "function": {"name": "write"}}]}}
    assert len(body["tools"]) == 2
    filtered = sent("vllm", "m", tools=TWO, tool_choice=choice)
    assert filtered["tool_choice"] == "required"
    assert [entry["function"]["name"] for entry in filtered["tools"]] == ["write"]
    with pytest.raises(BadRequest, match="allowed"):
        sent("vllm", "m", tools=TWO, tool_choice=ToolChoice("auto", allowed=("gone",)))


def test_custom_tools_stay_custom_at_openai_and_are_functions_elsewhere():
    history = (user("go"), assistant(ToolCall("a", "patch", '{"input":"*** Begin"}')), user(result("a", "ok")))
    there = sent("openai", "gpt-5", *history, tools=[PATCH], tool_choice=ToolChoice("tool", "patch"))
    assert there["tools"] == [{"type": "custom", "custom": {"name": "patch", "description": "applies",
                                                            "format": {"type": "text"}}}]
    assert there["tool_choice"] == {"type": "custom", "custom": {"name": "patch"}}
    assert there["messages"][1]["tool_calls"] == [
        {"type": "custom", "id": "a", "custom": {"name": "patch", "input": "*** Begin"}}]
    dropped = Dropped()
    elsewhere = sent("vllm", "m", *history, tools=[PATCH], dropped=dropped)
    assert elsewhere["tools"][0]["function"]["parameters"]["required"] == ["input"]
    assert elsewhere["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"input":"*** Begin"}'
    assert dropped.losses == []
    grammar = msgspec.Raw(b'{"type":"grammar","grammar":{"syntax":"lark","definition":"start: X"}}')
    elsewhere = sent("vllm", "m", *history, tools=[msgspec.structs.replace(PATCH, format=grammar)], dropped=dropped)
    assert elsewhere["tools"][0]["function"]["description"].endswith("must follow this lark grammar:\nstart: X")
    assert dropped.losses == ["tools.format"]


def test_an_endpoint_without_tools_gets_them_in_the_prompt():
    request = Request(model="m", messages=[user("hi")], tools=TWO)
    target = Target(model="sonar", profile=find_profile("perplexity", None, "sonar"))
    encoded = encode_request(request, target, Dropped())
    assert b'"tools"' not in encoded.request.body
    assert encoded.target is not None
    assert encoded.target.tool_style == "prompted"
    off = encode_request(request, replace(target, tool_style="off"), Dropped())
    assert off.target is None


# ------------------------------------------------------------------------------------------------------------- formats

TIDE = OutputFormat({"type": "object", "properties": {"tide": {"type": "number"}}})


@pytest.mark.parametrize(("provider", "model"), [("xai", "grok-4"), ("fireworks", "m"), ("groq", "m"),
                                                 ("cerebras", "gpt-oss-120b")])
def test_a_format_that_excludes_tools_is_said_in_words(provider, model):
    body = sent(provider, model, output_format=TIDE, tools=TWO)
    assert "response_format" not in body
    assert "When you do not call a tool" in system_of(body)
    assert '"tide"' in system_of(body)
    assert sent(provider, model, output_format=TIDE)["response_format"]["type"] == "json_schema"


def test_groq_gets_no_format_in_a_stream():
    assert "response_format" not in sent("groq", "m", output_format=TIDE, stream=True)


def test_lm_studio_gets_a_schema_for_any_object():
    schema = sent("lmstudio", "m", output_format=OutputFormat(None))["response_format"]["json_schema"]["schema"]
    assert schema["type"] == "object"


# ----------------------------------------------------------------------------------------------------------- sampling


def test_sampling_parameters_by_endpoint():
    fields = {"seed": 7, "presence_penalty": 0.5, "frequency_penalty": 0.25, "logprobs": True, "top_logprobs": 3}
    body = sent("openai", "gpt-4o", **fields)
    assert {name: body[name] for name in fields} == fields
    mistral = sent("mistral", "devstral", seed=7)
    assert (mistral["random_seed"], "seed" in mistral) == (7, False)
    dropped = Dropped()
    body = sent("gemini-compat", "gemini-3-pro", dropped=dropped, **fields)
    assert not set(fields) & set(body)
    assert dropped.losses == sorted(fields)


def test_a_penalty_of_zero_is_no_loss():
    dropped = Dropped()
    assert "presence_penalty" not in sent("xai", "grok-4", presence_penalty=0.0, dropped=dropped)
    assert dropped.losses == []


def test_a_temperature_above_the_endpoints_limit_is_clamped_and_named():
    dropped = Dropped()
    assert sent("zai", "glm-5", temperature=1.7, dropped=dropped)["temperature"] == 1.0
    assert dropped.losses == ["temperature"]
    assert sent("zai", "glm-5", temperature=0.5)["temperature"] == 0.5


def test_several_choices_are_refused_where_the_provider_gives_one():
    assert sent("openai", "gpt-4o", choices=3)["n"] == 3
    for provider in ("groq", "deepseek", "ollama"):
        with pytest.raises(BadRequest, match="n: the request asks for 3 responses"):
            sent(provider, "m", choices=3)
    assert "n" not in sent("groq", "m", choices=1)


# ---------------------------------------------------------------------------------------------------- a client's fields


def raw(**fields: str) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(value.encode()) for name, value in fields.items()}


def test_p23_fields_of_an_openai_client_pass_where_supported_and_are_named_elsewhere():
    extra = raw(service_tier='"flex"', logit_bias='{"1":2}', made_up="[1]")
    dropped = Dropped()
    body = sent("openai", "gpt-4o", extra=extra, api="openai", dropped=dropped)
    assert (body["service_tier"], body["logit_bias"]) == ("flex", {"1": 2})
    assert "made_up" not in body
    assert dropped.hints == ["made_up"]
    assert sent("vllm", "m", extra=extra, api="openai")["made_up"] == [1]
    dropped = Dropped()
    body = sent("mistral", "m", extra=extra, api="openai", dropped=dropped)
    assert not set(extra) & set(body)
    assert dropped.losses == ["logit_bias"]
    assert dropped.hints == ["service_tier", "made_up"]


def test_fields_of_a_client_of_another_api_never_pass():
    body = sent("vllm", "m", extra=raw(context_management="{}", made_up="1"), api="anthropic")
    assert "made_up" not in body
    assert "context_management" not in body


def test_the_conversation_and_the_profile_have_precedence_over_a_clients_field():
    assert sent("groq", "qwen/qwen3-32b", extra=raw(reasoning_format='"raw"'),
                api="openai")["reasoning_format"] == "raw"
    data = encode_request(
        Request(model="m", messages=[user("hi")], max_output_tokens=5, extra=raw(max_tokens="9"), api="openai"),
        Target(model="m", profile=find_profile("vllm", None, "m")), Dropped()).request.body
    assert data.count(b'"max_tokens"') == 1
    assert b'"max_tokens":5' in data


# ----------------------------------------------------------------------------------------------------------- messages


def test_p22_mistral_gets_nine_characters_and_a_bridge_after_results():
    body = sent("mistral", "m", user("go"), assistant(call("toolu_1")), user(result("toolu_1", "ok")), user("next"))
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    call_id = body["messages"][1]["tool_calls"][0]["id"]
    assert len(call_id) == 9
    assert body["messages"][2]["tool_call_id"] == call_id


def test_p17_at_most_four_cache_marks_stay_on_parts():
    marked = [Text(f"s{number}", cache=True) for number in range(3)]
    image = Media("image", media_type="image/png", data="iVBORw==", cache=True)
    answered = ToolResult("a", [Text("ok")], cache=True)
    body = sent("openrouter", "anthropic/claude-sonnet-4.5", user("go"), assistant(call("a")), user(answered, image),
                system=[*marked, Text("free")])
    parts = [part for message in body["messages"] if isinstance(message["content"], list)
             for part in message["content"]]
    assert [part.get("text", part["type"]) for part in parts if "cache_control" in part] == ["s1", "s2", "ok",
                                                                                            "image_url"]
    assert body["messages"][0]["content"][1]["cache_control"] == {"type": "ephemeral"}
    dropped = Dropped()
    plain = encode(user(Text("hi", cache=True)), system=marked, dropped=dropped)
    assert "cache_control" not in json.dumps(plain)
    assert dropped.hints == ["cache_control"]


def test_p17_cache_marks_keep_a_supported_lifetime():
    def marks(provider: str, model: str, dropped: Dropped, *times: bool | Literal["5m", "1h"]) -> list[object]:
        target = Target(model=model, profile=find_profile(provider, None, model))
        request = Request(model="m", messages=[user(*(Text("a", cache=time) for time in times))])
        body = json.loads(encode_request(request, target, dropped).request.body)
        return [part["cache_control"] for part in body["messages"][0]["content"]]

    plain, short, long = ({"type": "ephemeral", **time} for time in ({}, {"ttl": "5m"}, {"ttl": "1h"}))
    dropped = Dropped()
    assert marks("openrouter", "anthropic/claude-sonnet-4.5", dropped, "1h", "5m", True) == [long, short, plain]
    assert marks("dashscope", "qwen3-coder-plus", dropped, "5m") == [plain]
    assert not dropped.hints
    assert marks("dashscope", "qwen3-coder-plus", dropped, "1h") == [plain]
    assert dropped.hints == ["cache_control.ttl"]
    dropped = Dropped()
    assert marks("openrouter", "anthropic/claude-sonnet-4.5", dropped, True, "1h") == [plain, plain]
    assert dropped.hints == ["cache_control.ttl"]


def test_p17_texts_stay_separate_when_the_mark_moves():
    first = user(Text("a"), Text("b", cache=True))
    later = user(Text("a"), Text("b"))
    before = sent("dashscope", "qwen3-coder-plus", first)["messages"][0]["content"]
    after = sent("dashscope", "qwen3-coder-plus", later, assistant("yes"), first)["messages"][0]["content"]
    assert [part["text"] for part in before] == [part["text"] for part in after] == ["a", "b"]


def test_azures_classic_path_names_the_deployment():
    def path(base: str, model: str = "gpt-5-mini") -> str:
        target = Target(model=model, profile=find_profile("azure", None, model), base_path=base)
        return encode_request(Request(model="m", messages=[user("hi")]), target, Dropped()).request.path

    for base in ("", "/openai"):
        assert path(base) == "/openai/deployments/gpt-5-mini/chat/completions?api-version=2024-10-21"
    assert path("/openai", "my model/1").startswith("/openai/deployments/my%20model%2F1/chat/")
    assert path("/openai/deployments/mine") == "/openai/deployments/mine/chat/completions?api-version=2024-10-21"
    assert path("/openai/v1") == "/openai/v1/chat/completions"
