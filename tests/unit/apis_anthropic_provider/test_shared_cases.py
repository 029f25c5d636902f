"""The sample cases for streams of the Messages API, at every cut, where the folder of cases exists beside the
checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extproc.apis.anthropic_provider.answer import AnthropicAnswerDecoder
from tests.unit.apis_anthropic_provider.helpers import context, event
from tests.unit.apis_openai_answer.test_shared_cases import collect

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "dialect_cases.jsonl"


def cases() -> list[Any]:
    if not CASES.exists():
        reason = "the folder of sample cases is not beside the checkout"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason))]
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows if row["dialect"] == "anthropic-events"]


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("case", cases())
def test_case_at_every_cut(case: dict[str, Any], named: bool) -> None:
    tools = tuple(tool["function"]["name"] for tool in case.get("tools", []))
    body = b"".join(event(chunk, named=named) for chunk in case["chunks"])
    expect = case["expect"]
    for cut in range(len(body)):
        decoder = AnthropicAnswerDecoder(context(tools))
        got = collect(decoder.feed(body[:cut]) + decoder.feed(body[cut:]) + decoder.finish())
        assert got["finish"] == expect["finish_reason"]
        assert got["content"].strip() == expect["content"].strip()
        assert got["reasoning"].strip() == expect.get("reasoning", "").strip()
        assert [(name, json.loads(arguments or "{}")) for name, arguments in got["calls"]] == [
            (call["name"], call["arguments"]) for call in expect["tool_calls"]]
