"""`tools.only`: the tools that a model may be offered, whatever its client brings and however the request travels."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import RequestError, Translation
from extproc.config import Attempt, Backend, ModelRule, ToolSettings
from tests.unit.ext_proc.playbook import request_body
from tests.unit.ext_proc.test_translate import ASK, hop, routed

SCHEMA = {"type": "object", "properties": {}}
NAMES = ("read_file", "read_dir", "write", "mcp__mail__send")
PAIRS = [(client, upstream) for client in ("anthropic", "openai", "events")
         for upstream in ("anthropic", "openai", "gemini")]
MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-4o", "gemini": "gemini-2.5-pro"}
URLS = {"anthropic": "https://api.anthropic.com/v1", "openai": "https://api.openai.com/v1",
        "gemini": "https://generativelanguage.googleapis.com/v1beta"}


def tool(client: str, name: str) -> dict[str, Any]:
    if client == "anthropic":
        return {"name": name, "input_schema": SCHEMA}
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA}}


def asked(client: str, upstream: str, only: list[str] | None, *, tools: list[dict[str, Any]] | None = None,
          lossy: str = "report", style: str = "auto", **fields: Any) -> tuple[dict[str, Any], Translation]:
    """What the provider gets of a request with `NAMES`."""
    talk = Translation(client, upstream, MODELS[upstream], url=URLS[upstream], only_tools=only, lossy=lossy,
                       tool_style=style)
    body = {"model": MODELS.get(client, "gpt-4o"), "max_tokens": 100, "messages": [{"role": "user", "content": "go"}],
            "tools": [tool(client, name) for name in NAMES] if tools is None else tools, **fields}
    return json.loads(talk.request(json.dumps(body).encode()).body), talk


def offered(body: dict[str, Any]) -> list[str]:
    """Names of the tools in a provider's request, whatever its API."""
    found: list[str] = []
    for one in body.get("tools", []):
        for entry in one.get("functionDeclarations", [one.get("function", one)]):
            found.append(entry.get("name", entry.get("type")))
    return found


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@pytest.mark.parametrize(("only", "kept"), [
    (None, list(NAMES)), (["*"], list(NAMES)), (["read_*"], ["read_file", "read_dir"]),
    (["write", "read_?ile", "nothing"], ["read_file", "write"]), (["[rw]*"], []), ([], [])])
def test_other_tools_are_not_offered_and_named(client: str, upstream: str, only: list[str] | None,
                                               kept: list[str]) -> None:
    body, talk = asked(client, upstream, only)
    assert offered(body) == kept
    assert [name for name in talk.dropped.losses if name.startswith("tools.")] == [
        f"tools.{name}" for name in NAMES if name not in kept]


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
def test_tools_in_the_prompt_are_those_alone(client: str, upstream: str) -> None:
    body, _ = asked(client, upstream, ["read_*"], style="prompted")
    assert "read_file" in json.dumps(body)
    assert "mcp__mail__send" not in json.dumps(body)


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_where_bytes_pass_the_rest_stays_as_the_client_wrote_it(api: str) -> None:
    """Fields that nobody knows pass between two of one API; so they do beside a shortened list."""
    body, talk = asked(api, api, ["read_*"], brand_new={"a": 1})
    assert body["brand_new"] == {"a": 1}
    assert body["tools"] == [tool(api, "read_file"), tool(api, "read_dir")]
    assert talk.dropped.losses == ["tools.write", "tools.mcp__mail__send"]


@pytest.mark.parametrize(("client", "upstream"), PAIRS)
@pytest.mark.parametrize("name", ["write", "read_file"])
def test_a_choice_of_a_tool_that_is_not_offered_goes_with_it(client: str, upstream: str, name: str) -> None:
    choice = {"type": "tool", "name": name} if client == "anthropic" else {"type": "function",
                                                                          "function": {"name": name}}
    body, talk = asked(client, upstream, ["read_*"], tool_choice=choice)
    assert offered(body) == ["read_file", "read_dir"]
    assert ("tool_choice" in talk.dropped.losses) is (name == "write")
    assert (name in json.dumps([body.get("tool_choice"), body.get("toolConfig")])) is (name == "read_file")


@pytest.mark.parametrize("upstream", list(MODELS))
def test_must_call_with_nothing_left_to_call(upstream: str) -> None:
    for client, choice in (("anthropic", {"type": "any"}), ("openai", "required")):
        body, talk = asked(client, upstream, ["nothing"], tool_choice=choice)
        assert not {"tools", "tool_choice", "toolConfig"} & set(body)
        assert "tool_choice" in talk.dropped.losses


@pytest.mark.parametrize(("names", "kept"), [(["write", "read_dir"], ["read_dir"]), (["write"], [])])
def test_an_allowed_list_of_the_client_is_narrowed(names: list[str], kept: list[str]) -> None:
    choice = {"type": "allowed_tools", "allowed_tools": {
        "mode": "auto", "tools": [{"type": "function", "function": {"name": name}} for name in names]}}
    body, _ = asked("openai", "openai", ["read_*"], tool_choice=choice)
    assert body["tool_choice"] == ("auto" if kept else "none")
    assert offered(body) == (kept or ["read_file", "read_dir"])


def test_tools_that_the_provider_runs_are_no_exception() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    tools = [tool("anthropic", "write"), search]
    assert offered(asked("anthropic", "anthropic", ["write"], tools=tools)[0]) == ["write"]
    assert offered(asked("anthropic", "anthropic", ["web_search"], tools=tools)[0]) == ["web_search"]
    assert offered(asked("anthropic", "anthropic", ["web_search_2025*"], tools=tools)[0]) == ["web_search"]
    servers = [{"type": "url", "url": "https://mcp.example", "name": "mail"}]
    body, talk = asked("anthropic", "anthropic", ["write"], tools=tools, mcp_servers=servers)
    assert "mcp_servers" not in body, "an endpoint would offer all of their tools"
    assert talk.dropped.losses == ["mcp_servers", "tools.web_search"]
    assert asked("anthropic", "anthropic", ["*"], tools=tools, mcp_servers=servers)[0]["mcp_servers"] == servers


def test_a_strict_gateway_refuses_what_it_would_leave_out() -> None:
    with pytest.raises(RequestError) as refused:
        asked("anthropic", "anthropic", ["read_*"], lossy="reject")
    assert b"tools.write" in refused.value.body
    asked("anthropic", "anthropic", ["*"], lossy="reject")


def test_the_count_is_that_of_the_tools_that_are_offered() -> None:
    tools = ToolSettings(only=["read_*"], max=2)
    play = hop(backends={"alpha": Backend(api="openai", url="https://alpha.example/v1", tools=tools)},
               models=[ModelRule(match="one", attempts=[Attempt(backend="alpha", model="m")])])
    play >> routed(play) >> request_body({**ASK, "tools": [tool("anthropic", name) for name in NAMES]})
    assert offered(json.loads(play.take()[1][1])) == ["read_file", "read_dir"]
