"""Checks that a text is read the same at every cut, streamed and whole, and the tools that these texts call."""

from __future__ import annotations

import json
from typing import Any

from tests.model_text.exchange import cuts, send_every_cut, send_text, tool

Call = tuple[str, Any]

TOOLS = [
    tool("ping"),
    tool("tide", harbor="string", day="string"),
    tool("lookup", harbor="string", day="string"),
    tool("save_file", path="string", content="string"),
    tool("valve", id="integer", opening="number", locked="boolean", limits="object",
         tags={"type": "array", "items": {"type": "string"}},
         operator={"anyOf": [{"type": "string"}, {"type": "null"}]}),
    tool("set_valve", valve_id="integer", opening="number", locked="boolean", tags="array", limits="object",
         operator={"type": ["string", "null"]}),
    tool("mcp__atlas__find-docs", q="string", top="integer"),
    tool("mcp__atlas__find-docs.v2", q="string", top="integer"),
]
TIDE_TOOLS = [
    tool("lookup_tide", ("harbor",), harbor="string", day="string"), tool("ping"),
    tool("save_file", ("path", "content"), path="string", content="string"),
    tool("set_valve", ("valve_id",), valve_id="integer", locked="boolean", tags="array", limits="object"),
    tool("mcp__atlas__find-docs", ("q",), q="string")]
"""Tools with required parameters."""
PING: Call = ("ping", {})
BREST: Call = ("lookup_tide", {"harbor": "Brest"})


def read_text(dialect: str | None, raw: str, *, tools: list[dict[str, Any]] | None = None, **settings: Any,
              ) -> tuple[str, list[Call], str]:
    """(content without white space at its ends, calls, finish reason). The arguments of a call that is cut off are
    ("unfinished", text)."""
    content, _, calls, finish = read_with_reasoning(dialect, raw, tools=TOOLS if tools is None else tools, **settings)
    return content, calls, finish


def read_with_reasoning(dialect: str | None, raw: str, *, tools: list[dict[str, Any]] = TIDE_TOOLS, **settings: Any,
                        ) -> tuple[str, str, list[Call], str]:
    """(content, reasoning, calls, finish reason); else as `read_text`."""
    if dialect is not None:
        settings["dialect"] = dialect
    got = send_every_cut(raw, tools, **settings)
    calls = [(name, _arguments(text)) for name, text in got["tool_calls"]]
    return got["content"].strip(), got["reasoning"].strip(), calls, got["finish_reason"]


def _arguments(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:
        return ("unfinished", text)


def read_calls(dialect: str | None, raw: str, *, content: str = "", **options: Any) -> list[Call]:
    """The calls of a response that holds no other text than `content`."""
    text, found, finish = read_text(dialect, raw, **options)
    assert text == content
    assert finish == ("tool_calls" if found else "stop")
    return found


def assert_reads(dialect: str | None, raw: str, *calls: Call, text: str = "", reasoning: str = "",
                 finish: str | None = None, upstream: str = "stop", exact: bool = False,
                 tools: list[dict[str, Any]] | None = None, **settings: Any) -> None:
    """Asserts that `raw` reads as these calls, this visible text and this reasoning. `upstream`: the provider's finish
    reason, `finish`: the client's. `exact`: white space at the ends counts as well."""
    if dialect is not None:
        settings["dialect"] = dialect
    got = send_every_cut(raw, TOOLS if tools is None else tools, finish=upstream, **settings)
    content = got["content"]
    assert (content if exact else content.strip()) == (text if exact else text.strip())
    assert got["reasoning"].strip() == reasoning.strip()
    assert [(name, _arguments(arguments)) for name, arguments in got["tool_calls"]] == list(calls)
    assert got["finish_reason"] == (finish or ("tool_calls" if calls else "stop"))


def assert_stays_text(dialect: str | None, raw: str, **settings: Any) -> None:
    """Asserts that `raw` is no call and reaches the client as it is."""
    assert_reads(dialect, raw, text=raw, exact=True, **settings)


def assert_breaks_off(dialect: str, raw: str, name: str) -> None:
    """Asserts that a call which the length limit cut off is never presented as complete."""
    for pieces in cuts(raw):
        got = send_text(pieces, TOOLS, finish="length", dialect=dialect)
        assert got["finish_reason"] == "length"
        assert got["content"].strip() == ""
        assert [called for called, _ in got["tool_calls"]] in ([], [name])
        assert not any(text and isinstance(_arguments(text), dict) for _, text in got["tool_calls"])
