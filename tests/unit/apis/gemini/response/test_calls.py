"""Function calls, whole and with streamed arguments: parts in, events out."""

from __future__ import annotations

import json

import msgspec
import pytest

from extproc.conversation.model import ArgumentsDelta, Event, Tool, ToolCallStart
from extproc.dialects.registry import find_scan_plan
from extproc.dialects.scanner import Scanner
from tests.playbook import call_ids, context, script
from tests.unit.apis.gemini.response.conversation import Json, call, chunk, decode, piece, script_of, sse, text, thought

TIDE = ["call lookup_tide", 'args: {"harbor": "Brest"}', "stop"]
PING = ["call ping", "args: {}", "stop"]


@pytest.mark.parametrize("chunks", [
    pytest.param([chunk(call("lookup_tide", {"harbor": "Brest"}), call("ping", {}), finish="STOP")], id="one chunk"),
    pytest.param([chunk(call("lookup_tide", {"harbor": "Brest"})), chunk(call("ping", {})), chunk(finish="STOP")],
                 id="over chunks"),
    pytest.param([chunk(call("lookup_tide", {"harbor": "Brest"}), text("\n"), call("ping", {})), chunk(finish="STOP")],
                 id="P3 newline between calls"),
    pytest.param([chunk(call("lookup_tide", {"harbor": "Brest"}), call("ping")), chunk(finish="STOP")], id="no args"),
    pytest.param([chunk(call("lookup_tide", {"harbor": "Brest"}), call("ping", None)), chunk(finish="STOP")],
                 id="args null"),
    pytest.param([chunk(call("lookup_tide", '{"harbor": "Brest"}'), call("ping", "")), chunk(finish="STOP")],
                 id="args encoded twice"),
    pytest.param([chunk(call("lookup_tide", {"harbor": "Brest"}), call("ping"), call()), chunk(finish="STOP")],
                 id="an empty call behind"),
    pytest.param([chunk(call("lookup_tide", willContinue=True), call(args={}, willContinue=True,
                        partialArgs=[piece("$.harbor", stringValue="Brest")]), call(), call("ping", {})),
                  chunk(finish="STOP")], id="one streamed, one whole"),
])
def test_parallel_calls_however_they_are_sent(chunks: list[Json]) -> None:
    events = decode(sse(*chunks))
    assert script(events, merge=True) in (
        ["start", *TIDE, *PING, "finish tool_calls"],
        ["start", TIDE[0], 'args: {"harbor":"Brest"}', "stop", *PING, "finish tool_calls"])
    assert len(set(call_ids(events))) == 2


def test_arguments_keep_their_own_text() -> None:
    raw = '{ "n" : 1.0,  "big": 12345678901234567890, "e":1e400, "s": "\\u00e9\\ud83d", "z":{}}'
    stream = f'data: {{"candidates":[{{"content":{{"parts":[{{"functionCall":{{"name":"ping","args":{raw}}}}}]}},' \
             '"finishReason":"STOP"}]}\n\n'
    whole = stream.replace("\\ud83d", "")
    [delta] = [e for e in decode(whole.encode()) if isinstance(e, ArgumentsDelta)]
    assert delta.json == raw.replace("\\ud83d", "")
    [delta] = [e for e in decode(stream.encode()) if isinstance(e, ArgumentsDelta)]
    assert delta.json == raw.replace("\\ud83d", "\\ufffd")


def test_a_call_of_a_tool_that_was_not_offered_passes() -> None:
    assert script_of(chunk(call("other", {"a": 1}), finish="STOP"))[1:3] == ["call other", 'args: {"a": 1}']


def test_a_prefix_of_an_offered_name_is_a_name() -> None:
    assert script_of(chunk(call("look", {}), finish="STOP"))[1] == "call look"


def test_client_names_are_restored_without_the_namespace() -> None:
    ctx = context()
    names = msgspec.structs.replace(ctx.names, to_client={"mcp_atlas_find": "mcp__atlas__find"},
                                    to_provider={"mcp__atlas__find": "mcp_atlas_find"})
    assert script_of(chunk(call("mcp_atlas_find", {}), finish="STOP"),
                ctx=msgspec.structs.replace(ctx, names=names))[1] == "call mcp__atlas__find"


def test_a_call_without_a_name_is_a_failure() -> None:
    assert script_of(chunk(text("a"), call(args={"a": 1})), chunk(finish="STOP"))[-1] == "failure server"


def test_the_configured_repair_gets_whole_calls() -> None:
    seen: list[tuple[str, str]] = []

    def heal(name: str, arguments: str) -> str:
        seen.append((name, arguments))
        return '{"healed": true}'

    ctx = msgspec.structs.replace(context(), repair_arguments=heal)
    streamed = [call("ping", willContinue=True), call(partialArgs=[piece("$.a", numberValue=5)])]
    assert script_of(chunk(call("lookup_tide", {"a": 1})), chunk(*streamed), chunk(finish="STOP"), ctx=ctx) == [
        "start", "call lookup_tide", 'args: {"healed": true}', "stop", "call ping", 'args: {"healed": true}', "stop",
        "finish tool_calls"]
    assert seen == [("lookup_tide", '{"a": 1}'), ("ping", '{"a":5}')]


def test_calls_written_as_text_are_parsed() -> None:
    ctx = context()
    look = find_scan_plan("gemma-3-27b-it", style="auto", read=("hermes",), tools=True, reasoning_open=None)
    assert look is not None
    tools = {name: Tool(name, None, {}) for name in ctx.names.to_client}
    ctx = msgspec.structs.replace(ctx, scanner=lambda sequencer: Scanner(look, sequencer, tools))
    written = '<tool_call>\n{"name": "lookup_tide", "arguments": {"harbor": "Brest"}}\n</tool_call>'
    assert script_of(chunk(text("Go. " + written[:20])), chunk(text(written[20:])), chunk(finish="STOP"), ctx=ctx) == [
        "start", "text", "text: Go.", "stop", *TIDE, "finish tool_calls"]


# -------------------------------------------------------------------------------------------------- streamed arguments


def arguments(events: list[Event]) -> list[object]:
    """The arguments of each call, decoded."""
    out: list[str] = []
    for event in events:
        if isinstance(event, ToolCallStart):
            out.append("")
        elif isinstance(event, ArgumentsDelta):
            out[-1] += event.json
    return [json.loads(one) for one in out]


def streamed(*pieces: Json, end: Json | None = None) -> list[object]:
    """The arguments of one call with one piece per chunk."""
    parts = [call("lookup_tide", willContinue=True), *(call(partialArgs=[p], willContinue=True) for p in pieces),
             end if end is not None else call()]
    return arguments(decode(sse(*(chunk(part) for part in parts), chunk(finish="STOP"))))


@pytest.mark.parametrize(("pieces", "expected"), [
    ([], {}),
    ([piece("$.a", True, stringValue="Bre"), piece("$.a", True, stringValue="st"), piece("$.a")], {"a": "Brest"}),
    ([piece("$.a", stringValue="x"), piece("$.b", numberValue=50), piece("$.c", boolValue=False),
      piece("$.d", nullValue="NULL_VALUE"), piece("$.e", nullValue=None), piece("$.f", numberValue=0)],
     {"a": "x", "b": 50, "c": False, "d": None, "e": None, "f": 0}),
    ([piece("$.a.b[0].c", stringValue="1"), piece("$.a.b[0].d", numberValue=2), piece("$.a.b[1].c", stringValue="3")],
     {"a": {"b": [{"c": "1", "d": 2}, {"c": "3"}]}}),
    ([piece("$['a b'].c", stringValue="1"), piece('$["x\\"y"][0]', boolValue=True),
      piece("$['it\\'s']", numberValue=1)],
     {"a b": {"c": "1"}, 'x"y': [True], "it's": 1}),
    ([piece("$.a[0]", True, stringValue="p"), piece("$.b", stringValue="q"), piece("$.a[0]", stringValue="r")],
     {"a": ["pr"], "b": "q"}),
    ([piece("$.a[1]", numberValue=1), piece("$.a[0]", numberValue=0)], {"a": [0, 1]}),
    ([piece("$.a", stringValue="")], {"a": ""}),
    ([piece("$.a"), piece("$.a.b", numberValue=1)], {"a": {"b": 1}}),
    ([piece("$.a", numberValue=1), piece("$.a", numberValue=2)], {"a": 2}),
    ([piece("$.a", structValue={"x": 1}), piece("$.a.y", numberValue=2), piece("$.l", listValue=[1])],
     {"a": {"x": 1, "y": 2}, "l": [1]}),
    ([piece("$", structValue={"x": 1}), piece("$.y", stringValue="z")], {"x": 1, "y": "z"}),
    ([piece("a.b", stringValue="no dollar")], {"a": {"b": "no dollar"}}),
])
def test_streamed_arguments_are_assembled(pieces: list[Json], expected: object) -> None:
    assert streamed(*pieces) == [expected]


def test_numbers_keep_their_digits() -> None:
    body = sse(chunk(call("ping", willContinue=True))) + (
        b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.n",'
        b'"numberValue":1.50}]}}]},"finishReason":"STOP"}]}\n\n')
    assert 'args: {"n":1.50}' in script(decode(body))


def test_the_last_piece_may_end_the_call_or_repeat_all_arguments() -> None:
    last = call(partialArgs=[piece("$.b", numberValue=2)])
    assert streamed(piece("$.a", numberValue=1), end=last) == [{"a": 1, "b": 2}]
    assert streamed(piece("$.a", numberValue=1), end=call("lookup_tide", {"a": 1, "c": 3})) == [{"a": 1, "c": 3}]


def test_pieces_in_one_part_and_the_signature_of_the_first() -> None:
    events = decode(sse(chunk(thought("hm")), chunk(call("ping", None, "U0lH", id="fc1", willContinue=True)),
                        chunk(call("ping", partialArgs=[piece("$.a", True, stringValue="x"),
                                                        piece("$.a", stringValue="y"), None], willContinue=False)),
                        chunk(finish="STOP")))
    assert script(events) == ["start", "think", "think: hm", "stop", "call ping", 'args: {"a":"xy"}', "stop",
                              "finish tool_calls"]
    [start] = [e for e in events if isinstance(e, ToolCallStart)]
    assert (start.id, start.signature and start.signature.value) == ("fc1", "U0lH")


def test_the_next_call_ends_a_streamed_one() -> None:
    chunks = [chunk(call("lookup_tide", willContinue=True, id="a")),
              chunk(call(partialArgs=[piece("$.x", numberValue=1)], willContinue=True)),
              chunk(call("lookup_tide", willContinue=True, id="b")),
              chunk(call(partialArgs=[piece("$.x", numberValue=2)])),
              chunk(call("ping", {"x": 3})), chunk(finish="STOP")]
    events = decode(sse(*chunks))
    assert arguments(events) == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert call_ids(events)[:2] == ["a", "b"]


def test_p1_a_call_that_stopped_within_a_string_is_not_ended_by_the_next() -> None:
    assert script_of(chunk(call("lookup_tide", willContinue=True)),
                chunk(call(partialArgs=[piece("$.x", True, stringValue="rm -rf /")], willContinue=True)),
                chunk(call("ping", {})), chunk(finish="STOP")) == ["start", "failure server"]


@pytest.mark.parametrize("finish", ["STOP", "MAX_TOKENS", "SAFETY"])
def test_p1_a_streamed_call_that_stopped_within_a_string_is_never_shown_as_whole(finish: str) -> None:
    parts = [call("lookup_tide", willContinue=True),
             call(partialArgs=[piece("$.a[0].b", True, stringValue="Bre}]")], willContinue=True)]
    assert script_of(chunk(*parts), chunk(finish=finish)) == [
        "start", "call lookup_tide", 'args: {"a":[{"b":"Bre}]', "stop",
        "finish content_filter" if finish == "SAFETY" else "finish length"]


def test_p1_a_streamed_call_that_a_limit_ended_is_never_shown_as_whole() -> None:
    """Between two values only the reason decides: the model's own stop ends a call, a limit truncates it."""
    begun = call("lookup_tide", willContinue=True)
    further = call(partialArgs=[piece("$.a", stringValue="x")], willContinue=True)
    for parts, whole, cut in (((begun,), "{}", "{"), ((begun, further), '{"a":"x"}', '{"a":"x"')):
        assert script_of(chunk(*parts), chunk(finish="MAX_TOKENS")) == [
            "start", "call lookup_tide", f"args: {cut}", "stop", "finish length"]
        assert script_of(chunk(*parts), chunk(finish="STOP")) == [
            "start", "call lookup_tide", f"args: {whole}", "stop", "finish tool_calls"]


@pytest.mark.parametrize("pieces", [
    pytest.param([piece("$.a..b", stringValue="x")], id="unreadable path"),
    pytest.param([piece("$.a[", stringValue="x")], id="open bracket"),
    pytest.param([piece("$.a", stringValue="x"), piece("$.a.b", stringValue="y")], id="through a string"),
    pytest.param([piece("$.a", numberValue=1), piece("$.a[0]", stringValue="y")], id="through a number"),
    pytest.param([piece("$.a", nullValue=None), piece("$.a.b", stringValue="y")], id="through null"),
    pytest.param([piece("$.a.b", numberValue=1), piece("$.a[0]", stringValue="y")], id="object taken for an array"),
    pytest.param([piece("$.a.b", numberValue=1), piece("$.a", stringValue="y")], id="object taken for a string"),
    pytest.param([piece("$.a.b", numberValue=1), piece("$.a", numberValue=2)], id="object taken for a number"),
    pytest.param([piece("$.a[99999999]", numberValue=1)], id="far behind the end"),
    pytest.param([piece("$" + ".a" * 200, numberValue=1)], id="too deep"),
    pytest.param([piece("$", stringValue="x")], id="a string for all"),
])
def test_contradictory_pieces_are_a_failure(pieces: list[Json]) -> None:
    events = decode(sse(chunk(call("ping", willContinue=True), *(call(partialArgs=[p], willContinue=True)
                                                                  for p in pieces), call()), chunk(finish="STOP")))
    assert script(events) == ["start", "failure server"]
    assert "'ping' that cannot be put together" in events[-1].message  # type: ignore[union-attr]


def test_a_string_in_a_hundred_thousand_pieces_costs_no_more_than_its_length() -> None:
    parts = [call(partialArgs=[piece("$.a", True, stringValue="ab")], willContinue=True)] * 500
    chunks = [chunk(call("ping", willContinue=True)), *[chunk(*parts)] * 200, chunk(call()), chunk(finish="STOP")]
    assert arguments(decode(sse(*chunks))) == [{"a": "ab" * 100_000}]


def test_p4_arguments_that_are_a_plain_string_are_still_json() -> None:
    events = decode(sse(chunk(call("ping", "not an object")), chunk(finish="STOP")))
    assert script(events, merge=True) == ["start", "call ping", 'args: "not an object"', "stop", "finish tool_calls"]
