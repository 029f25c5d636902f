"""`tool_addition` and `tool_removal` in a conversation: other APIs get the list of tools at its end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from extproc.errors import RequestError
from tests.providers import gemini_rules, openai_rules

Json = dict[str, Any]
USER: Json = {"role": "user", "content": "hi"}
BETA = {"anthropic-beta": "mid-conversation-tool-changes-2026-07-01"}
CLAUDE = ("anthropic", "https://api.anthropic.com/v1", "claude-opus-5")
OTHERS = [("openai", "http://127.0.0.1:9/v1", "some-model"),
          ("gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini-2.5-flash"),
          ("anthropic", "https://api.deepseek.com/anthropic", "deepseek-chat"),
          ("anthropic", "https://bedrock-mantle.us-east-1.api.aws/anthropic", "anthropic.claude-opus-5")]


def tool(name: str, **more: Any) -> Json:
    return {"name": name, "input_schema": {"type": "object", "properties": {}}, **more}


def change(kind: str, name: str) -> Json:
    return {"type": f"tool_{kind}", "tool": {"type": "tool_reference", "name": name}}


def system(*content: Json) -> Json:
    return {"role": "system", "content": list(content)}


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def body_of(provider: tuple[str, str, str], *messages: Json, tools: list[Json], lossy: str = "report",
         **more: Any) -> tuple[Json, Translation]:
    upstream, url, model = provider
    talk = Translation("anthropic", upstream, url=url, model=model, lossy=lossy)
    body = {"model": "claude-opus-5", "max_tokens": 100, "messages": list(messages), "tools": tools, **more}
    out: Json = json.loads(talk.request(json.dumps(body).encode(), BETA).body)
    if upstream == "openai":
        assert openai_rules.refusal(out) is None
    if upstream == "gemini":
        assert gemini_rules.refusal(out, model) is None
    return out, talk


def offered(body: Json) -> list[str]:
    names: list[str] = []
    for one in body.get("tools", ()):
        functions = one.get("functionDeclarations") or [one.get("function") or one]
        names += [function["name"] for function in functions]
    return names


@pytest.mark.parametrize("provider", OTHERS)
@pytest.mark.parametrize(("tools", "changes", "left"), [
    ([tool("a"), tool("b")], [change("removal", "a")], ["b"]),
    ([tool("a"), tool("b", defer_loading=True)], [change("addition", "b")], ["a", "b"]),
    ([tool("a"), tool("b", defer_loading=True)], [change("removal", "a"), change("addition", "b")], ["b"]),
    ([tool("a"), tool("b")], [change("removal", "a"), change("addition", "a")], ["a", "b"]),
    ([tool("a"), tool("b", defer_loading=True), tool("c", defer_loading=True)], [change("addition", "c")], ["a", "c"]),
    ([tool("a"), tool("b")], [change("removal", "gone")], ["a", "b"])])
def test_3_8_the_list_is_that_of_the_end(provider: tuple[str, str, str], tools: list[Json], changes: list[Json],
                                              left: list[str]) -> None:
    """Each change in a system message of its own, as the conversation continues."""
    messages = [USER]
    for one in changes:
        messages += [{"role": "assistant", "content": "ok"}, system(one), USER]
    body, talk = body_of(provider, *messages, tools=tools, lossy="reject")
    assert offered(body) == left
    assert "tool_addition" not in json.dumps(body)
    assert "tool_removal" not in json.dumps(body)
    assert talk.dropped.losses == []


@pytest.mark.parametrize("provider", OTHERS)
def test_3_8_text_beside_a_change_stays(provider: tuple[str, str, str]) -> None:
    body, _ = body_of(provider, USER, system(text_block("From now on without a."), change("removal", "a")), USER,
                   tools=[tool("a"), tool("b")])
    assert offered(body) == ["b"]
    assert "From now on without a." in json.dumps(body)


@pytest.mark.parametrize("provider", OTHERS)
def test_3_8_system_text_inside_a_user_message_and_its_changes(provider: tuple[str, str, str]) -> None:
    inner = {"type": "mid_conv_system", "content": [text_block("Be brief."), change("removal", "a")]}
    body, talk = body_of(provider, {"role": "user", "content": [text_block("one"), inner, text_block("two")]},
                      tools=[tool("a"), tool("b")])
    assert offered(body) == ["b"]
    text = json.dumps(body)
    assert "Be brief." in text
    assert text.index("one") < text.index("two")
    assert talk.dropped.losses == []


@pytest.mark.parametrize("provider", OTHERS[:3])
def test_3_8_a_compaction_sums_up_the_changes_before_it(provider: tuple[str, str, str]) -> None:
    summary = {"type": "compaction", "content": "They talked.", "tool_changes": [change("removal", "a")]}
    body, _ = body_of(provider, {"role": "assistant", "content": [summary]}, USER, tools=[tool("a"), tool("b")])
    assert offered(body) == ["b"]
    assert "They talked." in json.dumps(body)


@pytest.mark.parametrize("provider", OTHERS)
def test_3_8_a_tool_defined_inside_the_conversation(provider: tuple[str, str, str]) -> None:
    new = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": tool("new", description="does")}}
    body, _ = body_of(provider, USER, system(new), USER, tools=[tool("a")])
    assert offered(body) == ["a", "new"]
    assert "does" in json.dumps(body["tools"])


def test_3_8_a_server_tool_can_be_removed() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    body, talk = body_of(OTHERS[0], USER, system(change("removal", "web_search")), USER, tools=[tool("a"), search])
    assert offered(body) == ["a"]
    assert talk.dropped.losses == [], "a tool that is not offered is no loss"


def test_3_8_tools_that_the_clients_own_search_found_are_offered() -> None:
    """Claude Code: the result of its tool search names the tools."""
    loaded = [{"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ToolSearch", "input": {}}]},
              {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [
                  {"type": "tool_reference", "tool_name": "b"}]}]}]
    tools = [tool("ToolSearch"), tool("a"), tool("b", defer_loading=True), tool("c", defer_loading=True)]
    body, _ = body_of(OTHERS[0], USER, *loaded, system(change("removal", "a")), USER, tools=tools)
    assert offered(body) == ["ToolSearch", "b"]
    body, _ = body_of(OTHERS[0], USER, *loaded, tools=tools)
    assert offered(body) == ["ToolSearch", "a", "b", "c"], "a client without changes gets all tools"


def test_3_8_deferred_tools_of_anthropics_search_are_offered() -> None:
    search = {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}
    body, _ = body_of(OTHERS[0], USER, system(change("removal", "a")), USER,
                   tools=[search, tool("a"), tool("b", defer_loading=True)])
    assert offered(body) == ["b"]


def test_3_8_an_undeclared_added_tool_is_a_loss() -> None:
    _, talk = body_of(OTHERS[0], USER, system(change("addition", "nobody")), USER, tools=[tool("a")])
    assert talk.dropped.losses == ["messages.tool_addition"]


@pytest.mark.parametrize("block", [{"type": "tool_addition"}, {"type": "tool_removal", "tool": {}},
                                   {"type": "tool_addition", "tool": {"type": "tool_reference"}},
                                   {"type": "tool_addition", "tool": 3}])
def test_3_8_a_change_without_a_tool_is_refused_with_its_place(block: Json) -> None:
    with pytest.raises(RequestError) as refused:
        body_of(OTHERS[0], USER, system(block), USER, tools=[tool("a")])
    assert "messages[1].content[0]" in json.loads(refused.value.body)["error"]["message"]


def test_3_8_anthropic_gets_the_blocks_unchanged() -> None:
    messages = [USER, system(change("removal", "a")), USER]
    body, _ = body_of(CLAUDE, *messages, tools=[tool("a"), tool("b")])
    assert body["messages"] == messages
    assert offered(body) == ["a", "b"]


def test_3_8_the_same_conversation_gives_the_same_bytes() -> None:
    messages = [USER, system(change("removal", "b"), change("addition", "c")), USER]
    tools = [tool("c", defer_loading=True), tool("b"), tool("a")]
    assert body_of(OTHERS[0], *messages, tools=tools)[0] == body_of(OTHERS[0], *messages, tools=tools)[0]
    assert offered(body_of(OTHERS[0], *messages, tools=tools)[0]) == ["c", "a"]
