"""One character of a written call is missing, doubled or replaced by a quote: the words of the response are still in
its text or in the arguments of its calls, or the response says that it is incomplete."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest

from tests.model_text.exchange import cuts, send_text, tool

TOOLS = [tool("set_valve", harbor="string", valve="integer", locked="boolean", notes="array")]
JSON = '{"harbor": "Brest", "valve": 37, "locked": true, "notes": ["dry", {"by": "Anna"}]}'
CALL = '"arguments": ' + JSON
FRAMES = {
    "hermes": ('Well. <tool_call>\n{"name": "set_valve", ', CALL, "}\n</tool_call>\nDone now."),
    "longcat": ('<longcat_tool_call>{"name": "set_valve", ', CALL, "}</longcat_tool_call>\nDone now."),
    "lmstudio-default": ('Well. [TOOL_REQUEST]{"name": "set_valve", ', CALL, "}[END_TOOL_REQUEST] Done now."),
    "internlm2": ('<|action_start|><|plugin|>\n{"name": "set_valve", ', CALL, "}<|action_end|> Done now."),
    "granite-3.1": ('<tool_call>[{"name": "set_valve", ', CALL, "}]"),
    "xlam": ('[{"name": "set_valve", ', CALL, "}]"),
    "llama3-json": ('{"name": "set_valve", "parameters": ', JSON, "}"),
    "mistral": ("Well. [TOOL_CALLS]set_valve[ARGS]", JSON, ""),
    "gpt-oss": ("<|channel|>commentary to=functions.set_valve <|constrain|>json<|message|>", JSON, "<|call|>"),
    "kimi-k2": ("Well. <|tool_calls_section_begin|><|tool_call_begin|>functions.set_valve:0"
                "<|tool_call_argument_begin|>", JSON, "<|tool_call_end|><|tool_calls_section_end|> Done now."),
    "deepseek-v3.1": ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>set_valve<｜tool▁sep｜>", JSON,
                      "<｜tool▁call▁end｜><｜tool▁calls▁end｜> Done now."),
}
WORDS = re.compile(r"Brest|37|true|dry|Anna|Well|Done|now")


def damaged(before: str, call: str, behind: str) -> list[str]:
    return [before + call[:at] + piece + call[at + 1:] + behind
            for at in range(len(call)) for piece in sorted({"", call[at] * 2, '"'} - {call[at]})]


def read(pieces: list[str], dialect: str, **settings: Any) -> dict[str, Any]:
    return send_text(pieces, TOOLS, dialect=dialect, **settings)


@pytest.mark.parametrize("dialect", FRAMES)
def test_no_word_of_an_answer_that_claims_to_be_whole_is_lost(dialect: str) -> None:
    for raw in damaged(*FRAMES[dialect]):
        got = read([raw], dialect)
        received = got["content"] + "".join(text for _, text in got["tool_calls"])
        lost = [word for word in WORDS.findall(raw) if word not in received]
        assert not lost or got["finish_reason"] == "length", (raw, lost, got["content"], got["tool_calls"])


@pytest.mark.parametrize("dialect", FRAMES)
def test_any_cut_of_it_gives_the_same(dialect: str) -> None:
    rng = random.Random(dialect)
    for raw in rng.sample(damaged(*FRAMES[dialect]), 12):
        for mode in ("repair", "strict"):
            found = [read(pieces, dialect, arguments=mode) for pieces in cuts(raw)]
            whole = send_text(raw, TOOLS, dialect=dialect, arguments=mode, streamed=False)
            assert {(one["content"], str(one["tool_calls"]), one["finish_reason"]) for one in found} == {
                (found[0]["content"], str(found[0]["tool_calls"]), found[0]["finish_reason"])}, raw
            assert whole["finish_reason"] == found[0]["finish_reason"], raw
            if whole["finish_reason"] != "error":
                assert whole["content"] == found[0]["content"], raw


def test_a_lost_quote_does_not_reach_the_next_call() -> None:
    first = '{"name": "set_valve", "arguments": {"valve": "3}}'
    second = '{"name": "set_valve", "arguments": {"valve": 4}}'
    raw = f"<tool_call>\n{first}\n</tool_call>\nThen:\n<tool_call>\n{second}\n</tool_call>"
    for pieces in cuts(raw):
        got = read(pieces, "hermes")
        assert got["content"].strip() == "Then:"
        assert [text for _, text in got["tool_calls"]] == ['{"valve": "3}', '{"valve": 4}']


def test_quotes_and_marks_in_a_string_that_goes_on_are_data() -> None:
    raw = ('<tool_call>{"name": "set_valve", "arguments": {"harbor": "say </tool_call> "hi" there", "valve": 3}}'
           "</tool_call>")
    for pieces in cuts(raw):
        assert read(pieces, "hermes")["tool_calls"] == [
            ["set_valve", '{"harbor": "say </tool_call> \\"hi\\" there", "valve": 3}']]


def test_what_cannot_be_read_goes_out_behind_what_went_out() -> None:
    """The client sees invalid JSON instead of a call that the model did not write."""
    raw = '<tool_call>{"name": "set_valve", "arguments": {"valve": 3, "locked": "true}}</tool_call>'
    for pieces in cuts(raw):
        assert read(pieces, "hermes")["tool_calls"] == [["set_valve", '{"valve": 3, "locked": "true}']]
        assert read(pieces, "hermes", arguments="strict")["finish_reason"] == "error"


@pytest.mark.parametrize(("body", "arguments"), [
    ('"argument": {"valve": 3}', '{"valve": 3}'), ('"valve": 3, "harbor": "Brest"', '{"valve": 3, "harbor": "Brest"}'),
    ('"id": 7, "why": {"a": 1}', "{}"), ('"why": {"valve": 3, "a": 1}', "{}"), ('"valve": 3, "a": 1', "{}"),
    ('"type": "function", "id": "c1"', "{}"),
])
def test_arguments_under_another_key_or_beside_the_name(body: str, arguments: str) -> None:
    for pieces in cuts(f'<tool_call>{{"name": "set_valve", {body}}}</tool_call>'):
        assert read(pieces, "hermes")["tool_calls"] == [["set_valve", arguments]]


@pytest.mark.parametrize(("dialect", "raw", "arguments"), [
    ("gemma-4", '<|tool_call>call:set_valve{harbor:<|"|>Bre', '{"harbor": "Bre'),
    ("lfm2", "<|tool_call_start|>[set_valve(notes=['dry", '{"notes": "[\'dry'),
    ("mistral", '[TOOL_CALLS]set_valve[ARGS]{"valve": "3', '{"valve": "3'),
])
def test_a_text_that_ends_in_a_string_leaves_the_call_open(dialect: str, raw: str, arguments: str) -> None:
    """Whatever the provider says of its end: no client may run half a call."""
    for pieces in cuts(raw):
        got = read(pieces, dialect)
        assert (got["tool_calls"], got["finish_reason"]) == ([["set_valve", arguments]], "length")
        assert read(pieces, dialect, arguments="strict")["finish_reason"] in ("error", "length")


def test_a_bare_object_with_the_name_of_a_tool_is_no_call() -> None:
    """Where no mark says that it is one."""
    raw = '{"name": "set_valve", "harbor": "Brest"}'
    for pieces in cuts(raw):
        got = read(pieces, "llama3-json")
        assert (got["content"], got["tool_calls"]) == (raw, [])
