"""Which call a fragment belongs to, as servers really send them: every client gets each call once, with its own
arguments, in any cut; or an error, and never a call with the arguments of another."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc import Translation
from tests.playbook import call, delta, sse
from tests.unit.apis.streams.exchanges import TOOLS, every_way, talk

OPENAI: dict[str, Any] = {"url": "https://api.openai.com/v1", "model": "gpt-4o"}
"""An endpoint whose bytes pass to Chat clients."""
PARIS = ("get_weather", {"city": "Paris"})
ROME = ("get_weather", {"city": "Rome"})
NOON = ("get_time", {"city": "Paris"})
PING: tuple[str, Any] = ("ping", {})


def stream(*entries: dict[str, Any] | list[dict[str, Any]], finish: str | None = "tool_calls") -> bytes:
    """Each entry, or list of entries, is the `tool_calls` of one delta."""
    return sse(*(delta(tool_calls=entry if isinstance(entry, list) else [entry]) for entry in entries), delta(finish))


CONTINUED = [
    pytest.param([call(0, "A", "get_weather", ""), call(0, "B", None, '{"city":'), call(0, "C", None, '"Paris"}')],
                 [PARIS], id="a new id in every fragment"),
    pytest.param([call(0, "A", "get_weather", '{"ci'), call(0, "B", None, 'ty":"Paris"}'), call(0, "C", None, "")],
                 [PARIS], id="a new id, also in an empty last one"),
    pytest.param([call(0, "A", "get_weather", '{"ci'), call(0, "B", "get_weather", 'ty":"Par'),
                  call(0, "C", "get_weather", 'is"}')], [PARIS], id="a new id and the whole name in every fragment"),
    pytest.param([call(None, "A", "get_weather", ""), call(None, "B", None, '{"city":"Paris"}')], [PARIS],
                 id="no index, the id changes"),
    pytest.param([call(0, "A", "get_weather", ""), call(1, "A", None, '{"city":"Paris"}')], [PARIS],
                 id="the index counts fragments, the id stays"),
    pytest.param([call(0, "A", "get_weather", ""), call(1, "B", "get_time", ""), call(0, "X", None, '{"city":'),
                  call(1, "Y", None, '{"city":'), call(0, "Z", None, '"Rome"}'), call(1, "W", None, '"Paris"}')],
                 [ROME, NOON], id="parallel calls interleaved, a new id in every fragment"),
    pytest.param([call(0, "A", "get_weather", ""), call(0, "B", "get_time", ""), call(0, "A", None, '{"city":"Rome"}'),
                  call(0, "B", None, '{"city":"Paris"}')], [ROME, NOON],
                 id="parallel calls interleaved at one index, told apart by their ids"),
    pytest.param([call(0, "A", "get_weather", ""), call(1, "B", "get_time", ""), call(0, "A", None, '{"city":"Rome"}'),
                  call(0, "B", None, '{"city":"Paris"}')], [ROME, NOON],
                 id="fragments without an index became index 0"),
    pytest.param([call(0, "A", "get_weather", '{"city":"Rome"}'), call(0, "B", "get_weather", '{"city":"Paris"}')],
                 [ROME, PARIS], id="the index is used again for a call with a new id and a name"),
    pytest.param([call(0, "A", "get_weather", '{"city":'), call(0, "B", "get_weather", '{"city":'),
                  call(0, "A", None, '"Rome"}'), call(0, "B", None, '"Paris"}')], [ROME, PARIS],
                 id="the same tool twice at one index, interleaved"),
    pytest.param([call(0, "A", "get_weather", '{"city":"Rome"}'), call(0, "A", "get_weather", '{"city":"Paris"}')],
                 [ROME, PARIS], id="the index and the id are used again"),
    pytest.param([call(0, "A", "get_weather", '{"city":"Rome"}'), call(1, "A", "get_time", '{"city":"Paris"}')],
                 [ROME, NOON], id="the id is used again"),
]

NAMES = [
    pytest.param([call(0, "call_", "get_", ""), call(0, "1", "weather", ""), call(0, None, None, '{"city":"Paris"}')],
                 [PARIS], id="id and name in two pieces"),
    pytest.param([call(0, "c", "g", ""), call(0, "al", "et_wea", ""), call(0, "l", "ther", '{"city":'),
                  call(0, "l", None, '"Paris"}')], [PARIS], id="id and name in three pieces"),
    pytest.param([call(0, "A", "get_", ""), call(0, "A", "get_wea", ""),
                  call(0, "A", "get_weather", '{"city":"Paris"}')], [PARIS], id="the name so far in every fragment"),
    pytest.param([call(0, "A", "get_", ""), call(0, "B", "get_weather", '{"city":"Paris"}')], [PARIS],
                 id="the name so far, a new id in every fragment"),
    pytest.param([call(None, "call_", "get_", ""), call(None, "1", "time", '{"city":"Paris"}')], [NOON],
                 id="two pieces without an index"),
    pytest.param([call(None, None, "get_", ""), call(None, None, "time", '{"city":"Paris"}')], [NOON],
                 id="two pieces with neither index nor id"),
    pytest.param([call(0, "a", "get_", ""), call(1, "b", "get_", ""), call(0, "1", "weather", '{"city":"Rome"}'),
                  call(1, "2", "time", '{"city":"Paris"}')], [ROME, NOON], id="two calls in pieces, interleaved"),
    pytest.param([call(0, "A", "ping", ""), call(0, "B", "get_time", '{"city":"Paris"}')], [PING, NOON],
                 id="two offered names are two calls"),
]


REPEATED = [
    pytest.param([call(0, "A", "get_weather", "{}"), call(0, "B", None, '{"city":"Paris"}')], [PARIS],
                 id="a stray {} before arguments with another id"),
    pytest.param([call(0, "A", "get_weather", '{"city":"Paris"}'), call(0, "B", None, '{"city":"Paris"}')], [PARIS],
                 id="all arguments once more with another id"),
]
"""Arguments that must be mended, which is not done where bytes pass."""


@pytest.mark.parametrize(("entries", "calls"), REPEATED)
def test_arguments_that_are_repeated_under_another_id_count_once(entries: list[Any], calls: list[Any]) -> None:
    heard = every_way(stream(*entries))
    assert (list(heard.calls), heard.finish) == (calls, "tool_calls")


@pytest.mark.parametrize(("entries", "calls"), [*CONTINUED, *NAMES])
@pytest.mark.parametrize("settings", [pytest.param({}, id="translated"), pytest.param(OPENAI, id="bytes pass")])
def test_each_call_gets_its_own_arguments(entries: list[Any], calls: list[Any], settings: dict[str, Any]) -> None:
    heard = every_way(stream(*entries), **settings)
    assert heard.error is None
    assert (list(heard.calls), heard.finish) == (calls, "tool_calls")


def test_a_cut_id_is_joined_with_its_name() -> None:
    """As where bytes pass: there the client joins them."""
    exchange = talk("openai", "openai")
    exchange.start(200, {"content-type": "text/event-stream"})
    out = exchange.feed(stream(call(0, "call_", "get_", ""), call(0, "42", "time", "{}"))) + exchange.finish()
    assert b'"id":"call_42"' in out


@pytest.mark.parametrize("entries", [
    pytest.param([call(0, "A", "get_weather", '{"city":"Rome"}'), call(0, "B", None, '{"city":"Paris"}')],
                 id="arguments of a call without a name, behind a whole call"),
    pytest.param([call(None, "A", "get_weather", '{"city":"Rome"}'), call(None, "B", None, '{"city":"Paris"}')],
                 id="the same without an index"),
])
def test_a_call_without_a_name_never_changes_another(entries: list[Any]) -> None:
    heard = every_way(stream(*entries), ways=[("anthropic", True), ("openai", True)])
    assert heard.error is not None
    assert "without a name" in heard.error
    assert list(heard.calls) == [ROME]


BESIDE = [
    pytest.param({"custom": {}}, id="an empty object"),
    pytest.param({"custom": {"name": "", "input": ""}}, id="an object of empty strings"),
    pytest.param({"custom": {"name": None, "input": None}}, id="an object of nulls"),
    pytest.param({"custom": None}, id="null"),
]


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("settings", [pytest.param({}, id="translated"), pytest.param(OPENAI, id="bytes pass")])
def test_an_empty_custom_beside_a_function_says_nothing(beside: dict[str, Any], settings: dict[str, Any]) -> None:
    entries = [{**call(0, "A", "get_weather", '{"city":'), **beside}, {**call(0, None, None, '"Paris"}'), **beside}]
    heard = every_way(stream(*entries), **settings)
    assert (list(heard.calls), heard.finish) == ([PARIS], "tool_calls")
    whole = {"id": "g", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": None,
        "tool_calls": [{"type": "function", **call(None, "A", "get_weather", '{"city":"Paris"}'), **beside}]}}]}
    assert list(every_way(json.dumps(whole).encode(), **settings).calls) == [PARIS]


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("kind", [{"type": "function"}, {"type": ""}, {}])
def test_nor_does_it_in_the_history_of_a_client(beside: dict[str, Any], kind: dict[str, Any]) -> None:
    made = {"id": "a", "function": {"name": "ping", "arguments": "{}"}, **kind, **beside}
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [made]},
                {"role": "tool", "tool_call_id": "a", "content": "ok"}]
    exchange = Translation("openai", "anthropic", "claude-sonnet-4-5")
    sent = json.loads(exchange.request(json.dumps({"model": "m", "messages": messages}).encode()).body)
    assert sent["messages"][1]["content"][0]["name"] == "ping"


def test_a_custom_call_beside_an_empty_function_is_one() -> None:
    empty = {"name": "", "arguments": ""}
    body = stream({"index": 0, "id": "A", "function": empty, "custom": {"name": "ping", "input": "a"}},
                  {"index": 0, "function": empty, "custom": {"name": "", "input": "b"}})
    assert list(every_way(body, ways=[("anthropic", True), ("anthropic", False)]).calls) == [("ping", {"input": "ab"})]


def test_empty_calls_beside_the_text_do_not_hold_it_back() -> None:
    """Servers that write the format anew from typed records put an empty call beside every piece of text."""
    empty = {"function_call": {"name": "", "arguments": ""},
             "tool_calls": [{"index": 0, "id": "", "type": "", "function": {"name": "", "arguments": ""}}]}
    body = sse(delta(content="Hel", **empty), delta(content="lo", **empty), delta("stop", **empty))
    exchange = talk("anthropic", "openai")
    exchange.start(200, {"content-type": "text/event-stream"})
    assert b'"Hel"' in exchange.feed(body[:body.index(b'"lo"')])
    assert every_way(body) == ("", "Hello", (), "stop", None, ("text",))


# ------------------------------------------------------------------------------------------------------------ any split


@st.composite
def cut_calls(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[tuple[str, Any]]]:
    """Parallel calls in fragments with ids of any kind, the calls of different indexes interleaved."""
    wanted = draw(st.lists(st.tuples(st.sampled_from(sorted(TOOLS)), st.dictionaries(
        st.sampled_from(["city", "days"]), st.text(max_size=6), min_size=1, max_size=2)), min_size=1, max_size=3))
    ids = draw(st.sampled_from(["once", "always", "new"]))
    runs = []
    for index, (name, arguments) in enumerate(wanted):
        text = json.dumps(arguments, ensure_ascii=draw(st.booleans()))
        cuts = sorted(draw(st.lists(st.integers(1, len(text)), max_size=4)))
        pieces = ["", *(text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True))]
        runs.append([call(index, {"once": f"id{index}" if not at else None, "always": f"id{index}",
                                  "new": f"id{index}.{at}"}[ids], name if not at else None, piece)
                     for at, piece in enumerate(pieces)])
    order = draw(st.permutations([at for at, run in enumerate(runs) for _ in run]))
    left = [iter(run) for run in runs]
    first = [next(run) for run in left]
    rest = [next(left[at], None) for at in order]
    return [*first, *(entry for entry in rest if entry is not None)], wanted


@given(cut_calls())
@settings(max_examples=60, deadline=None)
def test_however_calls_are_cut_and_interleaved_each_is_whole(
        given: tuple[list[dict[str, Any]], list[tuple[str, Any]]]) -> None:
    entries, wanted = given
    for chosen in ({}, OPENAI):
        heard = every_way(stream(*entries), ways=[("anthropic", True), ("openai", True)], sizes=(None,), **chosen)
        assert list(heard.calls) == wanted
