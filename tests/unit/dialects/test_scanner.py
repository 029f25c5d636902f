"""Common to all dialects: text that waits, code fences, reasoning tags, unknown models (P25)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.bounds import Limits
from extproc.translation.exchange import Translation
from tests.model_text.checks import assert_reads, assert_stays_text
from tests.model_text.exchange import (
    client_response,
    cuts,
    request_body,
    send_every_cut,
    send_text,
    sse_bytes,
    text_chunks,
    tool,
)
from tests.playbook import delta

TOOLS = [tool(name, harbor="string", days="integer") for name in ("lookup_tide", "ping")]
CALL = '<tool_call>\n{"name": "lookup_tide", "arguments": {"harbor": "Brest"}}\n</tool_call>'


def every_cut(raw: str, tools: list[dict[str, Any]] | None = None, **settings: Any) -> dict[str, Any]:
    """The client's response, which must be the same for every cut."""
    return send_every_cut(raw, TOOLS if tools is None else tools, **settings)


@pytest.mark.parametrize("text", [
    "a <tool is odd", "ends with <tool_cal", "the tag <tool_call> in prose", "<tool_call>", "x < y <", "<tool_call>{",
    '<tool_call>{"name": "unknown_tool", "arguments": {}}</tool_call>', "see `<tool_call>{}` here", "white  space \n",
    "```\n" + CALL + "\n```\n", "~~~~ xml\n" + CALL + "\n~~~\n" + CALL + "\n~~~~", "  ```json\n" + CALL + "\n```",
])
def test_what_is_no_call_stays_text_to_the_letter(text: str) -> None:
    got = every_cut(text, dialect="hermes")
    assert (got["content"], got["tool_calls"], got["finish_reason"]) == (text, [], "stop")


def test_text_before_between_and_after_is_kept() -> None:
    got = every_cut(f"Before.\n\n{CALL}\nBetween.\n{CALL}\n\nAfter.", dialect="hermes")
    assert [name for name, _ in got["tool_calls"]] == ["lookup_tide", "lookup_tide"]
    assert got["content"].split() == ["Before.", "Between.", "After."] or \
        [word for word in ("Before.", "Between.", "After.") if word in got["content"]] == ["Before.", "Between.", "After."]
    assert "tool_call" not in got["content"]


def test_a_fence_must_begin_a_line() -> None:
    got = every_cut(f"inline ``` marks {CALL}", dialect="hermes")
    assert [name for name, _ in got["tool_calls"]] == ["lookup_tide"]


def test_a_call_after_a_closed_fence_counts() -> None:
    got = every_cut(f"```\n{CALL}\n```\n{CALL}", dialect="hermes")
    assert len(got["tool_calls"]) == 1
    assert got["content"].strip() == f"```\n{CALL}\n```"


@pytest.mark.parametrize("tools", [TOOLS, []])
@pytest.mark.parametrize("raw", ["<think>\nWhy?\n</think>\n\nBecause.", "\n <think>Why?</think>Because.",
                                 "<think>Why?\n</think>\nBecause."])
def test_reasoning_tags_at_the_very_start_always_count(raw: str, tools: list[Any]) -> None:
    got = every_cut(raw, tools)
    assert (got["reasoning"], got["content"]) == ("Why?", "Because.")


def test_reasoning_tags_elsewhere_are_text_but_a_stray_closer_is_never_shown() -> None:
    assert every_cut("So: <think>no</think> yes")["content"].replace("</think>", "") == "So: <think>no yes"
    assert every_cut("Hm\n</think>\n\nBecause.", [])["content"].split() == ["Hm", "Because."]


def test_reasoning_open_begins_inside() -> None:
    got = every_cut("Hm\n</think>\n\nBecause.", reasoning_open=True)
    assert (got["reasoning"], got["content"]) == ("Hm", "Because.")
    got = every_cut(f"Hm\n{CALL}", reasoning_open=True, dialect="hermes")
    assert (got["reasoning"], [name for name, _ in got["tool_calls"]]) == ("Hm", ["lookup_tide"])


def test_an_unknown_model_is_read_when_tools_are_offered_and_only_then() -> None:
    assert every_cut(CALL, model="someone/some-model")["finish_reason"] == "tool_calls"
    assert every_cut(CALL, [], model="someone/some-model")["content"] == CALL


def test_a_model_that_calls_natively_is_not_looked_at() -> None:
    assert every_cut(CALL, model="gpt-5")["content"] == CALL


def test_a_call_leaked_into_the_reasoning_field_counts() -> None:
    body = sse_bytes(text_chunks([f"I should.\n{CALL}"], field="reasoning_content"))
    got = client_response(body, TOOLS, dialect="hermes")
    assert (got["reasoning"], [name for name, _ in got["tool_calls"]]) == ("I should.", ["lookup_tide"])


@pytest.mark.parametrize("cut", range(12, len(CALL) - len("}\n</tool_call>")))
def test_a_truncated_call_is_never_presented_as_complete(cut: int) -> None:
    got = send_text(CALL[:cut], TOOLS, finish="length", dialect="hermes")
    assert got["finish_reason"] == "length"
    assert "tool_call" not in got["content"]
    for _, arguments in got["tool_calls"]:
        assert not arguments.endswith("}")


def test_strings_of_string_parameters_stream_the_rest_waits() -> None:
    raw = '<tool_call>{"name": "lookup_tide", "arguments": {"harbor": "Brest and more", "days": 12}}</tool_call>'
    seen = ""
    for size in range(len(raw)):
        got = send_text(raw[:size], TOOLS, finish="length", dialect="hermes")
        now = got["tool_calls"][0][1] if got["tool_calls"] else ""
        assert now.startswith(seen)  # what went out is never contradicted
        seen = now
        if raw[:size].endswith("Brest an"):
            assert now == '{"harbor": "Brest an'
        if raw[:size].endswith('"days": 1'):
            assert not now.endswith("1")


def test_held_back_text_is_bounded_and_released() -> None:
    raw = '<tool_call>{"arguments": {"harbor": "' + "x" * 200_000
    got = send_text([raw[i:i + 999] for i in range(0, len(raw), 999)], TOOLS, dialect="hermes")
    assert got["content"] == raw


def test_strict_turns_an_invalid_call_into_an_error_that_says_why() -> None:
    raw = '<tool_call>{"name": "lookup_tide", "arguments": {"days": "many"}}</tool_call>'
    got = send_text(list(raw), TOOLS, dialect="hermes", arguments="strict")
    assert got["finish_reason"] == "error"
    message = got["events"][-1]["error"]["message"]
    assert "lookup_tide" in message
    assert "days" in message
    assert send_text(list(CALL), TOOLS, dialect="hermes", arguments="strict")["finish_reason"] == "tool_calls"


def test_an_assumed_reasoning_that_never_ends_was_the_answer() -> None:
    model = "qwen3-235b-a22b-thinking-2507"
    got = every_cut("Why?\n</think>\n\nBecause.", [], model=model)
    assert (got["reasoning"], got["content"]) == ("Why?", "Because.")
    got = every_cut("The server took the reasoning out.\nThis is the answer.", [], model=model)
    assert got["content"] == "The server took the reasoning out.\nThis is the answer."


def test_what_waits_is_shown_before_a_failure() -> None:
    chunks = [*text_chunks(["one two \n", "and <tool"])[:-1], {"error": {"message": "boom"}}]
    for tools in (TOOLS, []):
        got = client_response(sse_bytes(chunks), tools)
        assert (got["content"], got["finish_reason"]) == ("one two \nand <tool", "error")


def test_nothing_waits_where_no_call_may_follow() -> None:
    """Without tools even white space is sent at once."""
    body = sse_bytes(text_chunks(["one \n"])[:1])[:-len(b"data: [DONE]\n\n")]
    translation = Translation("anthropic", "openai", "m")
    translation.request(request_body([]))
    translation.start(200, {"content-type": "text/event-stream"})
    assert b'"one \\n"' in translation.feed(body)


BARE = '{"name": "lookup_tide", "parameters": {"harbor": "Brest"}}'


@pytest.mark.parametrize("raw", [BARE, f"Let me look.\n{BARE}", f"Let me look.\n\n{BARE}\n"])
def test_a_bare_call_at_the_end_of_an_unknown_models_answer_counts(raw: str) -> None:
    got = every_cut(raw, model="someone/some-model")
    assert [name for name, _ in got["tool_calls"]] == ["lookup_tide"]
    assert got["content"] in ("", "Let me look.")


@pytest.mark.parametrize("raw", [
    f"{BARE} is how it is called.", f"For example:\n{BARE}\nThat is all.", f"inline {BARE}", '{"name": "other", "parameters": {}}',
    "A config:\n{\n  \"name\": \"lookup_tide\",\n  \"version\": 2\n}", "x\n{", "x\n{\"name\": \"lookup_tide\"}", f"```\n{BARE}\n```",
])
def test_bare_json_that_is_no_call_stays_text(raw: str) -> None:
    got = every_cut(raw, model="someone/some-model")
    assert (got["content"], got["tool_calls"]) == (raw, [])


@pytest.mark.parametrize(("dialect", "raw"), [
    ("hermes", '<tool_call>{"name": "lookup_tide", "arguments": {"harbor": "Bre'),
    ("deepseek-v3", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>lookup_tide\n```json\n{"harbor": "Bre'),
    ("deepseek-v3.1", '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>lookup_tide<｜tool▁sep｜>{"harbor": "Bre'),
    ("kimi-k2", '<|tool_calls_section_begin|><|tool_call_begin|>functions.lookup_tide:0<|tool_call_argument_begin|>{"harbor": "Bre'),
    ("mistral", '[TOOL_CALLS]lookup_tide[ARGS]{"harbor": "Bre'),
    ("gpt-oss", '<|channel|>commentary to=functions.lookup_tide<|message|>{"harbor": "Bre'),
    ("llama3-json", '{"name": "lookup_tide", "parameters": {"harbor": "Bre'),
])
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_call_that_stops_inside_a_string_is_not_complete(dialect: str, raw: str, finish: str) -> None:
    for pieces in cuts(raw):
        got = send_text(pieces, TOOLS, finish=finish, dialect=dialect)
        assert got["finish_reason"] == "length"
        assert got["tool_calls"] == [["lookup_tide", '{"harbor": "Bre']]


@pytest.mark.parametrize("tools", [[], TOOLS])
def test_reasoning_at_the_very_start_of_a_native_models_answer(tools: list[dict[str, Any]]) -> None:
    def got(raw: str) -> list[dict[str, Any]]:
        return [send_text(pieces, tools, model="gpt-4o") for pieces in cuts(raw)]

    assert {(a["reasoning"], a["content"]) for a in got("\n<think>a</think>\n\nb </think>")} == {("a", "b </think>")}
    for raw in ("x <think>a</think> <tool_call>", " <thin", " a\n", "</think>b"):
        assert {(a["reasoning"], a["content"]) for a in got(raw)} == {("", raw)}


ONE_LINE = '<tool_call>{"name": "ping", "arguments": {}}</tool_call>'


@pytest.mark.parametrize("text", [
    f"Write `{ONE_LINE}` to call it.", f"``{ONE_LINE}`` or `{ONE_LINE}`.", f"`x` and `{ONE_LINE}`", f"so: ```{ONE_LINE}```",
    f"```\n`\n```\n`{ONE_LINE}`",
])
def test_a_call_quoted_in_a_code_span_stays_text(text: str) -> None:
    assert_stays_text("hermes", text)
    assert_stays_text("qwen3-coder", text.replace(ONE_LINE, "<tool_call><function=ping></function></tool_call>"))
    assert_reads("hermes", f"<think>{text}</think>Done.", reasoning=text, text="Done.")
    assert_reads("hermes", f"{text}\n{ONE_LINE}", ("ping", {}), text=text)


@pytest.mark.parametrize("before", ["`", "a ` b ", "`x`", "``x``", "a\n`", "`x` `", "` "])
def test_a_stray_backtick_swallows_no_call(before: str) -> None:
    assert_reads("hermes", before + ONE_LINE, ("ping", {}), text=before.strip())
    assert_reads("hermes", f"{before}{CALL.replace('lookup_tide', 'tide')}\n`y`", ("tide", {"harbor": "Brest"}),
          text=f"{before.rstrip()}\n`y`")


SHELL = '<tool_call>{"name": "tide", "arguments": {"harbor": "say \\"`x`\\" `y`"}}</tool_call>'
SHELL_CALL = ("tide", {"harbor": 'say "`x`" `y`'})


def test_backticks_in_a_calls_arguments_end_no_span_around_it() -> None:
    assert_reads("hermes", f"`{SHELL}\n`z`", SHELL_CALL, text="`\n`z`")
    assert_stays_text("hermes", f"Write `{SHELL}` to call it.")


def test_a_stray_backtick_ends_at_the_call_behind_it() -> None:
    first = ONE_LINE.replace("{", "\n{", 1)
    assert_reads("hermes", f"`{first}{ONE_LINE} `", ("ping", {}), ("ping", {}), text="` `")


def test_reasoning_that_ends_in_a_code_span_quotes_nothing() -> None:
    assert_reads("hermes", f"<think>run `</think>{ONE_LINE} `", ("ping", {}), reasoning="run `", text="`")
    assert_reads("hermes", f"<think>run `x`</think>{ONE_LINE} `x`", ("ping", {}), reasoning="run `x`", text="`x`")


FENCED_CALL = '```\n<tool_call>{"name": "ping", "arguments": {}}</tool_call>\n```'


def test_a_call_in_a_code_fence_inside_reasoning_stays_reasoning() -> None:
    assert_reads("hermes", f"<think>\nSo:\n{FENCED_CALL}\nNo.\n</think>\n\nDone.", reasoning=f"So:\n{FENCED_CALL}\nNo.",
          text="Done.")


def test_a_closing_tag_ends_reasoning_inside_an_open_code_fence() -> None:
    assert_reads("hermes", "<think>\n```\nx\n</think>\n\nDone.", reasoning="```\nx", text="Done.")


def test_a_call_behind_a_closed_fence_ends_reasoning() -> None:
    assert_reads("hermes", '<think>\n```\nx\n```\n<tool_call>{"name": "ping"}</tool_call>', ("ping", {}),
          reasoning="```\nx\n```")


def test_a_bare_call_may_begin_behind_a_stray_closing_tag() -> None:
    assert_reads("xlam", 'so</think>\n[{"name": "ping", "arguments": {}}]', ("ping", {}), text="so")


def test_a_native_model_behind_a_clouds_prefix() -> None:
    assert every_cut(CALL, model="us.anthropic.claude-sonnet-4-v1:0")["content"] == CALL


def test_the_end_of_the_body_after_a_whole_call_is_an_end_inside_one_it_is_not() -> None:
    def ended(raw: str) -> str:
        body = sse_bytes(text_chunks([raw])[:1])[:-len(b"data: [DONE]\n\n")]
        reason: str = client_response(body, TOOLS, dialect="hermes")["finish_reason"]
        return reason

    assert ended(CALL) == "tool_calls"
    assert ended(f"{CALL}\n") == "tool_calls"
    for raw in (CALL[:-20], f"{CALL}\nAnd", f"{CALL}\n<tool_call>", "Half a"):
        assert ended(raw) == "error"


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
@pytest.mark.parametrize("before", ["So", None])
def test_text_in_one_chunk_with_a_failure_does_not_follow_it(field: str, before: str | None) -> None:
    """Else the response would not be reported as a failure."""
    failing = {"choices": [{"index": 0, "delta": {}, "finish_reason": "error"}, {"index": 0, "delta": {field: "more"}}]}
    translation = Translation("anthropic", "openai", "m")
    translation.request(request_body(TOOLS))
    translation.start(200, {"content-type": "text/event-stream"})
    translation.feed(sse_bytes(text_chunks([before or ""], field=field)[:1]).removesuffix(b"data: [DONE]\n\n"))
    out = translation.feed(b"data: " + json.dumps(failing).encode() + b"\n\n")
    assert (translation.done, b"event: error" in out, b"more" in out) == (True, True, False)


def test_text_released_by_a_failure_does_not_fail_in_its_place() -> None:
    """The beginning of a mark waits, and after an unfinished native call it is one character too many."""
    translation = Translation("anthropic", "openai", "m", read_dialects=("hermes",), limits=Limits(held_back=50))
    translation.request(request_body(TOOLS))
    translation.start(200, {"content-type": "text/event-stream"})
    begun = delta(tool_calls=[{"index": 0, "id": "call_1", "function": {"name": "ping", "arguments": '{"a":'}}])
    translation.feed(sse_bytes([begun, *text_chunks(["y" * 50 + "<tool"])[:1]]).removesuffix(b"data: [DONE]\n\n"))
    out = translation.feed(b'data: {"error":{"message":"come back later"}}\n\n')
    assert translation.failure is not None
    assert (translation.failure.message, out.count(b"come back later")) == ("come back later", 1)


@pytest.mark.parametrize("text", [" So.", "\nSo."])
def test_the_blank_before_the_first_text_is_framing_behind_a_native_call(text: str) -> None:
    called = delta(tool_calls=[{"index": 0, "id": "call_1", "function": {"name": "ping", "arguments": "{}"}}])
    assert client_response(sse_bytes([called, *text_chunks([text])]), TOOLS, model="gpt-5")["content"] == "So."
    assert send_text(text, TOOLS, model="gpt-5")["content"] == text
