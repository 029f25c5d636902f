"""DeepSeek's markup language, V3.2 to V4.1; every text at every cut, streamed and whole."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model_text.checks import BREST, PING, TIDE_TOOLS, read_with_reasoning
from tests.model_text.exchange import client_response, send_every_cut, sse_bytes, text_chunks, tool

V32, V4, V41 = "deepseek-v3.2", "deepseek-v4", "deepseek-v4.1"
NULLABLE = tool("set_note", body="string", count="integer")
NULLABLE["function"]["parameters"]["properties"]["label"] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
ALL = [*TIDE_TOOLS, NULLABLE]


def parameter(key: str, value: str, string: str | None = "true", blank: str = "") -> str:
    attribute = f' string="{string}"' if string else ""
    return f'<｜DSML｜{blank}parameter name="{key}"{attribute}>{value}</｜DSML｜{blank}parameter>\n'


def invoke(name: str, *parameters: str, blank: str = "") -> str:
    return f'<｜DSML｜{blank}invoke name="{name}">\n{"".join(parameters)}</｜DSML｜{blank}invoke>\n'


def block(*invokes: str, wrapper: str = "function_calls", blank: str = "") -> str:
    return f"<｜DSML｜{blank}{wrapper}>\n{''.join(invokes)}</｜DSML｜{blank}{wrapper}>"


TIDE, PINGED = invoke("lookup_tide", parameter("harbor", "Brest")), invoke("ping")


def calls_of(raw: str, dialect: str = V32) -> list[tuple[str, Any]]:
    content, _, calls, finish = read_with_reasoning(dialect, raw, tools=ALL)
    assert content == ""
    assert finish == ("tool_calls" if calls else "stop")
    return calls


# ---------------------------------------------------------------------------------------------------- rule 4.3: grammar


def test_several_invokes_and_the_text_around() -> None:
    raw = "Let me see.\n\n" + block(TIDE, PINGED) + "\n\nDone.<｜end▁of▁sentence｜>"
    assert read_with_reasoning(V32, raw) == ("Let me see.\n\nDone.", "", [BREST, PING], "tool_calls")


@pytest.mark.parametrize("raw", [TIDE, TIDE.strip(), block(TIDE).replace("\n", ""), block(TIDE).replace("\n", "\r\n"),
                                 block(TIDE).replace("｜", "|")])
def test_framing(raw: str) -> None:
    assert calls_of(raw) == [BREST]


@pytest.mark.parametrize("raw", [
    block(TIDE).removesuffix("</｜DSML｜function_calls>"),
    block(TIDE).partition("</｜DSML｜invoke>")[0], block(TIDE).replace("</｜DSML｜parameter>", ""),
    block(TIDE).replace("</｜DSML｜invoke>", ""), block(TIDE).replace('"lookup_tide">', '"lookup_tide"'),
    "<｜DSML｜function_calls>\nNow:\n" + TIDE])
def test_missing_pieces(raw: str) -> None:
    assert calls_of(raw) == [BREST]


def test_a_call_begins_before_the_last_one_ended() -> None:
    assert calls_of(block(TIDE.replace("</｜DSML｜invoke>\n", ""), PINGED)) == [BREST, PING]
    open_value = TIDE.replace("</｜DSML｜parameter>", "").replace("</｜DSML｜invoke>\n", "")
    assert calls_of(block(open_value.rstrip() + "\n" + invoke("x")))[0][0] == "lookup_tide"


def test_a_missing_end_of_a_value_before_the_next_parameter() -> None:
    raw = block(invoke("lookup_tide", parameter("harbor", "Brest"), parameter("day", "mo")))
    assert calls_of(raw.replace("</｜DSML｜parameter>", "", 1)) == [("lookup_tide", {"harbor": "Brest", "day": "mo"})]


@pytest.mark.parametrize("raw", [
    block('<｜DSML｜invoke name="lookup_tide">\n{"harbor": "Brest"}\n</｜DSML｜invoke>\n'),
    block(invoke("lookup_tide", parameter("arguments", '{"harbor": "Brest"}', "false"))),
    block(invoke("lookup_tide", parameter("input", '{"harbor": "Brest"}', "true")))])
def test_arguments_as_one_object(raw: str) -> None:
    assert calls_of(raw) == [BREST]


def test_a_wrapper_is_only_opened_when_its_members_are_declared() -> None:
    assert calls_of(block(invoke("lookup_tide", parameter("input", '{"harbor": "B", "zz": 1}', "false")))) == [
        ("lookup_tide", {"input": {"harbor": "B", "zz": 1}})]
    assert calls_of(block(invoke("lookup_tide", parameter("input", '{"day": "x"}', "false"),
                                 parameter("harbor", "B")))) == [
        ("lookup_tide", {"input": {"day": "x"}, "harbor": "B"})]
    own = tool("wrap", input="object")
    assert read_with_reasoning(V32, block(invoke("wrap", parameter("input", "{}", "false"))), tools=[own])[2] == [
        ("wrap", {"input": {}})]


# ------------------------------------------------------------------------------------------- rule 4.3 and 0.4: the types


@pytest.mark.parametrize(("key", "text", "string", "value"), [
    ("body", "text", "true", "text"), ("body", " kept \n", "true", " kept \n"), ("body", "", "true", ""),
    ("body", "null", "true", "null"), ("body", "42", "true", "42"), ("body", "42", "false", "42"),
    ("body", '"quoted"', "false", "quoted"), ("body", "plain", "false", "plain"), ("body", "plain", None, "plain"),
    ("body", '<b>&amp; "x" \\n é😀</b>', "true", '<b>&amp; "x" \\n é😀</b>'),
    ("count", "7", "true", 7), ("count", "7", "false", 7), ("count", "7", None, 7), ("count", "abc", "false", "abc"),
    ("label", "42", "true", "42"), ("label", "null", "false", None), ("label", "42", "false", "42"),
    ("undeclared", "42", "false", 42), ("undeclared", "42", "true", "42"), ("undeclared", "x", "false", "x")])
def test_values(key: str, text: str, string: str | None, value: object) -> None:
    assert calls_of(block(invoke("set_note", parameter(key, text, string)))) == [("set_note", {key: value})]


def test_a_repeated_parameter_counts_last() -> None:
    raw = block(invoke("lookup_tide", parameter("harbor", "a"), parameter("harbor", "b")))
    assert calls_of(raw) == [("lookup_tide", {"harbor": "b"})]


# ------------------------------------------------------------------------------------------- rule 2.5: markup in values


@pytest.mark.parametrize("content", [
    block(TIDE, PINGED), TIDE, "x </｜DSML｜parameter> y", "a\n</｜DSML｜parameter>", parameter("zz", "q"),
    "</｜DSML｜invoke> y", "x </｜DSML｜invoke>", "x </｜DSML｜function_calls> y", "</｜DSML｜invoke></｜DSML｜invoke> y",
    '{"end": "</｜DSML｜invoke>"}', "<｜DSML｜ and </｜DSML｜", "<｜DSML｜parameter", "```\n" + block(PINGED) + "\n```", "a < b > c </p>"])
def test_markup_in_a_value_is_data(content: str) -> None:
    raw = block(invoke("save_file", parameter("path", "a"), parameter("content", content)), PINGED)
    assert calls_of(raw) == [("save_file", {"path": "a", "content": content}), PING]


@pytest.mark.parametrize("mark", ["<｜DSML｜", "</｜DSML｜", "</｜DSML｜invoke> <｜DSML｜"])
def test_a_mark_that_no_tag_follows_for_long_loses_nothing(mark: str) -> None:
    content = f"a {mark}{'x' * 1100} {mark}{'y' * 1100} b"
    raw = block(invoke("save_file", parameter("path", "a"), parameter("content", content)), PINGED)
    assert calls_of(raw) == [("save_file", {"path": "a", "content": content}), PING]


# ------------------------------------------------------------------------------------------------- rule 4.4: V4 and V4.1


@pytest.mark.parametrize("wrapper", ["tool_calls", "toolcalls", "tool", "function_calls"])
def test_names_of_the_wrapper(wrapper: str) -> None:
    assert calls_of(block(TIDE, wrapper=wrapper), V4) == [BREST]


def test_a_call_that_closes_itself() -> None:
    for tag in ('<｜DSML｜invoke name="ping"/>', '<｜DSML｜invoke name="ping" />'):
        assert calls_of(block(tag + "\n", TIDE, wrapper="tool_calls"), V4) == [PING, BREST]
        assert read_with_reasoning(V4, tag + " Bye.") == ("Bye.", "", [PING], "tool_calls")


def test_spaces_before_tag_names() -> None:
    tide = invoke("lookup_tide", parameter("harbor", "Brest", blank=" "), blank=" ")
    assert calls_of(block(tide, wrapper="calls", blank=" "), V41) == [BREST]
    assert read_with_reasoning(V41, "Hi. " + tide) == ("Hi.", "", [BREST], "tool_calls")


# ------------------------------------------------------------------------------------------------------- text, reasoning


@pytest.mark.parametrize("raw", [
    "The <｜DSML｜function_calls> tag opens.", "unfinished <｜DSML｜", "x <｜DS", f"```\n{block(TIDE)}\n```\nSo.",
    block(invoke("format_disk", parameter("a", "1", "false")))])
def test_what_stays_text(raw: str) -> None:
    assert read_with_reasoning(V32, raw) == (raw, "", [], "stop")


def test_a_tool_that_is_not_offered_is_skipped_beside_one_that_is() -> None:
    assert calls_of(block(invoke("format_disk", parameter("a", "1")), PINGED)) == [PING]


def test_empty_blocks_and_stray_tags_are_never_shown() -> None:
    assert read_with_reasoning(V32, "Hi." + block() + "</｜DSML｜invoke>") == ("Hi.", "", [], "stop")
    assert read_with_reasoning(V32, block(PINGED) + "</｜DSML｜tool_calls>") == ("", "", [PING], "tool_calls")


@pytest.mark.parametrize("raw", ["<think>Hm.</think>\n\n" + block(PINGED), "<think>Hm.\n\n" + block(PINGED)])
def test_a_block_ends_the_reasoning(raw: str) -> None:
    assert read_with_reasoning(V32, raw) == ("", "Hm.", [PING], "tool_calls")
    assert read_with_reasoning(V4, raw.removeprefix("<think>"), reasoning_open=True) == ("", "Hm.", [PING], "tool_calls")


# --------------------------------------------------------------------------------------------------- rules 0.5 and 0.6


def test_a_truncated_call_is_never_whole() -> None:
    raw = block(invoke("save_file", parameter("path", "a"), parameter("content", "bc")))
    prefix = '{"path": "a", "content": "bc'
    for size in range(len("<｜DSML｜"), raw.index("</｜DSML｜invoke>")):
        got = send_every_cut(raw[:size], TIDE_TOOLS, finish="length", dialect=V32)
        assert (got["content"].strip(), got["finish_reason"]) == ("", "length")
        for name, arguments in got["tool_calls"]:
            assert name == "save_file"
            assert (prefix + '"').startswith(arguments.partition("<")[0])


def test_what_is_certain_goes_out_at_once() -> None:
    started = '<｜DSML｜invoke name="save_file">\n<｜DSML｜parameter name="{}" string="{}">{}'
    for key, string, text, shown in [("content", "true", "one two", '{"content": "one two'),
                                     ("content", "false", "one two", '{"content": "one two'),
                                     ("content", "false", '"one two', None), ("other", "false", "12", None)]:
        body = sse_bytes(text_chunks(list(started.format(key, string, text)), "length"))
        calls = client_response(body, TIDE_TOOLS, dialect=V32)["tool_calls"]
        assert calls == ([["save_file", shown]] if shown else [])


@pytest.mark.parametrize("model", ["deepseek/deepseek-v3.2", "deepseek-v4", "unheard-of-model"])
def test_the_model_or_the_marks_tell_the_dialect(model: str) -> None:
    body = sse_bytes(text_chunks(list("Hi.\n\n" + block(TIDE))))
    got = client_response(body, TIDE_TOOLS, model=model)
    assert (got["content"], got["tool_calls"]) == ("Hi.", [["lookup_tide", '{"harbor": "Brest"}']])
