"""What is written in a dialect can be read back: the same calls, the same text around them."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.conversation.model import Media, Message, Opaque, Request, Text, Thinking, Tool, ToolCall, ToolResult
from extproc.conversation.unsupported import Dropped
from extproc.dialects.registry import DIALECTS
from extproc.dialects.writing import WRITABLE, format_call, write
from extproc.errors import BadRequest
from tests.model_text.exchange import client_response, sse_bytes, text_chunks
from tests.model_text.prompted_reader import parse_prompted_calls, parse_prompted_results
from tests.playbook import delta, sse

PIECES = st.sampled_from(["</parameter>", "<![CDATA[", "]]>", "]", ">", "\n", " ", '<tool_call name="t">',
                          "</tool_call>", "</tool_result>", "&lt;", '"', "null", "1", "{", "a", "\r\n",
                          '<parameter name="k">'])
HOSTILE = st.one_of(st.lists(PIECES, max_size=8).map("".join), st.text(max_size=12))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from([0.5, -1.25, 1e30]), HOSTILE),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(HOSTILE, inner, max_size=3)), max_leaves=6)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
SHAPES = st.one_of(
    st.just({}), TYPES.map(lambda kind: {"type": kind}),
    st.lists(TYPES, min_size=1, max_size=3, unique=True).map(lambda kinds: {"type": kinds}),
    st.lists(TYPES, min_size=1, max_size=2).map(lambda kinds: {"anyOf": [{"type": kind} for kind in kinds]}),
    st.just({"enum": ["a", "1", 1, None]}), st.just({"$ref": "#/$defs/any"}))


def exact(value: object) -> str:
    """JSON text in which 1, 1.0 and true stay apart as far as JSON does."""
    return json.dumps(json.loads(json.dumps(value), parse_float=_whole), sort_keys=True)


def _whole(text: str) -> float:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


@given(st.dictionaries(HOSTILE, st.tuples(VALUES, st.one_of(st.none(), SHAPES)), max_size=4),
       st.text("ab <>\n", max_size=9))
@settings(max_examples=400, deadline=None)
def test_prompted_calls_are_read_back_exactly_whatever_their_parameters_hold(members, around):
    arguments = {key: value for key, (value, _) in members.items()}
    schema: dict[str, Any] = {"type": "object", "$defs": {"any": {"type": ["integer", "string", "object"]}},
                              "properties": {key: shape for key, (_, shape) in members.items() if shape is not None}}
    said = format_call("t", arguments, schema)
    text, calls = parse_prompted_calls(f"{around}{said}\n{said}{around}", {"t": schema})
    assert text == f"{around}\n{around}"
    assert [(name, exact(found)) for name, found in calls] == [("t", exact(arguments))] * 2


@given(st.lists(st.tuples(HOSTILE, st.booleans()), min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_prompted_results_are_read_back_exactly(results):
    calls = [ToolCall(f"c{number}", "t", "{}") for number in range(len(results))]
    got = [ToolResult(call.id, [Text(text)], is_error) for call, (text, is_error) in zip(calls, results, strict=True)]
    out = write(Request(model="m", messages=[Message("assistant", [*calls]), Message("user", [*got])]), "prompted",
                dropped=Dropped(), parallel=None, max_tools=64)
    (block,) = out.messages[1].content
    assert parse_prompted_results(block.text) == [  # type: ignore[union-attr]
        ("t", str(number), is_error, text or "(no output)") for number, (text, is_error) in enumerate(results, 1)]


# ------------------------------------------------------------------------------------------------------- every dialect

TOOLS = [
    {"type": "function", "function": {"name": "save", "parameters": {"type": "object", "properties": {
        "path": {"type": "string"}, "tries": {"type": "integer"}, "force": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}}, "limits": {"type": "object"}}}}},
    {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}]
MARKS = "<>[]{}|｜`\u2028\u2029"
PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters=MARKS), max_size=12)
LINES = st.lists(PLAIN, max_size=3).map("\n".join)
SAVED = st.fixed_dictionaries({}, optional={
    "path": LINES, "tries": st.integers(-99, 99), "force": st.booleans(), "tags": st.lists(PLAIN, max_size=2),
    "limits": st.dictionaries(st.sampled_from(["min", "max"]), st.one_of(st.integers(0, 9), PLAIN), max_size=2)})
CALLS = st.lists(st.one_of(st.tuples(st.just("save"), SAVED), st.just(("ping", {}))), min_size=1, max_size=3)
READABLE = sorted(WRITABLE & set(DIALECTS))


@pytest.mark.parametrize("dialect", READABLE)
@given(CALLS, st.sampled_from(["", "Well.", "I look\n\nat it: "]), st.data())
@settings(max_examples=20, deadline=None)
def test_written_calls_are_read_back_at_any_cut(dialect, calls, prose, data):
    said = written_by_us(dialect, calls, TOOLS, prose)
    stream = sse_bytes(text_chunks([said]))
    if data.draw(st.booleans()):
        stream = sse_bytes(text_chunks(list(said)))
    at = data.draw(st.integers(0, len(stream)))
    got = client_response([stream[:at], stream[at:]], TOOLS, dialect=dialect)
    assert got["content"].strip() == prose.strip()
    assert [(name, json.loads(text)) for name, text in got["tool_calls"]] == calls
    assert got["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("dialect", READABLE)
@given(st.lists(SAVED, min_size=1, max_size=2), SAVED, st.data())
@settings(max_examples=40, deadline=None)
def test_an_answer_that_breaks_off_where_a_call_has_begun_never_looks_finished(dialect, before, last, data):
    """No finish reason comes. What came behind a whole call only closes it, or the answer is broken."""
    calls = [*(("save", arguments) for arguments in before),
             ("ping", {}) if data.draw(st.booleans()) else ("pong", last)]
    pong = {"type": "function", "function": {**TOOLS[0]["function"], "name": "pong"}}
    said = written_by_us(dialect, calls, [*TOOLS, pong])
    upto = data.draw(st.integers(0, len(said)))
    got = client_response(sse(delta(content=said[:upto]), done=False), [*TOOLS, pong], dialect=dialect)
    if got["finish_reason"] == "error":
        assert upto < len(said)
        return
    assert [(name, json.loads(text)) for name, text in got["tool_calls"]] == calls[:len(got["tool_calls"])]
    whole = len(got["tool_calls"]) == len(calls)
    assert whole or calls[-1][0] not in said[:upto]
    assert not said[:upto].endswith(tuple(opener for form in DIALECTS[dialect].forms for opener in form.openers))


def written_by_us(dialect: str, calls: list[tuple[str, Any]], tools: list[dict[str, Any]], prose: str = "") -> str:
    """What a model writes: prose, then calls."""
    blocks = [ToolCall(f"c{number}", name, json.dumps(arguments)) for number, (name, arguments) in enumerate(calls)]
    offered = [Tool(entry["function"]["name"], None, entry["function"]["parameters"]) for entry in tools]
    request = Request(model="m", tools=offered, messages=[
        Message("assistant", [Text(prose), *blocks]), Message("user", [ToolResult(call.id, []) for call in blocks])])
    out = write(request, dialect, dropped=Dropped(), parallel=None, max_tools=64)
    return out.messages[0].content[0].text  # type: ignore[union-attr]


IDS = st.sampled_from(["a", "b", "call_0"])
NAMES = st.sampled_from(["read", "a.b", "</tools>"])
TEXTS = st.builds(Text, st.text(max_size=8))
BLOCKS = st.one_of(
    TEXTS, st.builds(ToolCall, IDS, NAMES, st.sampled_from(["", "{}", '{"a":1}', "[", "null"])),
    st.builds(Thinking, st.text(max_size=4)), st.just(Opaque("anthropic", "server_tool_use", b"{}")))
IMAGES = st.just(Media("image", data="x"))
RESULTS = st.builds(ToolResult, IDS, st.lists(st.one_of(TEXTS, IMAGES), max_size=2), st.booleans())
MESSAGES = st.one_of(
    st.builds(Message, st.just("user"), st.lists(st.one_of(TEXTS, RESULTS), max_size=4)),
    st.builds(Message, st.just("assistant"), st.lists(BLOCKS, max_size=4)),
    st.builds(Message, st.just("system"), st.lists(TEXTS, max_size=2)))


@given(st.lists(MESSAGES, max_size=8), st.sampled_from(sorted(WRITABLE)), st.lists(NAMES, unique=True))
@settings(max_examples=200, deadline=None)
def test_any_conversation_becomes_text_in_turns_or_is_refused(messages, dialect, names):
    request = Request(model="m", messages=messages, tools=[Tool(name, name, {}) for name in names])
    kept = copy.deepcopy(request)
    with suppress(BadRequest):
        out = write(request, dialect, dropped=Dropped(), parallel=None, max_tools=64)
        assert write(kept, dialect, dropped=Dropped(), parallel=None, max_tools=64) == out
        assert out.tools == []
        for message in out.messages:
            assert not any(isinstance(block, (ToolCall, ToolResult)) for block in message.content)
        roles = [message.role for message in out.messages]
        assert ("assistant", "assistant") not in set(pairwise(roles))
    assert request == kept, "the request is shared by all attempts and must not change"
