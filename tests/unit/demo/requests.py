"""Requests for the demo in Chat Completions format, and tools like those of coding clients."""

from __future__ import annotations

from typing import Any


def tool(name: str, description: str = "", required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(required or properties)}}}


BASH = tool("Bash", "Executes a bash command and returns its output.", ("command",),
            command={"type": "string"}, timeout={"type": "number"})
READ = tool("Read", "Reads a file from the local filesystem.", file_path={"type": "string"})
GLOB = tool("Glob", "Fast file pattern matching", pattern={"type": "string"})
WEATHER = tool("get_weather", "Get the current weather", location={"type": "string"})


def ask(text: str, *tools: dict[str, Any], **fields: Any) -> dict[str, Any]:
    request: dict[str, Any] = {"model": "demo", "messages": [{"role": "user", "content": text}], **fields}
    return request | ({"tools": list(tools)} if tools else {})


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
