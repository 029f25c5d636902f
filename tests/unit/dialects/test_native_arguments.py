"""`tools.arguments` for native calls: as they came by default, repaired, or refused when they do not validate."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model_text.exchange import client_response, sse_bytes, tool
from tests.playbook import call, delta

TOOLS = [tool("note", ("title",), title="string", n="integer")]


def native(*fragments: str, finish: str = "tool_calls", name: str = "note", **settings: Any) -> dict[str, Any]:
    first = delta(tool_calls=[call(0, "a", name, "")])
    chunks = [first, *(delta(tool_calls=[call(0, arguments=piece)]) for piece in fragments), delta(finish)]
    return client_response(sse_bytes(chunks), TOOLS, model="gpt-5", **settings)


DAMAGED = ("{'title': 'a',", " 'n': 1,}")


def test_as_they_came_by_default() -> None:
    assert native(*DAMAGED)["tool_calls"] == [["note", "".join(DAMAGED)]]


def test_repaired_when_the_setting_says_so() -> None:
    assert native(*DAMAGED, arguments="repair")["tool_calls"] == [["note", '{"title":"a","n":1}']]
    assert native('{"title": "a"}', arguments="repair")["tool_calls"] == [["note", '{"title": "a"}']]


@pytest.mark.parametrize(("arguments", "why"), [('{"n": 1}', "title"), ('{"title": 3}', "title"), ("", "title"),
                                                ('{"title": "a", "n": "x"}', "n"), ("prose", "object")])
def test_strict_says_what_is_wrong(arguments: str, why: str) -> None:
    got = native(arguments, arguments="strict")
    assert got["finish_reason"] == "error"
    assert got["tool_calls"] == []
    assert "note" in got["events"][-1]["error"]["message"]
    assert why in got["events"][-1]["error"]["message"]


def test_strict_lets_a_valid_call_pass_and_no_tool_that_was_not_offered() -> None:
    assert native('{"title":', ' "a"}', arguments="strict")["tool_calls"] == [["note", '{"title": "a"}']]
    got = native('{"x": 1}', name="other", arguments="strict")
    assert (got["finish_reason"], got["tool_calls"]) == ("error", [])
    assert "'other'" in got["events"][-1]["error"]["message"]
    assert native('{"x": 1}', name="other", arguments="repair")["tool_calls"] == [["other", '{"x": 1}']]


def test_a_truncated_call_is_left_as_it_is() -> None:
    got = native('{"title": "a', finish="length", arguments="repair")
    assert (got["tool_calls"], got["finish_reason"]) == ([["note", '{"title": "a']], "length")
