"""The project's own form, as models write it and as they damage it: every cut, streamed and whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.model_text.exchange import send_every_cut, send_text, tool

TOOLS = [
    tool("save", path="string", text="string", tries="integer", tags="array", any={"type": ["string", "integer"]}),
    tool("ping")]


def call(*parameters: str, name: str = "save") -> str:
    return f'<tool_call name="{name}">\n' + "".join(f"{p}\n" for p in parameters) + "</tool_call>"


def par(key: str, value: str, more: str = "") -> str:
    return f'<parameter name="{key}"{more}>{value}</parameter>'


def read(raw: str, finish: str = "stop") -> dict[str, Any]:
    """The client's response, the same for every cut."""
    return send_every_cut(raw, TOOLS, finish=finish, dialect="prompted")


def calls(raw: str) -> list[tuple[str, Any]]:
    got = read(raw)
    assert got["finish_reason"] == "tool_calls"
    assert "<" not in got["content"]
    return [(name, json.loads(text)) for name, text in got["tool_calls"]]


SAVED = ("save", {"path": "a.txt", "tries": 3})
PATH, TRIES = par("path", "a.txt"), par("tries", "3")


@pytest.mark.parametrize(("raw", "expected"), [
    pytest.param(call(PATH, TRIES), [SAVED], id="the form itself"),
    pytest.param(call(PATH, TRIES) + "\n" + call(PATH, TRIES), [SAVED, SAVED], id="two calls"),
    pytest.param(call(name="ping"), [("ping", {})], id="no parameters"),
    pytest.param('<tool_call name="ping"/>', [("ping", {})], id="a call that closes itself"),
    pytest.param(call('<parameter name="path"/>'), [("save", {"path": ""})], id="an empty parameter"),
    pytest.param(call(PATH, TRIES).replace("\n", "\r\n"), [SAVED], id="CRLF"),
    pytest.param(call(PATH, TRIES).replace('"', "'"), [SAVED], id="single quotes"),
    pytest.param(call(PATH, TRIES).replace('"', ""), [SAVED], id="no quotes"),
    pytest.param(call(PATH, TRIES).replace('="', "=“").replace('"', "”"), [SAVED], id="typographic quotes"),
    pytest.param(call(PATH, TRIES).replace("tool_call", "invoke"), [SAVED], id="invoke"),
    pytest.param(call('{"path": "a.txt", "tries": 3}'), [SAVED], id="one JSON object"),
    pytest.param(call(par("path", "a.txt", ' type="string"'), par("tries", "3", ' type="integer"')), [SAVED],
                 id="the types of the definition repeated"),
    pytest.param(call(PATH, par("tries", "3", ' type="json"')), [SAVED], id="JSON"),
    pytest.param(call(par("any", "3", ' type="string"')), [("save", {"any": "3"})], id="a string that looks typed"),
    pytest.param(call(par("tags", '["a", {"b": 1}]')), [("save", {"tags": ["a", {"b": 1}]})], id="nested"),
    pytest.param(call(PATH, TRIES).removesuffix("</tool_call>"), [SAVED], id="the call is not closed"),
    pytest.param(call(PATH, TRIES).removesuffix("</tool_call>") + call(PATH, TRIES), [SAVED, SAVED],
                 id="the next call begins"),
    pytest.param(call(PATH.removesuffix("</parameter>"), TRIES), [SAVED], id="a parameter is not closed"),
    pytest.param(call(PATH, TRIES.removesuffix("</parameter>")), [SAVED], id="the last parameter is not closed"),
    pytest.param('<tool_call>\n{"name": "save", "arguments": {"path": "a.txt", "tries": 3}}\n</tool_call>', [SAVED],
                 id="Hermes JSON"),
    pytest.param("<function=save><parameter=path>a.txt</parameter><parameter=tries>3</parameter></function>", [SAVED],
                 id="Qwen3-Coder's XML"),
])
def test_calls_in_the_form_and_near_it_are_read(raw, expected):
    assert calls(raw) == expected


@pytest.mark.parametrize(("value", "expected"), [
    ("a</parameter>b", "a</parameter>b"), ("<b>&lt;</b>", "<b>&lt;</b>"), ("\n\nx\n\n", "\nx\n"),
    ("<![CDATA[</parameter></tool_call>]]>", "</parameter></tool_call>"),
    ("\n<![CDATA[ x\n]]>\n", " x\n"),
    ("<![CDATA[a]]]]><![CDATA[>b]]>", "a]]>b"),
    ("<![CDATA[if (a[b[0]]>1) {}]]>", "if (a[b[0]]>1) {}"),
    ("<![CDATA[a]]> \n<![CDATA[b]]>", "ab"),
    ("<![CDATA[]]>", ""),
    ("x <![CDATA[y]]>", "x <![CDATA[y]]>"),
    ("日本 😀 \\n \"q\"", "日本 😀 \\n \"q\""),
])
def test_values_hold_any_text(value, expected):
    assert calls(call(par("text", value), TRIES)) == [("save", {"text": expected, "tries": 3})]


@pytest.mark.parametrize("raw", [
    call(par("text", "<![CDATA[a]]>").removesuffix("</parameter>")),
    call(par("text", "<![CDATA[a")),
])
def test_a_section_may_lack_what_closes_it(raw):
    assert calls(raw) == [("save", {"text": "a"})]


def test_a_whole_call_in_a_value_is_data():
    """Agents write files about agents, and forget CDATA."""
    inner = call(PATH)
    assert calls(call(par("text", f"see\n{inner}\nabove"))) == [("save", {"text": f"see\n{inner}\nabove"})]


def test_text_around_calls_is_kept():
    got = read("Now.\n" + call(PATH) + "\nThen " + call(name="ping") + "\nDone.")
    assert got["content"].split() == ["Now.", "Then", "Done."]
    assert [name for name, _ in got["tool_calls"]] == ["save", "ping"]


@pytest.mark.parametrize("raw", [
    "Write <tool_call name=\"save\"> and then the parameters.",
    call(PATH, name="other"),
    f"```xml\n{call(PATH)}\n```\nas above",
    '<tool_call name="save',
    "<tool_call >",
    "a < b, <tool_call and </tool_call",
])
def test_what_is_no_call_stays_text(raw):
    got = read(raw)
    assert (got["content"], got["tool_calls"], got["finish_reason"]) == (raw, [], "stop")


def test_reasoning_around_calls():
    got = read("<think>I save.</think>\n" + call(PATH))
    assert (got["reasoning"], got["content"]) == ("I save.", "")
    assert got["tool_calls"] == [["save", '{"path": "a.txt"}']]


@pytest.mark.parametrize("size", range(1, len(call(PATH, TRIES)) - len("</tool_call>")))
def test_a_call_that_a_limit_cut_off_is_never_complete(size):
    raw = call(PATH, TRIES)[:size]
    for pieces in ([raw], list(raw)):
        got = send_text(pieces, TOOLS, finish="length", dialect="prompted")
        assert got["finish_reason"] == "length"
        assert "tool" not in got["content"] or size < len("<tool_call ")
        for _, text in got["tool_calls"]:
            with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
                json.loads(text)


def test_strings_of_string_parameters_stream():
    raw = call(par("text", "0123456789"))
    got = send_text(list(raw), TOOLS, dialect="prompted")
    pieces = [event["delta"]["partial_json"] for event in got["events"]
              if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta"]
    assert len(pieces) >= 10


def test_nothing_is_looked_for_when_no_call_may_be_made():
    raw = call(PATH)
    got = send_text(raw, TOOLS, dialect="prompted", tool_choice="none")
    assert (got["content"], got["tool_calls"]) == (raw, [])
