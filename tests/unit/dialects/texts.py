"""Model text at every cut, streamed and whole: one result, or the test fails."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.dialects.cases import answer, cuts, sse_bytes, text_chunks


def tool(name: str, required: tuple[str, ...] = (), **parameters: str | dict[str, Any]) -> dict[str, Any]:
    """A tool in the OpenAI format; a parameter is its type or its schema."""
    properties = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in parameters.items()}
    return {"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": properties, "required": list(required)}}}


TOOLS = [
    tool("ping"),
    tool("lookup", harbor="string", day="string"),
    tool("save_file", path="string", content="string"),
    tool("set_valve", valve_id="integer", opening="number", locked="boolean", tags="array", limits="object",
         operator={"type": ["string", "null"]}),
    tool("mcp__atlas__find-docs.v2", q="string", top="integer"),
]


def read(raw: str, dialect: str | None, *, tools: list[dict[str, Any]] | None = None, finish: str = "stop",
         model: str = "m", **settings: Any) -> tuple[str, list[tuple[str, Any]], str]:
    """(content without its ends, calls, finish reason) of the answer `raw`."""
    tools = TOOLS if tools is None else tools
    if dialect is not None:
        settings["dialect"] = dialect
    results = []
    for pieces in cuts(raw):
        got = answer(sse_bytes(text_chunks(pieces, finish)), tools, model=model, **settings)
        results.append(_result(got))
    if finish == "stop":
        whole = answer(sse_bytes(text_chunks([raw], finish)), tools, model=model, streamed=False, **settings)
        results.append(_result(whole))
    first = results[0]
    assert all(result == first for result in results), results
    return first


def _result(got: dict[str, Any]) -> tuple[str, list[tuple[str, Any]], str]:
    return got["content"].strip(), [(name, _arguments(text)) for name, text in got["tool_calls"]], got["finish_reason"]


def _arguments(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return ("unfinished", text)


def calls(raw: str, dialect: str | None, **options: Any) -> list[tuple[str, Any]]:
    """The calls of an answer that holds nothing else."""
    content, found, finish = read(raw, dialect, **options)
    assert content == ""
    assert finish == "tool_calls"
    return found


def stays_text(raw: str, dialect: str | None, **options: Any) -> None:
    content, found, finish = read(raw, dialect, **options)
    assert (content, found, finish) == (raw.strip(), [], "stop")
