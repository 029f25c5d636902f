"""The sample cases for Chat Completions streams, where the folder of cases exists beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extproc.apis.openai.answer import OpenAIAnswerDecoder
from extproc.conversation import (
    ArgumentsDelta,
    Event,
    Failure,
    Finish,
    TextDelta,
    ThinkingDelta,
    ToolCallStart,
)
from tests.playbook import context, sse

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "dialect_cases.jsonl"

# Calls written as text are read by the dialects, which come with a later part of the project.
TEXT_EMBEDDED = ("leak-002", "leak-005")


def cases() -> list[Any]:
    if not CASES.exists():
        reason = "the folder of sample cases is not beside the checkout"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason))]
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows
            if row["dialect"] == "openai-chunks" and row["id"] not in TEXT_EMBEDDED]


def collect(events: list[Event]) -> dict[str, Any]:
    content, reasoning, calls, finish = "", "", [], None
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


@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any]) -> None:
    tools = [tool["function"]["name"] for tool in case.get("tools", [])]
    body = sse(*case["chunks"])
    for size in (len(body), 1, 7):
        decoder = OpenAIAnswerDecoder(context(tools))
        got = collect([e for i in range(0, len(body), size) for e in decoder.feed(body[i:i + size])] + decoder.finish())
        expect = case["expect"]
        assert got["finish"] == expect["finish_reason"]
        assert got["content"].strip() == expect["content"].strip()
        if "reasoning" in expect:
            assert got["reasoning"].strip() == expect["reasoning"].strip()
        if case["match"].get("tool_calls") == "truncated":
            continue
        assert [(name, json.loads(arguments or "{}")) for name, arguments in got["calls"]] == [
            (call["name"], call["arguments"]) for call in expect["tool_calls"]]
