"""Bare JSON calls of Llama and of unknown models."""

from __future__ import annotations

import pytest

from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text

BREST = ("tide", {"harbor": "Brest"})
PING = ("ping", {})
CALL = '{"name": "tide", "parameters": {"harbor": "Brest"}}'


@pytest.mark.parametrize("raw", [
    CALL,
    '{"name": "tide", "arguments": {"harbor": "Brest"}}',
    '{"type": "function", "name": "tide", "parameters": {"harbor": "Brest"}}',
    '{"type": "function", "function": {"name": "tide", "parameters": {"harbor": "Brest"}}}',
    '{"parameters": {"harbor": "Brest"}, "name": "tide"}',
    '{"name": "functions.tide", "parameters": {"harbor": "Brest"}}',
    '{"name": "tide", "parameters": "{\\"harbor\\": \\"Brest\\"}"}',
    "\n\n" + CALL + "\n",
    "<|python_tag|>" + CALL + "<|eom_id|>",
    "<|python_tag|> " + CALL + "<|eot_id|>",
    CALL + "<|eot_id|>",
    CALL + "}",
    "[" + CALL + "]",
    '<|python_tag|>tide.call(harbor="Brest")<|eom_id|>',
    '<|python_tag|>[' + CALL + ']',
])
def test_one_call_in_any_of_its_spellings(raw: str) -> None:
    assert_reads("llama3-json", raw, BREST)


@pytest.mark.parametrize("joint", ["; ", ";", "\n", ", ", "\n\n", "<|python_tag|>"])
def test_several_calls_are_joined(joint: str) -> None:
    assert_reads("llama3-json", CALL + joint + '{"name": "ping", "parameters": {}}', BREST, PING)


def test_nested_braces_and_brackets_in_strings_end_nothing() -> None:
    raw = '{"name": "tide", "parameters": {"harbor": "a } ] { \\" ; {", "day": "<|python_tag|>"}}<|eom_id|>'
    assert_reads("llama3-json", raw, ("tide", {"harbor": 'a } ] { " ; {', "day": "<|python_tag|>"}))
    raw = '{"name": "valve", "parameters": {"id": 1, "limits": {"min": {"a": {"b": [2, "}"]}}}}}'
    assert_reads("llama3-json", raw, ("valve", {"id": 1, "limits": {"min": {"a": {"b": [2, "}"]}}}}))


def test_text_after_a_call_is_content() -> None:
    assert_reads("llama3-json", CALL + "\nThat is all; {really}.", BREST, text="That is all; {really}.")
    assert_reads("llama3-json", CALL + '; {"name": "nobody", "parameters": {}}', BREST,
          text='; {"name": "nobody", "parameters": {}}')


def test_text_before_a_call_on_a_line_of_its_own_or_behind_the_tag_is_content() -> None:
    assert_reads("llama3-json", "Let me look.\n\n" + CALL, BREST, text="Let me look.")
    assert_reads("llama3-json", "Let me look. <|python_tag|>" + CALL, BREST, text="Let me look.")


def test_reasoning_before_a_call() -> None:
    assert_reads("llama3-json", "<think>\nBrest then.\n</think>\n\n" + CALL, BREST, reasoning="Brest then.")


@pytest.mark.parametrize("raw", [
    '{"name": "nobody", "parameters": {"a": 1}}',
    '{"name": "ping"}',
    '{"harbor": "Brest", "tide": 3}',
    "{braces} begin this sentence.",
    "{",
    "A set {1, 2} in the middle.\n{not json}",
    "[1, 2, 3]",
    "[a link](https://example.com) first",
    "See:\n\n```json\n" + CALL + "\n```\nThat is how.",
    "The token <|python_tag|> begins code.",
    "<|python_tag|>import os\nprint(os.name)",
])
def test_what_calls_no_offered_tool_stays_text(raw: str) -> None:
    assert_stays_text("llama3-json", raw)


@pytest.mark.parametrize("raw", [
    '{"name": "tide", "parameters": {"harbor": "Bre', '{"name": "tide", "parameters": {"harbor": "Brest"',
    '{"name": "tide", "par', '<|python_tag|>{"name": "tide", "parameters": {',
])
def test_a_call_that_is_cut_off_is_not_complete(raw: str) -> None:
    assert_breaks_off("llama3-json", raw, "tide")


def test_the_family_of_the_model_is_enough() -> None:
    assert_reads(None, CALL, BREST, model="accounts/fireworks/models/llama-v3p1-70b-instruct")
    assert_stays_text(None, '{"name": "nobody", "parameters": {"a": 1}}', model="meta-llama/Llama-3.3-70B-Instruct")


@pytest.mark.parametrize(("model", "behind", "last", "more"), [
    ("meta-llama/llama-3.1-8b", False, True, True), ("nobody/knows-it", False, True, False),
    ("salesforce/xlam-2-8b", False, False, False)])
def test_bare_json_behind_prose(model: str, behind: bool, last: bool, more: bool) -> None:
    """The limits in docs/dialects.md: on the same line, on the last lines, on lines of its own."""
    for raw, counts in ((f"I call {CALL}", behind), (f"I call:\n{CALL}", last), (f"I call:\n\n{CALL}\n", last),
                        (f"I call:\n{CALL}\nDone.", more)):
        if counts:
            assert_reads(None, raw, BREST, text=raw.replace(CALL, "").replace("\n\n", "\n").strip(), model=model)
        else:
            assert_stays_text(None, raw, model=model)
    assert_stays_text(None, f"I call:\n[{CALL}]", model=model)


class TestUnknownModel:
    """Only a response that is nothing but one bare call counts."""

    @pytest.mark.parametrize("raw", [
        CALL, '{"name": "tide", "arguments": {"harbor": "Brest"}}', "\n" + CALL + "\n", CALL + "<|im_end|>",
        '{"arguments": {"harbor": "Brest"}, "name": "tide"}', "<|python_tag|>" + CALL,
    ])
    def test_one_bare_call(self, raw: str) -> None:
        assert_reads(None, raw, BREST)

    @pytest.mark.parametrize("raw", [
        CALL + "\nand more.", "First. " + CALL, CALL + "; " + CALL, "[" + CALL + "]",
        '{"name": "nobody", "arguments": {}}', '{"name": "ping"}', '{"name": "tide", "city": "Brest", "arguments": {}}',
        '{"name": "tide", "arguments": [1]}', "[ping()]", '{"title": "tide", "parameters": {}}',
    ])
    def test_anything_else_is_text(self, raw: str) -> None:
        assert_stays_text(None, raw)

    def test_a_cut_off_one_is_no_call(self) -> None:
        assert_reads(None, CALL[:-1], finish="length", upstream="length")
