"""Any chat conversation reaches an OpenAI-format provider whole; any answer is a legal one that says the same."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from extproc.apis.openai.client import API, EventsApi
from extproc.apis.openai.provider import PROVIDER
from extproc.bounds import Limits
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
    Thinking,
    ThinkingDelta,
    ThinkingStart,
    ToolCall,
    ToolCallStart,
    Usage,
)
from extproc.conversation.tool_results import pair
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure
from tests.unit.apis.openai.client.helpers import accumulated, whole
from tests.unit.apis.openai.provider.helpers import assert_strictly_paired, target

WORDS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
COUNT = st.integers(0, 10**6)
OBJECT = st.dictionaries(WORDS, st.none() | st.integers(-9, 9) | WORDS | st.lists(WORDS, max_size=2), max_size=3)
NAMES = st.sampled_from(["read", "write", "a.very/long-name" * 6])


# ------------------------------------------------------------------------------------------------------------- answers


@st.composite
def pieces(draw: st.DrawFn, all_of_it: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(all_of_it)), max_size=4)))
    return [all_of_it[a:b] for a, b in zip([0, *cuts], [*cuts, len(all_of_it)], strict=True)]


@st.composite
def answer_blocks(draw: st.DrawFn, number: int) -> list[Event]:
    kind = draw(st.sampled_from(["text", "thinking", "redacted", "call"]))
    if kind == "text":
        return [TextStart(), *map(TextDelta, draw(st.lists(WORDS, min_size=1, max_size=4))), BlockStop()]
    if kind == "redacted":
        return [RedactedThinking(draw(WORDS)), BlockStop()]
    if kind == "thinking":
        signature = draw(st.none() | WORDS)
        return [ThinkingStart(), *map(ThinkingDelta, draw(st.lists(WORDS, min_size=1, max_size=4))),
                *([SignatureDelta(signature)] if signature else []), BlockStop()]
    arguments = json.dumps(draw(OBJECT)) if draw(st.booleans()) else ""
    return [ToolCallStart(f"call_{number}", draw(NAMES)), *map(ArgumentsDelta, draw(pieces(arguments))), BlockStop()]


@st.composite
def answers(draw: st.DrawFn) -> list[Event]:
    body = [event for number in range(draw(st.integers(0, 5))) for event in draw(answer_blocks(number))]
    usage = draw(st.builds(Usage, COUNT, COUNT, COUNT, COUNT, COUNT))
    return [Start(), *body, Finish(draw(st.sampled_from(["stop", "length", "tool_calls", "refusal"])), usage)]


def asked(stream: bool) -> Request:
    return Request(model="m", messages=[Message("user", [Text("x")])], stream=stream)


@given(answers(), st.data())
def test_any_grouping_of_events_gives_the_same_bytes(events: list[Event], data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=6)))
    for api in (API, EventsApi()):
        at_once = api.make_response_encoder(asked(True), "msg_1", lambda: 5).encode_events(events)
        encoder = api.make_response_encoder(asked(True), "msg_1", lambda: 5)
        groups = zip([0, *cuts], [*cuts, len(events)], strict=True)
        assert b"".join(encoder.encode_events(events[a:b]) for a, b in groups) == at_once


@given(answers())
def test_stream_and_whole_answer_say_the_same(events: list[Event]) -> None:
    streamed = accumulated(API.make_response_encoder(asked(True), "msg_1", lambda: 7).encode_events(events))
    at_once = whole(events, asked(False))
    limit = events[-1].reason in ("length", "refusal")  # type: ignore[union-attr]
    for member in ("reasoning_content", "reasoning_details", "usage"):
        assert streamed.get(member) == at_once.get(member)
    assert (streamed["content"] or None) == (at_once["content"] or None)
    calls = [(call["id"], call["function"]["name"], call["function"]["arguments"])
             for call in streamed.get("tool_calls") or []]
    kept = [(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in at_once.get("tool_calls") or []]
    assert kept == calls or (limit and kept == calls[:-1])  # a call without arguments at a limit is left out


@given(answers())
def test_p8_everything_comes_back_with_the_next_request(events: list[Event]) -> None:
    """Text, calls and signatures survive a client that echoes all, and one that keeps what the format has."""
    message = whole(events, asked(False))
    calls = message.get("tool_calls") or []
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in calls]
    thoughts = [event for event in events if isinstance(event, SignatureDelta | RedactedThinking)]
    opaque = [event.signature if isinstance(event, SignatureDelta) else event.data for event in thoughts]
    for fields in (("reasoning_content", "reasoning_details"), ()):
        kept = {key: message[key] for key in ("role", "content", "tool_calls", *fields) if key in message}
        body = json.dumps({"model": "m", "messages": [kept, *results]}).encode()
        blocks = API.decode_request(body, {}, Dropped(), Limits()).messages[0].content
        assert "".join(block.text for block in blocks if isinstance(block, Text)) == (message["content"] or "")
        assert [block.name for block in blocks if isinstance(block, ToolCall)] == [
            call["function"]["name"] for call in calls]
        back = [block.signature or block.redacted for block in blocks
                if isinstance(block, Thinking) and (block.signature or block.redacted)]
        if fields:
            assert back == opaque
            thought = "".join(block.text for block in blocks if isinstance(block, Thinking))
            assert thought.split() == message.get("reasoning_content", "").split()
        else:
            last = max((at for at, event in enumerate(events) if isinstance(event, ToolCallStart)), default=-1)
            before = [event for event in events[:last + 1] if event in thoughts]
            assert len(calls) < sum(isinstance(event, ToolCallStart) for event in events) or len(back) == len(before)


@given(answers(), st.data())
def test_p1_a_failure_anywhere_is_never_an_end(events: list[Event], data: st.DataObject) -> None:
    at = data.draw(st.integers(1, len(events) - 1))
    for api, ends in ((API, b"[DONE]"), (EventsApi(), b'"done"')):
        encoder = api.make_response_encoder(asked(True), "msg_1", lambda: 5)
        wire = encoder.encode_events([*events[:at], Failure("server", "gone")])
        last = wire.split(b"\n\n")[-2]
        assert "error" in json.loads(last.removeprefix(b"data: "))
        assert ends not in wire


# ------------------------------------------------------------------------------------------------------------ requests


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Conversations as clients send them: results by id, by name alone, in any order, or not at all."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": draw(WORDS)}] if draw(st.booleans()) else []
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        content: Any = draw(WORDS)
        if draw(st.booleans()):
            content = [{"type": "text", "text": content},
                       {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0K"}}]
        messages.append({"role": "user", "content": content})
        ids = [f"call_{number + at}" for at in range(draw(st.integers(0, 3)))]
        number += len(ids)
        entry: dict[str, Any] = {"role": "assistant", "content": draw(st.none() | WORDS)}
        if ids:
            entry["tool_calls"] = [{"id": call_id, "type": "function", "function": {
                "name": f"tool_{at}", "arguments": json.dumps(draw(OBJECT))}} for at, call_id in enumerate(ids)]
        if draw(st.booleans()):
            entry["reasoning_content"] = draw(WORDS)
        messages.append(entry)
        for at, call_id in draw(st.permutations(list(enumerate(ids)))):
            named = draw(st.sampled_from([{"tool_call_id": call_id}, {"name": f"tool_{at}"},
                                          {"tool_call_id": f"toolu_{call_id}", "name": f"tool_{at}"}, None]))
            if named is not None:
                messages.append({"role": "tool", "content": f"result of {call_id}", **named})
    return [*messages, {"role": "user", "content": "last"}]


@given(histories())
def test_p22_any_history_reaches_a_strict_provider_with_every_result_at_its_call(history: list[dict[str, Any]]) -> None:
    body = json.dumps({"model": "m", "messages": history}).encode()
    request = API.decode_request(body, {}, Dropped(), Limits())
    for turn in pair(request.messages, Dropped()):
        for exchange in turn.exchanges:
            assert exchange.result is not None
            text = exchange.result.content[0].text
            assert exchange.result.is_error or text == f"result of {exchange.call.id}"
    sent = json.loads(PROVIDER.encode_request(request, target(), Dropped()).request.body)
    assert_strictly_paired(sent["messages"])
    said = " ".join(json.dumps(message["content"], ensure_ascii=False) for message in sent["messages"])
    for message in history:
        for word in [message["content"]] if isinstance(message["content"], str) else []:
            assert json.dumps(word, ensure_ascii=False)[1:-1] in said
    calls = [call["function"]["arguments"] for message in sent["messages"] for call in message.get("tool_calls") or []]
    assert calls == [call["function"]["arguments"] for message in history for call in message.get("tool_calls") or []]


@given(histories())
def test_p17_the_same_request_is_the_same_bytes_upstream(history: list[dict[str, Any]]) -> None:
    body = json.dumps({"model": "m", "messages": history}).encode()

    def sent() -> bytes:
        request = API.decode_request(body, {}, Dropped(), Limits())
        return PROVIDER.encode_request(request, target(), Dropped()).request.body

    assert sent() == sent()
