"""JSON bodies of calls: any order of members, streamed as far as it is certain, damage repaired (Hermes as the
frame)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.translation.exchange import Translation
from tests.model_text.exchange import cuts, request_body, send_every_cut, send_text, sse_bytes, text_chunks, tool

TOOLS = [tool("note", title="string", body="string", n="integer", tags="array")]


def arguments_of(body: str, **settings: Any) -> Any:
    """The arguments of the one call, the same for every cut."""
    raw = f"<tool_call>\n{body}\n</tool_call>"
    got = send_every_cut(raw, TOOLS, dialect="hermes", **settings)
    assert got["content"] == ""
    [[name, text]] = got["tool_calls"]
    assert name == "note"
    return json.loads(text)


@pytest.mark.parametrize(("body", "arguments"), [
    ('{"name": "note", "arguments": {"title": "a", "n": 3}}', {"title": "a", "n": 3}),
    ('{"name": "note", "parameters": {"title": "a"}}', {"title": "a"}),
    ('{"arguments": {"title": "a", "n": 3}, "name": "note"}', {"title": "a", "n": 3}),
    ('{"type": "function", "function": {"name": "note", "arguments": {"title": "a"}}}', {"title": "a"}),
    ('{"id": 7, "name": "note", "arguments": {"title": "a"}, "extra": [1, {"x": "}"}]}', {"title": "a"}),
    ('{"name": "note"}', {}),
    ('{"name": "note", "arguments": null}', {}),
    ('{"name": "note", "arguments": ""}', {}),
    ('{"name": "note", "arguments": "{\\"title\\": \\"a\\"}"}', {"title": "a"}),
    ('{"name": "note", "arguments": {"body": "say \\"hi\\" \\\\ \\u00e9 </tool_call> {"}}', {"body": 'say "hi" \\ é </tool_call> {'}),
    ('{"name": "note", "arguments": {"tags": ["a", {"k": "]"}], "body": "x"}}', {"tags": ["a", {"k": "]"}], "body": "x"}),
    ('{"name": "note", "arguments": {"n": "12", "title": 5}}', {"n": 12, "title": 5}),
])
def test_well_formed(body: str, arguments: Any) -> None:
    assert arguments_of(body) == arguments


@pytest.mark.parametrize(("body", "arguments"), [
    ('{"name": "note", "arguments": {"body": "two\nlines\tand a tab"}}', {"body": "two\nlines\tand a tab"}),
    ("{\"name\": \"note\", \"arguments\": {'title': 'a', 'n': 3}}", {"title": "a", "n": 3}),
    ('{"name": "note", "arguments": {"title": "a", "n": 3,}}', {"title": "a", "n": 3}),
    ('{"name": "note", "arguments": {"title": "a" "n": 3}}', {"title": "a", "n": 3}),
    ('{"name": "note", "arguments": {"tags": ["a", True, None]}}', {"tags": ["a", True, None]}),
    ('{"name": "note", "arguments": {"body": "he said "hi" to me", "n": 1}}', {"body": 'he said "hi" to me', "n": 1}),
    ('{"name": "note", "arguments": {"body": "a path C:\\dir and \\\' quote"}}', None),
    ('{"name": "note", "arguments": {"title": "a", "n": 3}', {"title": "a", "n": 3}),
    ('{"name": "note", "arguments": {"title": "a", "n": 3}}}', {"title": "a", "n": 3}),
    ('{"name": "note", "arguments": {title: "a", n: 3}}', {"title": "a", "n": 3}),
    ("{'name': 'note', 'arguments': {'title': 'a', 'tags': [True, None], 'n': 3}}",
     {"title": "a", "tags": [True, None], "n": 3}),
    ("{'name': 'note', 'arguments': {'body': \"it's {so}\", 'title': 'a \\'b\\' \\u00e9'}}",
     {"body": "it's {so}", "title": "a 'b' é"}),
    ("{'arguments': {'title': 'a'}, 'name': 'note'}", {"title": "a"}),
    ("{'name': \"note\", \"parameters\": {\"title\": \"a\"}}", {"title": "a"}),
    ("{'name': 'note'}", {}),
    ("[{'name': 'note', 'arguments': {'title': 'a'}}]", {"title": "a"}),
])
def test_damage_is_repaired(body: str, arguments: Any) -> None:
    got = arguments_of(body)
    assert got == arguments or arguments is None


@pytest.mark.parametrize("body", [
    "{'name': 'nobody', 'arguments': {'a': True}}", "{'name'}", "{'a', 'b'}", "{'title': 'a'}", "{'name': note}",
    "{'name': 'no\nte'}", "{'it's': 'so'}", "{'name': 'note'",
])
def test_a_python_dict_that_is_no_call_stays_text(body: str) -> None:
    raw = f"So: <tool_call>{body}" + "</tool_call> it is."
    for pieces in cuts(raw):
        got = send_text(pieces, TOOLS, dialect="hermes")
        assert (got["content"], got["tool_calls"]) == (raw, [])


@pytest.mark.parametrize("body", [
    '{"name": "note", "arguments": {"n": 1}, "x\ny": 1}', '{"name": "note", "arguments": {"n": 1}, \'x\ny',
    '{"name": "note", "arguments": {"n": 1}, "x" 1}',
])
def test_damage_behind_the_arguments_does_not_cost_the_call(body: str) -> None:
    first = '{"name": "note", "arguments": {}}'
    for raw, count in ((body, 1), (f"[{first}, {body}]", 2), (f"{first}, {body}", 2)):
        for pieces in cuts(f"<tool_call>{raw}</tool_call>"):
            got = send_text(pieces, TOOLS, dialect="hermes")
            assert [json.loads(text) for _, text in got["tool_calls"]] == [{}, {"n": 1}][-count:]


def test_each_repair_is_counted() -> None:
    translation = Translation("anthropic", "openai", "m", dialect="hermes")
    translation.request(request_body(TOOLS))
    translation.start(200, {"content-type": "text/event-stream"})
    raw = '<tool_call>{"name": "note", "arguments": {"body": "two\nlines", "tags": ["a", True]}}</tool_call>'
    translation.feed(sse_bytes(text_chunks(list(raw))))
    assert ("note", "$.body", "control_characters") in [(r.tool, r.path, r.reason) for r in translation.repairs]
    assert len(translation.repairs) >= 2


def test_as_is_leaves_the_arguments_alone() -> None:
    body = '{"name": "note", "arguments": {"n": "12", "title":   5}}'
    got = send_text(f"<tool_call>{body}</tool_call>", TOOLS, dialect="hermes", arguments="as-is")
    assert got["tool_calls"][0][1] == '{"n": "12", "title":   5}'


def test_a_damaged_key_is_read_the_same_at_every_cut() -> None:
    """The repair gets the whole key, even if it came in pieces."""
    raw = '<tool_call>{"name": "read", "arguments": {"path": "a", "\n{lines": [1], "tries": 3}}</tool_call>'
    tools = [tool("read", path="string")]
    got = [send_text(pieces, tools, dialect="hermes")["tool_calls"] for pieces in cuts(raw)]
    assert all(calls == got[0] for calls in got), got


@pytest.mark.parametrize("char", ["\x00", "\x1b", "\x1f", "\t", "\n"])
def test_raw_control_characters_in_a_string_are_escaped(char: str) -> None:
    raw = '<tool_call>{"name": "read", "arguments": {"path": "a' + char + 'b"}}</tool_call>'
    tools = [tool("read", path="string")]
    for pieces in cuts(raw):
        (_, text), = send_text(pieces, tools, dialect="hermes")["tool_calls"]
        assert json.loads(text) == {"path": f"a{char}b"}


def test_an_escape_without_its_digits_is_text() -> None:
    raw = '<tool_call>{"name": "read", "arguments": {"path": "C:\\users\\u00e9"}}</tool_call>'
    tools = [tool("read", path="string")]
    for pieces in cuts(raw):
        (_, text), = send_text(pieces, tools, dialect="hermes")["tool_calls"]
        assert json.loads(text) == {"path": "C:\\users\u00e9"}
