"""Which bodies leave the event loop for a thread: large ones, and those of many small values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.ext_proc import incoming
from extproc.ext_proc.base import LARGE_RESPONSE
from extproc.ext_proc.pb import external_processor_pb2 as pb
from tests.bench.requests import conversation
from tests.unit.ext_proc.playbook import Playbook, request_body, request_headers, response_body, response_headers
from tests.unit.ext_proc.test_translate import SSE, asked, chunk, hop, routed

ASK = {"model": "one", "max_tokens": 10}


def should_offload(play: Playbook, message: pb.ProcessingRequest) -> bool:
    last = incoming.read_message(message.SerializeToString())
    assert isinstance(last, incoming.BodyChunk)
    return play.exchange.should_offload(last)


def sent(body: bytes, cut: int = 1 << 20, *, one_hop: bool = False) -> bool:
    """Whether a thread takes the last chunk of this request."""
    play = hop(one_hop=one_hop)
    play >> (request_headers() if one_hop else routed(play))
    while len(body) > cut:
        play >> request_body(body[:cut], end=False)
        body = body[cut:]
    return should_offload(play, request_body(body))


def turns(count: int, text: str = "a") -> list[dict[str, Any]]:
    return [{"role": ("user", "assistant")[number % 2], "content": text} for number in range(count)]


def blocks(count: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [block] * count}]


MANY_VALUES = {
    "messages": turns(5000),
    "texts": blocks(5000, {"type": "text", "text": "a"}),
    "blocks of an odd type": blocks(6000, {"type": "x"}),
    "empty blocks": blocks(100_000, {}),
    "empty lists": blocks(1, {"type": "tool_use", "id": "a", "name": "f", "input": {"a": [[]] * 100_000}}),
    "fields that nobody knows": [{"role": "user", "content": "a", **{f"f{number}": 1 for number in range(10_000)}}],
}


@pytest.mark.parametrize("one_hop", [False, True])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("what", MANY_VALUES)
def test_thousands_of_tiny_things_leave_the_loop(what: str, separators: tuple[str, str], one_hop: bool) -> None:
    body = json.dumps({**ASK, "messages": MANY_VALUES[what]}, separators=separators).encode()
    assert len(body) < 512 * 1024
    assert sent(body, one_hop=one_hop)
    assert sent(body, 16_384, one_hop=one_hop)


def test_an_ordinary_session_stays_on_the_loop() -> None:
    session = conversation(400_000)
    body = json.dumps({**session, **ASK}).encode()
    assert len(session["messages"]) > 130  # type: ignore[arg-type]
    assert not sent(body)
    assert not sent(body, 16_384)


@pytest.mark.parametrize("text", [
    "The quick brown fox jumps. ", '{"name": "a", "values": [1, 2, {"x": "y"}]}\n', "if (a[0]) { return {}; }\n",
    '\\d+"', "\n\t", "é"])
def test_what_long_texts_hold_does_not_count(text: str) -> None:
    body = json.dumps({**ASK, "messages": turns(60, text * (6000 // (len(json.dumps(text)) - 2)))}).encode()
    assert 350_000 < len(body) < 400_000
    assert not sent(body)


def test_a_small_body_stays_whatever_it_holds() -> None:
    assert not sent(json.dumps({**ASK, "messages": turns(1500)}).encode())


def whole(size: int) -> bytes:
    message = {"role": "assistant", "content": "a" * size}
    return json.dumps({"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()


@pytest.mark.parametrize("model", ["one", "two"])
def test_a_large_whole_response_leaves_the_loop(model: str) -> None:
    for size, offloaded in ((1000, False), (LARGE_RESPONSE, True)):
        play = asked(model, stream=False)
        play >> response_headers(content_type="application/json")
        body = whole(size)
        play >> response_body(body[:500])
        assert should_offload(play, response_body(body[500:], end=True)) is offloaded


def test_the_end_of_a_long_stream_does_not() -> None:
    play = asked()
    play >> response_headers(**SSE)
    for _ in range(20):
        play >> response_body(chunk({"content": "word " * 1000}))
    assert not should_offload(play, response_body(chunk(finish="stop"), end=True))
