"""Fields of an OpenAI client for a server of the same API, extensions included, reach that server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from tests.providers.openai_rules import refusal

UNKNOWN, OPENROUTER, KILO = "https://llm.example.com/v1", "https://openrouter.ai/api/v1", "https://api.kilo.ai/api"
MARK = {"type": "ephemeral"}
LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


def ask(url: str, model: str, *, client: str = "openai", lossy: str = "reject",
        **fields: Any) -> tuple[dict[str, Any], list[str]]:
    talk = Translation(client, "openai", model, url=url, lossy=lossy)
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    got: dict[str, Any] = json.loads(talk.request(json.dumps(body).encode()).body)
    return got, [*talk.dropped.losses, *talk.dropped.hints]


# ---------------------------------------------------------------------------------------------------- an unknown host


@pytest.mark.parametrize("reasoning", [
    {"effort": "high"}, {"effort": "xhigh", "exclude": True}, {"max_tokens": 3000},
    {"enabled": True, "summary": "auto"}, {"effort": "low", "made_up": 1}])
def test_a_reasoning_object_passes(reasoning: dict[str, Any]) -> None:
    got, named = ask(UNKNOWN, "vendor/model", reasoning=reasoning)
    assert got["reasoning"] == reasoning
    assert "reasoning_effort" not in got
    assert named == []


def test_an_effort_alone_is_sent_as_usual() -> None:
    assert ask(UNKNOWN, "vendor/model", reasoning_effort="high")[0]["reasoning_effort"] == "high"
    assert ask(UNKNOWN, "vendor/model", reasoning_effort="max")[0]["reasoning_effort"] == "high"


def test_requests_of_another_api_use_the_fields_of_the_format() -> None:
    got, _ = ask(UNKNOWN, "vendor/model", client="anthropic", max_tokens=9000,
                 thinking={"type": "enabled", "budget_tokens": 8000})
    assert got["reasoning_effort"] == "medium"


DETAILS = [
    {"type": "reasoning.summary", "summary": "I think.", "format": "openai-responses-v1", "index": 0, "id": "rs_1"},
    {"type": "reasoning.encrypted", "data": "gAAAAB", "format": "openai-responses-v1", "index": 0, "id": "rs_1"},
    {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 1},
]


def talk_with(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    call = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [{"role": "user", "content": "look"},
            {"role": "assistant", "content": None, "reasoning": "I think.", "reasoning_details": details,
             "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "seen"}]


def test_reasoning_details_pass() -> None:
    got, named = ask(UNKNOWN, "vendor/model", messages=talk_with(DETAILS), tools=[LOOK])
    assert got["messages"][1]["reasoning_details"] == DETAILS
    assert named == []


def test_embedded_signatures_go_back_to_their_issuer_and_to_nobody_else() -> None:
    sealed = DETAILS[1]
    talk = Translation("openai", "openai", "vendor/model", url=UNKNOWN)
    talk.request(json.dumps({"model": "m", "messages": talk_with([])[:1], "tools": [LOOK]}).encode())
    talk.start(200, {"content-type": "application/json"})
    talk.feed(json.dumps({"id": "c", "model": "x", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        **talk_with([sealed])[1]}}]}).encode())
    answered = json.loads(talk.finish())["choices"][0]["message"]
    assert answered["reasoning_details"][0].get("data") != "gAAAAB"
    later = talk_with(answered["reasoning_details"])
    got, _ = ask(UNKNOWN, "vendor/model", messages=later, tools=[LOOK])
    assert [item["data"] for item in got["messages"][1]["reasoning_details"] if "data" in item] == ["gAAAAB"]
    got, named = ask("https://other.example.com/v1", "vendor/model", messages=later, tools=[LOOK])
    assert "gAAAAB" not in json.dumps(got)
    assert "reasoning_details" not in got["messages"][1]
    assert "messages.thinking" in named


# --------------------------------------------------------------------------------------------------------- OpenRouter


@pytest.mark.parametrize("url", [OPENROUTER, KILO])
@pytest.mark.parametrize("model", ["anthropic/claude-sonnet-4.5", "qwen/qwen3-coder", "x-ai/grok-4"])
def test_marks_and_eager_streaming_of_tools_pass(url: str, model: str) -> None:
    tool = {**LOOK, "cache_control": MARK, "eager_input_streaming": True}
    got, named = ask(url, model, tools=[tool])
    assert got["tools"] == [tool]
    assert named == []
    assert refusal(got, "openrouter") is None


def test_marks_inside_the_function_mean_the_same() -> None:
    tool = {"type": "function", "function": {**LOOK["function"], "cache_control": {**MARK, "ttl": "1h"},  # type: ignore[dict-item]
                                             "eager_input_streaming": False}}
    got, named = ask(OPENROUTER, "anthropic/claude-sonnet-4.5", tools=[tool])
    assert got["tools"] == [{**LOOK, "cache_control": {**MARK, "ttl": "1h"}, "eager_input_streaming": False}]
    assert named == []


def test_marks_of_tools_count_among_the_four() -> None:
    tools = [{**LOOK, "cache_control": MARK}]
    parts = [{"type": "text", "text": text, "cache_control": MARK} for text in "abcd"]
    got, _ = ask(OPENROUTER, "anthropic/claude-sonnet-4.5", tools=tools, messages=[{"role": "user", "content": parts}])
    assert json.dumps(got).count("cache_control") == 4
    assert "cache_control" not in got["tools"][0]


def test_a_cache_mark_of_a_messages_client_on_a_tool_reaches_claude() -> None:
    got, named = ask(OPENROUTER, "anthropic/claude-sonnet-4.5", client="anthropic", max_tokens=50, tools=[
        {"name": "look", "input_schema": {"type": "object", "properties": {}}, "cache_control": MARK}])
    assert got["tools"][0]["cache_control"] == MARK
    assert named == []


def test_other_endpoints_name_both_and_unknown_fields_beside_a_function() -> None:
    tool = {**LOOK, "cache_control": MARK, "eager_input_streaming": True, "made_up": 1}
    got, named = ask("https://api.groq.com/openai/v1", "llama-3.3-70b-versatile", tools=[tool])
    assert got["tools"][0].keys() == {"type", "function"}
    assert set(named) == {"cache_control", "tools.eager_input_streaming", "tools.made_up"}


@pytest.mark.parametrize("url", [OPENROUTER, UNKNOWN])
@pytest.mark.parametrize("stream", [True, False])
def test_usage_include_passes(url: str, stream: bool) -> None:
    got, named = ask(url, "vendor/model", stream=stream, usage={"include": True})
    assert got["usage"] == {"include": True}
    assert named == []


def test_other_endpoints_send_usage_anyway() -> None:
    got, named = ask("https://api.groq.com/openai/v1", "llama-3.3-70b-versatile", stream=True, usage={"include": True})
    assert "usage" not in got
    assert got["stream_options"] == {"include_usage": True}
    assert named == []


SEARCH = {"type": "openrouter:web_search", "parameters": {"max_results": 3}}


@pytest.mark.parametrize("url", [OPENROUTER, KILO])
@pytest.mark.parametrize("own", [[], [LOOK]])
def test_openrouters_server_tools_pass(url: str, own: list[dict[str, Any]]) -> None:
    got, named = ask(url, "openai/gpt-5", tools=[*own, SEARCH], tool_choice="auto")
    assert got["tools"] == [*own, SEARCH]
    assert [message["role"] for message in got["messages"]] == ["user"]
    assert named == []


def test_other_endpoints_name_server_tools() -> None:
    got, named = ask(UNKNOWN, "vendor/model", lossy="report", tools=[LOOK, SEARCH])
    assert len(got["tools"]) == 1
    assert named == ["tools.openrouter:web_search"]


# -------------------------------------------------------------------------------------------------------- other hosts


def test_mistral_gets_the_key_of_its_prompt_cache() -> None:
    got, named = ask("https://api.mistral.ai/v1", "mistral-large-latest", prompt_cache_key="session-1")
    assert got["prompt_cache_key"] == "session-1"
    assert named == []
    assert refusal(got, "mistral") is None


@pytest.mark.parametrize("wanted", ["raw", "hidden", "parsed"])
def test_groq_gets_the_clients_reasoning_format(wanted: str) -> None:
    got, named = ask("https://api.groq.com/openai/v1", "qwen/qwen3-32b", reasoning_format=wanted)
    assert got["reasoning_format"] == wanted
    assert named == []
    assert ask("https://api.groq.com/openai/v1", "qwen/qwen3-32b")[0]["reasoning_format"] == "parsed"
