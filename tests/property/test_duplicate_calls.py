"""Text and native calls in any order and any cut: the same bytes, and each call as often as the channel with more of
them has it."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model_text.text_and_calls import (
    UPSTREAMS,
    NativeCall,
    call_pieces,
    client_bytes,
    hermes_call,
    interleaved_stream,
    parse_messages,
    provider_body,
    text_pieces,
)

CALLS = st.sampled_from([("read", {"path": "a", "n": 1}), ("read", {"n": 1, "path": "a"}), ("read", {"n": 2}),
                         ("read", {}), ("ping", {}), ("ping", {"o": {"x": [1, "</tool_call>"]}})])
ITEMS = st.lists(st.one_of(CALLS, CALLS.map(lambda one: hermes_call(*one)),
                           st.sampled_from(["\n", "Words.", " and `code`\n", "\n<tool_call>\n",
                                            "\n</tool_call>\n"])), min_size=1, max_size=6)

BROKEN_OFF = b"The provider's stream ended before the response was complete.\"}}\n\n"


def key(one: NativeCall) -> str:
    return json.dumps(one, sort_keys=True)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@given(ITEMS, CALLS, st.booleans(), st.integers(1, 40), st.lists(st.integers(0, 10_000), max_size=8))
@settings(max_examples=150, deadline=None)
def test_any_order_and_any_cut(upstream: str, items: list[str | NativeCall], last: NativeCall, stream: bool, size: int,
                               cuts: list[int]) -> None:
    items = [*items, last]
    body = provider_body(upstream, items, stream=stream, size=size)
    whole = client_bytes(upstream, body, stream=stream)
    assert client_bytes(upstream, body, stream=stream, cuts=cuts) == whole

    native = Counter(key(item) for item in items if not isinstance(item, str))
    texts = Counter(key((json.loads(item[12:-13])["name"], json.loads(item[12:-13])["arguments"]))
                    for item in items if isinstance(item, str) and '"name"' in item)
    answer = parse_messages(whole, stream=stream)
    assert Counter(key(call) for call in answer.calls) == native | texts
    assert answer.stop == "tool_use"
    assert len(set(answer.ids)) == len(answer.ids)
    assert answer.text.count("Words.") == items.count("Words.")


ALL = st.lists(CALLS, min_size=1, max_size=3)
MODES = st.sampled_from(["as-is", "repair", "strict"])
TURNS = st.lists(st.booleans(), max_size=80)


@given(ALL, TURNS, st.integers(1, 20), st.integers(1, 20), st.lists(st.integers(0, 10_000), max_size=8), st.booleans(),
       MODES)
@settings(max_examples=400, deadline=None)
def test_in_turns(calls: list[NativeCall], turns: list[bool], size: int, native_size: int, cuts: list[int],
                  prose: bool, mode: str) -> None:
    """Text and native calls come at the same time: each call goes out once, wherever they are interleaved."""
    text = ("Words.\n" if prose else "") + "\n".join(hermes_call(*call) for call in calls)
    natives = [piece for at, call in enumerate(calls) for piece in call_pieces(at, call, native_size)]
    body = interleaved_stream(text_pieces(text, size), natives, turns)
    whole = client_bytes("openai", body, arguments=mode)
    assert client_bytes("openai", body, cuts=cuts, arguments=mode) == whole
    answer = parse_messages(whole)
    assert Counter(key(call) for call in answer.calls) == Counter(key(call) for call in calls)
    assert answer.stop == "tool_use"
    assert "tool_call" not in answer.text
    assert answer.text.split() == (["Words."] if prose else [])


@given(CALLS, TURNS, st.integers(1, 20), st.integers(1, 20), st.integers(0, 200), st.sampled_from(["calls", "length"]),
       st.sampled_from(["as-is", "repair"]))
@settings(max_examples=400, deadline=None)
def test_the_text_stops_anywhere(call: NativeCall, turns: list[bool], size: int, native_size: int, upto: int,
                                 finish: str, mode: str) -> None:
    """What is left of a written call never becomes another call than the native one."""
    text = hermes_call(*call)
    begun = text_pieces(text[:max(upto % len(text), 11)], size)
    body = interleaved_stream(begun, call_pieces(0, call, native_size), turns, finish=finish)
    answer = parse_messages(client_bytes("openai", body, arguments=mode))
    assert [key(one) for one in answer.calls] == [key(call)]
    assert answer.stop == {"calls": "tool_use", "length": "max_tokens"}[finish]


@given(CALLS, CALLS, TURNS, st.integers(1, 20), st.integers(1, 20))
@settings(max_examples=200, deadline=None)
def test_others_in_turns_are_two(one: NativeCall, other: NativeCall, turns: list[bool], size: int,
                                 native_size: int) -> None:
    body = interleaved_stream(text_pieces(hermes_call(*one), size), call_pieces(0, other, native_size), turns)
    assert Counter(key(call) for call in parse_messages(client_bytes("openai", body)).calls) == \
        Counter({key(one)}) | Counter({key(other)})


@given(CALLS, CALLS, TURNS, st.integers(1, 20), st.integers(1, 20), st.integers(0, 200),
       st.lists(st.integers(0, 10_000), max_size=8))
@settings(max_examples=300, deadline=None)
def test_a_stream_that_breaks_off_in_a_written_call_never_looks_finished(
        one: NativeCall, other: NativeCall, turns: list[bool], size: int, native_size: int, upto: int,
        cuts: list[int]) -> None:
    """No finish reason comes, and a native call is whole: but the text stopped inside of another one, of which nothing
    may have gone out yet."""
    text = hermes_call(*one)
    inside = range(len("<tool_call>"), len(text) - len("}\n</tool_call>") + 1)
    begun = text_pieces(text[:inside[upto % len(inside)]], size)
    body = interleaved_stream(begun, call_pieces(0, other, native_size), turns, finish=None)
    out = client_bytes("openai", body, cuts=cuts)
    assert out.endswith(BROKEN_OFF)
    assert b"message_delta" not in out
