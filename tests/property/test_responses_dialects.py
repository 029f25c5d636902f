"""Calls that a model writes as text, with the Responses API on either side: every dialect is read back at any cut, and
any cut gives the client the same bytes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.translation.exchange import Translation
from tests.model_text.exchange import sse_bytes, text_chunks
from tests.property.answers import heard_by
from tests.property.test_writing import CALLS, READABLE, TOOLS, written_by_us
from tests.providers import responses as api

PAIRS = [("anthropic", "responses"), ("openai", "responses"), ("responses", "responses"), ("responses", "openai")]
FLAT = [{"type": "function", "strict": False, **tool["function"]} for tool in TOOLS]
INPUTS = [{"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]} for tool in TOOLS]
BODIES: dict[str, dict[str, Any]] = {
    "anthropic": {"messages": [{"role": "user", "content": "go"}], "max_tokens": 1000, "tools": INPUTS},
    "openai": {"messages": [{"role": "user", "content": "go"}], "tools": TOOLS,
               "stream_options": {"include_usage": True}},
    "responses": {"input": "go", "tools": FLAT},
}


def stream_of(upstream: str, pieces: list[str]) -> bytes:
    """The provider's stream of a text in these pieces."""
    if upstream == "openai":
        return sse_bytes(text_chunks(pieces))
    whole = api.response([api.message("".join(pieces))])
    begin = api.events_of(api.response([api.message("")]))[:4]  # up to the empty part
    place = {"output_index": 0, "item_id": "msg_0", "content_index": 0}
    deltas = [{"type": "response.output_text.delta", **place, "delta": piece} for piece in pieces]
    end = {"type": "response.completed", "response": whole}
    return b"".join(map(api.written, [*begin, *deltas, end]))


def translated(client: str, upstream: str, dialect: str, pieces: list[bytes]) -> bytes:
    talk = Translation(client, upstream, "m", dialect=dialect)
    talk.request(json.dumps({"model": "m", "stream": True, **BODIES[client]}).encode())
    talk.start(200, {"content-type": "text/event-stream"})
    return b"".join(map(talk.feed, pieces)) + talk.finish()


@pytest.mark.parametrize("dialect", READABLE)
@pytest.mark.parametrize(("client", "upstream"), PAIRS, ids=" to ".join)
@given(calls=CALLS, prose=st.sampled_from(["", "Well.", "I look\n\nat it: "]), data=st.data())
@settings(max_examples=6, deadline=None)
def test_written_calls_are_read_back_at_any_cut(client: str, upstream: str, dialect: str,
                                                calls: list[tuple[str, Any]], prose: str,
                                                data: st.DataObject) -> None:
    said = written_by_us(dialect, calls, TOOLS, prose)
    size = data.draw(st.integers(1, 9))
    stream = stream_of(upstream, [said[at:at + size] for at in range(0, len(said), size)])
    at_once = translated(client, upstream, dialect, [stream])
    at = [0, *sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6))), len(stream)]
    assert translated(client, upstream, dialect, [stream[a:b] for a, b in itertools.pairwise(at)]) == at_once
    heard = heard_by(client, at_once, stream=True)
    assert heard.text.strip() == prose.strip()
    assert heard.calls == calls
    assert heard.stop == "calls"
    assert len(set(heard.ids)) == len(calls)
