"""OpenAI's current models on Chat Completions (`endpoint: chat`): the fields that they take, and tools beside
reasoning.

The strict scripted provider refuses what the service refuses, so every request here is one that it answers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import RequestError, Translation
from tests.providers.openai_rules import refusal

OPENAI = "https://api.openai.com/v1"
AZURE = "https://name.openai.azure.com/openai/v1"
CLIENTS = ("anthropic", "openai")
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{"name": "get_weather", "input_schema": PARAMETERS}],
    "openai": [{"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}],
}
NEWEST = ("gpt-6", "gpt-6-sol", "gpt-6-luna", "gpt-6.1-terra", "gpt-6.2-sol", "gpt-7", "somebody-new", "gpt-5.5",
          "gpt-5.6-terra-2026-07-09")
WITHOUT_TOOLS = ("gpt-6-astra", "gpt-6.1-sol", "gpt-6.1-sol-2026-09-30", "gpt-5.4-pro")
SILENT: dict[str, dict[str, Any]] = {"anthropic": {}, "openai": {}}
HARD: dict[str, dict[str, Any]] = {
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 20_000}}, "openai": {"reasoning_effort": "high"}}
OFF: dict[str, dict[str, Any]] = {
    "anthropic": {"thinking": {"type": "disabled"}}, "openai": {"reasoning_effort": "none"}}


def ask(client: str, model: str, *, url: str = OPENAI, lossy: str = "report",
        **fields: Any) -> tuple[dict[str, Any], str]:
    """The body at the provider, which the provider accepts, and the losses."""
    talk = Translation(client, "openai", model, url=url, endpoint="chat", lossy=lossy)
    body = {"model": "m", "max_tokens": 32_000, "messages": [{"role": "user", "content": "hi"}], **fields}
    got: dict[str, Any] = json.loads(talk.request(json.dumps(body).encode()).body)
    refused = refusal(got, "azure" if url == AZURE else "openai")
    assert refused is None, refused
    talk.start(200, {"content-type": "application/json"})
    talk.feed(json.dumps({"id": "c", "object": "chat.completion", "model": model, "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Rain."}, "finish_reason": "stop"}]}).encode())
    talk.finish()
    assert talk.head is not None
    return got, talk.head.headers.get("x-extproc-dropped", "")


# --------------------------------------------------------------------------------------------------------------- fields


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("model", [*NEWEST, *WITHOUT_TOOLS])
def test_an_unknown_model_counts_as_one_of_the_newest(client: str, model: str) -> None:
    got, dropped = ask(client, model, temperature=0.3, top_p=0.9, **HARD[client])
    assert got["max_completion_tokens"] == 32_000
    assert "max_tokens" not in got
    assert got["reasoning_effort"] == "high"
    assert not {"temperature", "top_p"} & got.keys()
    assert {"temperature", "top_p"} <= set(dropped.split(", "))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "gpt-3.5-turbo", "ft:gpt-4o-mini-2024-07-18:acme::A1"])
def test_older_models_keep_their_rules(client: str, model: str) -> None:
    got, dropped = ask(client, model, temperature=0.3, max_tokens=1000, tools=TOOLS[client])
    assert got["max_tokens"] == 1000
    assert got["temperature"] == 0.3
    assert "reasoning_effort" not in got
    assert not dropped


@pytest.mark.parametrize(("model", "newest"), [("gpt-6-sol", True), ("gpt-7-sol", True), ("my-deployment", False)])
def test_at_azure_the_name_of_the_deployment_decides(model: str, newest: bool) -> None:
    got, _ = ask("anthropic", model, url=AZURE, **HARD["anthropic"])
    assert ("max_completion_tokens" in got) is newest
    assert got.get("reasoning_effort") == ("high" if newest else None)


# --------------------------------------------------------------------------------------------------------------- tools


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("url", "model"), [
    *((OPENAI, model) for model in (*NEWEST, "gpt-5.4", "gpt-5.4-mini")),
    (AZURE, "gpt-5.4"), (AZURE, "gpt-6-sol"), (AZURE, "gpt-6.2-sol")])
def test_with_tools_reasoning_is_switched_off_and_named(client: str, url: str, model: str) -> None:
    got, dropped = ask(client, model, url=url, tools=TOOLS[client], **HARD[client])
    assert got["reasoning_effort"] == "none"
    assert [tool["function"]["name"] for tool in got["tools"]] == ["get_weather"]
    assert dropped == "thinking"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("model", "named"), [("gpt-5.4", ""), ("gpt-5.5", "thinking"), ("gpt-6-luna", "thinking")])
def test_without_a_wish_the_lost_default_reasoning_is_named(client: str, model: str, named: str) -> None:
    got, dropped = ask(client, model, tools=TOOLS[client])
    assert got["reasoning_effort"] == "none"
    assert dropped == named


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("model", ["gpt-5.4", "gpt-5.6-sol", "gpt-6-sol"])
def test_a_request_without_reasoning_loses_nothing(client: str, model: str) -> None:
    got, dropped = ask(client, model, lossy="reject", tools=TOOLS[client], **OFF[client])
    assert got["reasoning_effort"] == "none"
    assert not dropped


@pytest.mark.parametrize("client", CLIENTS)
def test_lossy_reject_refuses_tools_beside_reasoning(client: str) -> None:
    with pytest.raises(RequestError) as refused:
        ask(client, "gpt-6-sol", lossy="reject", tools=TOOLS[client], **HARD[client])
    assert refused.value.status == 400
    assert b"thinking" in refused.value.body


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("model", ["gpt-5", "gpt-5.1", "gpt-5.2", "o4-mini"])
def test_earlier_models_reason_beside_tools(client: str, model: str) -> None:
    got, dropped = ask(client, model, lossy="reject", tools=TOOLS[client], **HARD[client])
    assert got["reasoning_effort"] == "high"
    assert got["tools"]
    assert not dropped


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("model", WITHOUT_TOOLS)
@pytest.mark.parametrize("said", [SILENT, HARD, OFF])
def test_a_model_without_tools_is_a_400_that_says_which_models_work(
        client: str, model: str, said: dict[str, dict[str, Any]]) -> None:
    with pytest.raises(RequestError) as refused:
        ask(client, model, tools=TOOLS[client], **said[client])
    assert refused.value.status == 400
    error = json.loads(refused.value.body)["error"]
    assert error["type"] == "invalid_request_error"
    assert model in error["message"]
    assert "gpt-6-luna" in error["message"]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("model", ["gpt-6-astra", "gpt-6-sol"])
def test_tool_choice_none_keeps_reasoning_and_removes_the_tools(client: str, model: str) -> None:
    none: Any = {"type": "none"} if client == "anthropic" else "none"
    got, dropped = ask(client, model, tools=TOOLS[client], tool_choice=none, **HARD[client])
    assert "tools" not in got
    assert got["reasoning_effort"] == "high"
    assert not dropped


def test_tools_in_the_prompt_leave_reasoning_on() -> None:
    talk = Translation("anthropic", "openai", "gpt-6-astra", url=OPENAI, endpoint="chat", tool_style="prompted")
    got = json.loads(talk.request(json.dumps({
        "model": "m", "max_tokens": 9000, "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS["anthropic"],
        **HARD["anthropic"]}).encode()).body)
    assert "tools" not in got
    assert got["reasoning_effort"] == "high"
    assert refusal(got) is None
    assert not talk.dropped.losses


def test_o3_mini_takes_stop_sequences() -> None:
    assert ask("openai", "o3-mini", stop=["END"])[0]["stop"] == ["END"]
    got, dropped = ask("openai", "o3", stop=["END"])
    assert "stop" not in got
    assert dropped == "stop"
