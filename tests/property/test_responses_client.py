"""Whatever a provider sends: the stream of the Responses API obeys its grammar, in any grouping of events, with
keep-alives anywhere; the whole response is the one that ends the stream; no half call is done."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.apis.responses.client import API
from extproc.apis.responses.client.custom_input import CustomInput, custom_text
from extproc.apis.responses.client.envelopes import pack_thinking, unpack_thinking
from extproc.bounds import Limits
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Event,
    Finish,
    RedactedThinking,
    SignatureDelta,
    Start,
    TextDelta,
    TextStart,
    Thinking,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest, Failure
from tests.unit.apis.responses.client.grammar import check_stream, parse_stream
from tests.unit.apis.responses.client.helpers import ID, custom, decode, function, namespace

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TOOLS = [function("f"), custom("free"), namespace("ns", function("g"), custom("h")), {"type": "shell"},
         {"type": "local_shell"}, {"type": "apply_patch"}, {"type": "tool_search", "execution": "client"}]
NAMES = ["f", "free", "ns__g", "ns__h", "shell", "local_shell", "apply_patch", "tool_search", "g", "not offered"]
ARGUMENTS = st.one_of(
    st.dictionaries(st.sampled_from(["input", "command", "commands", "operation", "a"]),
                    WORDS | st.lists(WORDS, max_size=2) | st.integers() | st.none(), max_size=2).map(json.dumps),
    WORDS, st.sampled_from(["", "{", '{"input": "', '{"input": "\\ud83d', "[1]", "null", '"text"', '{"input": 5}']))


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@st.composite
def block(draw: st.DrawFn, number: int, *, ends: bool) -> list[Event]:
    kind = draw(st.sampled_from(["text", "thinking", "redacted", "call"]))
    stop: list[Event] = [BlockStop()] if ends else []
    if kind == "text":
        return [TextStart(), *map(TextDelta, draw(st.lists(WORDS, max_size=3))), *stop]
    if kind == "redacted":
        return [RedactedThinking(draw(WORDS)), *stop]
    if kind == "thinking":
        signed = [SignatureDelta(draw(WORDS))] if draw(st.booleans()) else []
        return [ThinkingStart(), *map(ThinkingDelta, draw(st.lists(WORDS, max_size=3))), *signed, *stop]
    arguments = draw(pieces(draw(ARGUMENTS)))
    return [ToolCallStart(f"call_{number}", draw(st.sampled_from(NAMES))), *map(ArgumentsDelta, arguments), *stop]


@st.composite
def conversations(draw: st.DrawFn) -> list[Event]:
    """The events of a response in the order that decoders keep, also one that breaks off inside a block."""
    count = draw(st.integers(0, 5))
    fails = draw(st.booleans())
    open_end = fails and draw(st.booleans())
    body = [event for number in range(count)
            for event in draw(block(number, ends=not (open_end and number == count - 1)))]
    last: Event = Failure(draw(st.sampled_from(["server", "rate_limit", "context_length"])), draw(WORDS))
    if not fails:
        last = Finish(draw(st.sampled_from(["stop", "tool_calls", "length", "content_filter", "refusal", "pause"])),
                      Usage(draw(st.integers(0, 99)), 3))
    return [Start(), *body, last]


@given(events=conversations(), shown=st.booleans(), data=st.data())
@settings(max_examples=300)
def test_the_grammar_holds_in_any_grouping(events: list[Event], shown: bool, data: st.DataObject) -> None:
    request = decode(stream=True, tools=TOOLS, reasoning={"summary": "auto"} if shown else None)
    at_once = API.make_response_encoder(request, ID, lambda: 7).encode_events(events)
    found = check_stream(at_once)
    cut = data.draw(st.integers(0, len(events)))
    encoder = API.make_response_encoder(request, ID, lambda: 7)
    assert encoder.encode_events(events[:cut]) + encoder.encode_events(events[cut:]) == at_once
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    calls = [item for item in done if item["type"].endswith("_call")]
    assert len(calls) <= sum(isinstance(event, ToolCallStart) for event in events)
    if not isinstance(events[-1], Failure):
        request.stream = False
        whole = API.make_response_encoder(request, ID, lambda: 7).encode_events(events)
        assert json.loads(whole) == found[-1]["response"]


@given(events=conversations(), data=st.data())
def test_keep_alives_stand_anywhere(events: list[Event], data: st.DataObject) -> None:
    encoder = API.make_response_encoder(decode(stream=True, tools=TOOLS), ID, lambda: 7)
    out = b""
    for event in events:
        out += encoder.ping() if data.draw(st.booleans()) else b""
        out += encoder.encode_events([event])
    check_stream(out + encoder.ping())


@given(events=conversations(), data=st.data())
def test_a_stream_that_is_cut_off_obeys_the_grammar_until_then(events: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(events)))
    encoder = API.make_response_encoder(decode(stream=True, tools=TOOLS), ID, lambda: 7)
    check_stream(encoder.encode_events(events[:cut]), ended=cut == len(events))


@given(text=WORDS | st.text(max_size=60), ascii_only=st.booleans(), data=st.data())
@settings(max_examples=300)
def test_r29_a_custom_tools_text_at_any_cut(text: str, ascii_only: bool, data: st.DataObject) -> None:
    """Lone halves of pairs, which no UTF-8 text can hold, become U+FFFD."""
    arguments = data.draw(st.sampled_from(["", " \n"])) + json.dumps({"input": text}, ensure_ascii=ascii_only)
    reader = CustomInput()
    found = "".join(map(reader.feed, data.draw(pieces(arguments)))) + reader.finish()
    assert found == reader.text == custom_text(arguments)
    if not text.lstrip().startswith(("{", "```", "<<", "apply_patch")):
        assert found == text


@given(arguments=ARGUMENTS | WORDS, data=st.data())
def test_other_arguments_of_a_custom_tool_are_the_same_at_any_cut(arguments: str, data: st.DataObject) -> None:
    reader = CustomInput()
    assert "".join(map(reader.feed, data.draw(pieces(arguments)))) + reader.finish() == custom_text(arguments)


@given(text=WORDS, signature=st.none() | WORDS, redacted=st.none() | WORDS, data=st.data())
def test_reasoning_comes_back_byte_for_byte_or_not_at_all(text: str, signature: str | None, redacted: str | None,
                                                          data: st.DataObject) -> None:
    block = Thinking(text, signature=signature, redacted=redacted)
    packed = pack_thinking(block)
    assert unpack_thinking(packed) == block
    at = data.draw(st.integers(0, len(packed) - 1))
    damaged = packed[:at] + data.draw(st.sampled_from(["", "A", "=", "."])) + packed[at + 1:]
    assert damaged == packed or unpack_thinking(damaged) is None


ITEMS: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "role", "content", "call_id", "id", "name", "namespace", "arguments", "input",
                         "output", "action", "operation", "tools", "encrypted_content", "text", "image_url"]),
        inner | st.sampled_from(["message", "user", "assistant", "function_call", "function_call_output",
                                 "custom_tool_call", "reasoning", "tool_search_output", "shell_call_output",
                                 "additional_tools", "input_text", "input_image", "web_search_call", "namespace"]),
        max_size=5), max_leaves=12)


@given(items=st.lists(ITEMS, max_size=4), tools=st.lists(ITEMS, max_size=2) | st.none(), choice=ITEMS)
@settings(max_examples=300)
def test_any_input_is_read_or_refused_with_a_place(items: list[Any], tools: Any, choice: Any) -> None:
    body = json.dumps({"model": "m", "input": items, "tools": tools, "tool_choice": choice}).encode()
    try:
        request = API.decode_request(body, {}, Dropped(), Limits())
    except BadRequest as refused:
        assert str(refused)  # noqa: PT017 - either is right
        return
    assert parse_stream(API.make_response_encoder(request, ID, lambda: 7).ping()) or not request.stream
