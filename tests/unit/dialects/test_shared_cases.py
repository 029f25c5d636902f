"""The sample cases of model text, at every cut, where the folder of cases exists beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.dialects.cases import answer, cuts, mismatch, sse_bytes, text_chunks

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "dialect_cases.jsonl"
OTHER_APIS = ("gemini-chunks", "anthropic-events", "responses-events")


def cases() -> list[Any]:
    if not CASES.exists():
        reason = "the folder of sample cases is not beside the checkout"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason))]
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows if row["dialect"] not in OTHER_APIS]


def settings(case: dict[str, Any]) -> dict[str, Any]:
    options = case.get("options", {})
    found: dict[str, Any] = {"model": options.get("model_hint", "m")}
    if "raw" in case:
        found["dialect"] = case["dialect"]
    if options.get("reasoning_open"):
        found["reasoning_open"] = True
    return found


@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any]) -> None:
    tools = case.get("tools", [])
    finish = case.get("options", {}).get("upstream_finish_reason", "stop")
    if "raw" in case:
        streams = [sse_bytes(text_chunks(pieces, finish)) for pieces in cuts(case["raw"])]
    else:
        streams = [sse_bytes(case["chunks"])]
    for body in streams:
        assert mismatch(answer(body, tools, **settings(case)), case) is None
    body = streams[0]
    single_bytes = [body[i:i + 1] for i in range(len(body))]
    assert mismatch(answer(single_bytes, tools, **settings(case)), case) is None
    whole = answer(body, tools, streamed=False, **settings(case))
    if case["expect"]["finish_reason"] == "error":
        assert whole["finish_reason"] == "error"  # the answer is an error body then, without the text before it
    elif case.get("match", {}).get("tool_calls") != "truncated":
        assert mismatch(whole, case) is None
