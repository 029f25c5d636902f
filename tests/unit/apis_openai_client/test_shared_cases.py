"""The sample cases of Chat Completions streams and of model text, as an OpenAI client gets them, where the folder of
cases exists beside the checkout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from extproc.apis import CLIENT_APIS
from extproc.apis.openai_client import API
from extproc.translation import Translation
from tests.unit.dialects.cases import mismatch, sse_bytes, text_chunks

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "dialect_cases.jsonl"
OTHER_APIS = ("gemini-chunks", "anthropic-events", "responses-events")


def cases() -> list[Any]:
    if not CASES.exists():
        reason = "the folder of sample cases is not beside the checkout"
        return [pytest.param({}, marks=pytest.mark.skip(reason=reason))]
    rows = [json.loads(line) for line in CASES.read_text().splitlines()]
    return [pytest.param(row, id=row["id"]) for row in rows if row["dialect"] not in OTHER_APIS]


def answered(body: bytes, case: dict[str, Any], *, streamed: bool) -> dict[str, Any]:
    options = case.get("options", {})
    settings: dict[str, Any] = {"dialect": case["dialect"]} if "raw" in case else {}
    translation = Translation("openai", "openai", options.get("model_hint", "m"),
                              reasoning_open=options.get("reasoning_open"), **settings)
    translation.request(json.dumps({"model": "m", "stream": streamed, "tools": case.get("tools", []),
                                    "messages": [{"role": "user", "content": "go"}]}).encode())
    translation.start(200, {"content-type": "text/event-stream"})
    out = translation.feed(body) + translation.finish()
    return put_together(out) if streamed else whole(out)


def put_together(wire: bytes) -> dict[str, Any]:
    """What a simple client makes of a stream: strings joined, calls by index."""
    got: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": None}
    for event in wire.decode().split("\n\n")[:-1]:
        data = event.removeprefix("data: ")
        if data == "[DONE]":
            assert got["finish_reason"] is not None
            continue
        chunk = json.loads(data)
        if "error" in chunk:
            assert got["finish_reason"] is None
            got["finish_reason"] = "error"
        for choice in chunk.get("choices", []):
            delta = choice["delta"]
            got["content"] += delta.get("content") or ""
            got["reasoning"] += delta.get("reasoning_content") or ""
            got["finish_reason"] = got["finish_reason"] or choice["finish_reason"]
            for call in delta.get("tool_calls", []):
                if call["index"] == len(got["tool_calls"]):
                    got["tool_calls"].append([call["function"]["name"], ""])
                got["tool_calls"][call["index"]][1] += call["function"]["arguments"]
    return got


def whole(body: bytes) -> dict[str, Any]:
    completion = json.loads(body)
    if "error" in completion:
        return {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": "error"}
    message = completion["choices"][0]["message"]
    return {"content": message["content"] or "", "reasoning": message.get("reasoning_content", ""),
            "finish_reason": completion["choices"][0]["finish_reason"],
            "tool_calls": [[call["function"]["name"], call["function"]["arguments"]]
                           for call in message.get("tool_calls", [])]}


@pytest.mark.parametrize("case", cases())
def test_case(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLIENT_APIS, "openai", API)
    finish = case.get("options", {}).get("upstream_finish_reason", "stop")
    body = sse_bytes(text_chunks([case["raw"]], finish) if "raw" in case else case["chunks"])
    assert mismatch(answered(body, case, streamed=True), case) is None
    if case["expect"]["finish_reason"] == "error":
        assert answered(body, case, streamed=False)["finish_reason"] == "error"
    elif case.get("match", {}).get("tool_calls") != "truncated":
        assert mismatch(answered(body, case, streamed=False), case) is None
