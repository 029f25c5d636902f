"""The rules that hold for a whole exchange, on the public API: bytes of a request, then bytes of a response."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest
import zstandard

from extproc import Translation
from extproc.dialects.call_writer import ArgumentsMode
from extproc.errors import RequestError
from extproc.translation.head import dropped_header
from extproc.translation.tool_styles import CallReader
from tests.playbook import delta, sse

HI = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
TOOL = {"name": "f", "input_schema": {"type": "object", "properties": {}}}
ANSWER = json.dumps({"choices": [{"message": {"content": "hey"}, "finish_reason": "stop"}]}).encode()
STREAM = sse(delta(content="he"), delta(content="y"), delta("stop"))
ERROR = json.dumps({"error": {"message": "slow down"}}).encode()

CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "deflate": zlib.compress, "br": brotli.compress,
    "zstd": lambda body: zstandard.ZstdCompressor().compress(body)}


def exchange(body: bytes, *, status: int = 200, size: int | None = None, stream: bool = True,
             headers: dict[str, str] | None = None, **settings: Any) -> tuple[Translation, bytes]:
    translation = Translation("anthropic", "openai", "m", **settings)
    translation.request(json.dumps({**HI, "stream": stream}).encode())
    translation.start(status, headers or {})
    size = size or max(1, len(body))
    out = b"".join([translation.feed(body[at:at + size]) for at in range(0, len(body), size)])
    return translation, out + translation.finish()


def sent(lossy: str = "report", **fields: Any) -> tuple[dict[str, Any], Translation]:
    translation = Translation("anthropic", "openai", "m", lossy=lossy)
    return json.loads(translation.request(json.dumps({**HI, **fields}).encode()).body), translation


# ------------------------------------------------------------------------------------------ P19, P20: codings and cuts


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("size", [None, 1, 7])
def test_p19_every_coding_of_a_stream_a_whole_response_and_an_error(coding: str, size: int | None) -> None:
    pack, headers = CODINGS[coding], {"content-encoding": coding}
    _, out = exchange(pack(STREAM), size=size, headers={**headers, "content-type": "text/event-stream"})
    assert out == exchange(STREAM, headers={"content-type": "text/event-stream"})[1]
    _, out = exchange(pack(ANSWER), size=size, headers=headers, stream=False)
    assert json.loads(out)["content"] == [{"type": "text", "text": "hey"}]
    translation, out = exchange(pack(ERROR), status=429, size=size, headers=headers)
    assert (translation.head.status, json.loads(out)["error"]["message"]) == (429, "slow down")  # type: ignore[union-attr]


@pytest.mark.parametrize("coding", [*CODINGS, "unheard-of"])
@pytest.mark.parametrize("size", [None, 1])
def test_p19_an_error_that_is_not_in_the_coding_it_claims_keeps_status_and_words(coding: str, size: int | None) -> None:
    translation, out = exchange(ERROR, status=429, size=size, headers={"content-encoding": coding})
    assert (translation.head.status, json.loads(out)["error"]["message"]) == (429, "slow down")  # type: ignore[union-attr]
    translation, out = exchange(b"\x1f\x8b\xff\xff\0\0", status=503, size=size, headers={"content-encoding": coding})
    assert translation.head.status == 503  # type: ignore[union-attr]
    assert json.loads(out)["error"]["type"] == "overloaded_error"


@pytest.mark.parametrize("content_type", [None, "text/event-stream", "Text/Event-Stream; charset=UTF-8",
                                          "application/json", "text/plain"])
@pytest.mark.parametrize("body", [STREAM, ANSWER])
def test_p20_a_stream_or_a_whole_response_whatever_was_asked_and_claimed(content_type: str | None, body: bytes) -> None:
    headers = {"content-type": content_type} if content_type else {}
    _, streamed = exchange(body, headers=headers)
    assert b'"text":"he' in streamed
    assert streamed.endswith(b'data: {"type":"message_stop"}\n\n')
    _, out = exchange(body, headers=headers, stream=False)
    assert json.loads(out)["content"] == [{"type": "text", "text": "hey"}]


@pytest.mark.parametrize("status", [200, 204, 302, 304])
@pytest.mark.parametrize("stream", [True, False])
def test_rule_3_a_response_without_a_body_is_an_error(status: int, stream: bool) -> None:
    translation, out = exchange(b"", status=status, stream=stream)
    assert translation.head.status == 502  # type: ignore[union-attr]
    assert json.loads(out)["error"]["type"] == "api_error"


# ------------------------------------------------------------------------------------------------- rule 4: what is lost


def test_rule_4_a_flood_of_unknown_fields_is_named_within_bounds() -> None:
    fields: dict[str, Any] = {f"field\r\n{number}{'x' * 200}": 1 for number in range(20_000)}
    _, translation = sent(**fields)
    assert len(translation.dropped.hints) == 100
    assert max(map(len, translation.dropped.hints)) <= 100
    value = dropped_header(translation.dropped)
    assert len(value) <= 1024
    assert value.isprintable()


def test_rule_4_a_choice_without_tools_is_named_or_refused() -> None:
    body, translation = sent(tool_choice={"type": "any"})
    assert "tool_choice" not in body
    assert translation.dropped.losses == ["tool_choice"]
    body, translation = sent(tool_choice={"type": "auto"})
    assert translation.dropped.losses == []
    with pytest.raises(RequestError) as refusal:
        sent(tool_choice={"type": "tool", "name": "f"})
    assert refusal.value.status == 400
    search = {"type": "web_search_20250305", "name": "web_search"}
    _, translation = sent(tools=[search], tool_choice={"type": "tool", "name": "web_search"})
    assert "tool_choice" in translation.dropped.losses


def test_empty_stop_sequences_are_left_out_and_do_not_use_up_the_four() -> None:
    body, translation = sent(stop_sequences=["", "a", "b", "\n", "d"])
    assert body["stop"] == ["a", "b", "\n", "d"]
    assert translation.dropped.hints == ["stop_sequences"]
    assert "stop" not in sent(stop_sequences=[""])[0]


# ------------------------------------------------------------------------------------- rule 6: same request, same bytes

_PRINT_BODY = """
import sys
from extproc import Translation
sys.stdout.buffer.write(Translation("anthropic", "openai", "m").request(sys.stdin.buffer.read()).body)
"""


def test_rule_6_the_same_bytes_in_every_process() -> None:
    long_names = [f"mcp__server.{letter}/" + "n" * 90 for letter in "abcdef"]
    schema = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}], "$defs": {"z": {}, "y": {}},
              "properties": {"b": {"type": ["str", "null"]}, "a": {"enum": ["x", 1]}, "c": {"$ref": "#/$defs/y"}}}
    calls = [{"type": "tool_use", "id": f"id.{n % 3}", "name": long_names[n % 6], "input": {"q": n}} for n in range(6)]
    body = {**HI, "tools": [{"name": name, "input_schema": schema} for name in long_names], "top_k": 4, "foo": 1,
            "stop_sequences": ["a", "b"], "thinking": {"type": "enabled", "budget_tokens": 2000},
            "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": calls},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "id.1"}]}]}
    seen = set()
    for seed in ("0", "1", "4711"):
        run = subprocess.run([sys.executable, "-c", _PRINT_BODY], input=json.dumps(body).encode(), capture_output=True,
                             check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        seen.add(run.stdout)
    assert len(seen) == 1
    assert json.loads(seen.pop())["tools"]


# ----------------------------------------------------------------------------------------------------- rule 8: the keys

KEY = "sk-secret/0123456789abcdef"


@pytest.mark.parametrize("body", [
    f"the key {KEY} is wrong".encode(),
    json.dumps({"error": {"message": f"wrong: {KEY}", "code": KEY}}).encode(),
    json.dumps({"error": {"message": f"wrong: {KEY}"}}).replace("/", "\\/").encode(),
    b'{"error": {"message": "wrong: ' + KEY.encode(),
    json.dumps({"error": {"message": "x" * 2030 + KEY}}).encode(),
    json.dumps({"unknown": "x" * 480 + KEY}).encode(),
    f"<html><title>{KEY}</title></html>".encode(),
])
def test_rule_8_no_part_of_a_key_crosses_in_an_error(body: bytes) -> None:
    translation, out = exchange(body, status=401, secrets=[KEY], headers={"retry-after": KEY, "x-ratelimit-x": KEY})
    assert "0123" not in out.decode() + str(translation.head) + str(translation.failure)
    streamed = sse(delta(content="a"), {"error": {"message": "x" * 2030 + KEY}})
    _, out = exchange(streamed, secrets=[KEY], headers={"content-type": "text/event-stream"})
    assert b"0123" not in out
    assert out.startswith(b"event: message_start")


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_that_its_host_refused_is_read_out_of_the_error(stream: bool) -> None:
    """Groq answers 400 with the model's own text; in it stands a good call."""
    translation = Translation(client="anthropic", upstream="openai", model="llama-3.3-70b", provider="groq")
    translation.request(json.dumps({
        "model": "claude-x", "max_tokens": 99, "stream": stream, "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": "ls", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}}],
    }).encode())
    translation.start(400, {"content-type": "application/json"})
    refused = {"error": {"message": "Failed to call a function.", "type": "invalid_request_error",
                         "code": "tool_use_failed", "failed_generation": '{"name": "ls", "arguments": {"path": "/"}}'}}
    out = translation.feed(json.dumps(refused).encode()) + translation.finish()
    assert translation.head is not None
    assert translation.head.status == 200
    assert translation.head.headers["content-type"].startswith("text/event-stream" if stream else "application/json")
    assert b'"tool_use"' in out
    assert b'"ls"' in out
    assert translation.failure is None


@pytest.mark.parametrize("arguments", ["null", " ", "", None])
@pytest.mark.parametrize("mode", [None, "repair", "strict"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_call_without_arguments_has_an_empty_object(stream: bool, mode: ArgumentsMode | None,
                                                      arguments: str | None) -> None:
    """The model calls without arguments, and its server writes that in one of many ways."""
    called = {"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}

    def answered(client: str, **offered: Any) -> Any:
        translation = Translation(client, "openai", "m", arguments=mode)
        translation.request(json.dumps({**HI, "stream": stream, **offered}).encode())
        translation.start(200, {})
        body = sse(delta(tool_calls=[called]), delta("tool_calls")) if stream else json.dumps(
            {"choices": [{"index": 0, "message": {"tool_calls": [called]}, "finish_reason": "tool_calls"}]}).encode()
        out = translation.feed(body) + translation.finish()
        assert translation.failure is None
        if not stream:
            return json.loads(out)
        return [json.loads(line[6:]) for line in out.decode().splitlines() if line.startswith("data: {")]

    ours = answered("anthropic", tools=[TOOL])
    theirs = answered("openai", tools=[{"type": "function", "function": {"name": "f"}}])
    if stream:
        # Its SDK reads no delta at all as the empty object that the block began with.
        assert [event["content_block"]["input"] for event in ours if event["type"] == "content_block_start"] == [{}]
        assert not [event for event in ours if event["type"] == "content_block_delta"]
        deltas = [choice["delta"] for event in theirs for choice in event["choices"]]
        assert "".join(part["tool_calls"][0]["function"]["arguments"] for part in deltas if part.get("tool_calls")) \
            == "{}"
    else:
        assert ours["content"][0]["input"] == {}
        assert theirs["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_what_keeps_a_response_from_being_prepared_is_told_once_more_when_the_response_comes(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*asked: object) -> None:
        raise ValueError("a bug")

    translation = Translation("anthropic", "openai", "m")
    translation.request(json.dumps(HI).encode())
    with monkeypatch.context() as patched:
        patched.setattr(CallReader, "prepare", broken)
        for attempt in (translation.prepare, lambda: translation.start(200, {})):
            with pytest.raises(ValueError, match="a bug"):
                attempt()
    translation.start(200, {})
    assert b"hey" in translation.feed(ANSWER) + translation.finish()


# ------------------------------------------------------------------------------------------------------ header names


@pytest.mark.parametrize("name", ["Anthropic-Beta", "anthropic-beta", "ANTHROPIC-BETA"])
def test_headers_of_a_request_are_found_however_they_are_spelt(name: str) -> None:
    translation = Translation("anthropic", "openai", "m")
    translation.request(json.dumps(HI).encode(), {"x-other": "1", name: "context-1m-2025-08-07"})
    assert translation.dropped.hints == ["anthropic-beta"]


@pytest.mark.parametrize("name", ["Retry-After", "retry-after"])
def test_headers_of_a_response_are_found_however_they_are_spelt(name: str) -> None:
    translation, _ = exchange(ERROR, status=429, headers={name: "7"})
    assert translation.head is not None
    assert translation.head.headers["retry-after"] == "7"
