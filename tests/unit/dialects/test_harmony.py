"""gpt-oss: channels, recipients, and the result of each message."""

from __future__ import annotations

import pytest

from tests.model_text.checks import TOOLS, assert_breaks_off, assert_reads, assert_stays_text
from tests.model_text.exchange import client_response, send_text, sse_bytes
from tests.playbook import delta

BREST = ("tide", {"harbor": "Brest"})
PING = ("ping", {})
THOUGHT = "<|channel|>analysis<|message|>Need tide.<|end|>"
CALL = ('<|start|>assistant<|channel|>commentary to=functions.tide <|constrain|>json<|message|>'
        '{"harbor": "Brest"}<|call|>')


@pytest.mark.parametrize("raw", [
    CALL,
    CALL.removeprefix("<|start|>assistant"),
    CALL.removesuffix("<|call|>"),
    CALL.replace("<|call|>", "<|end|>"),
    CALL.replace("<|call|>", "<|return|>"),
    '<|start|>assistant to=functions.tide<|channel|>commentary json<|message|>{"harbor": "Brest"}<|call|>',
    '<|start|>assistant to=functions.tide<|channel|>commentary <|constrain|>json<|message|>{"harbor": "Brest"}<|call|>',
    '<|channel|>analysis to=functions.tide code<|message|>{"harbor": "Brest"}<|call|>',
    '<|channel|>final to=functions.tide<|message|>{"harbor": "Brest"}<|call|>',
    '<|channel|>commentary to=tide<|message|>{"harbor": "Brest"}<|call|>',
    '<|channel|>commentary to=functions.tide<|message|>\n{\r\n "harbor": "Brest" }\n<|call|>',
    '<|channel|>commentary to=functions.tide<|message|>"{\\"harbor\\": \\"Brest\\"}"<|call|>',
    "<|channel|>commentary to=functions.tide<|message|>{'harbor': 'Brest'}<|call|>",
    '<|channel|>commentary to=functions.tide<|message|>{"harbor": "Brest"',
])
def test_one_call_in_any_of_its_spellings(raw: str) -> None:
    assert_reads("gpt-oss", raw, BREST)


@pytest.mark.parametrize("body", ["{}", "", " ", "null"])
def test_empty_arguments(body: str) -> None:
    assert_reads("gpt-oss", f"<|channel|>commentary to=functions.ping<|message|>{body}<|call|>", PING)


def test_analysis_is_reasoning_and_final_the_answer() -> None:
    assert_reads("gpt-oss", THOUGHT + "<|start|>assistant<|channel|>final<|message|>It is **high**.<|return|>",
          text="It is **high**.", reasoning="Need tide.")
    assert_reads("gpt-oss", THOUGHT + CALL, BREST, reasoning="Need tide.")
    assert_reads("gpt-oss", "<|start|>assistant" + THOUGHT + CALL, BREST, reasoning="Need tide.")


def test_commentary_without_recipient_is_visible() -> None:
    raw = THOUGHT + "<|start|>assistant<|channel|>commentary<|message|>I look it up.<|end|>" + CALL
    assert_reads("gpt-oss", raw, BREST, text="I look it up.", reasoning="Need tide.")


def test_further_analysis_begins_a_new_line() -> None:
    raw = THOUGHT + "<|start|>assistant<|channel|>analysis<|message|>Brest.<|end|>" + CALL
    assert_reads("gpt-oss", raw, BREST, reasoning="Need tide.\nBrest.")


def test_two_calls_and_text_after() -> None:
    second = "<|start|>assistant<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}<|call|>"
    assert_reads("gpt-oss", THOUGHT + CALL + second, BREST, PING, reasoning="Need tide.")
    assert_reads("gpt-oss", CALL + "<|start|>assistant<|channel|>final<|message|>Done.<|return|>", BREST, text="Done.")
    assert_reads("gpt-oss", CALL.removesuffix("<|call|>") + second, BREST, PING)


def test_a_missing_end_before_the_next_message() -> None:
    raw = "<|channel|>analysis<|message|>Hm.<|start|>assistant<|channel|>final<|message|>Hello."
    assert_reads("gpt-oss", raw, text="Hello.", reasoning="Hm.")
    assert_reads("gpt-oss", "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Hello.", text="Hello.",
          reasoning="Hm.")


def test_the_prompt_opened_the_reasoning() -> None:
    assert_reads("gpt-oss", "Need tide.<|end|>" + CALL, BREST, reasoning="Need tide.", reasoning_open=True)


def test_markers_in_strings_are_data() -> None:
    raw = '<|channel|>commentary to=functions.tide<|message|>{"harbor": "<|call|> } <|end|>"}<|call|>'
    assert_reads("gpt-oss", raw, ("tide", {"harbor": "<|call|> } <|end|>"}))


@pytest.mark.parametrize("raw", [
    "The token <|channel|> begins a channel, <|start|> a message.", "<|channel|>", "<|start|>user",
    "<|channel|>commentary to=functions.nobody <|constrain|>json<|message|>{}<|call|>",
    "```\n<|channel|>commentary to=functions.ping<|message|>{}\n```", "<|channel|>analysis of the harbor",
])
def test_what_is_no_message_stays_text(raw: str) -> None:
    assert_stays_text("gpt-oss", raw)


@pytest.mark.parametrize("raw", [
    '<|channel|>commentary to=functions.tide<|message|>{"harbor": "Bre',
    '<|channel|>commentary to=functions.tide<|message|>{"harbor": "Brest"',
    "<|channel|>commentary to=functions.tide<|message|>",
    "<|channel|>commentary to=functions.ti",
])
def test_a_call_that_is_cut_off_is_not_complete(raw: str) -> None:
    assert_breaks_off("gpt-oss", raw, "tide")


def test_models_that_nobody_knows() -> None:
    assert_reads(None, THOUGHT + CALL, BREST, reasoning="Need tide.")
    assert_reads(None, "<|start|>assistant" + THOUGHT + "<|start|>assistant<|channel|>final<|message|>Hi.", text="Hi.",
          reasoning="Need tide.")


def test_the_family_of_the_model_is_enough() -> None:
    assert_reads(None, THOUGHT + CALL, BREST, reasoning="Need tide.", model="openai/gpt-oss-120b")


@pytest.mark.parametrize("name", ["functions.tide<|channel|>commentary", "tide<|channel|>json",
                                  "tide <|constrain|>json"])
def test_tokens_that_a_host_left_in_the_name_of_a_native_call(name: str) -> None:
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": name, "arguments": '{"harbor": "Brest"}'}}
    body = sse_bytes([delta(tool_calls=[call]), delta("tool_calls")])
    assert client_response(body, TOOLS, model="openai/gpt-oss-20b")["tool_calls"] == [["tide", '{"harbor": "Brest"}']]


def test_frames_are_read_without_tools() -> None:
    raw = THOUGHT + "<|start|>assistant<|channel|>final <|constrain|>json<|message|>[1]<|return|>"
    got = send_text(list(raw), [], model="openai/gpt-oss-20b")
    assert (got["content"], got["reasoning"], got["finish_reason"]) == ("[1]", "Need tide.", "stop")


def test_text_behind_arguments_keeps_its_spaces() -> None:
    """A string that swallows the rest of its object leaves text over, the same at every cut."""
    raw = '<|channel|>commentary to=functions.tide<|message|>{"day": "Mon"} or so, I think<|call|>'
    assert_reads("gpt-oss", raw, ("tide", {"day": "Mon"}), text="or so, I think")


@pytest.mark.parametrize("head", ["to=", " to=", "assistant to="])
def test_the_first_header_may_begin_with_the_recipient(head: str) -> None:
    assert_reads("gpt-oss", head + 'functions.tide<|channel|>commentary <|constrain|>json<|message|>{"harbor":"Brest"}<|call|>',
          ("tide", {"harbor": "Brest"}))


def test_a_beginning_that_only_looks_like_a_recipient_is_text() -> None:
    for raw in ("to=5 is what I mean.\nSo be it.", "tomorrow", "to="):
        assert_stays_text("gpt-oss", raw)


def test_a_header_without_its_role() -> None:
    assert_reads("gpt-oss", "<|start|><|channel|>final<|message|>Hi.<|return|>", text="Hi.")


def test_an_empty_list_of_arguments_is_an_empty_object() -> None:
    assert_reads("gpt-oss", "<|channel|>commentary to=functions.ping<|message|>[]<|call|>", ("ping", {}))
