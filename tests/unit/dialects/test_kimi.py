"""Kimi: K2's section tokens and damaged ids, K3's elements; every text at every cut, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.model_text.checks import BREST, PING, TIDE_TOOLS, read_with_reasoning
from tests.model_text.exchange import client_response, cuts, send_every_cut, send_text, sse_bytes, text_chunks, tool

BEGIN, END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
ARGUMENTS = "<|tool_call_argument_begin|>"
K2, K3 = "kimi-k2", "kimi-k3"


def call(id: str, arguments: str, *, separator: str = ARGUMENTS, end: str = "<|tool_call_end|>") -> str:
    return f"<|tool_call_begin|>{id}{separator}{arguments}{end}"


def section(*calls: str) -> str:
    return BEGIN + "".join(calls) + END


TIDE_CALL = call("functions.lookup_tide:0", '{"harbor": "Brest"}')
PING_CALL = call("functions.ping:1", "{}")


def calls_of(raw: str, dialect: str = K2, **settings: Any) -> list[tuple[str, Any]]:
    content, _, calls, finish = read_with_reasoning(dialect, raw, **settings)
    assert content == ""
    assert finish == ("tool_calls" if calls else "stop")
    return calls


# -------------------------------------------------------------------------------------------------- rule 3.1: the bytes


def test_several_calls_in_one_section_and_text_around() -> None:
    raw = "Before. " + section(TIDE_CALL, PING_CALL) + " All done.<|im_end|>"
    assert read_with_reasoning(K2, raw) == ("Before. All done.", "", [BREST, PING], "tool_calls")


def test_the_singular_spelling_is_read() -> None:
    assert calls_of("<|tool_call_section_begin|>" + TIDE_CALL + "<|tool_call_section_end|>") == [BREST]


@pytest.mark.parametrize("separator", [ARGUMENTS, "<|tool_arguments_begin|>", f"\n{ARGUMENTS}\n", ""])
def test_spellings_of_the_argument_token(separator: str) -> None:
    assert calls_of(section(call("functions.lookup_tide:0", '{"harbor": "Brest"}', separator=separator))) == [BREST]


def test_white_space_around_every_token() -> None:
    spaced = TIDE_CALL.replace("<|", "\n <|").replace("|>", "|>\r\n")
    assert calls_of(f"{BEGIN}{spaced}\n{END}\n") == [BREST]


def test_a_call_without_a_section_and_text_between_two() -> None:
    assert read_with_reasoning(K2, TIDE_CALL + "then " + PING_CALL) == ("then", "", [BREST, PING], "tool_calls")


@pytest.mark.parametrize("raw", [BEGIN + TIDE_CALL, BEGIN + TIDE_CALL.removesuffix("<|tool_call_end|>"),
                                 BEGIN + TIDE_CALL.removesuffix("<|tool_call_end|>") + END])
def test_missing_end_tokens(raw: str) -> None:
    assert calls_of(raw) == [BREST]


def test_text_after_a_section_that_was_not_ended() -> None:
    assert read_with_reasoning(K2, BEGIN + TIDE_CALL + "Now wait.") == ("Now wait.", "", [BREST], "tool_calls")


# ------------------------------------------------------------------------------------------------------ rule 3.2: ids


def test_dots_and_hyphens_belong_to_the_name() -> None:
    dotted = tool("a.b", x="string")
    raw = section(call("functions.a.b:7", "{}"), call("functions.mcp__atlas__find-docs:8", '{"q": "eel"}'))
    assert calls_of(raw, tools=[*TIDE_TOOLS, dotted]) == [("a.b", {}), ("mcp__atlas__find-docs", {"q": "eel"})]


@pytest.mark.parametrize("id", ["lookup_tide:0", "lookup_tide", "functions.lookup_tide", "functions.lookup_tide:"])
def test_names_in_damaged_ids(id: str) -> None:
    assert calls_of(section(call(id, '{"harbor": "Brest"}'))) == [BREST]


@pytest.mark.parametrize("id", ["0", "functions.:3", "call_0f3a", "toolu_01x"])
def test_a_name_is_inferred_from_the_arguments(id: str) -> None:
    assert calls_of(section(call(id, '{"harbor": "Brest"}'))) == [BREST]


def test_a_bare_counter_means_the_only_tool() -> None:
    assert calls_of(section(call("0", '{"port": "Brest"}')), tools=TIDE_TOOLS[:1]) == [("lookup_tide", {"port": "Brest"})]


def test_the_best_match_wins_and_a_tie_is_skipped() -> None:
    assert calls_of(section(call("0", '{"harbor": "B", "day": "x", "path": "p"}'))) == [
        ("lookup_tide", {"harbor": "B", "day": "x", "path": "p"})]
    assert calls_of(section(call("0", '{"harbor": "B", "path": "p"}'), PING_CALL)) == [PING]


@pytest.mark.parametrize(("id", "arguments"), [("weird@id", '{"zzz": 1}'), ("functions.lookup_tide.0", '{"harbor": "B"}'),
                                           ("0", '{"harbor": B'), ("0", '{"zzz": 1}')])
def test_an_id_that_fits_nothing_is_skipped(id: str, arguments: str) -> None:
    assert calls_of(section(call(id, arguments), PING_CALL)) == [PING]
    assert calls_of(section(call(id, arguments)) + section(PING_CALL)) == [PING]


def test_a_tool_that_is_not_offered_stays_text() -> None:
    raw = section(call("functions.format_disk:0", '{"now": true}'))
    assert read_with_reasoning(K2, raw + " ok") == (raw + " ok", "", [], "stop")
    assert calls_of(section(call("functions.format_disk:0", "{}"), PING_CALL)) == [PING]


# -------------------------------------------------------------------------------------------------- rule 3.4: reasoning


@pytest.mark.parametrize("raw", ["<think>Hm.</think>" + section(PING_CALL), "<think>Hm. " + section(PING_CALL)])
def test_the_section_ends_the_reasoning(raw: str) -> None:
    assert read_with_reasoning(K2, raw) == ("", "Hm.", [PING], "tool_calls")


def test_a_section_in_the_reasoning_field() -> None:
    body = sse_bytes(text_chunks(list("Hm." + section(TIDE_CALL)), field="reasoning_content"))
    got = client_response(body, TIDE_TOOLS, model="moonshotai/kimi-k2-thinking")
    assert (got["reasoning"], got["content"], got["finish_reason"]) == ("Hm.", "", "tool_calls")
    assert got["tool_calls"] == [["lookup_tide", '{"harbor": "Brest"}']]


# --------------------------------------------------------------------------------------------- rule 3.5: damage, strays


@pytest.mark.parametrize(("arguments", "expected"), [
    ("", {}), ("null", {}), ("{}", {}), ("{\n}", {}),
    ("{'harbor': 'Brest',}", {"harbor": "Brest"}), ('{"harbor": "Brest"', {"harbor": "Brest"}),
    ('{"harbor": "Brest', {"harbor": "Brest"}), ('{"harbor": "Brest"}}', {"harbor": "Brest"}),
    ('"{\\"harbor\\": \\"Brest\\"}"', {"harbor": "Brest"}), ('{"harbor": "a\nb"}', {"harbor": "a\nb"}),
    ('{"harbor": "say "hi" now"}', {"harbor": 'say "hi" now'})])
def test_damaged_arguments(arguments: str, expected: dict[str, Any]) -> None:
    raw = section(call("functions.lookup_tide:0", arguments), PING_CALL) + "Bye."
    assert read_with_reasoning(K2, raw) == ("Bye.", "", [("lookup_tide", expected), PING], "tool_calls")


@pytest.mark.parametrize(("arguments", "expected"), [
    ('{"valve_id": "7", "locked": "true", "tags": "[1]"}', {"valve_id": 7, "locked": True, "tags": [1]}),
    ('{"valve_id": 7', {"valve_id": 7}), ('{"limits": {"min": 1', {"limits": {"min": 1}})])
def test_values_follow_the_schema(arguments: str, expected: dict[str, Any]) -> None:
    assert calls_of(section(call("functions.set_valve:0", arguments))) == [("set_valve", expected)]


@pytest.mark.parametrize("content", ["x <|tool_call_end|> y", section(PING_CALL), "<|tool_call_end|>" + END,
                                     "<|not_a_token|>\n# ünï 😀 \\n", "\\\\\"quoted\"", "{\"a\": [1, {}]}"])
def test_tokens_in_strings_are_data(content: str) -> None:
    arguments = json.dumps({"path": "a", "content": content}, ensure_ascii=False)
    assert calls_of(section(call("functions.save_file:0", arguments), PING_CALL)) == [
        ("save_file", {"path": "a", "content": content}), PING]


def test_a_header_that_another_call_follows_is_dropped() -> None:
    assert calls_of(section("<|tool_call_begin|>functions.ping:0", TIDE_CALL)) == [BREST]


def test_noise_between_the_section_and_its_first_call() -> None:
    assert calls_of(BEGIN + "\n I will call:\n" + PING_CALL + END) == [PING]


@pytest.mark.parametrize(("raw", "shown"), [("plain" + END, "plain"), ("a<|tool_call_end|> b" + ARGUMENTS, "a b"),
                                        ("Say <|tool_call_begin|> and" + ARGUMENTS + " here.",
                                         "Say <|tool_call_begin|> and here."),
                                        ("Hi." + section(), "Hi."), ("Hi.<|im_end|>", "Hi.")])
def test_stray_tokens_are_never_shown(raw: str, shown: str) -> None:
    assert read_with_reasoning(K2, raw) == (shown, "", [], "stop")


@pytest.mark.parametrize("raw", [
    f"The token {BEGIN} begins a section and {END} ends it.", f"`{BEGIN}` is a token.",
    "Use <|tool_call_begin|> and <|tool_call_end|> here.", f"```\n{section(PING_CALL)}\n```\nThat is how.",
    "x <|tool_calls_sec", "a <|b|> c"])
def test_prose_and_fences_stay_text(raw: str) -> None:
    assert read_with_reasoning(K2, raw) == (raw, "", [], "stop")


def test_without_tools_nothing_is_looked_for() -> None:
    raw = "How it looks: " + section(PING_CALL)
    assert read_with_reasoning(K2, raw, tools=[]) == (raw, "", [], "stop")


def test_a_truncated_call_is_never_whole() -> None:
    raw = "Hi." + section(call("functions.save_file:0", '{"path": "a", "content": "bc"}'))
    prefix = '{"path": "a", "content": "bc"'
    for size in range(3, raw.index("<|tool_call_end|>") + 1):
        got = send_every_cut(raw[:size], TIDE_TOOLS, finish="length", dialect=K2)
        assert got["finish_reason"] == "length"
        assert got["content"].strip() == "Hi." or size < len("Hi." + BEGIN)
        for name, arguments in got["tool_calls"]:
            assert (name, prefix.startswith(arguments)) == ("save_file", True)


def test_arguments_as_they_are() -> None:
    raw = section(call("functions.lookup_tide:0", '{"harbor":  "Brest"}'), PING_CALL)
    body = sse_bytes(text_chunks(list(raw)))
    assert client_response(body, TIDE_TOOLS, dialect=K2, arguments="as-is")["tool_calls"] == [
        ["lookup_tide", '{"harbor":  "Brest"}'], ["ping", "{}"]]


def test_a_string_streams_while_it_arrives() -> None:
    raw = BEGIN + call("functions.save_file:0", '{"path": "a", "content": "one two', end="")
    got = send_text(list(raw), TIDE_TOOLS, finish="length", dialect=K2)
    assert got["tool_calls"] == [["save_file", '{"path": "a", "content": "one two']]


# ---------------------------------------------------------------------------------------------------- rule 3.6: Kimi K3


def argument(key: str, value: str, kind: str | None = "string") -> str:
    attribute = f' type="{kind}"' if kind else ""
    return f'<|open|>argument key="{key}"{attribute}<|sep|>{value}<|close|>argument<|sep|>'


def element(name: str, *arguments: str) -> str:
    return f'<|open|>call tool="{name}" index="1"<|sep|>{"".join(arguments)}<|close|>call<|sep|>'


def tools_element(*calls: str) -> str:
    return f"<|open|>tools<|sep|>{''.join(calls)}<|close|>tools<|sep|>"


def spaced(text: str) -> str:
    for token in ("<|open|>", "<|close|>", "<|sep|>"):
        text = text.replace(token, f" {token} ")
    return text.replace("  ", " ").strip()


RESPONSE = "<|open|>response<|sep|>Well.<|close|>response<|sep|>"
VALVE = element("set_valve", argument("valve_id", "7", "number"), argument("tags", '["a"]', "array"),
                argument("locked", "true", None))
SAVE = element("save_file", argument("path", "a.txt"), argument("content", 'x "y" &amp; <|close|> z\n'))


@pytest.mark.parametrize("write", [str, spaced])
def test_k3_text_and_calls(write: Any) -> None:
    content, _, calls, finish = read_with_reasoning(K3, write(RESPONSE + tools_element(SAVE, VALVE)))
    assert (content, finish) == ("Well.", "tool_calls")
    assert calls == [("save_file", {"path": "a.txt", "content": 'x "y" &amp; <|close|> z\n'}),
                     ("set_valve", {"valve_id": 7, "tags": ["a"], "locked": True})]


@pytest.mark.parametrize("raw", [
    "Well.<|close|>response<|sep|>" + tools_element(element("ping")), "Well." + element("ping"),
    "Well.<|open|>tools<|sep|>" + element("ping"), "Well." + tools_element(element("ping")).replace("<|close|>call", "")])
def test_k3_what_may_be_missing(raw: str) -> None:
    assert read_with_reasoning(K3, raw) == ("Well.", "", [PING], "tool_calls")


def test_k3_a_missing_end_of_an_argument() -> None:
    half = argument("harbor", "Brest").removesuffix("<|close|>argument<|sep|>")
    assert calls_of(tools_element(element("lookup_tide", half)), K3) == [BREST]
    assert calls_of(tools_element(element("lookup_tide", half, argument("day", "mo"))), K3) == [
        ("lookup_tide", {"harbor": "Brest", "day": "mo"})]


def test_k3_attributes_are_unescaped_and_values_are_not() -> None:
    odd = tool('say "a&b"', text="string")
    raw = tools_element(element("say &quot;a&amp;b&quot;", argument("text", "&quot;")))
    assert calls_of(raw, K3, tools=[odd]) == [('say "a&b"', {"text": "&quot;"})]


def test_k3_markup_in_a_value_is_data() -> None:
    sample = RESPONSE + tools_element(SAVE, VALVE)
    raw = tools_element(element("save_file", argument("path", "a"), argument("content", sample)))
    assert calls_of(raw, K3) == [("save_file", {"path": "a", "content": sample})]


@pytest.mark.parametrize(("raw", "shown"), [
    (RESPONSE, "Well."), ("The <|open|> token.", "The <|open|> token."),
    (f"```\n{RESPONSE}{tools_element(VALVE)}\n```", None), (tools_element(element("format_disk")), None)])
def test_k3_text(raw: str, shown: str | None) -> None:
    assert read_with_reasoning(K3, raw) == (raw if shown is None else shown, "", [], "stop")


def test_k3_framing_goes_without_tools_as_well() -> None:
    assert read_with_reasoning(K3, spaced(RESPONSE), tools=[]) == ("Well.", "", [], "stop")


def test_k3_calls_end_the_reasoning() -> None:
    assert read_with_reasoning(K3, "<think>Hm. " + tools_element(element("ping"))) == ("", "Hm.", [PING], "tool_calls")


def test_k3_may_think_behind_its_response() -> None:
    raw = ("<|open|>response<|sep|>a<|close|>response<|sep|><|open|>think<|sep|>hm<|close|>think<|sep|><|open|>tools<|sep|>"
           '<|open|>call tool="ping" index="1"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>')
    for pieces in cuts(raw):
        got = send_text(pieces, TIDE_TOOLS, dialect="kimi-k3")
        assert (got["content"], got["reasoning"], got["tool_calls"]) == ("a", "hm", [["ping", "{}"]])
