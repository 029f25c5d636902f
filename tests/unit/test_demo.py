"""The scripted demo provider: what it says, what it refuses, and how it says it over HTTP."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from extproc import Translation
from extproc.demo.checks import DemoError, check_request
from extproc.demo.responses import DemoResponse
from extproc.demo.script import ScriptOutput, run_script
from extproc.demo.server import start_demo


def tool(name: str, description: str = "", required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": properties, "required": list(required or properties)}}}


BASH = tool("Bash", "Executes a bash command and returns its output.", ("command",),
            command={"type": "string"}, timeout={"type": "number"})
READ = tool("Read", "Reads a file from the local filesystem.", file_path={"type": "string"})
GLOB = tool("Glob", "Fast file pattern matching", pattern={"type": "string"})
WEATHER = tool("get_weather", "Get the current weather", location={"type": "string"})


def ask(said: str, *tools: dict[str, Any], **fields: Any) -> dict[str, Any]:
    request: dict[str, Any] = {"model": "demo", "messages": [{"role": "user", "content": said}], **fields}
    return request | ({"tools": list(tools)} if tools else {})


def call(name: str, arguments: str = "{}", call_id: str = "c1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


# ---------------------------------------------------------------------------------------------------------- the script


@pytest.mark.parametrize("said", ["hi", "Hello!", "Good morning, how are you?", "What is the meaning of life?"])
def test_small_talk_is_answered_without_a_tool(said: str) -> None:
    said_back = run_script(ask(said, BASH, READ, GLOB, WEATHER))
    assert said_back.tool is None
    assert said in said_back.text


def test_list_the_files_here_runs_ls() -> None:
    """The first thing that people try with Claude Code."""
    expected = ScriptOutput(tool="Bash", arguments='{"command": "ls"}')
    assert run_script(ask("list the files here", GLOB, READ, BASH)) == expected


@pytest.mark.parametrize(("said", "name", "arguments"), [
    ("What's the weather in Paris?", "get_weather", {"location": "Paris"}),
    ("weather for New York please", "get_weather", {"location": "New York"}),
    ("read README.md", "Read", {"file_path": "README.md"}),
    ("run the command `git status`", "Bash", {"command": "git status"}),
    ("use a tool", "Bash", {"command": "pwd"}),
])
def test_a_tool_that_fits_is_called_with_the_users_words(said: str, name: str, arguments: dict[str, str]) -> None:
    called = run_script(ask(said, BASH, READ, GLOB, WEATHER))
    assert (called.tool, json.loads(called.arguments)) == (name, arguments)


def test_notes_of_the_client_are_not_the_users_words() -> None:
    note = "<system-reminder>\nThe weather tool and Bash are there.\n</system-reminder>\nhello"
    assert run_script(ask(note, BASH, WEATHER)).tool is None


def test_the_tool_choice_is_obeyed() -> None:
    assert run_script(ask("weather in Rome", WEATHER, tool_choice="none")).tool is None
    assert run_script(ask("hello", READ, WEATHER, tool_choice="required")).tool == "Read"
    named = {"type": "function", "function": {"name": "get_weather"}}
    assert run_script(ask("hello", BASH, WEATHER, tool_choice=named)).tool == "get_weather"


def test_arguments_fit_any_schema() -> None:
    made = run_script(ask("make 3 things tool, blue", tool(
        "maker", "", count={"type": "integer", "minimum": 1}, color={"enum": ["red", "blue"]},
        deep={"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]},
        several={"type": "array", "items": {"type": "string"}, "minItems": 2}, fixed={"const": 7},
        maybe={"anyOf": [{"type": "null"}, {"type": "number"}]}, kinds={"type": ["null", "string"]},
        again={"$ref": "#/properties/deep"}, loop={"$ref": "#/properties/loop"}, free={})))
    arguments = json.loads(made.arguments)
    assert arguments["count"] == 3
    assert arguments["color"] == "blue"
    assert arguments["deep"] == arguments["again"] == {"on": False}
    assert len(arguments["several"]) == 2
    assert arguments["fixed"] == 7
    assert arguments["maybe"] == 1
    assert isinstance(arguments["kinds"], str)
    assert isinstance(arguments["loop"], str)


def test_after_the_results_the_answer_quotes_them() -> None:
    request = ask("list the files here", BASH)
    request["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call("Bash"), call("Bash", call_id="c2")]},
        {"role": "tool", "tool_call_id": "c1", "content": "README.md"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "LICENSE"}]},
        {"role": "user", "content": "<system-reminder>be brief</system-reminder>"}]
    check_request(request)
    said = run_script(request)
    assert said.tool is None
    assert said.text.index("README.md") < said.text.index("LICENSE")


def test_a_later_question_is_a_new_one() -> None:
    request = ask("list the files here", BASH)
    request["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call("Bash")]},
        {"role": "tool", "tool_call_id": "c1", "content": "README.md"},
        {"role": "assistant", "content": "There is a README.md."},
        {"role": "user", "content": "show the files again"}]
    assert run_script(request).tool == "Bash"


def test_structured_output_fits_its_schema() -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    said = run_script(ask("name this", response_format={"type": "json_schema", "json_schema": {"schema": schema}}))
    assert set(json.loads(said.text)) == {"title"}


# ---------------------------------------------------------------------------------------------------------- the replies


def streamed(request: dict[str, Any]) -> list[dict[str, Any]]:
    body = json.dumps(request).encode()
    events = list(DemoResponse(request, body, run_script(request)).events())
    assert events[-1] == b"data: [DONE]\n\n"
    return [json.loads(event.removeprefix(b"data: ")) for event in events[:-1]]


def test_a_stream_and_a_whole_answer_say_the_same() -> None:
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


def test_usage_comes_in_a_chunk_of_its_own_when_asked() -> None:
    assert all("usage" not in chunk for chunk in streamed(ask("hi", stream=True)))
    chunks = streamed(ask("hi", stream=True, stream_options={"include_usage": True}))
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["prompt_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


def test_the_limit_and_the_stop_sequences_end_the_answer() -> None:
    request = ask("hi", max_tokens=3)
    choice = json.loads(DemoResponse(request, b"x", run_script(request)).body())["choices"][0]
    assert choice["finish_reason"] == "length"
    request = ask("hi", stop=["the demo"])
    choice = json.loads(DemoResponse(request, b"x", run_script(request)).body())["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hello from ", "stop")


# --------------------------------------------------------------------------------------------- through the translation


def through_the_gateway(*messages: dict[str, Any]) -> bytes:
    """The demo's answer to a request as Claude Code writes it, translated both ways."""
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
    asked = [{"role": "user", "content": [
        {"type": "text", "text": "<system-reminder>Bash, Read</system-reminder>"},
        {"type": "text", "text": "list the files here"}]},
        {"role": "system", "content": [{"type": "text", "text": "The environment: a folder of files to read."}]}]
    first = through_the_gateway(*asked)
    assert b'"stop_reason":"tool_use"' in first
    call_id = first.partition(b'"tool_use","id":"')[2].partition(b'"')[0].decode()
    second = through_the_gateway(
        *asked,
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": call_id, "content": "README.md"},
            {"type": "text", "text": "<system-reminder>be brief</system-reminder>"}]})
    assert b"README.md" in second
    assert b'"stop_reason":"end_turn"' in second


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(("request_", "param", "status"), [
    ([], None, 400),
    ({"messages": [{"role": "user", "content": "x"}]}, "model", 400),
    (ask("x") | {"model": "gpt-5"}, "model", 404),
    (ask("x", top_k=5), "top_k", 400),
    (ask("x", tool_choice="auto"), "tool_choice", 400),
    (ask("x", stream_options={"include_usage": True}), "stream_options", 400),
    (ask("x") | {"messages": []}, "messages", 400),
    (ask("x") | {"messages": [{"role": "model", "content": "x"}]}, "messages[0].role", 400),
    (ask("x") | {"messages": [{"role": "user", "content": None}]}, "messages[0].content", 400),
    (ask("x") | {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].type", 400),
    (ask("x") | {"messages": [{"role": "tool", "content": "x", "tool_call_id": "c"}]}, "messages[0].role", 400),
    (ask("x") | {"messages": [{"role": "assistant", "content": None, "tool_calls": [call("f")]}]},
     "messages[1].role", 400),
    (ask("x") | {"messages": [{"role": "assistant", "content": None, "tool_calls": [call("mcp.dotted")]}]},
     "messages[0].tool_calls[0].function.name", 400),
    (ask("x", tool("a" * 65)), "tools[0].function.name", 400),
    (ask("x") | {"tools": []}, "tools", 400),
    (ask("x", *[tool("a")] * 129), "tools", 400),
    (ask("x", {"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}}),
     "tools[0].function.parameters", 400),
])
def test_what_the_real_api_refuses_is_refused(request_: Any, param: str | None, status: int) -> None:
    with pytest.raises(DemoError) as caught:
        check_request(request_)
    assert (caught.value.param, caught.value.status) == (param, status)


# -------------------------------------------------------------------------------------------------------------- HTTP


async def exchange(*requests: bytes) -> bytes:
    """Everything the demo answers on one connection that sends these bytes and then waits for its end."""
    server = await start_demo("127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        for request in requests:
            writer.write(request)
            await writer.drain()
        writer.write_eof()
        received = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    return received


def post(request: Any, path: str = "/v1/chat/completions", extra: str = "") -> bytes:
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return f"POST {path} HTTP/1.1\r\nhost: demo\r\n{extra}content-length: {len(body)}\r\n\r\n".encode() + body


def test_one_connection_serves_several_requests() -> None:
    received = asyncio.run(exchange(post(ask("hi")), post(ask("hi", stream=True)),
                                    b"GET /v1/models HTTP/1.1\r\nhost: demo\r\n\r\n"))
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert b"data: [DONE]\n\n\r\n0\r\n\r\n" in received
    assert b'"id": "demo"' in received


def test_a_body_in_chunks_is_read() -> None:
    body = json.dumps(ask("hi")).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:9], body[9:]))
    received = asyncio.run(exchange(
        b"POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"))
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(("request_", "status"), [
    (post(ask("x"), "/v1/completions"), 404), (post(ask("x"), "/chat/completions"), 404), (post(b"{"), 400),
    (post(b"[" * 100_000), 400), (post(ask("x", top_k=1)), 400),
    (b"GET /v1/chat/completions HTTP/1.1\r\n\r\n", 405), (b"nonsense\r\n\r\n", 400),
    (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
    (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\na: " + b"x" * 70_000 + b"\r\n\r\n", 400),
])
def test_errors_have_the_shape_of_openai(request_: bytes, status: int) -> None:
    head, _, body = asyncio.run(exchange(request_)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_the_command_says_where_it_listens_and_ends_on_sigterm() -> None:
    process = subprocess.Popen([sys.executable, "-m", "extproc", "demo", "--listen", "127.0.0.1:0"],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[:2] == ["listening", "on"]
        assert int(words[2]) > 0
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert time.monotonic() - started < 5
    finally:
        process.kill()
        process.communicate()
