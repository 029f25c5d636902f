"""Calls in Python's syntax, and the literals in them."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.dialects.json.literals import read_literal
from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text

BREST = ("tide", {"harbor": "Brest"})
PING = ("ping", {})


@pytest.mark.parametrize(("raw", "arguments"), [
    ('[tide(harbor="Brest")]', {"harbor": "Brest"}),
    ("[tide(harbor='Brest', day='Mon')]", {"harbor": "Brest", "day": "Mon"}),
    ("[ tide( harbor = 'Brest' , ) ]", {"harbor": "Brest"}),
    ("[functions.tide(harbor='Brest')]", {"harbor": "Brest"}),
    ("[tide(harbor='''Bre\nst''')]", {"harbor": "Bre\nst"}),
    ('[tide(harbor="line\nbreak", day="tab\there")]', {"harbor": "line\nbreak", "day": "tab\there"}),
    ('[tide(harbor="a\\nb\\t\\"c\\" \\u00e9 \\x41 \\d \\ud83d\\ude00")]', {"harbor": 'a\nb\t"c" é A \\d 😀'}),
    ("[tide(harbor='it\\'s', day=\"it's\")]", {"harbor": "it's", "day": "it's"}),
    ("[tide(harbor='it's here')]", {"harbor": "it's here"}),
    ('[tide(harbor="), tide(day=1)] {x", day="[")]', {"harbor": "), tide(day=1)] {x", "day": "["}),
    ('[tide(harbor="", day="")]', {"harbor": "", "day": ""}),
    ('[tide("Brest", day="Mon")]', {"harbor": "Brest", "day": "Mon"}),
    ('[tide("Brest")]', {"harbor": "Brest"}),
    ('[tide(harbor="Brest")', {"harbor": "Brest"}),
    ('[tide(harbor="Brest"', {"harbor": "Brest"}),
])
def test_strings(raw: str, arguments: dict[str, Any]) -> None:
    assert_reads("llama-pythonic", raw, ("tide", arguments))


@pytest.mark.parametrize(("raw", "arguments"), [
    ("[valve(id=-5, opening=1.5, locked=True)]", {"id": -5, "opening": 1.5, "locked": True}),
    ("[valve(id=1_000, opening=-.5e1, locked=false)]", {"id": 1000, "opening": -5.0, "locked": False}),
    ("[valve(tags=('a', 'b'), operator=None)]", {"tags": ["a", "b"], "operator": None}),
    ("[valve(tags={'b', 'a'}, operator=null)]", {"tags": ["b", "a"], "operator": None}),
    ("[valve(tags=[], limits={})]", {"tags": [], "limits": {}}),
    ("[valve(limits={'min': {'a': [1, -2, (3,)]}, \"max\": true})]",
     {"limits": {"min": {"a": [1, -2, [3]]}, "max": True}}),
    ("[valve(tags=['a ] ) }', \"b'\"], id=2)]", {"tags": ["a ] ) }", "b'"], "id": 2}),
    ("[valve(limits={'s': 'two\nlines'})]", {"limits": {"s": "two\nlines"}}),
    ("[valve(operator=Anna, id=3)]", {"operator": "Anna", "id": 3}),
    ("[valve(3, 0.5)]", {"id": 3, "opening": 0.5}),
    ("[valve(id=7, tags=['a']", {"id": 7, "tags": ["a"]}),
])
def test_other_values(raw: str, arguments: dict[str, Any]) -> None:
    assert_reads("llama-pythonic", raw, ("valve", arguments))


def test_several_calls() -> None:
    assert_reads("llama-pythonic", '[tide(harbor="Brest"), ping()]', BREST, PING)
    assert_reads("llama-pythonic", '[ping(), tide(harbor="Brest"),\n ping()]', PING, BREST, PING)
    assert_reads("llama-pythonic", "[ping(), ping()]<|eot_id|>", PING, PING)
    assert_reads("llama-pythonic", '[mcp__atlas__find-docs(q="x", top=2)]', ("mcp__atlas__find-docs", {"q": "x", "top": 2}))


def test_text_after_the_list_is_content() -> None:
    assert_reads("llama-pythonic", '[tide(harbor="Brest")] Done.', BREST, text="Done.")


def test_a_further_call_of_no_offered_tool_is_text() -> None:
    assert_reads("llama-pythonic", "[tide(harbor='Brest'), nobody(a=1), ping()]", BREST, PING, text="nobody(a=1)")


@pytest.mark.parametrize("raw", [
    "[1, 2, 3]", "[]", "[", "[ping]", "[nobody(a=1)]", "[nobody(a=1), ping()]", "[ping() is a function]",
    "[a link](https://example.com)", "[ping()](https://example.com)", "[tide('x')](#tide)",
    "Use [tide(harbor='Brest')] here.", "```python\n[ping()]\n```", "[tides]",
    "[x](y) and [z]", "[^1]: a footnote", "[ ] a task", "[tide == 1]",
])
def test_other_lists_stay_text(raw: str) -> None:
    assert_stays_text("llama-pythonic", raw)


@pytest.mark.parametrize("raw", ["[tide(harbor='Bre", "[tide(harbor='Brest'", "[tide(", "[tide(harbor="])
def test_a_call_that_is_cut_off_is_not_complete(raw: str) -> None:
    assert_breaks_off("llama-pythonic", raw, "tide")


@pytest.mark.parametrize("raw", [
    "<|python_start|>[tide(harbor='Brest')]<|python_end|>", "[tide(harbor='Brest')]<|eot|>",
    "<|python_start|>tide(harbor='Brest')<|python_end|><|eom|>",
    '<|python_start|>{"name": "tide", "parameters": {"harbor": "Brest"}}<|python_end|>',
])
def test_llama_4(raw: str) -> None:
    assert_reads("llama4-pythonic", raw, BREST)


def test_llama_4_text_around_the_markers() -> None:
    assert_reads("llama4-pythonic", "Look: <|python_start|>[ping()]<|python_end|> Done.", PING, text="Look: Done.")
    assert_stays_text("llama4-pythonic", "The <|python_start|> token.")


def test_olmo_3_writes_one_call_a_line() -> None:
    raw = "I look.\n<function_calls>\ntide(harbor='Brest')\nping()\n</function_calls>"
    assert_reads("olmo3", raw, BREST, PING, text="I look.")
    assert_reads("olmo3", "<function_calls>ping()</function_calls>Done.", PING, text="Done.")
    assert_reads("olmo3", "<function_calls>\ntide(harbor='Brest')\nnobody(a=1)\nping()\n</function_calls>", BREST, PING,
          text="nobody(a=1)")
    assert_stays_text("olmo3", "The tag <function_calls> opens, </function_calls> closes.")
    assert_stays_text("olmo3", "<function_calls>\nnobody()\n</function_calls>")


def test_lfm_2() -> None:
    assert_reads("lfm2", "<|tool_call_start|>[tide(harbor='Brest'), ping()]<|tool_call_end|>Checking.", BREST, PING,
          text="Checking.")
    assert_reads("lfm2", '<|tool_call_start|>[{"name": "tide", "arguments": {"harbor": "Brest"}}]<|tool_call_end|>', BREST)
    assert_breaks_off("lfm2", "<|tool_call_start|>[tide(harbor='Br", "tide")


@pytest.mark.parametrize(("text", "value"), [
    ("'a' 'b'", "ab"), ("0x10", 16), ("b'x'", "x"), ("{1: 'a', None: 2, True: 3}", {"1": "a", "null": 2, "true": 3}),
    ("()", []), ("(1)", 1), ("--1", 1), ("True", True), ("none", None), ("'\\ud800'", "\ufffd"),
])
def test_literals(text: str, value: object) -> None:
    assert read_literal(text) == value


@pytest.mark.parametrize("text", [
    "__import__('os').system('true')", "a.b", "1 + 1", "[x for x in y]", "1e999", "f(1)", "", "'open", "lambda: 1",
    "(" * 500, "-" * 20000 + "1", "...", "{**a}", "1j",
])
def test_what_is_no_literal_is_never_evaluated(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as problem:
        read_literal(text)
    assert type(problem.value) is ValueError
