"""A coding agent on Gemini: the eleven tools of Claude Code, in schemas of the shape that those have, all called.

Every model and door must take the declarations, give the calls back under the agent's own names, and take the results.
The system blocks and the system message in the middle are the agent's, too.
"""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from tests.e2e.gemini.talk import IMAGE, Conversation, calls_of, outputs, said
from tests.providers.gemini import GeminiProvider, calls, text

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def tool(name: str, required: list[str], **properties: Any) -> dict[str, Any]:
    return {"name": name, "description": f"The tool {name}.", "input_schema": {
        "$schema": DRAFT, "type": "object", "properties": properties, "required": required,
        "additionalProperties": False}}


def words(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


def objects(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


TODO = objects("content", "status", "activeForm", content=words("What", minLength=1),
               status={"type": "string", "enum": ["pending", "in_progress", "completed"]},
               activeForm=words("While doing it", minLength=1))
OPTION = objects("label", "description", label=words("Shown"), description=words("Means"))
QUESTION = objects("question", "header", "options", "multiSelect", question=words("Asked"), header=words("Short"),
                   options={"type": "array", "items": OPTION, "minItems": 2, "maxItems": 4},
                   multiSelect={"type": "boolean", "default": False})
AGENT_TOOLS = [
    tool("TodoWrite", ["todos"], todos={"type": "array", "items": TODO, "description": "The list"}),
    tool("Task", ["description", "prompt", "subagent_type"], description=words("Short"), prompt=words("Long"),
         subagent_type=words("Which"), model={"type": "string", "enum": ["sonnet", "opus", "haiku"]}),
    tool("Bash", ["command"], command=words("What to run"), timeout={"type": "number", "maximum": 600_000},
         run_in_background={"type": "boolean"}),
    tool("Read", ["file_path"], file_path=words("Path"),
         offset={"type": "integer", "minimum": 0, "maximum": 9007199254740991},
         limit={"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
         pages=words("Pages of a PDF", pattern="^[0-9]+(-[0-9]+)?$")),
    tool("Edit", ["file_path", "old_string", "new_string"], file_path=words("Path"), old_string=words("Old"),
         new_string=words("New"), replace_all={"type": "boolean", "default": False}),
    tool("Write", ["file_path", "content"], file_path=words("Path"), content=words("All of it")),
    tool("Glob", ["pattern"], pattern=words("Pattern"), path=words("Where")),
    tool("Grep", ["pattern"], pattern=words("Expression"), path=words("Where"), **{
        "-A": {"type": "number"}, "-i": {"type": "boolean"}, "type": words("Kind of file"),
        "output_mode": {"type": "string", "enum": ["content", "files_with_matches", "count"]}}),
    tool("AskUserQuestion", ["questions"],
         questions={"type": "array", "items": QUESTION, "minItems": 1, "maxItems": 4},
         answers={"type": "object", "additionalProperties": {"type": "string"}, "propertyNames": {"type": "string"}}),
    tool("WebFetch", ["url", "prompt"], url=words("Where", format="uri"), prompt=words("What for")),
    tool("WebSearch", ["query"], query=words("What", minLength=2),
         allowed_domains={"type": "array", "items": {"type": "string"}}),
]
MCP_TOOLS: list[Any] = [
    {"name": "mcp__tree__" + "deep_" * 14, "input_schema": {
        "type": "object", "$defs": {"node": {"type": "object", "properties": {
            "value": {"type": ["integer", "null"]}, "kind": {"const": "leaf"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
        "properties": {"root": {"$ref": "#/$defs/node"}, "level": {"enum": [1, 2, None]},
                       "labels": {"type": "object", "additionalProperties": {"type": "string"}}}}},
    {"name": "mcp__bare__tool", "input_schema": {"type": "object"}},
]
INPUTS: dict[str, dict[str, Any]] = {
    "TodoWrite": {"todos": [{"content": "a", "status": "pending", "activeForm": "b"}]},
    "Task": {"description": "d", "prompt": "p", "subagent_type": "Explore"}, "Bash": {"command": "ls -la"},
    "Read": {"file_path": "/a.png", "limit": 5}, "Edit": {"file_path": "/a", "old_string": "x\n", "new_string": "\ty"},
    "Write": {"file_path": "/b", "content": "ü\n\"quoted\" \\ 🎈"}, "Glob": {"pattern": "**/*.py"},
    "Grep": {"pattern": "a|b", "-A": 2, "type": "py"}, "AskUserQuestion": {"questions": [{
        "question": "q", "header": "h", "options": [{"label": "l", "description": "d"}] * 2, "multiSelect": False}]},
    "WebFetch": {"url": "https://example.com", "prompt": "p"}, "WebSearch": {"query": "what"},
    MCP_TOOLS[0]["name"]: {"root": {"value": None, "children": []}}, "mcp__bare__tool": {},
}


@pytest.mark.parametrize("model", ["three", "flash", "two", "vertex", "vertex-two"])
def test_every_tool_of_a_coding_agent(client: anthropic.Anthropic, gemini: GeminiProvider, model: str) -> None:
    def call_all(seen: Any) -> Any:
        declared = [one["name"] for one in seen.body["tools"][0]["functionDeclarations"]]
        return calls(*zip(declared, INPUTS.values(), strict=True), thoughts="All of them.", content="Now:")(seen)

    gemini.script(call_all, text("done", signature="empty"))
    talk = Conversation(
        client, model, tools=[*AGENT_TOOLS, *MCP_TOOLS], max_tokens=32_000, thinking={"type": "adaptive"},
        output_config={"effort": "medium"}, metadata={"user_id": "{" + '"device_id":"' + "a" * 120 + '"}'},
        system=[{"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}}])
    message = talk.turn(*["ok"] * 3, [{"type": "text", "text": "page 1"}, IMAGE], *["ok"] * 8, "")
    assert [(block.name, block.input) for block in calls_of(message)] == list(INPUTS.items())
    assert said(talk.turn()) == "done"
    assert len(outputs(gemini.last.held("functionResponse"))) == len(INPUTS)


def test_a_system_message_in_the_middle(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    """Claude Code says there which tools it can load; the model must learn of it."""
    gemini.script(calls(("Bash", {"command": "ls"})), text("done"))
    talk = Conversation(client, "three", tools=AGENT_TOOLS)
    talk.messages.append({"role": "system", "content": [{"type": "text", "text": "More tools: Monitor."}]})
    talk.turn("a.py")
    talk.turn()
    assert "More tools: Monitor." in gemini.last.raw.decode()
    assert gemini.last.roles() == ["user", "model", "user"]
