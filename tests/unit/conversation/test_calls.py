"""Fragments of one tool call: names and arguments as real servers cut and repeat them."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.conversation.pending_call import JsonBalance, PendingCall

OFFERED = {"Bash", "Read"}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4), max_leaves=12)
OBJECTS = st.dictionaries(st.text(max_size=8), JSON, max_size=4)


def cut(text: str, cuts: list[int]) -> list[str]:
    at = [0, *sorted(c % (len(text) + 1) for c in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(at)]


def assemble(fragments: list[str], clean: bool = True) -> str:
    call = PendingCall()
    out = ""
    for fragment in fragments:
        call.add_arguments(fragment)
        out += call.take_unsent()
    call.end(clean)
    return out + call.take_unsent()


@pytest.mark.parametrize(("fragments", "name"), [
    (["Bash"], "Bash"),
    (["Ba", "sh"], "Bash"),
    (["Bash", "Bash", "Bash"], "Bash"),
    (["Ba", "Bash"], "Bash"),
    (["Bash", ""], "Bash"),
    (["un", "known"], "unknown"),
])
def test_a_name_arrives_whole_repeated_in_pieces_or_growing(fragments: list[str], name: str) -> None:
    call = PendingCall()
    for fragment in fragments:
        call.add_name(fragment, OFFERED)
    assert call.name == name


@given(OBJECTS, st.lists(st.integers(0, 10_000), max_size=6), st.booleans())
def test_arguments_go_out_as_they_came_in_any_cut(value: dict[str, object], cuts: list[int], ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    assert assemble(cut(text, cuts)) == text


def test_p6_a_stray_empty_object_before_the_arguments_goes() -> None:
    assert assemble(["{}", '{"a":1}']) == '{"a":1}'
    assert assemble(['{}{"a":1}']) == '{"a":1}'
    assert assemble(["{", "}", "{", '"a":1}']) == '{"a":1}'
    assert assemble(["{}"]) == "{}"
    assert assemble(["{ ", "}"]) == "{ }"
    assert assemble(["null", '{"a":1}']) == '{"a":1}'
    assert assemble(["{ ", "}" + " " * 20, '{"a":1}']) == '{"a":1}'


@given(st.sampled_from(["", " ", "\n\t  \r\n", " " * 40]), st.sampled_from(["", "null"]),
       st.sampled_from(["", " ", " " * 40]), st.lists(st.integers(0, 10_000), max_size=6))
def test_white_space_and_null_are_no_arguments_in_any_cut(before: str, none: str, after: str, cuts: list[int]) -> None:
    assert assemble(cut(before + none + after, cuts)) == ""


@given(st.sampled_from(["", " ", "\n\t  \r\n", " " * 40]), OBJECTS.filter(bool),
       st.lists(st.integers(0, 10_000), max_size=6))
def test_white_space_before_an_object_does_not_change_it_in_any_cut(before: str, value: dict[str, object],
                                                                     cuts: list[int]) -> None:
    text = before + json.dumps(value)
    assert assemble(cut(text, cuts)) == text


@pytest.mark.parametrize("text", ["nul", "nullable", "number", "n", "[null]", '"null"'])
def test_what_only_begins_like_null_goes_out_as_it_came(text: str) -> None:
    assert assemble(list(text)) == assemble([text]) == text


def test_usual_arguments_are_not_held_back() -> None:
    call = PendingCall()
    for fragment in ('{"', "a", '":', " 1"):
        call.add_arguments(fragment)
        assert call.take_unsent() == fragment


def test_p5_snapshots_are_not_doubled() -> None:
    text = '{"command": "ls {x}", "n": [1, {"k": 2}]}'
    growing = [text[:i] for i in range(3, len(text) + 1, 4)] + [text]
    assert assemble(growing) == text
    assert assemble(['{"a', '":1}', '{"a":1}']) == '{"a":1}'


def test_an_object_inside_an_object_is_no_snapshot() -> None:
    assert assemble(['{"a":', '{"a":1}', "}"]) == '{"a":{"a":1}}'


def test_missing_closing_brackets_are_added_only_after_a_clean_finish() -> None:
    assert assemble(['{"a": [1, {"b": 2'], clean=True) == '{"a": [1, {"b": 2}]}'
    assert assemble(['{"a": [1, {"b": 2'], clean=False) == '{"a": [1, {"b": 2'


@pytest.mark.parametrize("text", ['{"a": "half', '{"a": ', '{"a"', '{"a": 1,'])
def test_nothing_is_invented_beyond_brackets(text: str) -> None:
    assert assemble([text], clean=True) == text


@given(OBJECTS.filter(bool), st.lists(st.integers(0, 10_000), max_size=4))
def test_balance_completes_exactly_at_the_end(value: dict[str, object], cuts: list[int]) -> None:
    text = json.dumps(value)
    balance = JsonBalance()
    for fragment in cut(text[:-1], cuts):
        balance.feed(fragment)
    assert not balance.complete
    balance.feed(text[-1])
    assert balance.complete
