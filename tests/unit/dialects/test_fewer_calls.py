"""Calls that the configuration suppresses: all after the first (`tools.parallel: enforce`), and repetitions
(`tools.duplicates: drop`)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc import Translation
from extproc.conversation.call_counts import CallCounts
from tests.model_text.exchange import tool
from tests.model_text.text_and_calls import (
    UPSTREAMS,
    NativeCall,
    client_bytes,
    finished_exchange,
    hermes_call,
    interleaved_stream,
    parse_messages,
    provider_body,
    received,
)
from tests.unit.apis.passthrough.helpers import new_translation

READ: NativeCall = ("read", {"path": "a", "n": 1})
SAME: NativeCall = ("read", {"n": 1, "path": "a"})
OTHER: NativeCall = ("read", {"path": "a", "n": 2})
PING: NativeCall = ("ping", {})
ENFORCE: dict[str, Any] = {"parallel_tool_calls": "enforce"}
DROP: dict[str, Any] = {"duplicates": "drop"}
SURPLUS, REPEATED = "response.parallel_tool_calls", "response.tool_calls.repeated"

every_api = pytest.mark.parametrize("upstream", UPSTREAMS)
both_ways = pytest.mark.parametrize("stream", [True, False])


# ---------------------------------------------------------------------------------------------------------- enforce


@every_api
@both_ways
@pytest.mark.parametrize("items", [
    [READ, OTHER], [READ, PING, OTHER], [READ, SAME], [hermes_call(*READ) + hermes_call(*OTHER)], [hermes_call(*READ), OTHER],
    [READ, "\n" + hermes_call(*READ).replace("read", "ping")], ["Look.\n", READ, PING]], ids=str)
@pytest.mark.parametrize("arguments", [None, "strict"])
def test_only_the_first_call_goes_out(upstream: str, stream: bool, items: list[str | NativeCall],
                                      arguments: str | None) -> None:
    answer = received(upstream, items, stream=stream, arguments=arguments, **ENFORCE)
    text_first = upstream == "openai" and not stream  # whole messages tell no order of text and calls
    first = ("ping", READ[1]) if text_first and items[0] is READ and "ping" in items[-1] else READ
    assert (answer.calls, answer.stop) == ([first], "tool_use")
    assert "tool_call" not in answer.text
    made = finished_exchange(upstream, items, stream=stream, arguments=arguments, **ENFORCE)
    assert made.dropped.losses == [SURPLUS]
    total = sum(counts.total for counts in made.calls.values())
    assert sum(counts.dropped for counts in made.calls.values()) == total - 1


@every_api
def test_text_around_the_calls_stays(upstream: str) -> None:
    answer = received(upstream, ["Look.\n", READ, "One.", OTHER, "Two."], **ENFORCE)
    assert answer.calls == [READ]
    if upstream != "openai":  # whose format has one text beside all calls
        assert [part for part in answer.text.split() if part] == ["Look.", "One.Two."]


@every_api
def test_one_call_is_no_loss(upstream: str) -> None:
    made = finished_exchange(upstream, ["Look.", READ], **ENFORCE)
    assert made.dropped.losses == []
    assert made.calls == {"native": CallCounts(total=1)}
    made = finished_exchange(upstream, [hermes_call(*READ), SAME], **ENFORCE)
    assert made.dropped.losses == [], "one call, told both ways"


def test_what_is_dropped_is_counted_by_the_way_it_was_written() -> None:
    made = finished_exchange("openai", [READ, OTHER, "\n" + hermes_call(*PING)], dialect="hermes", **ENFORCE)
    assert made.calls == {"native": CallCounts(total=2, dropped=1), "hermes": CallCounts(total=1, dropped=1)}


def test_a_call_behind_the_first_need_not_fit_its_schema() -> None:
    """It is not run, so it does not fail the response."""
    wrong: NativeCall = ("read", {"n": "many"})
    assert received("openai", [READ, wrong], arguments="strict", **ENFORCE).calls == [READ]


def test_calls_that_interleave() -> None:
    natives = [(0, "read", ""), (1, "ping", ""), (0, None, '{"path": "a", '), (1, None, "{}"), (0, None, '"n": 1}')]
    assert parse_messages(client_bytes("openai", interleaved_stream([], natives, []), **ENFORCE)).calls == [READ]


@pytest.mark.parametrize("value", ["enforce", False])
def test_the_model_is_asked_for_one_call_as_well(value: Any) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],
            "tools": [{"name": "read", "input_schema": {"type": "object", "properties": {}}}]}
    asked = Translation("anthropic", "openai", "gpt-4o", url="https://api.openai.com/v1", parallel_tool_calls=value)
    assert json.loads(asked.request(json.dumps(body).encode()).body)["parallel_tool_calls"] is False
    prompted = Translation("anthropic", "openai", "m", tool_style="prompted", parallel_tool_calls=value)
    assert b"at most one" in prompted.request(json.dumps(body).encode()).body


def test_an_endpoint_that_cannot_be_told_loses_nothing() -> None:
    """The gateway does it itself, so `lossy: reject` has nothing to refuse."""
    asked = Translation("anthropic", "openai", "m", provider="lmstudio", lossy="reject", **ENFORCE)
    asked.request(json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": [
        {"name": "read", "input_schema": {"type": "object", "properties": {}}}]}).encode())
    assert asked.dropped.losses == []


# ------------------------------------------------------------------------------------------------------- duplicates


@every_api
@both_ways
@pytest.mark.parametrize(("items", "calls"), [
    ([READ, SAME], [READ]), ([READ, SAME, READ], [READ]), ([READ, OTHER, SAME], [READ, OTHER]),
    ([PING, PING], [PING]), ([READ, PING, OTHER], [READ, PING, OTHER]),
    ([hermes_call(*READ) + hermes_call(*SAME)], [READ]), ([hermes_call(*READ) + hermes_call(*OTHER), SAME, SAME], [READ, OTHER]),
], ids=str)
def test_a_call_that_repeats_another_is_dropped(upstream: str, stream: bool, items: list[str | NativeCall],
                                                calls: list[NativeCall]) -> None:
    answer = received(upstream, items, stream=stream, **DROP)
    assert (answer.calls, answer.stop) == (calls, "tool_use")
    losses = finished_exchange(upstream, items, stream=stream, **DROP).dropped.losses
    assert losses == ([REPEATED] if len(items) > len(calls) or len(items) == 1 else [])


@every_api
def test_without_the_setting_both_go_out(upstream: str) -> None:
    assert received(upstream, [READ, SAME]).calls == [READ, SAME]
    assert received(upstream, [READ, SAME], duplicates="keep").calls == [READ, SAME]


def test_long_ones_are_compared_as_well() -> None:
    long: NativeCall = ("read", {"path": "x" * 200_000})
    assert received("openai", [long, long], size=10_000, **DROP).calls == [long]
    other: NativeCall = ("read", {"path": "x" * 200_000 + "y"})
    assert received("openai", [long, other], size=10_000, **DROP).calls == [long, other]


def test_the_types_are_those_of_the_schema() -> None:
    assert received("openai", [READ, ("read", {"path": "a", "n": "1"})], **DROP).calls == [READ]


@pytest.mark.parametrize("upstream", UPSTREAMS)
@given(st.lists(st.sampled_from([READ, SAME, OTHER, PING, hermes_call(*READ), hermes_call(*PING), "Words.\n"]), min_size=1,
                max_size=5), st.sampled_from([ENFORCE, DROP, {**ENFORCE, **DROP}]), st.booleans(),
       st.lists(st.integers(0, 10_000), max_size=8))
def test_any_cut(upstream: str, items: list[str | NativeCall], settings: dict[str, Any], stream: bool,
                 cuts: list[int]) -> None:
    body = provider_body(upstream, items, stream=stream)
    whole = client_bytes(upstream, body, stream=stream, **settings)
    assert client_bytes(upstream, body, stream=stream, cuts=cuts, **settings) == whole
    calls = [json.dumps(call, sort_keys=True) for call in parse_messages(whole, stream=stream).calls]
    assert len(calls) == len(set(calls))
    if settings.get("parallel_tool_calls"):
        assert len(calls) <= 1


# ---------------------------------------------------------------------------------------- client and provider are one


def chat(calls: list[NativeCall], stream: bool) -> bytes:
    return provider_body("openai", list(calls), stream=stream)


@both_ways
@pytest.mark.parametrize(("settings", "left"), [(ENFORCE, 1), (DROP, 2), ({}, 3)])
def test_chat_to_chat(stream: bool, settings: dict[str, Any], left: int) -> None:
    made = new_translation("openai", **settings)
    tools = [tool(name, path="string", n="integer")
        for name in ("read", "ping")]
    made.request(json.dumps({"model": "gpt-4o", "stream": stream, "tools": tools,
                             "messages": [{"role": "user", "content": "hi"}]}).encode())
    made.start(200, {"content-type": "text/event-stream" if stream else "application/json"})
    out = made.feed(chat([READ, OTHER, SAME], stream)) + made.finish()
    assert made.failure is None
    assert out.count(b'"name":"') + out.count(b'"name": "') == left
    assert made.tool_calls == left
    assert b"tool_calls" in out


@both_ways
@pytest.mark.parametrize(("settings", "left"), [(ENFORCE, 1), (DROP, 2), ({}, 3)])
def test_messages_to_messages(stream: bool, settings: dict[str, Any], left: int) -> None:
    answer = received("anthropic", [READ, OTHER, SAME], stream=stream, model="claude-sonnet-4-5", **settings)
    assert answer.calls == [READ, OTHER, SAME][:left]
    assert answer.stop == "tool_use"
