"""Mistral's markers, from the arrays of the first tokenizers to plain names."""

from __future__ import annotations

import pytest

from tests.model_text.checks import assert_breaks_off, assert_reads, assert_stays_text

BREST = ("tide", {"harbor": "Brest"})
PING = ("ping", {})


@pytest.mark.parametrize("raw", [
    '[TOOL_CALLS][{"name": "tide", "arguments": {"harbor": "Brest"}}]',
    '[TOOL_CALLS] [{"name": "tide", "arguments": {"harbor": "Brest"}}]</s>',
    '[TOOL_CALLS] [{"arguments": {"harbor": "Brest"}, "name": "tide", "id": "a1B2c3D4e"}]',
    '[TOOL_CALLS] [{"name": "tide", "arguments": "{\\"harbor\\": \\"Brest\\"}"}]',
    '[TOOL_CALLS] {"name": "tide", "arguments": {"harbor": "Brest"}}',
    '[TOOL_CALLS][{"name": "tide", "arguments": {"harbor": "Brest"}}',
    '[TOOL_CALLS]tide{"harbor": "Brest"}',
    '[TOOL_CALLS]tide {"harbor": "Brest"}',
    '[TOOL_CALLS]tide[ARGS]{"harbor": "Brest"}',
    '[TOOL_CALLS]tide[ARGS]\n{\r\n"harbor": "Brest"\r\n}</s>',
    '[TOOL_CALLS]tide[CALL_ID]a1B2c3D4e[ARGS]{"harbor": "Brest"}',
    '[TOOL_CALLS]tide[ARGS]"{\\"harbor\\": \\"Brest\\"}"',
    '[TOOL_CALLS]tide[ARGS]{"harbor": "Brest"',
])
def test_one_call_in_any_of_its_spellings(raw: str) -> None:
    assert_reads("mistral", raw, BREST)


@pytest.mark.parametrize("raw", ["[TOOL_CALLS]ping{}", "[TOOL_CALLS]ping[ARGS]{}", '[TOOL_CALLS][{"name": "ping"}]',
                                 '[TOOL_CALLS][{"name": "ping", "arguments": null}]'])
def test_empty_arguments(raw: str) -> None:
    assert_reads("mistral", raw, PING)


@pytest.mark.parametrize("raw", ["[TOOL_CALLS]ping", "[TOOL_CALLS]ping[ARGS]"])
def test_a_text_that_ends_before_the_arguments(raw: str) -> None:
    """Arguments may have been about to follow, and the name may be incomplete."""
    assert_reads("mistral", raw, finish="length")


def test_several_calls() -> None:
    assert_reads("mistral", '[TOOL_CALLS]tide[ARGS]{"harbor": "Brest"}[TOOL_CALLS]ping[ARGS]{}', BREST, PING)
    assert_reads("mistral", '[TOOL_CALLS]ping[TOOL_CALLS]tide{"harbor": "Brest"}', PING, BREST)
    array = '[{"name": "tide", "arguments": {"harbor": "Brest"}}, {"name": "ping", "arguments": {}}]'
    assert_reads("mistral", "[TOOL_CALLS] " + array, BREST, PING)
    assert_reads("mistral", '[TOOL_CALLS]mcp__atlas__find-docs{"q": "x"}', ("mcp__atlas__find-docs", {"q": "x"}))


def test_text_around_calls_is_content() -> None:
    assert_reads("mistral", 'I look. [TOOL_CALLS]tide{"harbor": "Brest"} Then I wait.', BREST, text="I look. Then I wait.")
    assert_reads("mistral", 'So:\n[TOOL_CALLS][{"name": "ping", "arguments": {}}] [done]', PING, text="So: [done]")


def test_brackets_and_markers_in_strings_are_data() -> None:
    harbor = "] } [TOOL_CALLS]ping{} [ARGS] \\ \" é"
    raw = '[TOOL_CALLS]tide{"harbor": "] } [TOOL_CALLS]ping{} [ARGS] \\\\ \\" é"}'
    assert_reads("mistral", raw, ("tide", {"harbor": harbor}))


def test_reasoning() -> None:
    assert_reads("mistral", '[THINK]Brest then.[/THINK][TOOL_CALLS]tide[ARGS]{"harbor": "Brest"}', BREST,
          reasoning="Brest then.")
    assert_reads("mistral", "<think>\nHm.\n</think>\nHello.", text="Hello.", reasoning="Hm.")
    assert_reads("mistral", '[THINK]Brest[TOOL_CALLS]tide[ARGS]{"harbor": "Brest"}', BREST, reasoning="Brest")
    assert_reads("mistral", "Hm.[/THINK]Hello.", text="Hello.", reasoning="Hm.", reasoning_open=True)


@pytest.mark.parametrize("raw", [
    "The marker [TOOL_CALLS] is written before a call.", "[TOOL_CALLS]", "[TOOL_CALLS] ", "An array[1] or ] or [TOOL",
    '[TOOL_CALLS]nobody{"a": 1}', '[TOOL_CALLS][{"name": "nobody", "arguments": {}}]', "[TOOL_CALLS] ping is a tool.",
    "[TOOL_CALLS][1, 2]", "```\n[TOOL_CALLS]ping{}\n```", "[1, 2, 3]",
])
def test_what_calls_no_offered_tool_stays_text(raw: str) -> None:
    assert_stays_text("mistral", raw)


def test_an_unknown_element_behind_a_known_one_is_text() -> None:
    raw = '[TOOL_CALLS][{"name": "ping", "arguments": {}}, {"name": "nobody", "arguments": {"a": [1]}}]'
    assert_reads("mistral", raw, PING, text='{"name": "nobody", "arguments": {"a": [1]}}')


@pytest.mark.parametrize("raw", ['[TOOL_CALLS]tide{"harbor": "Bre', '[TOOL_CALLS]tide[ARGS]{"harbor": "Brest"',
                                 '[TOOL_CALLS][{"name": "tide", "arguments": {"harbor', "[TOOL_CALLS]tide[ARGS]"])
def test_a_call_that_is_cut_off_is_not_complete(raw: str) -> None:
    assert_breaks_off("mistral", raw, "tide")


def test_models_that_nobody_knows() -> None:
    assert_reads(None, 'Look.[TOOL_CALLS]tide[ARGS]{"harbor": "Brest"}', BREST, text="Look.")
