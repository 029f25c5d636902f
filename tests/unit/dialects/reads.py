"""Tools for cases of the short forms, and one check that reads a text at every cut, streamed and whole."""

from __future__ import annotations

from typing import Any

from tests.unit.dialects.cases import answer, cuts, mismatch, sse_bytes, text_chunks


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    """A tool whose parameters are given as `name="type"` or `name={schema}`."""
    properties = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in parameters.items()}
    return {"type": "function",
            "function": {"name": name, "parameters": {"type": "object", "properties": properties}}}


TOOLS = [
    tool("tide", harbor="string", day="string"),
    tool("valve", id="integer", opening="number", locked="boolean", limits="object",
         tags={"type": "array", "items": {"type": "string"}},
         operator={"anyOf": [{"type": "string"}, {"type": "null"}]}),
    tool("ping"),
    tool("mcp__atlas__find-docs", q="string", top="integer"),
]


def reads(dialect: str | None, raw: str, *calls: tuple[str, dict[str, Any]], text: str = "", reasoning: str = "",
          finish: str | None = None, upstream: str = "stop", model: str = "m", exact: bool = False,
          **settings: Any) -> None:
    """Asserts that `raw` reads as these calls, this visible text and this reasoning, however it is cut."""
    expect = {"content": text, "reasoning": reasoning, "finish_reason": finish or ("tool_calls" if calls else "stop"),
              "tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}
    case = {"expect": expect, "match": {"content": "exact" if exact else "trim"}}
    if dialect is not None:
        settings["dialect"] = dialect
    for pieces in cuts(raw):
        body = sse_bytes(text_chunks(pieces, upstream))
        for streamed in (True, False):
            got = answer(body, TOOLS, model=model, streamed=streamed, **settings)
            assert mismatch(got, case) is None, (pieces, streamed)


def stays_text(dialect: str | None, raw: str, **settings: Any) -> None:
    """Asserts that `raw` is no call and reaches the client as it is."""
    reads(dialect, raw, text=raw, exact=True, **settings)


def breaks_off(dialect: str, raw: str, name: str) -> None:
    """Asserts that a call which the length limit cut off is never presented as complete."""
    case = {"expect": {"content": "", "finish_reason": "length"}, "match": {"tool_calls": "truncated"},
            "options": {"truncated_call": {"name": name}}}
    for pieces in cuts(raw):
        got = answer(sse_bytes(text_chunks(pieces, "length")), TOOLS, dialect=dialect)
        assert mismatch(got, case) is None, pieces
