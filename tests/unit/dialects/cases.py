"""Runs cases of model text through a whole Translation: text in any cut -> what an Anthropic client gets. Knows where
the sample cases lie and how their answers travel."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from extproc.conversation.model import ArgumentsDelta, Event, Finish, TextDelta, ThinkingDelta, ToolCallStart
from extproc.errors import Failure
from extproc.translation.exchange import Translation
from tests.playbook import delta

STOP_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
                "refusal": "content_filter", "model_context_window_exceeded": "length"}

CASES = Path(__file__).resolve().parents[4] / "shared" / "cases" / "dialect_cases.jsonl"
UPSTREAMS = {"gemini-chunks": "gemini", "anthropic-events": "anthropic"}
"""Whose streams the chunks of a case are, where they are not Chat Completions."""


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
    """What a Translation is told of a case's model."""
    options = case.get("options", {})
    found: dict[str, Any] = {"model": options.get("model_hint", "m")}
    if "raw" in case:
        found["dialect"] = case["dialect"]
    if options.get("reasoning_open"):
        found["reasoning_open"] = True
    return found


def case_streams(case: dict[str, Any]) -> Iterator[bytes]:
    """The provider's stream of a case in every framing: text in any cut, line ends, Gemini's array, no event names."""
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


def request_body(tools: list[dict[str, Any]], *, stream: bool = True) -> bytes:
    """A Messages request that offers OpenAI-format `tools`."""
    declared = [{"name": tool["function"]["name"], "description": tool["function"].get("description", ""),
                 "input_schema": tool["function"].get("parameters") or {"type": "object", "properties": {}}}
                for tool in tools]
    return json.dumps({"model": "m", "max_tokens": 1000, "stream": stream, "tools": declared,
                       "messages": [{"role": "user", "content": "go"}]}).encode()


def text_chunks(pieces: list[str], finish: str = "stop", field: str = "content") -> list[dict[str, Any]]:
    return [*(delta(**{field: piece}) for piece in pieces), delta(finish)]


def sse_bytes(chunks: list[Any]) -> bytes:
    return b"".join(f"data: {json.dumps(c, ensure_ascii=False)}\n\n".encode() for c in chunks) + b"data: [DONE]\n\n"


def answer(stream: bytes | list[bytes], tools: list[dict[str, Any]], *, model: str = "m", streamed: bool = True,
           **settings: Any) -> dict[str, Any]:
    """{content, reasoning, tool_calls: [(name, argument text)], finish_reason, types} of the client's answer."""
    translation = Translation("anthropic", "openai", model, **settings)
    translation.request(request_body(tools, stream=streamed))
    translation.start(200, {"content-type": "text/event-stream"})
    pieces = [stream] if isinstance(stream, bytes) else stream
    out = b"".join(translation.feed(piece) for piece in pieces) + translation.finish()
    if not streamed:
        return _whole(out)
    got: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": None, "events": []}
    for block in out.decode().split("\n\n"):
        if not block:
            continue
        event = json.loads(block.split("data: ", 1)[1])
        got["events"].append(event)
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            got["tool_calls"].append([event["content_block"]["name"], ""])
        elif event["type"] == "content_block_delta":
            piece = event["delta"]
            got["content"] += piece.get("text", "")
            got["reasoning"] += piece.get("thinking", "")
            if "partial_json" in piece:
                got["tool_calls"][-1][1] += piece["partial_json"]
        elif event["type"] == "message_delta":
            got["finish_reason"] = STOP_REASONS[event["delta"]["stop_reason"]]
        elif event["type"] == "error":
            got["finish_reason"] = "error"
    return got


def collected(events: list[Event]) -> dict[str, Any]:
    """The same of what a provider's decoder makes of an answer."""
    got: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": None}
    for event in events:
        match event:
            case TextDelta(text):
                got["content"] += text
            case ThinkingDelta(text):
                got["reasoning"] += text
            case ToolCallStart(_, name):
                got["tool_calls"].append([name, ""])
            case ArgumentsDelta(text):
                got["tool_calls"][-1][1] += text
            case Finish(reason):
                got["finish_reason"] = reason
            case Failure():
                got["finish_reason"] = "error"
    return got


def _whole(body: bytes) -> dict[str, Any]:
    message = json.loads(body)
    if message["type"] == "error":
        return {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": "error"}
    blocks = message["content"]
    return {"content": "".join(b.get("text", "") for b in blocks), "finish_reason": STOP_REASONS[message["stop_reason"]],
            "reasoning": "".join(b.get("thinking", "") for b in blocks),
            "tool_calls": [[b["name"], json.dumps(b["input"])] for b in blocks if b["type"] == "tool_use"]}


def cuts(raw: str, seed: int = 7) -> Iterator[list[str]]:
    """Whole, per character, and some random cuts."""
    yield [raw]
    yield list(raw)
    rng = random.Random(seed)
    for _ in range(4):
        at = sorted(rng.randrange(len(raw) + 1) for _ in range(6))
        yield [raw[a:b] for a, b in zip([0, *at], [*at, len(raw)], strict=True)]


def _same_text(got: str, want: str, how: str) -> bool:
    if how == "ignore":
        return True
    if how == "exact":
        return got == want
    if how == "collapse_ws":
        return " ".join(got.split()) == " ".join(want.split())
    return got.strip() == want.strip()


def mismatch(got: dict[str, Any], case: dict[str, Any]) -> str | None:
    """None when the answer is one of the accepted ones, else what differs."""
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
