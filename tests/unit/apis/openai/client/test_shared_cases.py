"""All sample cases for an OpenAI client and a web front end: from the provider whose stream they are, in every framing
and cut, streamed and whole. The folder of cases must lie beside the checkout.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest

from extproc.translation.exchange import Translation
from tests.model_text.sample_cases import UPSTREAMS, case_settings, case_streams, mismatch, shared_cases
from tests.unit.apis.openai.client.helpers import accumulated


def response_bytes(pieces: list[bytes], case: dict[str, Any], client: str = "openai", *, streamed: bool = True,
             content_type: str = "text/event-stream") -> bytes:
    talk = Translation(client, UPSTREAMS.get(case["dialect"], "openai"), **case_settings(case))
    talk.request(json.dumps({"model": "m", "stream": streamed, "tools": case.get("tools", []),
                             "messages": [{"role": "user", "content": "go"}]}).encode())
    talk.start(200, {"content-type": content_type})
    return b"".join(map(talk.feed, pieces)) + talk.finish()


def byte_cuts(body: bytes) -> Iterator[list[bytes]]:
    """Single bytes, and some random cuts."""
    yield [body[at:at + 1] for at in range(len(body))]
    rng = random.Random(len(body))
    for _ in range(4):
        at = sorted(rng.randrange(len(body) + 1) for _ in range(6))
        yield [body[a:b] for a, b in zip([0, *at], [*at, len(body)], strict=True)]


def assemble_stream(wire: bytes) -> dict[str, Any]:
    """The response that a simple client assembles from a stream: strings joined, calls by index."""
    got: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": None}
    for event in wire.decode().split("\n\n")[:-1]:
        data = event.removeprefix("data: ")
        if data == "[DONE]":
            assert got["finish_reason"] not in (None, "error")
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


def front_end(wire: bytes) -> dict[str, Any]:
    """The response that a front end assembles from application events."""
    got: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": None}
    *events, last = [json.loads(event.removeprefix("data: ")) for event in wire.decode().split("\n\n")[:-1]]
    for event in events:
        match event["type"]:
            case "content" | "reasoning":
                got[event["type"]] += event["text"]
            case "tool_call":
                got["tool_calls"].append([event["name"], json.dumps(event["arguments"])])
            case "usage":
                got["finish_reason"] = event["finish_reason"]
    if last["type"] == "error":
        assert got["finish_reason"] is None
        got["finish_reason"] = "error"
    else:
        assert last == {"type": "done", "done": True}
    return got


def assemble_completion(body: bytes) -> dict[str, Any]:
    completion = json.loads(body)
    if "error" in completion:
        return {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": "error"}
    message = completion["choices"][0]["message"]
    return {"content": message["content"] or "", "reasoning": message.get("reasoning_content", ""),
            "finish_reason": completion["choices"][0]["finish_reason"],
            "tool_calls": [[call["function"]["name"], call["function"]["arguments"]]
                           for call in message.get("tool_calls", [])]}


CASES = shared_cases(without=("responses-events",))


@pytest.mark.parametrize("case", CASES)
def test_a_stream_in_every_framing_and_cut(case: dict[str, Any]) -> None:
    for body in case_streams(case):
        at_once = response_bytes([body], case)
        assert mismatch(assemble_stream(at_once), case) is None
        for pieces in byte_cuts(body):
            assert response_bytes(pieces, case) == at_once, "rule 1: any chunking, same bytes"


@pytest.mark.parametrize("case", CASES)
def test_the_sdk_reads_the_stream(case: dict[str, Any]) -> None:
    wire = response_bytes([next(case_streams(case))], case)
    if case["expect"]["finish_reason"] != "error":
        message = accumulated(wire)
        assert message["finish_reason"] == assemble_stream(wire)["finish_reason"]
        ids = [call["id"] for call in message.get("tool_calls") or []]
        assert len(set(ids)) == len(ids)
        assert all(ids)


@pytest.mark.parametrize("case", CASES)
def test_a_whole_response(case: dict[str, Any]) -> None:
    truncated = case.get("match", {}).get("tool_calls") == "truncated"
    for body in case_streams(case):
        got = assemble_completion(response_bytes([body], case, streamed=False))
        if case["expect"]["finish_reason"] == "error" or truncated:
            assert got["finish_reason"] == case["expect"]["finish_reason"]
            assert got["tool_calls"] == []
        else:
            assert mismatch(got, case) is None


@pytest.mark.parametrize("case", CASES)
def test_application_events(case: dict[str, Any]) -> None:
    for body in case_streams(case):
        got = front_end(response_bytes([body], case, "events"))
        assert mismatch(got, case) is None
        if case.get("match", {}).get("tool_calls") == "truncated":
            assert got["tool_calls"] == []


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("case", [case for case in CASES if "raw" in case.values[0]])
def test_model_text_in_a_whole_response(case: dict[str, Any], streamed: bool) -> None:
    finish = case.get("options", {}).get("upstream_finish_reason", "stop")
    body = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "created": 1, "choices": [
        {"index": 0, "message": {"role": "assistant", "content": case["raw"]}, "finish_reason": finish}]}).encode()
    for pieces in ([body], [body[at:at + 1] for at in range(len(body))]):
        out = response_bytes(pieces, case, streamed=streamed, content_type="application/json")
        got = assemble_stream(out) if streamed else assemble_completion(out)
        if case.get("match", {}).get("tool_calls") != "truncated":
            assert mismatch(got, case) is None
