"""A response without a finish reason after a whole call: text that only closes the call, and text that begins more."""

from __future__ import annotations

import pytest

from extproc.dialects.registry import DIALECTS
from extproc.dialects.text_marks import TrailingText

OPENERS = sorted({opener for dialect in DIALECTS.values() for form in dialect.forms for opener in form.openers
                  if not opener.startswith("<|close|>")})


def closes(text: str, *known: str) -> bool:
    behind = TrailingText(OPENERS, known)
    behind.feed("an answer, a call {")
    behind.end_call("call}" + text[:1], 5)
    for char in text[1:]:
        behind.feed(char)
    return behind.closes


@pytest.mark.parametrize("text", [
    "", "\n", "}\n</tool_call>", "\n</tool_ca", "\n```\n</tool_call>\n", "</parameter>\n</function></tool_call>", "]",
    "}]<|tools_suffix|>", "<|tool_call_end|><|tool_calls_section_end|>", "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>", "[/TOOL_CALLS]", "\n[END_TOOL_REQUEST]", "<|call|>", "<|eom_id|>",
    "<end_function_call>", "<|close|>call<|sep|><|close|> tools <|sep|>", "</minimax:tool_call>\n", "<tool_call|><turn|>", "<|/tool_call|><|end|>", ", ]", ";\n</function_calls>",
    "\n<tool_call>\n</tool_call>\n", "<|tool_response>", "</s>"])
def test_what_closes_a_call(text: str) -> None:
    assert closes(text)


@pytest.mark.parametrize("text", [
    "\n<", "\n</tool_call>\n<tool_call>", "\n<tool_call>\n<function=save", ", ", "; ", ", {", "<|tool_call_begin|>",
    "<|tool_call_end|><|tool_call_begin|>functions.save:1", "<｜tool▁call▁begin｜>", "<｜tool▁calls▁begin｜>",
    "<｜DSML｜invoke", "[TOOL_CALLS]", "[TOOL_REQUEST]", "<|tool_call|>", "<|python_tag|>", "<|start|>assistant", "<start_function_call>",
    "<|open|>call tool", "text", "</tool_call>" * 400])
def test_what_begins_another_one(text: str) -> None:
    assert not closes(text)


@pytest.mark.parametrize("opener", OPENERS)
def test_no_opener_closes(opener: str) -> None:
    assert not closes(opener)


def test_a_token_that_may_begin_a_call_closes_only_before_a_closer() -> None:
    mark = "]<]minimax[>["
    assert closes(f"{mark}</invoke>\n{mark}</tool_call>", mark)
    assert not closes(f"{mark}</invoke>\n{mark}", mark)


@pytest.mark.parametrize("text", ["<|close|> " * 200 + "<", "<" * 4000, "[END" * 900, "</" * 2000, "<|end" * 700,
                                  " , " * 1300, "`" * 4000 + "x", "< " * 2000])
def test_hostile_text_costs_nothing(text: str) -> None:
    """Some of these took minutes of a pattern that could read them in many ways; here they would never end."""
    assert not closes(text)


@pytest.mark.parametrize("text", [" " * 9000, "\n" * 600 + "</tool_call>", "<|im_end|>" * 60, "</tool_call>\n" * 60])
def test_however_much_closes(text: str) -> None:
    assert closes(text)


@pytest.mark.parametrize("size", [1, 100, 4096, 5000, 20_000])
@pytest.mark.parametrize("more", [4095, 4096, 4097, 9000])
def test_what_comes_behind_much_white_space_is_heard(size: int, more: int) -> None:
    text = "\n" * more + "</tool_call><tool_call>"
    behind = TrailingText(OPENERS)
    behind.end_call(text[:size])
    for at in range(size, len(text), size):
        behind.feed(text[at:at + size])
    assert not behind.closes


def test_tokens_of_the_template_mean_nothing() -> None:
    assert closes("\n<|im_end|><|user|>", "<|im_end|>", "<|user|>")
    assert not closes("[e~[")
    assert closes("[e~[", "[e~[")


def test_without_a_call_nothing_stands_behind_it() -> None:
    behind = TrailingText(OPENERS)
    behind.feed("Text.")
    assert behind.closes


def test_the_last_call_counts() -> None:
    behind = TrailingText(OPENERS)
    behind.end_call("a")
    behind.feed("<tool_call>")
    assert not behind.closes
    behind.end_call("")
    assert behind.closes


def test_a_call_that_is_not_over_is_missed_whatever_comes_beside_it() -> None:
    behind = TrailingText(OPENERS)
    behind.begin_call()
    behind.note_native_call()
    assert not behind.closes
    behind.end_call("}", 1)
    assert behind.closes
