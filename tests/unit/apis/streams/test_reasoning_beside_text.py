"""Servers that send a piece of reasoning and a piece of text in every delta: one block of each. The text waits for the
first delta without reasoning, never longer, and up to a bound."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.bounds import Limits
from tests.playbook import call, delta, sse
from tests.unit.apis.streams.exchanges import STREAM, every_way, talk

BOTH = ("Hm, so.", "Low tide.", (), "stop", None, ("thinking", "text"))
STREAMED = [("anthropic", True), ("openai", True), ("events", True)]
FIELDS = ["reasoning_content", "reasoning", "thinking", "reasoning_text"]


def parts(thought: str, said: str) -> dict[str, Any]:
    return delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": thought}]},
                          {"type": "text", "text": said}])


@pytest.mark.parametrize("field", FIELDS)
def test_pieces_of_both_in_every_delta_become_one_block_of_each(field: str) -> None:
    chunks = [delta(**{field: thought}, content=said)
              for thought, said in (("Hm", "Low"), (",", " "), (" so", "ti"), (".", "de."))]
    assert every_way(sse(*chunks, delta("stop"))) == BOTH


@pytest.mark.parametrize("last", [
    pytest.param([delta("stop")], id="the end"),
    pytest.param([delta(content="", reasoning=""), delta("stop")], id="empty fields"),
    pytest.param([delta("stop", reasoning_content=None, content=None)], id="nulls"),
])
def test_whatever_ends_it(last: list[Any]) -> None:
    assert every_way(sse(delta(reasoning="Hm,", content="Low "), delta(reasoning=" so.", content="tide."),
                         *last)) == BOTH
    assert every_way(sse(delta(reasoning="Hm,", content="Low "), delta(reasoning=" so.", content="tide."),
                         done=False), ways=STREAMED)[:2] == ("Hm, so.", "Low tide."), "the stream breaks off"


def test_parts_of_both_kinds_in_every_delta() -> None:
    assert every_way(sse(parts("Hm,", "Low "), parts(" so.", "tide."), delta("stop"))) == BOTH


def test_a_delta_where_one_turns_into_the_other() -> None:
    assert every_way(sse(delta(reasoning="Hm,"), delta(reasoning=" so.", content="Low"), delta(content=" tide."),
                         delta("stop"))) == BOTH


def test_a_call_behind_both() -> None:
    heard = every_way(sse(delta(reasoning="Hm,", content="Low "), delta(reasoning=" so.", content="tide."),
                          delta(tool_calls=[call(0, "a", "ping", "{}")]), delta("tool_calls")))
    assert heard == ("Hm, so.", "Low tide.", (("ping", {}),), "tool_calls", None, ("thinking", "text", "tool_use"))


def test_a_call_that_the_text_spells_is_found_across_the_pieces() -> None:
    written = '<tool_call>{"name": "get_time", "arguments": {"city": "Paris"}}</tool_call>'
    chunks = [delta(reasoning=".", content=written[at:at + 5]) for at in range(0, len(written), 5)]
    heard = every_way(sse(*chunks, delta("stop")), dialect="hermes")
    assert heard[:4] == ("." * len(chunks), "", (("get_time", {"city": "Paris"}),), "tool_calls")


def test_an_error_behind_both_shows_what_came() -> None:
    heard = every_way(sse(delta(reasoning="Hm, so.", content="Low tide."), {"error": {"message": "died"}}),
                      ways=STREAMED)
    assert (heard.thinking, heard.text, heard.error) == ("Hm, so.", "Low tide.", "died")


def test_text_waits_for_one_delta_at_most_once_reasoning_is_over() -> None:
    exchange = talk("anthropic", "openai")
    exchange.start(200, STREAM)
    assert b'"Hm"' in exchange.feed(sse(delta(reasoning="Hm"), done=False)), "reasoning never waits"
    assert b'"Lo"' not in exchange.feed(sse(delta(reasoning="m.", content="Lo"), done=False))
    assert b'"Lo"' in exchange.feed(sse(delta(content="w"), done=False))
    assert b'"tide"' in exchange.feed(sse(delta(content="tide"), done=False))


def test_text_without_reasoning_beside_it_never_waits() -> None:
    exchange = talk("anthropic", "openai")
    exchange.start(200, STREAM)
    exchange.feed(sse(delta(reasoning="Hm"), done=False))
    assert b'"Low"' in exchange.feed(sse(delta(content="Low", reasoning="", reasoning_content=None), done=False))


def test_rule_7_what_waits_is_bounded() -> None:
    """Past the bound the text goes out, and what comes then is held back anew."""
    exchange = talk("anthropic", "openai", limits=Limits(held_back=1000))
    exchange.start(200, STREAM)
    out = b"".join(exchange.feed(sse(delta(reasoning="r", content="x" * 100), done=False)) for _ in range(30))
    assert out.count(b"x" * 100) >= 20
    assert 2 <= out.count(b'"content_block":{"type":"text"') <= 3


@given(st.lists(st.tuples(st.sampled_from(["", "a", " b", "\n"]), st.sampled_from(["", "x", " y", "\n"])), min_size=1,
                max_size=8))
@settings(max_examples=60, deadline=None)
def test_any_mixture_loses_nothing_and_no_cut_changes_it(pieces: list[tuple[str, str]]) -> None:
    chunks = [delta(reasoning=thought, content=said) for thought, said in pieces]
    heard = every_way(sse(*chunks, delta(content="."), delta("stop")), ways=[("anthropic", True), ("openai", True)])
    assert "".join(heard.thinking.split()) == "".join("".join(thought for thought, _ in pieces).split())
    assert "".join(heard.text.split()) == "".join(("".join(said for _, said in pieces) + ".").split())
