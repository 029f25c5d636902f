"""Streams of the Responses API: cutting them at any byte changes nothing in what the client gets (design rule 1), a
stream that is cut off never looks finished (rule 2), and every order of events gives the client's own grammar."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.apis.anthropic.client.grammar import check
from extproc.translation.exchange import Translation
from tests.providers import responses as api
from tests.unit.apis.responses.client.grammar import check_stream

Json = dict[str, Any]

REQUEST = {
    "model": "m", "max_tokens": 100, "stream": True, "messages": [{"role": "user", "content": "hi"}],
    "tools": [{"name": name, "description": name, "input_schema": {"type": "object", "properties": {
        "a": {"type": "string"}}}} for name in ("lookup_tide", "ping")],
}
BODIES: dict[str, Json] = {
    "anthropic": REQUEST,
    "responses": {"model": "m", "input": "hi", "reasoning": {"summary": "auto"}, "tools": [
        {"type": "function", "name": "lookup_tide", "strict": False, "parameters": {
            "type": "object", "properties": {"a": {"type": "string"}}}}, {"type": "custom", "name": "ping"}]},
}
WORDS = st.text(min_size=0, max_size=12) | st.sampled_from(["\n", " ", "<think>", "\U0001f388 \u00fc"])
NAMES = st.sampled_from(["lookup_tide", "ping", "unknown"])
IDS = st.sampled_from(["call_1", "call_2", "same", "not legal!"])
ARGUMENTS = st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers() | st.none(), max_size=3)
SEALS = st.none() | st.sampled_from(["gAAAB+/==", "x y"])

ITEMS = st.one_of(
    st.builds(lambda *texts: api.message(*texts), WORDS, WORDS),
    st.builds(api.message, WORDS),
    st.builds(lambda text, seal: api.reasoning(text, "more", encrypted=seal), WORDS, SEALS),
    st.builds(lambda seal: api.reasoning(encrypted=seal), SEALS),
    st.builds(api.function_call, IDS, NAMES, ARGUMENTS),
    st.builds(api.custom_call, IDS, NAMES, WORDS),
    st.just({"type": "web_search_call", "id": "ws_1", "status": "completed"}))
ENDS = st.sampled_from(["response.completed", "response.completed", "response.completed", "response.incomplete",
                        "response.failed", "error", "none"])
ODD = st.sampled_from([{"type": "codex.rate_limits"}, {"type": "keepalive", "sequence_number": 1},
                       {"type": "response.output_text.annotation.added", "output_index": 0}])


@st.composite
def provider_events(draw: st.DrawFn) -> list[Json]:
    """The events of a response, with the habits of servers: events and fields left out, items interleaved."""
    items = draw(st.lists(ITEMS, max_size=4))
    groups = [api.item_events(index, item, pieces=draw(st.integers(1, 7))) for index, item in enumerate(items)]
    if draw(st.booleans()):
        body = [group[at] for at in range(max(map(len, groups), default=0)) for group in groups if at < len(group)]
    else:
        body = list(itertools.chain(*groups))
    left_out = draw(st.sets(st.sampled_from(["deltas", "added", "part", "fields"]), max_size=2))
    body = [event for event in body if not (
        ("deltas" in left_out and event["type"].endswith("delta"))
        or ("added" in left_out and event["type"] == "response.output_item.added")
        or ("part" in left_out and "part" in event["type"]))]
    if "fields" in left_out:
        body = [{name: value for name, value in event.items() if name != "item_id"} for event in body]
    for _ in range(draw(st.integers(0, 2))):
        body.insert(draw(st.integers(0, len(body))), draw(ODD))
    end = draw(ENDS)
    whole = api.response(items if draw(st.booleans()) else [], incomplete="max_output_tokens",
                         state="incomplete" if end == "response.incomplete" else "completed")
    last = {"error": [api.error_event("no")], "response.failed": [api.failed_event("no")], "none": []}.get(
        end, [{"type": end, "response": whole}])
    begin = [{"type": "response.created", "response": api.response([], state="in_progress")}]
    return [*(begin if draw(st.booleans()) else []), *body, *last]


@st.composite
def provider_body(draw: st.DrawFn) -> bytes:
    events = draw(provider_events())
    if draw(st.integers(0, 5)) == 0:
        return json.dumps(events[-1].get("response", events[-1]) if events else {}).encode()
    newline, named, ascii = draw(st.sampled_from(["\n", "\r\n"])), draw(st.booleans()), draw(st.booleans())
    tail = draw(st.sampled_from([b"", b"", b"data: [DONE]\n\n", b": comment\n\n", b'data: {"type": "resp']))
    return b"".join(api.written(event, newline=newline, named=named, ascii=ascii) for event in events) + tail


def translate(pieces: list[bytes], stream: bool = True, *, client: str = "anthropic",
              **more: Any) -> tuple[int, bytes]:
    translation = Translation(client, "responses", "m", **more)
    translation.request(json.dumps({**BODIES[client], "stream": stream}).encode())
    translation.start(200, {"content-type": "text/event-stream"})
    out = b"".join(translation.feed(piece) for piece in pieces) + translation.finish()
    assert translation.head is not None
    return translation.head.status, out


def events_of(out: bytes) -> list[Json]:
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
        check(events_of(whole))
        ids = [e["content_block"]["id"] for e in events_of(whole)
               if e.get("content_block", {}).get("type") == "tool_use"]
        assert len(ids) == len(set(ids))


AT_OPENAI = {"provider": "openai", "url": "https://api.openai.com/v1"}


@given(provider_body(), st.lists(st.integers(0, 10_000), max_size=12), st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_a_client_of_the_same_api_gets_the_same_bytes(body: bytes, cuts: list[int], stream: bool, withhold: bool,
                                                      passes: bool) -> None:
    """Encoded anew, the grammar holds whatever the provider sends. Either way the stream has one end."""
    more = {"client": "responses", "withhold": withhold, **(AT_OPENAI if passes else {})}
    status, whole = translate([body], stream, **more)
    at = [0, *sorted(c % (len(body) + 1) for c in cuts), len(body)]
    assert translate([body[a:b] for a, b in itertools.pairwise(at)], stream, **more) == (status, whole)
    if not stream or status != 200:
        return
    if not passes:
        check_stream(whole)
    ends = [event["type"] for event in events_of(whole)
            if event["type"] in ("response.completed", "response.incomplete", "response.failed")]
    assert len(ends) == 1
    assert events_of(whole)[-1]["type"] == ends[0]


@given(provider_body())
@settings(max_examples=25, deadline=None)
def test_a_byte_at_a_time(body: bytes) -> None:
    assert translate([body[i:i + 1] for i in range(len(body))]) == translate([body])


@given(provider_events(), st.integers(0, 10_000))
@settings(max_examples=100, deadline=None)
def test_a_stream_that_is_cut_off_never_looks_finished(events: list[Json], cut: int) -> None:
    body = b"".join(map(api.written, events))
    terminal = len(api.written(events[-1])) if events else 0
    status, out = translate([body[:cut % max(1, len(body) - terminal + 1)]])
    assert status != 200 or events_of(out)[-1]["type"] == "error"


@given(st.lists(ITEMS, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_a_stream_says_what_the_whole_response_says(items: list[Json]) -> None:
    whole = api.response(items)
    stream = b"".join(map(api.written, api.events_of(whole)))
    assert translate([stream], False) == translate([json.dumps(whole).encode()], False)
