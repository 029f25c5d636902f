"""Gemma 4 and FunctionGemma: missing quotes, several calls in a block, bare values, damaged reasoning tags.

The damaged calls are those of ollama issue 15315 and 17882 and near to them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.model_text.checks import read_calls
from tests.model_text.exchange import cuts, send_every_cut, send_text, tool

TOOLS = [
    tool("bash", command="string", timeout="integer"), tool("write", content="string", filePath="string"),
    tool("grep", include="string", output_mode="string", path="string", pattern="string"),
    tool("pair", first="string", second="string"), tool("free", x={}, y={}, z={}), tool("none"),
    tool("typed", id="integer", op={"type": ["string", "null"]}, o="object"),
]
Q = '<|"|>'


def block(body: str) -> str:
    return f"<|tool_call>{body}<tool_call|>"


def calls(raw: str, dialect: str | None = "gemma-4", text: str = "") -> list[tuple[str, Any]]:
    found = read_calls(dialect, raw, content=text, tools=TOOLS)
    assert found
    return found


@pytest.mark.parametrize(("body", "arguments"), [
    (f"bash{{command:{Q}ls}}", {"command": "ls"}),
    (f"bash{{timeout:5,command:{Q}ls}}", {"timeout": 5, "command": "ls"}),
    (f"bash{{command:{Q}f(){{}}}}", {"command": "f(){}"}),
    (f"bash{{command:{Q}ls -l, a:b,timeout:5}}", {"command": "ls -l, a:b", "timeout": 5}),
    (f"pair{{first:{Q}one,second:{Q}two{Q}}}", {"first": "one", "second": "two"}),
    (f"pair{{first:one{Q},second:{Q}two{Q}}}", {"first": "one", "second": "two"}),
    (f"write{{content:\n\n# Title, with comma\n{{x}},\nfilePath:{Q}/x{Q}}}",
     {"content": "\n\n# Title, with comma\n{x}", "filePath": "/x"}),
    (f"write{{filePath:{Q}/x{Q},content:# T, and: more\n  end }}",
     {"filePath": "/x", "content": "# T, and: more\n  end "}),
    (f"grep{{include:{Q}*.py{Q},pattern:':\\s*\\w+'{Q}}}", {"include": "*.py", "pattern": ":\\s*\\w+"}),
    (f"grep{{pattern:'abc',path:{Q}/d{Q}}}", {"pattern": "abc", "path": "/d"}),
    (f"pair{{first={Q}one{Q},second='two'}}", {"first": "one", "second": "two"}),
    (f"pair{{first:{Q}one{Q}{Q},second:{Q}two{Q}}}", {"first": "one", "second": "two"}),
    (f"pair{{first:{Q}one{Q} second:{Q}two{Q}}}", {"first": "one", "second": "two"}),
    (f"pair{{first:12, Main St,second:{Q}b{Q}}}", {"first": "12, Main St", "second": "b"}),
])
def test_a_quote_is_missing(body: str, arguments: dict[str, Any]) -> None:
    name = body.partition("{")[0]
    for dialect in ("gemma-4", None):
        assert calls(block("call:" + body), dialect) == [(name, arguments)]
        assert calls(block("call:" + body) + "Done.", dialect, "Done.") == [(name, arguments)]
        assert calls(block("call:" + body) + block(f"call:pair{{first:{Q}x{Q}}}"), dialect) == \
            [(name, arguments), ("pair", {"first": "x"})]


@pytest.mark.parametrize("value", [
    "a, second: b", "a,timeout:5", "a}<tool_call|>b", "<|tool_call>call:none{}<tool_call|>", "a}", "a}\n", "x, ", "}",
])
def test_a_string_with_both_quotes_keeps_every_byte(value: str) -> None:
    assert calls(block(f"call:pair{{first:{Q}{value}{Q},second:{Q}{value}{Q}}}")) == \
        [("pair", {"first": value, "second": value})]


@pytest.mark.parametrize("raw", [
    f"<|tool_call>call:bash{{command:{Q}ls}}", f"<|tool_call>call:bash{{command:{Q}ls", "<|tool_call>call:bash{command:ls",
    f"<|tool_call>call:write{{content:# T, a,filePath:{Q}/x", block(f"call:pair{{first:{Q}say {Q}hi{Q} there{Q}}}"),
    block(f"call:pair{{first:{Q}one,other:{Q}two{Q}}}"), block(f"call:typed{{o:{{a:{Q}x}},id:{Q}5{Q}}}"),
])
def test_what_has_several_readings_is_never_whole(raw: str) -> None:
    for pieces in cuts(raw):
        got = send_text(pieces, TOOLS, dialect="gemma-4")
        assert (got["content"], got["finish_reason"]) == ("", "length"), pieces
        assert len(got["tool_calls"]) == 1
        with pytest.raises(json.JSONDecodeError):
            json.loads(got["tool_calls"][0][1])


def test_several_calls_in_a_block() -> None:
    for dialect in ("gemma-4", None):
        assert calls(block("call:free{x:1}call:free{x:2}"), dialect) == [("free", {"x": 1}), ("free", {"x": 2})]
        assert calls(block("call:none{}, call:nobody{a:1}\ncall:none{}") + "Done.", dialect, "Done.") == \
            [("none", {}), ("none", {})]
        assert calls(block("call:pair{first:abc}call:pair{first:def}"), dialect) == \
            [("pair", {"first": "abc"}), ("pair", {"first": "def"})]


@pytest.mark.parametrize(("body", "arguments"), [
    ("free{x:1,y:null,z:true}", {"x": 1, "y": None, "z": True}),
    ("none{x:-1.5,y:None,z:False,w:nil}", {"x": -1.5, "y": None, "z": False, "w": None}),
    (f"free{{x:{Q}1{Q},y:\"2\"}}", {"x": "1", "y": "2"}),
    ("free{x:hello, world,y:[None,True,a]}", {"x": "hello, world", "y": [None, True, "a"]}),
    (f"typed{{op:None,id:5,o:{{a:None,b:{Q}None{Q},c:{{d:nil}}}}}}",
     {"op": None, "id": 5, "o": {"a": None, "b": "None", "c": {"d": None}}}),
    ("pair{first:12345,second:null}", {"first": "12345", "second": "null"}),
])
def test_bare_values_have_their_own_type_unless_the_schema_says_string(body: str, arguments: dict[str, Any]) -> None:
    name = body.partition("{")[0]
    assert calls(block("call:" + body)) == [(name, arguments)]
    other = f"<start_function_call>call:{body}<end_function_call>".replace(Q, "<escape>")
    assert calls(other, "functiongemma") == [(name, arguments)]


def thinks(raw: str, reasoning: str, text: str, found: int = 0, finish: str = "stop") -> None:
    got = send_every_cut(raw, TOOLS, finish=finish, dialect="gemma-4")
    assert (got["reasoning"], got["content"], len(got["tool_calls"])) == (reasoning, text, found)


def test_empty_and_doubled_reasoning() -> None:
    thinks("<|channel>thought<channel|>Hello", "", "Hello")
    thinks("<|channel><|channel>thought\n<channel|>Hello", "", "Hello")
    thinks("<|channel>thought\nHm.\n<channel|>Hello", "Hm.", "Hello")
    thinks("<|channel>thought", "", "")


def test_reasoning_without_its_opener() -> None:
    thinks("thought\nI think\n<channel|>" + block("call:none{}"), "I think", "", 1)
    thinks("thought\nI think\n" + block("call:none{}"), "I think", "", 1)
    thinks("thought\nI think<channel|>Hello", "I think", "Hello")
    thinks("thoughts are free", "", "thoughts are free")
    thinks("A thought\nis", "", "A thought\nis")


def test_a_text_that_may_be_the_answer_is_never_lost() -> None:
    thinks("thought\nis free", "is free", "thought\nis free")
