"""Gemma 4 and FunctionGemma: bare keys, strings between tokens."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text

BREST = ("tide", {"harbor": "Brest"})
PING = ("ping", {})
CALL = '<|tool_call>call:tide{harbor:<|"|>Brest<|"|>}<tool_call|>'


@pytest.mark.parametrize("raw", [
    CALL, CALL.replace("call:tide", ":tide"), CALL.removesuffix("<tool_call|>"), CALL.removesuffix("}<tool_call|>"),
    CALL.replace("}<", "<"), CALL.replace("harbor:", "\n harbor : "), CALL.replace("harbor", '<|"|>harbor<|"|>'),
    '<|tool_call>call:tide{"harbor":"Brest"}<tool_call|>', "<|tool_call>call:tide{harbor:Brest}<tool_call|>",
    CALL.replace("call:", " call: ") + "<|tool_response>",
])
def test_one_call_in_any_of_its_spellings(raw: str) -> None:
    assert_reads("gemma-4", raw, BREST)


@pytest.mark.parametrize(("body", "arguments"), [
    ("id:4,opening:-1.5,locked:true", {"id": 4, "opening": -1.5, "locked": True}),
    ("operator:null", {"operator": None}),
    ('operator:<|"|>null<|"|>,id:2', {"operator": "null", "id": 2}),
    ('tags:[<|"|>a, ]}<|"|>,<|"|>b<|"|>]', {"tags": ["a, ]}", "b"]}),
    ('limits:{min:1,deep:{a:[1,{b:<|"|>}<|"|>}],c:false}},id:1',
     {"limits": {"min": 1, "deep": {"a": [1, {"b": "}"}], "c": False}}, "id": 1}),
    ("tags:[],limits:{}", {"tags": [], "limits": {}}),
])
def test_values(body: str, arguments: dict[str, Any]) -> None:
    assert_reads("gemma-4", f"<|tool_call>call:valve{{{body}}}<tool_call|>", ("valve", arguments))


def test_strings_are_verbatim() -> None:
    value = '  a "b" {c} [d], e: <tool_call|> \\n\r\né'
    assert_reads("gemma-4", f'<|tool_call>call:tide{{harbor:<|"|>{value}<|"|>,day:<|"|><|"|>}}<tool_call|>',
          ("tide", {"harbor": value, "day": ""}))


def test_several_calls_and_text_around() -> None:
    assert_reads("gemma-4", "I look. " + CALL + "\n<|tool_call>call:ping{}<tool_call|> Done.", BREST, PING,
          text="I look. Done.")


def test_reasoning() -> None:
    assert_reads("gemma-4", "<|channel>thought\nNeed tide.\n<channel|>" + CALL, BREST, reasoning="Need tide.")
    assert_reads("gemma-4", "<|channel>thought\nHm.<channel|>Hello.<turn|>", text="Hello.", reasoning="Hm.")


@pytest.mark.parametrize("raw", [
    "The token <|tool_call> opens.", "<|tool_call>", "<|tool_call>call:nobody{a:1}<tool_call|>", "<|tool_call>call",
    "<|tool_call>call:ping and more", "```\n<|tool_call>call:ping{}<tool_call|>\n```", "call:ping{}",
])
def test_what_calls_no_offered_tool_stays_text(raw: str) -> None:
    assert_stays_text("gemma-4", raw)


@pytest.mark.parametrize("raw", [CALL[:30], CALL[:36], CALL[:-13], "<|tool_call>call:tide{", "<|tool_call>call:ti"])
def test_a_call_that_is_cut_off_is_not_complete(raw: str) -> None:
    assert_breaks_off("gemma-4", raw, "tide")


def test_a_call_that_is_whole_before_the_limit_counts() -> None:
    assert_reads("gemma-4", CALL.removesuffix("<tool_call|>"), BREST, finish="length", upstream="length")


def test_functiongemma() -> None:
    call = "<start_function_call>call:tide{harbor:<escape>Brest<escape>}<end_function_call>"
    assert_reads("functiongemma", call + "<start_function_response>", BREST)
    assert_reads("functiongemma", "So. " + call + "<start_function_call>call:ping{}<end_function_call>", BREST, PING,
          text="So.")
    assert_reads("functiongemma", call.removesuffix("<end_function_call>"), BREST)
    assert_stays_text("functiongemma", "<start_function_call>call:nobody{}<end_function_call>")
    assert_breaks_off("functiongemma", call[:50], "tide")


def test_models_that_nobody_knows() -> None:
    assert_reads(None, CALL, BREST)


def test_brackets_too_many_before_the_closer_are_not_shown() -> None:
    assert_reads("gemma-4", CALL.replace("}<", "}}]<") + " Done.", BREST, text="Done.")


def test_text_behind_a_call_without_a_closer_keeps_its_distance() -> None:
    assert_reads("gemma-4", "One: " + CALL.removesuffix("<tool_call|>") + " two.", BREST, text="One: two.", exact=True)


def test_it_may_think_again_behind_a_call() -> None:
    assert_reads("gemma-4", CALL + "<|channel>thought\nmore\n<channel|>Done.", BREST, reasoning="more", text="Done.")
