"""GLM-4.5 to 5: one call per block, with and without newlines, values verbatim."""

from __future__ import annotations

import pytest

from tests.model_text.checks import TOOLS, assert_stays_text, read_calls, read_text
from tests.model_text.exchange import send_text

GLM = "glm-4.7"


def call(name: str, newline: str = "\n", **arguments: str) -> str:
    pairs = "".join(f"<arg_key>{key}</arg_key>{newline}<arg_value>{text}</arg_value>{newline}"
                    for key, text in arguments.items())
    return f"<tool_call>{name}{newline if pairs else ''}{pairs}</tool_call>"


KIEL = call("lookup", harbor="Kiel")
KIEL_CALL = ("lookup", {"harbor": "Kiel"})


@pytest.mark.parametrize("dialect", ["glm-4.5", "glm-4.6", "glm-4.7"])
@pytest.mark.parametrize("newline", ["\n", "", "\r\n", " "])
def test_newlines_between_tags_are_optional(dialect: str, newline: str) -> None:
    assert read_calls(dialect, call("lookup", newline, harbor="Kiel", day="Mon")) == \
        [("lookup", {"harbor": "Kiel", "day": "Mon"})]


@pytest.mark.parametrize("text", ["ping", "ping\n", "\nping\n"])
def test_no_arguments(text: str) -> None:
    assert read_calls(GLM, f"<tool_call>{text}</tool_call>") == [("ping", {})]


def test_types_come_from_the_schema() -> None:
    raw = call("set_valve", valve_id="3", opening="0.5", locked="true", tags='["a"]', limits="{'min': 1}",
               operator="null")
    assert read_calls(GLM, raw) == [("set_valve", {"valve_id": 3, "opening": 0.5, "locked": True, "tags": ["a"],
                                              "limits": {"min": 1}, "operator": None})]


@pytest.mark.parametrize("text", [
    "", " a ", "\na\n", "null", "7", '<b> & "q" {e}', "größe \U0001f600", "a\r\nb",
    "a </arg_value> mentioned", "an <arg_key>x</arg_key> mentioned", "<tool_call> mentioned",
    "a </tool_call> mentioned", KIEL, f"x\n{KIEL}\n{KIEL} y", call("unknown", a="1") + " end",
])
def test_values_are_verbatim_and_markup_in_them_is_text(text: str) -> None:
    saved = ("save_file", {"path": "a", "content": text})
    assert read_calls(GLM, call("save_file", path="a", content=text)) == [saved]
    assert read_calls(GLM, call("save_file", "", path="a", content=text) + KIEL) == [saved, KIEL_CALL]


def test_names_with_dots_and_hyphens() -> None:
    assert read_calls(GLM, call("mcp__atlas__find-docs.v2", "", q="x", top="4")) == \
        [("mcp__atlas__find-docs.v2", {"q": "x", "top": 4})]


def test_text_around_blocks_is_kept() -> None:
    content, found, finish = read_text(GLM, f"First.\n{KIEL}\nSecond.\n{KIEL}\nDone.")
    assert (content.split(), found, finish) == (["First.", "Second.", "Done."], [KIEL_CALL] * 2, "tool_calls")


@pytest.mark.parametrize("raw", [
    KIEL.removesuffix("</tool_call>"),
    KIEL.replace("</arg_value>", ""),
    KIEL.replace("</arg_key>", ""),
])
def test_missing_tags(raw: str) -> None:
    assert read_calls(GLM, raw)[0][1]["harbor"].strip() == "Kiel"
    [first, second] = read_calls(GLM, raw + "\n" + KIEL)
    assert (first[1]["harbor"].strip(), second) == ("Kiel", KIEL_CALL)


def test_a_value_that_nothing_closes() -> None:
    """Before a further call it is complete; at the end of the text that is unknown."""
    raw = KIEL.removesuffix("</arg_value>\n</tool_call>")
    assert read_text(GLM, raw, finish="tool_calls") == ("", [("lookup", ("unfinished", '{"harbor": "Kiel'))], "length")
    [one, other] = read_calls(GLM, raw + "\n" + KIEL)
    assert (one[1]["harbor"].strip(), other) == ("Kiel", KIEL_CALL)


@pytest.mark.parametrize("raw", ["<tool_call>lookup\n<arg_key>harbor</arg_key>\n</tool_call>",
                                 "<tool_call>lookup<arg_key>harbor</arg_key></tool_call>"])
def test_a_key_without_a_value_is_left_out(raw: str) -> None:
    assert read_calls(GLM, raw) == [("lookup", {})]


@pytest.mark.parametrize("raw", [
    call("unknown", a="1"), "<tool_call>unknown</tool_call>", "A <tool_call> in prose.", "<tool_call>ping is a tool",
    "it ends in <tool_c", f"```\n{KIEL}\n```", "<arg_key>a</arg_key><arg_value>b</arg_value>",
])
def test_what_is_no_call_stays_text(raw: str) -> None:
    assert_stays_text(GLM, raw)


def test_a_call_ends_reasoning() -> None:
    got = send_text(list(f"<think>plan\n{KIEL}<|observation|>"), TOOLS, dialect=GLM)
    assert (got["reasoning"], got["content"], len(got["tool_calls"])) == ("plan", "", 1)


def test_a_call_that_a_limit_cut_off_is_never_whole() -> None:
    for size in range(len("<tool_call>lookup"), len(KIEL) - 1):
        _, found, finish = read_text(GLM, KIEL[:size], finish="length")
        assert finish == "length"
        assert all(arguments == {} or '{"harbor": "Kiel"'.startswith(arguments[1]) for _, arguments in found)


def test_an_unknown_model_may_write_it() -> None:
    assert read_calls(None, KIEL, model="nobody-knows-1") == [KIEL_CALL]
