"""The demo's responses: a stream, a whole body, and both through the translation."""

from __future__ import annotations

import json
from typing import Any

from extproc import Translation
from extproc.demo.checks import check_request
from extproc.demo.responses import DemoResponse
from extproc.demo.script import run_script
from tests.unit.demo.requests import BASH, ask


def streamed(request: dict[str, Any]) -> list[dict[str, Any]]:
    body = json.dumps(request).encode()
    events = list(DemoResponse(request, body, run_script(request)).events())
    assert events[-1] == b"data: [DONE]\n\n"
    return [json.loads(event.removeprefix(b"data: ")) for event in events[:-1]]


def test_a_stream_and_a_whole_response_have_the_same_content() -> None:
    for request in (ask("hi"), ask("list the files here", BASH)):
        body = json.dumps(request).encode()
        whole = json.loads(DemoResponse(request, body, run_script(request)).body())["choices"][0]
        chunks = [chunk["choices"][0] for chunk in streamed(request)]
        assert chunks[-1]["finish_reason"] == whole["finish_reason"]
        text = "".join(chunk["delta"].get("content") or "" for chunk in chunks)
        assert text == (whole["message"]["content"] or "")
        pieces = [one["function"]["arguments"] for chunk in chunks for one in chunk["delta"].get("tool_calls", ())]
        calls = whole["message"].get("tool_calls", [])
        assert "".join(pieces) == "".join(one["function"]["arguments"] for one in calls)


def test_usage_comes_in_a_chunk_of_its_own_on_request() -> None:
    assert all("usage" not in chunk for chunk in streamed(ask("hi", stream=True)))
    chunks = streamed(ask("hi", stream=True, stream_options={"include_usage": True}))
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


def test_the_limit_and_the_stop_sequences_end_the_text() -> None:
    request = ask("hi", max_tokens=3)
    choice = json.loads(DemoResponse(request, b"x", run_script(request)).body())["choices"][0]
    assert choice["finish_reason"] == "length"
    request = ask("hi", stop=["the demo"])
    choice = json.loads(DemoResponse(request, b"x", run_script(request)).body())["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello from ", "stop")


# --------------------------------------------------------------------------------------------- through the translation


def through_the_gateway(*messages: dict[str, Any]) -> bytes:
    """The demo's response to a request of Claude Code, with both translated."""
    request = {
        "model": "demo", "max_tokens": 32000, "stream": True, "messages": list(messages),
        "system": [{"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "Bash", "description": "Executes a bash command.", "input_schema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": False,
            "properties": {"command": {"type": "string"}}, "required": ["command"]}}],
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}, "metadata": {"user_id": "x" * 150},
        "context_management": {"edits": []}}
    translation = Translation("anthropic", "openai", "demo", url="http://127.0.0.1:1/v1")
    sent = translation.request(json.dumps(request).encode())
    assert sent.path == "/v1/chat/completions"
    body = json.loads(sent.body)
    check_request(body)
    translation.start(200, {"content-type": "text/event-stream"})
    events = DemoResponse(body, sent.body, run_script(body)).events()
    return b"".join(map(translation.feed, events)) + translation.finish()


def test_claude_code_can_list_files_with_the_demo() -> None:
    conversation = [{"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>Bash, Read</system-reminder>"},
        {"type": "text", "text": "list the files here"}]},
        {"role": "system", "content": [{"type": "text", "text": "The environment: a folder of files to read."}]}]
    first = through_the_gateway(*conversation)
    assert b'"stop_reason":"tool_use"' in first
    call_id = first.partition(b'"tool_use","id":"')[2].partition(b'"')[0].decode()
    second = through_the_gateway(
        *conversation,
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call_id, "content": "README.md"},
            {"type": "text", "text": "<system-reminder>be brief</system-reminder>"}]})
    assert b"README.md" in second
    assert b'"stop_reason":"end_turn"' in second
