"""The sample cases for Gemini's streams at every cut, where the folder of cases exists beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extproc.apis.gemini.answer import GeminiAnswerDecoder
from extproc.conversation import ArgumentsDelta, Event, Failure, Finish, TextDelta, ThinkingDelta, ToolCallStart
from tests.playbook import context
from tests.unit.apis_gemini_answer.conversation import sse

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "dialect_cases.jsonl"


def cases() -> list[Any]:
    rows = [json.loads(line) for line in CASES.read_text().splitlines()] if CASES.exists() else []
    found = [pytest.param(row, id=row["id"]) for row in rows if row["dialect"] == "gemini-chunks"]
    absent = pytest.mark.skip(reason="the folder of sample cases is not beside the checkout")
    return found or [pytest.param({}, marks=absent)]


def collect(events: list[Event]) -> dict[str, Any]:
    content, reasoning, finish = "", "", None
    calls: list[list[str]] = []
    for event in events:
        match event:
            case TextDelta(text):
                content += text
            case ThinkingDelta(text):
                reasoning += text
            case ToolCallStart(_, name):
                calls.append([name, ""])
            case ArgumentsDelta(text):
                calls[-1][1] += text
            case Finish(reason):
                finish = reason
            case Failure():
                finish = "error"
    return {"content": content, "reasoning": reasoning, "calls": calls, "finish": finish}


def read(pieces: list[bytes], tools: list[str]) -> dict[str, Any]:
    decoder = GeminiAnswerDecoder(context(tools))
    return collect([event for piece in pieces for event in decoder.feed(piece)] + decoder.finish())


@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any]) -> None:
    tools = [tool["function"]["name"] for tool in case.get("tools", [])]
    body = sse(*case["chunks"])
    whole = read([body], tools)
    expect = case["expect"]
    assert whole["finish"] == expect["finish_reason"]
    assert whole["content"].strip() == expect["content"].strip()
    if "reasoning" in expect:
        assert whole["reasoning"].strip() == expect["reasoning"].strip()
    assert [(name, json.loads(arguments)) for name, arguments in whole["calls"]] == [
        (call["name"], call["arguments"]) for call in expect["tool_calls"]]
    for at in range(len(body) + 1):
        assert read([body[:at], body[at:]], tools) == whole
    assert read([body[at:at + 1] for at in range(len(body))], tools) == whole
