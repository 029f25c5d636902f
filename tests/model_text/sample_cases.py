"""The sample cases of model text: where they lie, the provider's streams of a case, and its accepted responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.model_text.exchange import cuts, sse_bytes, text_chunks

CASES = Path(__file__).resolve().parents[3] / "shared" / "cases" / "dialect_cases.jsonl"
UPSTREAMS = {"gemini-chunks": "gemini", "anthropic-events": "anthropic"}
"""The API of a case's chunks if it is not Chat Completions, by the case's dialect."""


def shared_cases(*, only: str | None = None, without: tuple[str, ...] = ()) -> list[Any]:
    """The sample cases (of some dialects) as parameters of a test, skipped where their folder is not beside the
    checkout."""
    if not CASES.exists():
        reason = "the folder of sample cases is not beside the checkout"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason))]
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows
            if row["dialect"] not in without and only in (None, row["dialect"])]


def case_settings(case: dict[str, Any]) -> dict[str, Any]:
    """The settings of the translation for a case's model."""
    options = case.get("options", {})
    found: dict[str, Any] = {"model": options.get("model_hint", "m")}
    if "raw" in case:
        found["dialect"] = case["dialect"]
    if options.get("reasoning_open"):
        found["reasoning_open"] = True
    return found


def case_streams(case: dict[str, Any]) -> Iterator[bytes]:
    """The provider's stream of a case in every framing: any cut of the text, other line ends, Gemini's array, events
    without names."""
    if "raw" in case:
        finish = case.get("options", {}).get("upstream_finish_reason", "stop")
        for pieces in cuts(case["raw"]):
            yield sse_bytes(text_chunks(pieces, finish))
        return
    upstream = UPSTREAMS.get(case["dialect"], "openai")
    if upstream == "openai":
        yield sse_bytes(case["chunks"])
        yield sse_bytes(case["chunks"]).replace(b"\n", b"\r\n")
    elif upstream == "gemini":
        yield b"".join(b"data: %b\r\n\r\n" % json.dumps(chunk).encode() for chunk in case["chunks"])
        yield json.dumps(case["chunks"], indent=1).encode()
    else:
        for head in ("event: {}\n", ""):
            yield b"".join(f"{head.format(event['type'])}data: {json.dumps(event)}\n\n".encode()
                           for event in case["chunks"])


def _same_text(got: str, want: str, how: str) -> bool:
    if how == "ignore":
        return True
    if how == "exact":
        return got == want
    if how == "collapse_ws":
        return " ".join(got.split()) == " ".join(want.split())
    return got.strip() == want.strip()


def mismatch(got: dict[str, Any], case: dict[str, Any]) -> str | None:
    """None if the response is one of the accepted ones, else the difference."""
    reasons = []
    for expect in [case["expect"], *case.get("expect_alt", [])]:
        reason = _differs(got, expect, case)
        if reason is None:
            return None
        reasons.append(reason)
    return "; or ".join(reasons)


def _differs(got: dict[str, Any], expect: dict[str, Any], case: dict[str, Any]) -> str | None:
    match = case.get("match", {})
    if not _same_text(got["content"], expect["content"] or "", match.get("content", "trim")):
        return f"content {got['content']!r}, expected {expect['content']!r}"
    if "reasoning" in expect and not _same_text(got["reasoning"], expect["reasoning"] or "",
                                                match.get("reasoning", "trim")):
        return f"reasoning {got['reasoning']!r}, expected {expect['reasoning']!r}"
    if got["finish_reason"] != expect["finish_reason"]:
        return f"finish {got['finish_reason']!r}, expected {expect['finish_reason']!r}"
    how = match.get("tool_calls")
    if how == "truncated":
        name = case.get("options", {}).get("truncated_call", {}).get("name")
        if len(got["tool_calls"]) > 1 or any(call[0] != name or _parses(call[1]) for call in got["tool_calls"]):
            return f"truncated call presented as {got['tool_calls']!r}"
        return None
    try:
        calls = [(name, json.loads(text or "{}")) for name, text in got["tool_calls"]]
    except ValueError:
        return f"arguments are not JSON: {got['tool_calls']!r}"
    want = [(call["name"], call["arguments"]) for call in expect["tool_calls"]]
    if how == "first":
        calls = calls[:len(want)]
    elif how == "last":
        calls = calls[-len(want):] if want else []
    return None if calls == want else f"calls {calls!r}, expected {want!r}"


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
