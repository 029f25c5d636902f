"""What a finished stream held is free at once: nothing of it waits for the garbage collector, however it ended."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from extproc.config import Attempt, Backend, ModelRule
from tests.unit.ext_proc.playbook import request_body, response_body, response_headers
from tests.unit.ext_proc.test_translate import ASK, DONE, HELLO, SSE, STOP, chunk, hop, routed

URL = "https://provider.example/v1"
WRITE = {"name": "write", "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}}}
CALL = chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                              "function": {"name": "write", "arguments": '{"text": "x"}'}}]})
PIECE_OF_A_CALL = chunk({"content": 'So: <tool_call>\n{"name": "write", "argum'})
CLAUDE = [b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), json.dumps(event).encode()) for event in (
    {"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
                                          "content": [], "stop_reason": None, "stop_sequence": None,
                                          "usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
     "usage": {"output_tokens": 2}},
    {"type": "message_stop"})]
GEMINI = [b"data: " + json.dumps({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]},
                                                  "finishReason": "STOP"}]}).encode() + b"\r\n\r\n"]


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def left_behind(stream: Callable[[], None]) -> int:
    """Objects of ten such streams that only the garbage collector can free. What a first one leaves in caches (types,
    compiled patterns) is not theirs."""
    stream()
    gc.collect()
    for _ in range(10):
        stream()
    return gc.collect()


def exchange(api: str, model: str, pieces: list[bytes], *, end: bool = True, status: int = 200) -> Callable[[], None]:
    """A stream from its first message to its end; without `end` the client leaves in its middle."""
    backends = {"alpha": Backend(api=api, url=URL, key="sk-alpha-secret")}
    models = [ModelRule(match="one", attempts=[Attempt(backend="alpha", model=model)])]

    def run() -> None:
        play = hop(backends=backends, models=models)
        play >> routed(play) >> request_body({**ASK, "tools": [WRITE]}) >> response_headers(status, **SSE)
        for piece in pieces:
            play >> response_body(piece)
        if end:
            play >> response_body(b"", end=True)
        said = len(play.take())
        assert said > len(pieces) * end
        play.exchange.close(play.now)

    return run


READS_TEXT = "qwen/qwen3-coder"
STREAMS: dict[str, Any] = {
    "text": ("openai", "gpt-5", [HELLO, STOP, DONE]),
    "a native call": ("openai", "gpt-5", [HELLO, CALL, chunk(finish="tool_calls"), DONE]),
    "text in which calls are looked for": ("openai", READS_TEXT, [HELLO, STOP, DONE]),
    "cut off in a call": ("openai", READS_TEXT, [HELLO, PIECE_OF_A_CALL]),
    "a response that breaks off": ("openai", "gpt-5", [HELLO]),
    "a damaged event": ("openai", "gpt-5", [HELLO, b"data: {\n\n"]),
    "Claude, where bytes pass": ("anthropic", "claude-sonnet-4-5", CLAUDE),
    "Gemini": ("gemini", "gemini-3-pro", GEMINI),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_finished_stream_leaves_nothing_to_the_garbage_collector(name: str) -> None:
    assert left_behind(exchange(*STREAMS[name])) == 0


@pytest.mark.parametrize("name", STREAMS)
def test_nor_does_one_whose_client_left(name: str) -> None:
    api, model, pieces = STREAMS[name]
    assert left_behind(exchange(api, model, pieces[:2], end=False)) == 0


@pytest.mark.parametrize("name", STREAMS)
def test_nor_does_a_response_that_was_prepared_for_and_never_came(name: str) -> None:
    api, model, _ = STREAMS[name]
    assert left_behind(exchange(api, model, [b'{"error": {"message": "busy"}}'], status=529)) == 0
    assert left_behind(exchange(api, model, [], end=False)) == 0


def test_nor_does_a_response_that_an_error_quotes() -> None:
    call = json.dumps([{"name": "write", "parameters": {"text": "x"}}])
    error = json.dumps({"error": {"message": "Failed to call a function.", "code": "tool_use_failed",
                                  "failed_generation": call}}).encode()
    assert left_behind(exchange("openai", READS_TEXT, [error], status=400)) == 0
