"""Design rule 1: cutting the provider's stream at any byte changes nothing in what the client gets; and every output
obeys the Anthropic event grammar. Provider answers are generated, with the deviations of real servers."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.apis.anthropic.client.grammar import check
from extproc.translation.exchange import Translation
from tests.playbook import delta

REQUEST = {
    "model": "m", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"name": name, "description": name, "input_schema": {"type": "object", "properties": {}}}
              for name in ("lookup_tide", "ping")],
}

PIECES = st.text(min_size=1, max_size=12)


@st.composite
def tool_call(draw: st.DrawFn, index: int) -> list[dict[str, Any]]:
    """The deltas of one call, as different servers send it."""
    arguments = json.dumps(draw(st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers(), max_size=3)),
                           ensure_ascii=draw(st.booleans()))
    arguments = draw(st.sampled_from([arguments, arguments, f" \n{arguments}", "null", " "]))
    name = draw(st.sampled_from(["lookup_tide", "ping", "unknown"]))
    id = draw(st.sampled_from([f"call_{index}", None, "", "same", "functions.x:0"]))
    cuts = sorted(draw(st.lists(st.integers(0, len(arguments)), max_size=3)))
    pieces = [arguments[a:b] for a, b in itertools.pairwise([0, *cuts, len(arguments)])]
    fields: dict[str, Any] = {"index": index} if draw(st.booleans()) else {}
    if id is not None:
        fields["id"] = id
    out = [{**fields, "type": "function", "function": {"name": name, "arguments": pieces[0]}}]
    repeat = fields if draw(st.booleans()) else {k: v for k, v in fields.items() if k == "index"}
    return out + [{**repeat, "function": {"arguments": piece}} for piece in pieces[1:]]


@st.composite
def provider_stream(draw: st.DrawFn) -> bytes:
    chunks: list[Any] = []
    for kind in draw(st.lists(st.sampled_from(["text", "think", "calls", "odd"]), max_size=5)):
        if kind == "text":
            chunks += [delta(content=piece) for piece in draw(st.lists(PIECES, max_size=3))]
        elif kind == "think":
            field = draw(st.sampled_from(["reasoning", "reasoning_content"]))
            chunks += [delta(**{field: piece}) for piece in draw(st.lists(PIECES, max_size=3))]
        elif kind == "calls":
            calls = [draw(tool_call(i)) for i in range(draw(st.integers(1, 3)))]
            order = itertools.chain(*calls)
            if draw(st.booleans()):
                order = (d for row in itertools.zip_longest(*calls) for d in row if d)  # type: ignore[assignment]
            chunks += [delta(tool_calls=[d]) for d in order]
        else:
            chunks.append(draw(st.sampled_from([{"choices": None}, {"choices": []}, delta(), delta(content=None)])))
    end = draw(st.sampled_from(["stop", "tool_calls", "length", "", None, "error"]))
    chunks.append(delta(end))
    chunks.append({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
    newline = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    space = draw(st.sampled_from(["", " "]))
    ascii = draw(st.booleans())
    lines = [f"data:{space}{json.dumps(c, ensure_ascii=ascii)}{newline}{newline}" for c in chunks]
    if draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), f": OPENROUTER PROCESSING{newline}{newline}")
    tail = draw(st.sampled_from([f"data: [DONE]{newline}{newline}", "", "data: [DONE]", 'data: {"id": "x", "cho']))
    return ("".join(lines) + tail).encode()


def translate(pieces: list[bytes], stream: bool = True, **settings: Any) -> tuple[int, bytes]:
    translation = Translation("anthropic", "openai", "m", **settings)
    translation.request(json.dumps({**REQUEST, "stream": stream}).encode())
    translation.start(200, {"content-type": "text/event-stream"})
    out = b"".join(translation.feed(piece) for piece in pieces) + translation.finish()
    assert translation.head is not None
    return translation.head.status, out


def events(out: bytes) -> list[dict[str, Any]]:
    return [json.loads(block.split("data: ", 1)[1]) for block in out.decode().split("\n\n") if block]


@given(provider_stream(), st.lists(st.integers(0, 10_000), max_size=12), st.booleans(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_any_cut_same_bytes_and_the_grammar_holds(body: bytes, cuts: list[int], stream: bool, withhold: bool) -> None:
    status, whole = translate([body], stream, withhold=withhold)
    at = [0, *sorted(c % (len(body) + 1) for c in cuts), len(body)]
    assert translate([body[a:b] for a, b in itertools.pairwise(at)], stream, withhold=withhold) == (status, whole)
    if stream and status == 200:
        check(events(whole))


@given(provider_stream())
@settings(max_examples=25, deadline=None)
def test_a_byte_at_a_time(body: bytes) -> None:
    assert translate([body[i:i + 1] for i in range(len(body))]) == translate([body])


@given(provider_stream(), st.integers(0, 10_000))
@settings(max_examples=200, deadline=None)
def test_a_stream_broken_anywhere_never_looks_finished_unless_it_was(body: bytes, at: int) -> None:
    """Rule 2: what is cut off before its ending ends in an error event, not in message_stop."""
    _, out = translate([body[:at % (len(body) + 1)]])
    types = [event["type"] for event in events(out)]
    assert types[-1] in ("message_stop", "error")
    ended = b"[DONE]" in body[:at % (len(body) + 1)] or b'"finish_reason": "' in body[:at % (len(body) + 1)]
    if types[-1] == "message_stop" and not ended:
        # only whole tool calls may stand for an ending that never came
        assert any(e["type"] == "content_block_start" and e["content_block"]["type"] == "tool_use" for e in events(out))
