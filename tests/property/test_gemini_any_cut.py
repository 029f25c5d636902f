"""Gemini's streams: cutting them at any byte changes nothing in what the client gets (design rule 1), and a stream that
is cut off never looks finished (rule 2). Streams are generated, with the habits of AI Studio and Vertex."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.apis.anthropic.client.grammar import check
from extproc.translation.exchange import Translation
from tests.unit.apis.gemini.response.conversation import Json, call, chunk, piece, text, thought

REQUEST = {
    "model": "m", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"name": name, "description": name, "input_schema": {"type": "object", "properties": {
        "a": {"type": "string"}}}} for name in ("lookup_tide", "ping")],
}
ERROR = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}

WORDS = st.text(min_size=0, max_size=12) | st.sampled_from(
    ["\n", " ", '<tool_call>\n{"name": "ping", "arguments": ', "{}}\n</tool_call>", "<think>", "</think>", "```\n"])
SIGNATURES = st.none() | st.sampled_from(["QUJD", "U0lH/+==", "x y"])
ARGUMENTS = st.none() | st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.floats(allow_nan=False) |
                                        st.integers() | st.none(), max_size=3)
NAMES = st.sampled_from(["lookup_tide", "ping", "unknown"])
IDS = st.sampled_from([{}, {"id": None}, {"id": "same"}, {"id": "fc-1"}, {"id": "not legal!"}])


@st.composite
def whole_call(draw: st.DrawFn) -> list[Json]:
    return [call(draw(NAMES), draw(ARGUMENTS), draw(SIGNATURES), **draw(IDS))]


@st.composite
def streamed_call(draw: st.DrawFn) -> list[Json]:
    """A call of Vertex in pieces, sometimes without its end."""
    parts = [call(draw(NAMES), signature=draw(SIGNATURES), willContinue=True, **draw(IDS))]
    for path in draw(st.lists(st.sampled_from(["$.a", "$.b.c[0]", "$['d e']", "$.b.c[1].f", "$["]), max_size=4)):
        value = draw(st.sampled_from([{"numberValue": 1.5}, {"boolValue": True}, {"nullValue": None}, {}])
                     | WORDS.map(lambda words: {"stringValue": words}))
        parts.append(call(partialArgs=[piece(path, draw(st.booleans()), **value)], willContinue=True))
    return parts + draw(st.sampled_from([[call()], [call(partialArgs=[piece("$.z", numberValue=0)])], []]))


PROSE = st.one_of(st.builds(lambda words, sig: [text(words, sig)], WORDS, SIGNATURES),
                  st.builds(lambda words, sig: [thought(words, sig)], WORDS, SIGNATURES))
RARE = st.sampled_from([
    [{"executableCode": {"language": "PYTHON", "code": "1"}}], [{"inlineData": {"mimeType": "image/png", "data": "A"}}],
    [{"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}], [{"toolCall": {}}], [{}]])
ENDS = st.sampled_from(["STOP", "STOP", "STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "NEW", None])


@st.composite
def provider_chunks(draw: st.DrawFn) -> list[Json]:
    parts = list(itertools.chain(*draw(st.lists(PROSE | whole_call() | streamed_call() | RARE, max_size=8))))
    chunks: list[Json] = []
    while parts:
        size = draw(st.integers(1, 3))
        chunks.append(chunk(*parts[:size], usage=draw(st.sampled_from([None, {"promptTokenCount": 9}]))))
        parts = parts[size:]
    grounding = draw(st.sampled_from([{}, {"groundingMetadata": {"groundingChunks": [
        {"web": {"uri": "https://a.example/", "title": "A"}}]}}]))
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 5, "thoughtsTokenCount": 2, "cachedContentTokenCount": 4}
    chunks.append(chunk(finish=draw(ENDS), usage=usage, **grounding))
    if draw(st.integers(0, 9)) == 0:
        chunks.insert(draw(st.integers(0, len(chunks))), ERROR)
    if draw(st.integers(0, 9)) == 0:
        chunks.insert(0, {"promptFeedback": {"blockReason": "SAFETY"}})
    return chunks


def framed(chunks: list[Json], newline: str = "\r\n", space: str = " ", *, ascii: bool = False) -> list[bytes]:
    return [f"data:{space}{json.dumps(c, ensure_ascii=ascii)}{newline}{newline}".encode() for c in chunks]


@st.composite
def provider_body(draw: st.DrawFn) -> bytes:
    chunks = draw(provider_chunks())
    ascii = draw(st.booleans())
    form = draw(st.sampled_from(["sse", "sse", "sse", "array", "whole"]))
    if form == "array":
        return json.dumps(chunks, ensure_ascii=ascii, indent=draw(st.sampled_from([None, 2]))).encode()
    if form == "whole":
        return json.dumps(chunks[-1], ensure_ascii=ascii).encode()
    lines = framed(chunks, draw(st.sampled_from(["\n", "\r\n", "\r"])), draw(st.sampled_from(["", " "])), ascii=ascii)
    tail = draw(st.sampled_from([b"", b"", b"data: [DONE]\n\n", b'data: {"candidates": [{"con', b": comment\n\n",
                                 json.dumps(ERROR, indent=2).encode()]))
    return b"".join(lines) + tail


def translate(pieces: list[bytes], stream: bool = True, **more: Any) -> tuple[int, bytes]:
    translation = Translation("anthropic", "gemini", "gemini-3-pro-preview", **more)
    translation.request(json.dumps({**REQUEST, "stream": stream}).encode())
    translation.start(200, {"content-type": "text/event-stream"})
    out = b"".join(translation.feed(piece) for piece in pieces) + translation.finish()
    assert translation.head is not None
    assert translation.usage.input >= translation.usage.cached >= 0
    return translation.head.status, out


def events(out: bytes) -> list[Json]:
    return [json.loads(block.split("data: ", 1)[1]) for block in out.decode().split("\n\n") if block]


@given(provider_body(), st.lists(st.integers(0, 10_000), max_size=12), st.booleans(), st.booleans(),
       st.sampled_from([None, "hermes"]))
@settings(max_examples=200, deadline=None)
def test_any_cut_same_bytes_and_the_grammar_holds(body: bytes, cuts: list[int], stream: bool, withhold: bool,
                                                  dialect: str | None) -> None:
    more = {"withhold": withhold, "dialect": dialect}
    status, whole = translate([body], stream, **more)
    at = [0, *sorted(c % (len(body) + 1) for c in cuts), len(body)]
    assert translate([body[a:b] for a, b in itertools.pairwise(at)], stream, **more) == (status, whole)
    if stream and status == 200:
        check(events(whole))
        ids = [e["content_block"]["id"] for e in events(whole) if e.get("content_block", {}).get("type") == "tool_use"]
        assert len(ids) == len(set(ids))


@given(provider_body(), st.sampled_from([None, "hermes"]))
@settings(max_examples=25, deadline=None)
def test_a_byte_at_a_time(body: bytes, dialect: str | None) -> None:
    assert translate([body[i:i + 1] for i in range(len(body))], dialect=dialect) == translate([body], dialect=dialect)


@given(provider_chunks(), st.integers(0, 10_000), st.booleans())
@settings(max_examples=200, deadline=None)
def test_p1_a_stream_cut_off_before_its_finish_reason_never_looks_finished(chunks: list[Json], at: int,
                                                                          at_an_event: bool) -> None:
    """Cut inside an event or between two; the last chunk is the first that may tell a reason."""
    lines = framed([c for c in chunks if "promptFeedback" not in c])
    open_part = b"".join(lines[:-1])
    if at_an_event:
        cut = b"".join(lines[:at % len(lines)])
    else:
        cut = (open_part + lines[-1].rstrip())[:at % (len(open_part) + len(lines[-1].rstrip()))]
    status, out = translate([cut])
    assert status == 502 or events(out)[-1]["type"] == "error"


@given(provider_chunks())
@settings(max_examples=100, deadline=None)
def test_a_stream_and_its_array_form_say_the_same(chunks: list[Json]) -> None:
    assert translate([b"".join(framed(chunks))])[1] == translate([json.dumps(chunks, ensure_ascii=False).encode()])[1]
