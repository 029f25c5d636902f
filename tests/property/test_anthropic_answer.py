"""Any legal stream of neutral events becomes a legal Messages answer that says the same."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extproc.apis.anthropic.client import API, grammar
from extproc.apis.base import ResponseEncoder
from extproc.conversation.model import (
    ArgumentsDelta,
    BlockStop,
    Event,
    Finish,
    Message,
    RedactedThinking,
    Request,
    SignatureDelta,
    Start,
    Text,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from extproc.errors import Failure

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COUNT = st.integers(0, 10**9)
USAGE = st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-10**9, 10**9) | WORDS,
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6)


@st.composite
def pieces(draw: st.DrawFn, whole: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@st.composite
def blocks(draw: st.DrawFn) -> list[Event]:
    kind = draw(st.sampled_from(["text", "thinking", "redacted", "call"]))
    if kind == "text":
        return [TextStart(), *map(TextDelta, draw(st.lists(WORDS, max_size=4))), BlockStop()]
    if kind == "redacted":
        return [RedactedThinking(draw(WORDS)), BlockStop()]
    if kind == "thinking":
        signature = draw(st.none() | WORDS.filter(bool))
        return [ThinkingStart(), *map(ThinkingDelta, draw(st.lists(WORDS, max_size=4))),
                *([SignatureDelta(signature)] if signature else []), BlockStop()]
    arguments = json.dumps(draw(st.dictionaries(WORDS, JSON, max_size=3)))
    return [ToolCallStart(draw(WORDS), draw(WORDS)), *map(ArgumentsDelta, draw(pieces(arguments))), BlockStop()]


@st.composite
def answers(draw: st.DrawFn) -> list[Event]:
    body = [event for block in draw(st.lists(blocks(), max_size=5)) for event in block]
    finish = Finish(draw(st.sampled_from(["stop", "length", "tool_calls", "refusal"])), draw(USAGE))
    return [Start(), *body, finish]


def encoder(stream: bool) -> ResponseEncoder:
    request = Request(model="m", messages=[Message("user", [Text("x")])], stream=stream)
    return API.make_response_encoder(request, "msg_1", lambda: 5)


def parse(wire: bytes) -> list[dict[str, Any]]:
    return [json.loads(part.split(b"data: ", 1)[1]) for part in wire.split(b"\n\n") if part]


def collected(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The content that a client puts together from a stream."""
    content: list[dict[str, Any]] = []
    arguments: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_start":
            content.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], content[event["index"]]
            if delta["type"] == "signature_delta":
                block["signature"] = delta["signature"]
            elif delta["type"] == "input_json_delta":
                arguments[event["index"]] = arguments.get(event["index"], "") + delta["partial_json"]
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] += delta[name]
    for index, text in arguments.items():
        content[index]["input"] = json.loads(text)
    return content


def meant(events: list[Event]) -> list[dict[str, Any]]:
    """The content that the neutral events mean, put together independently of the encoder."""
    content: list[dict[str, Any]] = []
    for event in events:
        match event:
            case TextStart():
                content.append({"type": "text", "text": ""})
            case ThinkingStart():
                content.append({"type": "thinking", "thinking": "", "signature": ""})
            case RedactedThinking(data=data):
                content.append({"type": "redacted_thinking", "data": data})
            case ToolCallStart(id=call_id, name=name):
                content.append({"type": "tool_use", "id": call_id, "name": name, "input": ""})
            case TextDelta(text=text):
                content[-1]["text"] += text
            case ThinkingDelta(text=text):
                content[-1]["thinking"] += text
            case SignatureDelta(signature=signature):
                content[-1]["signature"] = signature
            case ArgumentsDelta(json=text):
                content[-1]["input"] += text
    return [{**block, "input": json.loads(block["input"])} if "input" in block else block for block in content]


@given(answers())
def test_a_stream_keeps_the_grammar_and_the_content(events: list[Event]) -> None:
    decoded = parse(encoder(True).encode_events(events))
    grammar.check(decoded)
    assert collected(decoded) == meant(events)


@given(answers())
def test_a_whole_message_says_what_the_stream_says(events: list[Event]) -> None:
    decoded, message = parse(encoder(True).encode_events(events)), json.loads(encoder(False).encode_events(events))
    assert message["content"] == collected(decoded)
    assert (message["stop_reason"], message["usage"]) == (decoded[-2]["delta"]["stop_reason"], decoded[-2]["usage"])
    assert min(value for value in message["usage"].values() if isinstance(value, int)) >= 0


@given(answers(), st.data())
def test_the_grouping_of_events_changes_no_byte(events: list[Event], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=5)))
    grouped = encoder(True)
    out = b"".join(grouped.encode_events(events[a:b]) for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True))
    assert out == encoder(True).encode_events(events)


@given(answers(), st.data())
def test_a_failure_at_any_point_ends_the_stream_unfinished(events: list[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(events) - 1))
    decoded = parse(encoder(True).encode_events([*events[:cut], Failure("server", "gone"), *events[cut:]]))
    grammar.check(decoded)
    assert decoded[-1]["type"] == "error"
    assert not any(event["type"] in ("message_delta", "message_stop") for event in decoded)
