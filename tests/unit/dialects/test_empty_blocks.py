"""Blocks without calls and extra closers are dropped, in any dialect, for known and unknown models."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model_text.checks import assert_reads, assert_stays_text

UNKNOWN = None
EMPTY = [
    ("kimi-k2", "<|tool_calls_section_begin|><|tool_calls_section_end|>"),
    ("kimi-k2", "<|tool_calls_section_begin|><|tool_call_begin|><|tool_call_end|><|tool_calls_section_end|>"),
    ("kimi-k3", "<|open|>tools<|sep|><|close|>tools<|sep|>"),
    ("deepseek-v3", "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"),
    ("deepseek-v3.2", "<｜DSML｜function_calls>\n</｜DSML｜function_calls>"),
    ("deepseek-v4.1", "<｜DSML｜ calls>\n</｜DSML｜ calls>"),
    ("minimax-m2", "<minimax:tool_call></minimax:tool_call>"),
    ("minimax-m3", "]<]minimax[>[<tool_call>\n]<]minimax[>[</tool_call>"),
    ("hermes", "<tool_call></tool_call>"), ("qwen3-coder", "<tool_call>\n\n</tool_call>"),
    ("glm-4.6", "<tool_call></tool_call>"), ("prompted", "<tool_call></tool_call>"),
    ("hermes", "<tool_call>[]</tool_call>"), ("hermes", "<tool_call><tool_call>\n</tool_call></tool_call>"),
    ("seed-oss", "<seed:tool_call></seed:tool_call>"), ("longcat", "<longcat_tool_call></longcat_tool_call>"),
    ("lmstudio-default", "[TOOL_REQUEST]\n[END_TOOL_REQUEST]"), ("granite-20b-fc", "<function_call></function_call>"),
    ("granite-3.1", "<|tool_call|>[]"), ("jamba", "<tool_calls></tool_calls>"), ("jamba", "<tool_calls>[ ]</tool_calls>"),
    ("phi-4-mini", "functools[]"), ("apertus", "<|tools_prefix|>[]<|tools_suffix|>"),
    ("mistral", "[TOOL_CALLS][]"), ("mistral", "[TOOL_CALLS] []"),
    ("lfm2", "<|tool_call_start|><|tool_call_end|>"), ("lfm2", "<|tool_call_start|>[]<|tool_call_end|>"),
    ("llama4-pythonic", "<|python_start|>[]<|python_end|>"), ("olmo3", "<function_calls>\n</function_calls>"),
    ("gemma-4", "<|tool_call><tool_call|>"), ("functiongemma", "<start_function_call><end_function_call>"),
    ("internlm2", "<|action_start|><|plugin|><|action_end|>"), ("step3", "<｜tool_calls_begin｜><｜tool_calls_end｜>"),
]


@pytest.mark.parametrize(("dialect", "block"), EMPTY)
def test_an_empty_block_is_dropped(dialect: str, block: str) -> None:
    for known in (dialect, UNKNOWN):
        if known is None and dialect == "prompted":
            continue
        assert_reads(known, block)
        assert_reads(known, f"Text.{block}", text="Text.", exact=True)
        assert_reads(known, f"I answer. {block} And more.", text="I answer.  And more.", exact=True)
        assert_reads(known, f"Text.\n{block}\nMore.", text="Text.\n\nMore.", exact=True)
        assert_reads(known, f"<think>\nHm. {block} So.\n</think>Text.", text="Text.", reasoning="Hm.  So.")


@pytest.mark.parametrize("raw", [
    "Write the JSON within <tool_call></tool_call> XML tags:", "<tool_call>\n</tool_call> is a pair.",
    "Use `<tool_call></tool_call>`.", "Use `<|tool_call_start|><|tool_call_end|>`.", "```\n<tool_call></tool_call>\n```",
    "An empty <tool_call> opens, then </tool_call>.",
])
def test_prose_about_a_block_stays(raw: str) -> None:
    for dialect in ("hermes", UNKNOWN):
        assert_stays_text(dialect, raw)


@pytest.mark.parametrize("raw", [
    "The token `<|tool_call_end|>` ends a call.", "`</think>` ends it.", "Reasoning ends with `</think>`, always.",
])
@pytest.mark.parametrize("dialect", ["kimi-k2", "hermes", UNKNOWN])
def test_a_quoted_token_stays(dialect: str | None, raw: str) -> None:
    assert_stays_text(dialect, raw)


PING = ("ping", {})
CLOSERS = [
    ("gemma-4", "<|tool_call>call:ping{}<tool_call|>", "<tool_call|>"),
    ("functiongemma", "<start_function_call>call:ping{}<end_function_call>", "<end_function_call>"),
    ("lfm2", "<|tool_call_start|>[ping()]<|tool_call_end|>", "<|tool_call_end|>"),
    ("llama4-pythonic", "<|python_start|>[ping()]<|python_end|>", "<|python_end|>"),
    ("olmo3", "<function_calls>ping()</function_calls>", "</function_calls>"),
    ("hermes", '<tool_call>{"name": "ping", "arguments": {}}</tool_call>', "</tool_call>"),
    ("glm-4.7", "<tool_call>ping</tool_call>", "</tool_call>"),
    ("qwen3-coder", "<tool_call><function=ping></function></tool_call>", "</tool_call>"),
    ("minimax-m2", '<minimax:tool_call><invoke name="ping"></invoke></minimax:tool_call>', "</minimax:tool_call>"),
    ("minimax-m3", ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="ping">]<]minimax[>[</invoke>]<]minimax[>[</tool_call>',
     "]<]minimax[>[</tool_call>"),
    ("mistral", '[TOOL_CALLS][{"name": "ping", "arguments": {}}][/TOOL_CALLS]', "[/TOOL_CALLS]"),
    ("jamba", '<tool_calls>[{"name": "ping", "arguments": {}}]</tool_calls>', "</tool_calls>"),
    ("phi-4-mini", '<|tool_call|>[{"name": "ping", "arguments": {}}]<|/tool_call|>', "<|/tool_call|>"),
    ("apertus", '<|tools_prefix|>[{"ping": {}}]<|tools_suffix|>', "<|tools_suffix|>"),
    ("internlm2", '<|action_start|><|plugin|>{"name": "ping", "parameters": {}}<|action_end|>', "<|action_end|>"),
    ("kimi-k2", "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:0<|tool_call_argument_begin|>{}"
                "<|tool_call_end|><|tool_calls_section_end|>", "<|tool_calls_section_end|>"),
    ("kimi-k3", '<|open|>tools<|sep|><|open|>call tool="ping" index="1"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
     "<|close|>tools<|sep|>"),
    ("deepseek-v3.1", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "<｜tool▁calls▁end｜>"),
    ("deepseek-v3.2", '<｜DSML｜function_calls><｜DSML｜invoke name="ping"></｜DSML｜invoke></｜DSML｜function_calls>',
     "</｜DSML｜function_calls>"),
    ("gpt-oss", "<|start|>assistant<|channel|>commentary to=functions.ping<|message|>{}<|call|>", "<|call|>"),
    ("lmstudio-default", '[TOOL_REQUEST]{"name": "ping", "arguments": {}}[END_TOOL_REQUEST]', "[END_TOOL_REQUEST]"),
    ("prompted", '<tool_call name="ping"></tool_call>', "</tool_call>"),
]


@pytest.mark.parametrize(("dialect", "call", "closer"), CLOSERS)
def test_closers_too_many_are_dropped(dialect: str, call: str, closer: str) -> None:
    for known in (dialect, UNKNOWN):
        if known is None and dialect == "prompted":
            continue
        assert_reads(known, call + closer, PING)
        assert_reads(known, f"{call}{closer}\n{closer}Done.", PING, text="Done.")
        assert_reads(known, f"One.\n{call}{closer}\n{call}{closer}", PING, PING, text="One.")


def test_a_closer_too_many_of_named_tags() -> None:
    call: tuple[str, dict[str, Any]] = ("tide", {"harbor": "Brest"})
    assert_reads("roo-xml", "<tide>\n<harbor>Brest</harbor>\n</tide>\n</tide>\nDone.", call, text="Done.")


def test_a_doubled_opener_and_a_repeated_list() -> None:
    call: tuple[str, dict[str, Any]] = ("tide", {"harbor": "Brest"})
    raw = '<|tool_call_start|>[tide(harbor="Brest")]<|tool_call_end|>'
    assert_reads("lfm2", raw.replace("[", "[<|tool_call_start|>["), call)
    assert_reads("lfm2", "<|tool_call_start|>" + raw, call)
    assert_reads("lfm2", raw + '[tide(harbor="Brest")]<|tool_call_end|>Done.', call, text="Done.")
    assert_reads("lfm2", raw + " [tide(x) is text", call, text="[tide(x) is text")
