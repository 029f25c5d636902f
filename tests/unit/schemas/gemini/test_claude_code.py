"""The tools of a coding agent, with their real schemas."""

from __future__ import annotations

import pytest

from tests.unit.schemas.gemini.forms import tool

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def shape(required: list[str], **properties: dict) -> dict:
    return {"$schema": DRAFT, "type": "object", "properties": properties, "required": required,
            "additionalProperties": False}


TEXT = {"type": "string", "description": "What it says"}
TOOLS = {
    "TodoWrite": shape(["todos"], todos={"type": "array", "description": "The list", "items": {
        "type": "object", "properties": {"content": {"type": "string", "minLength": 1},
                                         "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                                         "activeForm": {"type": "string", "minLength": 1}},
        "required": ["content", "status", "activeForm"], "additionalProperties": False}}),
    "Task": shape(["description", "prompt"], description=TEXT, prompt=TEXT, subagent_type=TEXT,
                  model={"type": "string", "enum": ["sonnet", "opus", "haiku"]},
                  run_in_background={"type": "boolean"}),
    "Bash": shape(["command"], command=TEXT, timeout={"type": "number", "description": "Milliseconds"},
                  run_in_background={"type": "boolean", "default": False}),
    "Read": shape(["file_path"], file_path=TEXT,
                  offset={"type": "integer", "minimum": 0, "maximum": 9007199254740991},
                  limit={"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991},
                  pages={"type": "string", "pattern": "^[0-9-]+$"}),
    "Edit": shape(["file_path", "old_string", "new_string"], file_path=TEXT, old_string=TEXT, new_string=TEXT,
                  replace_all={"type": "boolean", "default": False}),
    "Write": shape(["file_path", "content"], file_path=TEXT, content=TEXT),
    "Glob": shape(["pattern"], pattern=TEXT, path=TEXT),
    "Grep": shape(["pattern"], **{"pattern": TEXT, "path": TEXT, "-i": {"type": "boolean"}, "-A": {"type": "number"},
                                  "output_mode": {"type": "string",
                                                  "enum": ["content", "files_with_matches", "count"]}}),
    "AskUserQuestion": shape(["questions"], questions={
        "type": "array", "minItems": 1, "maxItems": 4, "items": {
            "type": "object", "properties": {
                "question": TEXT, "header": {"type": "string", "maxLength": 12},
                "options": {"type": "array", "minItems": 2, "maxItems": 4, "items": {
                    "type": "object", "properties": {"label": TEXT, "description": TEXT},
                    "required": ["label", "description"], "additionalProperties": False}},
                "multiSelect": {"type": "boolean", "default": False}},
            "required": ["question", "header", "options"], "additionalProperties": False}},
        answers={"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "string"}}),
    "WebFetch": shape(["url", "prompt"], url={"type": "string", "format": "uri"}, prompt=TEXT),
    "WebSearch": shape(["query"], query={"type": "string", "minLength": 2},
                       allowed_domains={"type": "array", "items": {"type": "string"}}),
}


def property_paths(schema: dict) -> list[str]:
    """Every property of a schema, with its path."""
    found = []
    for name, inner in schema.get("properties", {}).items():
        found += [name, *(f"{name}.{deeper}" for deeper in property_paths(inner))]
    if "items" in schema:
        found += property_paths(schema["items"])
    return found


@pytest.mark.parametrize("form", [{}, {"vertex": True}, {"json_schema": True}], ids=["openapi", "vertex", "json"])
@pytest.mark.parametrize("name", TOOLS)
def test_every_tool_keeps_its_properties_and_its_required_names(name, form):
    written = tool(TOOLS[name], **form)
    assert property_paths(written) == property_paths(TOOLS[name])
    assert written["required"] == TOOLS[name]["required"]


def test_their_keywords_are_kept_or_described():
    read = tool(TOOLS["Read"])["properties"]
    assert read["limit"] == {"type": "INTEGER", "minimum": 1, "maximum": 9007199254740991}
    assert read["pages"] == {"type": "STRING", "pattern": "^[0-9-]+$"}
    assert tool(TOOLS["Edit"])["properties"]["replace_all"] == {"type": "BOOLEAN", "description": "Default: false."}
    assert tool(TOOLS["WebFetch"])["properties"]["url"] == {"type": "STRING", "description": "Format: uri."}
    question = tool(TOOLS["AskUserQuestion"], json_schema=True)["properties"]["questions"]
    assert (question["minItems"], question["maxItems"]) == (1, 4)
    assert question["items"]["properties"]["header"] == {"type": "string", "description": "At most 12 characters."}
    assert tool(TOOLS["AskUserQuestion"], json_schema=True)["properties"]["answers"] == {
        "type": "object", "additionalProperties": {"type": "string"}}


def test_a_tool_of_an_mcp_server_with_every_unusual_keyword():
    """Keywords of real MCP tools: a recursive reference, typed enums with null, unions of types."""
    schema = {"type": "object", "properties": {
        "tree": {"$ref": "#/$defs/Node"}, "level": {"enum": [1, 2, None]}, "count": {"type": ["integer", "null"]},
        "mode": {"const": "fast"}, "meta": {"type": "object", "propertyNames": {"pattern": "^x-"},
                                            "additionalProperties": {"type": "string"}},
        "link": {"type": "string", "format": "uri"}, "ratio": {"type": "number", "exclusiveMinimum": 0}},
        "$defs": {"Node": {"type": "object", "properties": {"v": {"type": "string"},
                                                            "next": {"$ref": "#/$defs/Node"}}}}}
    for form in ({}, {"vertex": True}, {"json_schema": True}):
        assert list(tool(schema, **form)["properties"]) == list(schema["properties"])
