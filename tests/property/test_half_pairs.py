"""A provider that cuts its text between the two halves of an emoji: the client gets the emoji, wherever the text and
the bytes are cut; a half that stays alone becomes U+FFFD and nothing around it is lost."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from extproc.translation.exchange import Translation
from tests.model_text.exchange import request_body

TOOLS = [{"type": "function", "function": {"name": "say", "parameters": {
    "type": "object", "properties": {"text": {"type": "string"}}}}}]
OPENAI_REQUEST = json.dumps({"model": "m", "stream": True, "tools": TOOLS,
                             "messages": [{"role": "user", "content": "go"}]}).encode()
Piece = tuple[str, str]
"""("text" | "thinking" | "call", what it says); what it says may begin or end with half of a pair."""


def openai(pieces: Iterable[Piece]) -> list[Any]:
    def delta(kind: str, text: str) -> dict[str, Any]:
        if kind == "call":
            return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
        return {"content": text} if kind == "text" else {"reasoning": text, "reasoning_content": text}

    begun = False
    chunks = []
    for kind, text in pieces:
        if kind == "call" and not begun:
            begun = True
            chunks.append({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "say", "arguments": ""}}]})
        chunks.append(delta(kind, text))
    finish = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if begun else "stop"}
    return [*({"choices": [{"index": 0, "delta": chunk}]} for chunk in chunks), {"choices": [finish]}]


def anthropic(pieces: Iterable[Piece]) -> list[Any]:
    kinds = {"text": ({"type": "text", "text": ""}, "text_delta", "text"),
             "thinking": ({"type": "thinking", "thinking": ""}, "thinking_delta", "thinking"),
             "call": ({"type": "tool_use", "id": "c1", "name": "say", "input": {}}, "input_json_delta", "partial_json")}
    events: list[Any] = [{"type": "message_start", "message": {"id": "m", "model": "m", "usage": {}}}]
    index = -1
    called = False
    for kind, group in itertools.groupby(pieces, lambda piece: piece[0]):
        index += 1
        called = called or kind == "call"
        block, delta, field = kinds[kind]
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for _, text in group:
            events.append({"type": "content_block_delta", "index": index, "delta": {"type": delta, field: text}})
            events.append({"type": "ping"})
        events.append({"type": "content_block_stop", "index": index})
    return [*events, {"type": "message_delta", "delta": {"stop_reason": "tool_use" if called else "end_turn"}},
            {"type": "message_stop"}]


def gemini(pieces: Iterable[Piece]) -> list[Any]:
    parts = []
    listed = list(pieces)
    for at, (kind, text) in enumerate(listed):
        if kind == "call":  # Vertex streams the strings of arguments
            last = at + 1 == len(listed)
            first = at == 0 or listed[at - 1][0] != "call"
            parts.append({"functionCall": {
                **({"name": "say"} if first else {}), **({} if last else {"willContinue": True}),
                "partialArgs": [{"jsonPath": "$.text", "stringValue": text, "willContinue": not last}]}})
        else:
            parts.append({"text": text, **({"thought": True} if kind == "thinking" else {})})
    return [*({"candidates": [{"content": {"parts": [part]}}]} for part in parts),
            {"candidates": [{"finishReason": "STOP"}]}]


WRITERS: dict[str, Callable[[Iterable[Piece]], list[Any]]] = {
    "openai": openai, "anthropic": anthropic, "gemini": gemini}


def halves_of(text: str) -> list[str]:
    """The text as JavaScript counts it: each half of a pair by itself."""
    units = text.encode("utf-16-le")
    return [units[at:at + 2].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), 2)]


def cut(text: str, places: Iterable[int]) -> list[str]:
    units = halves_of(text)
    at = sorted({place % (len(units) + 1) for place in places} | {0, len(units)})
    return ["".join(units[a:b]) for a, b in itertools.pairwise(at)]


def heard(upstream: str, pieces: list[Piece], byte_cuts: Iterable[int] = ()) -> dict[str, str]:
    """What a client of another API hears of each kind."""
    client = "openai" if upstream == "anthropic" else "anthropic"
    exchange = Translation(client, upstream, "nobody")
    exchange.request(request_body(TOOLS) if client == "anthropic" else OPENAI_REQUEST)
    exchange.start(200, {"content-type": "text/event-stream"})
    stream = b"".join((f"event: {event['type']}\n" if "type" in event else "").encode()
                      + b"data: %b\n\n" % json.dumps(event).encode() for event in WRITERS[upstream](pieces))
    at = [0, *sorted(place % (len(stream) + 1) for place in byte_cuts), len(stream)]
    out = b"".join(exchange.feed(stream[a:b]) for a, b in itertools.pairwise(at)) + exchange.finish()
    got = {"text": "", "thinking": "", "call": ""}
    for block in out.decode().split("\n\n"):
        text = block.partition("data: ")[2]
        for kind, said in deltas(json.loads(text)) if text[:1] == "{" else ():
            got[kind] += said
    assert out.endswith(b"[DONE]\n\n") or b"event: message_stop" in out
    got["call"] = json.loads(got["call"])["text"] if got["call"] else ""
    return got


def deltas(event: dict[str, Any]) -> Iterable[Piece]:
    """What an event of either client API says."""
    if "choices" not in event:
        delta = event.get("delta", {})
        yield from ((kind, delta[key]) for kind, key in (("text", "text"), ("thinking", "thinking"),
                                                         ("call", "partial_json")) if key in delta)
    for choice in event.get("choices", ()):
        delta = choice["delta"]
        yield from ((kind, delta[key]) for kind, key in (("text", "content"), ("thinking", "reasoning_content"))
                    if delta.get(key))
        for call in delta.get("tool_calls", ()):
            yield "call", call["function"].get("arguments", "")


def pieces_of(upstream: str, kind: str, text: str, places: Iterable[int]) -> list[Piece]:
    if kind == "call" and upstream != "gemini":
        text = json.dumps({"text": text}, ensure_ascii=False)
    return [(kind, piece) for piece in cut(text, places)]


TEXTS = st.lists(st.sampled_from(["😀", "👍🏽", "a", " ", "é", "\\", '"', "\\ud83d", "日", "\n"]), min_size=1,
                 max_size=8).map(lambda drawn: "x" + "".join(drawn) + "z")


@pytest.mark.parametrize("kind", ["text", "thinking", "call"])
@pytest.mark.parametrize("upstream", sorted(WRITERS))
@given(text=TEXTS, places=st.lists(st.integers(0, 99), max_size=8),
       bytes_cut=st.lists(st.integers(0, 9999), max_size=6))
@example(text="x😀z", places=range(20), bytes_cut=range(700))
@example(text='x😀"😀😀z', places=range(30), bytes_cut=[])
@settings(max_examples=40, deadline=None)
def test_a_pair_that_was_cut_arrives_whole(upstream: str, kind: str, text: str, places: Iterable[int],
                                           bytes_cut: Iterable[int]) -> None:
    assert heard(upstream, pieces_of(upstream, kind, text, places), bytes_cut)[kind] == text


HIGH, LOW = halves_of("😀")


@pytest.mark.parametrize("upstream", sorted(WRITERS))
class TestHalvesAlone:
    """A half that is never completed, or that never began."""

    def test_text_follows(self, upstream: str) -> None:
        assert heard(upstream, [("text", "a" + HIGH), ("text", "b")])["text"] == "a\ufffdb"
        assert heard(upstream, [("text", "a" + HIGH), ("text", HIGH), ("text", LOW)])["text"] == "a\ufffd😀"

    def test_the_answer_ends(self, upstream: str) -> None:
        assert heard(upstream, [("text", "a" + HIGH)])["text"] == "a\ufffd"

    def test_something_else_follows(self, upstream: str) -> None:
        got = heard(upstream, [("thinking", "a" + HIGH), ("text", "b"), ("text", LOW + "c" + HIGH)])
        assert (got["thinking"], got["text"]) == ("a\ufffd", "b\ufffdc\ufffd")

    def test_in_the_middle(self, upstream: str) -> None:
        assert heard(upstream, [("text", f"a{HIGH}b{LOW}c")])["text"] == "a\ufffdb\ufffdc"


def test_a_stream_that_breaks_off_shows_what_waited() -> None:
    exchange = Translation("anthropic", "openai", "nobody")
    exchange.request(request_body(TOOLS))
    exchange.start(200, {"content-type": "text/event-stream"})
    out = exchange.feed(b'data: {"choices":[{"index":0,"delta":{"content":"Well \\ud83d"}}]}\n\n') + exchange.finish()
    assert "Well \ufffd" in out.decode()
    assert b"event: error" in out
    assert b"message_stop" not in out


@pytest.mark.parametrize("upstream", ["anthropic", "openai", "gemini"])
@pytest.mark.parametrize("name", [b"event: error\n", b""])
@pytest.mark.parametrize("rest", ["", " again"])
def test_an_error_with_half_of_a_pair_arrives_at_once(upstream: str, name: bytes, rest: str) -> None:
    """Its connection may stay open for minutes."""
    exchange = Translation("openai", upstream, "nobody")
    exchange.request(OPENAI_REQUEST)
    exchange.start(200, {"content-type": "text/event-stream"})
    payload = b'{"type":"error","error":{"code":503,"message":"Too busy \\ud83d%b"}}' % rest.encode()
    out = exchange.feed(name + b"data: " + payload + b"\n\n")
    assert f"Too busy \ufffd{rest}" in out.decode()


def test_parallel_calls_in_one_event() -> None:
    """Strings that end in the same event go on in their order."""
    def event(first: str, second: str, **more: str) -> bytes:
        calls = [{"index": at, "function": {"arguments": text, **more}} for at, text in enumerate((first, second))]
        return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}).encode()

    exchange = Translation("openai", "openai", "nobody", dialect="hermes")
    exchange.request(OPENAI_REQUEST)
    exchange.start(200, {"content-type": "text/event-stream"})
    grin, thumb = halves_of("😀"), halves_of("👍")
    out = exchange.feed(event('{"text": "' + grin[0], '{"text": "' + thumb[0], name="say"))
    out += exchange.feed(event(grin[1] + '"}', thumb[1] + '"}'))
    out += exchange.feed(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n')
    out += exchange.finish()
    arguments = ["", ""]
    for line in out.decode().split("\n\n"):
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                for call in choice["delta"].get("tool_calls", ()):
                    arguments[call["index"]] += call["function"].get("arguments", "")
    assert [json.loads(text) for text in arguments] == [{"text": "😀"}, {"text": "👍"}]
