"""Any conversation: Anthropic would take the request for it. Any stream: cuts change nothing, and what breaks off never
looks finished."""

from __future__ import annotations

import copy
import itertools
import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.apis.anthropic.provider.request import encode_request
from extproc.apis.anthropic.provider.response import AnthropicResponseDecoder
from extproc.conversation.model import (
    Event,
    Finish,
    Media,
    Message,
    Opaque,
    OutputFormat,
    Request,
    Signature,
    Text,
    Thinking,
    ThinkingConfig,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from extproc.conversation.signatures import embed_in_text
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest, Failure
from extproc.schemas.anthropic import input_schema, output_schema
from tests.property.test_openai_request import KEYWORDS, SCHEMAS, healed
from tests.providers.anthropic_rules import check_grammar, refusal
from tests.unit.apis.anthropic.provider.helpers import context, stream, target, text, thinking, tool_use

MODELS = st.sampled_from([
    "claude-3-haiku-20240307", "claude-3-5-sonnet-20241022", "claude-3-7-sonnet-20250219", "claude-opus-4-20250514",
    "claude-opus-4-1", "claude-sonnet-4-20250514", "claude-sonnet-4-5-20250929", "claude-haiku-4-5", "claude-opus-4-5",
    "claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5", "claude-opus-5",
    "claude-fable-5", "claude-fable-5-1", "claude-mythos-preview", "claude-opus-5-5", "claude-sonnet-5-5",
    "claude-haiku-5-5", "anthropic/claude-sonnet-4.5"])
IDS = st.sampled_from(["a", "b", "call_0", "toolu_" + "x" * 70, "functions.read:0", "null", "é"])
NAMES = st.sampled_from(["read", "write", "a.b", "a/b", "m" * 150])
TEXTS = st.builds(Text, st.one_of(st.text(max_size=8), st.sampled_from([" ", "\n", "ok "])), st.booleans())
MEDIA = st.sampled_from([
    Media("image", media_type="image/png", data="iVBOR1=="), Media("image", url="https://x/a.png", cache=True),
    Media("image", url="http://x/a.png"), Media("image", url="data:image/gif;base64,R0lGOD=="),
    Media("image", media_type="image/tiff", data="AAAA"), Media("document", media_type="application/pdf", data="JVBE"),
    Media("document", media_type="text/plain", text="words", title="T"), Media("document", file_id="file-abc"),
    Media("document", file_id="file_011"), Media("document", media_type="text/plain", text=" "),
    Media("audio", media_type="audio/wav", data="AAAA"), Media("video", url="https://x/v.mp4")])
THINKING = st.sampled_from([
    Thinking("hm"), Thinking("hm", signature="c2ln"), Thinking("", signature="c2ln"), Thinking("", redacted="ZGF0YQ=="),
    Thinking("other", signature=embed_in_text(Signature("x", "abcd")))])
CALLS = st.builds(ToolCall, IDS, NAMES, st.sampled_from(["", "{}", '{"a":1}', "[", "null"]), st.booleans())
RESULTS = st.builds(ToolResult, IDS, st.lists(st.one_of(TEXTS, MEDIA), max_size=3), st.booleans(),
                    cache=st.booleans())
MESSAGES = st.one_of(
    st.builds(Message, st.just("user"), st.lists(st.one_of(TEXTS, MEDIA, RESULTS), max_size=4)),
    st.builds(Message, st.just("assistant"), st.lists(st.one_of(TEXTS, CALLS, THINKING, MEDIA), max_size=4)),
    st.builds(Message, st.just("assistant"), st.lists(st.one_of(CALLS, THINKING), min_size=1, max_size=3)),
    st.builds(Message, st.just("system"), st.lists(TEXTS, max_size=2)),
    st.builds(Message, st.just("assistant"),
              st.just([Opaque("anthropic", "server_tool_use", b'{"type":"server_tool_use"}'), Text("found")])),
)
SOUND = st.sampled_from([
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "properties": {"$odd": {"type": "string", "minLength": 2}}, "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer", "minimum": 1}}}},
    {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string", "format": "x"}}},
    {"type": "object", "properties": {"a": {"$ref": "#"}}}])
WISHES = st.builds(ThinkingConfig, st.sampled_from([None, "enabled", "adaptive", "disabled"]),
                   st.sampled_from([None, 1, 1024, 20_000, 10**6]),
                   st.sampled_from([None, "minimal", "low", "high", "xhigh", "max"]))


@st.composite
def requests(draw: st.DrawFn) -> Request:
    tools = draw(st.lists(st.builds(Tool, NAMES, st.none() | st.text(max_size=5), SOUND | SCHEMAS, st.booleans(),
                                    cache=st.booleans()), max_size=3, unique_by=lambda tool: tool.name))
    names = [tool.name for tool in tools]
    choices = [None, ToolChoice("auto"), ToolChoice("none"), ToolChoice("required")]
    choices += [ToolChoice("tool", name) for name in names] + [ToolChoice("auto", allowed=(name,)) for name in names]
    number = st.none() | st.sampled_from([0.0, 0.5, 1.0, 1.9])
    return Request(
        model="m", messages=healed(draw(st.lists(MESSAGES, max_size=8))) + [Message("user", [Text("hi")])] * draw(
            st.integers(0, 1)),
        system=draw(st.lists(TEXTS, max_size=2)), tools=tools, tool_choice=draw(st.sampled_from(choices)),
        parallel_tool_calls=draw(st.sampled_from([None, True, False])), temperature=draw(number), top_p=draw(number),
        max_output_tokens=draw(st.sampled_from([None, 0, 1, 1024, 1025, 5000, 32_000, 10**6])),
        top_k=draw(st.sampled_from([None, 0, 5])), stop=draw(st.lists(st.sampled_from(["", " ", "END"]), max_size=2)),
        stream=draw(st.booleans()), thinking=draw(st.one_of(st.none(), WISHES, WISHES)),
        user=draw(st.none() | st.just("u" * 300)),
        output_format=draw(st.none() | st.builds(OutputFormat, st.one_of(st.none(), SOUND, SCHEMAS))))


@given(requests(), MODELS)
@settings(max_examples=400)
def test_p15_no_conversation_is_refused_by_anthropic(request: Request, model: str) -> None:
    kept = copy.deepcopy(request)
    encoded = None
    with suppress(BadRequest):
        encoded = encode_request(request, target(model), Dropped()).request
    if encoded is None:  # only a request of nothing
        blocks = [block for message in request.messages for block in message.content]
        assert not any(isinstance(block, ToolCall) for block in blocks)
        assert not any(block.text.strip() for block in [*blocks, *request.system] if isinstance(block, Text))
        return
    body = json.loads(encoded.body)
    assert refusal(body, encoded.headers) is None
    assert request == kept
    assert encode_request(kept, target(model), Dropped()).request == encoded, "rule 6: the same bytes"


@given(requests(), MODELS)
@settings(max_examples=150)
def test_rule_4_no_text_of_user_or_tool_is_lost(request: Request, model: str) -> None:
    request.messages = [*request.messages, Message("user", [Text("hi")])]
    body = json.loads(encode_request(request, target(model), Dropped()).request.body)
    whole = json.dumps(body["messages"], ensure_ascii=False)
    for message in request.messages:
        for block in message.content:
            for part in block.content if isinstance(block, ToolResult) else [block]:
                if isinstance(part, Text) and part.text.strip() and message.role == "user":
                    assert json.dumps(part.text, ensure_ascii=False)[1:-1] in whole


@given(SCHEMAS)
@settings(max_examples=200)
def test_p7_schemas_of_answers_can_be_compiled_or_are_not_sent(schema: dict[str, object]) -> None:
    kept = copy.deepcopy(schema)
    found = output_schema(schema)
    assert schema == kept
    if found is not None:
        check_grammar(found, "schema")


@given(st.dictionaries(st.one_of(KEYWORDS, st.text(max_size=5)), SCHEMAS, max_size=4), st.booleans())
@settings(max_examples=150)
def test_p7_odd_property_names_are_told_in_words(properties: dict[str, object], closed: bool) -> None:
    schema: dict[str, object] = {"type": "object", "properties": properties, "required": list(properties)}
    if closed:
        schema["additionalProperties"] = False
    found = input_schema(schema)
    left = found["properties"]
    assert isinstance(left, dict)
    for name in properties:
        if name not in left:
            assert json.dumps(name, ensure_ascii=False) in str(found["description"])
            assert found.get("additionalProperties") is not False


# ------------------------------------------------------------------------------------------------------------- answers

WORDS = st.text(min_size=1, max_size=10)


@st.composite
def blocks(draw: st.DrawFn) -> list[dict[str, Any]]:
    kind = draw(st.sampled_from(["text", "thinking", "call", "whole call", "redacted", "server"]))
    if kind == "text":
        return text(draw(WORDS), size=3)
    if kind == "thinking":
        return thinking(draw(st.text(max_size=8)), draw(st.none() | st.just("c2ln")))
    if kind == "redacted":
        return [{"type": "redacted_thinking", "data": "ZGF0YQ=="}]
    if kind == "server":
        return [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
                {"type": "input_json_delta", "partial_json": '{"query": "tide"}'}]
    arguments = draw(st.dictionaries(st.text(max_size=4), st.text(max_size=6) | st.integers(), max_size=3))
    call_id = draw(st.sampled_from(["toolu_1", "toolu_2", "same", "bad id"]))
    name = draw(st.sampled_from(["lookup_tide", "ping", "unknown"]))
    if kind == "whole call":
        return tool_use(call_id, name, given=arguments)
    whole = json.dumps(arguments, ensure_ascii=False)
    at = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    return tool_use(call_id, name, *(whole[a:b] for a, b in itertools.pairwise([0, *at, len(whole)])))


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    stop = draw(st.sampled_from(["end_turn", "tool_use", "max_tokens", "pause_turn", "refusal", "new_reason"]))
    body = stream(*draw(st.lists(blocks(), max_size=4)), stop=stop, named=draw(st.booleans()), end=draw(st.booleans()))
    body = body.replace(b"event: message_delta", b": comment\nevent: message_delta")
    return body.replace(b"\n", draw(st.sampled_from([b"\n", b"\r\n", b"\r"])))


def read(pieces: list[bytes]) -> list[Event]:
    decoder = AnthropicResponseDecoder(context())
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.finish()


@given(streams(), st.lists(st.integers(0, 10_000), max_size=10))
@settings(max_examples=200)
def test_rule_1_any_cut_same_events(body: bytes, cuts: list[int]) -> None:
    at = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    whole = read([body])
    assert read([body[a:b] for a, b in itertools.pairwise(at)]) == whole
    assert isinstance(whole[-1], Finish)


@given(streams(), st.integers(0, 10_000))
@settings(max_examples=200)
def test_rule_2_a_stream_that_broke_off_never_looks_finished(body: bytes, at: int) -> None:
    cut = body[: at % (len(body) + 1)]
    events = read([cut])
    told = b'"stop_reason": "' in cut
    assert isinstance(events[-1], (Finish, Failure))
    if isinstance(events[-1], Finish):
        assert told, "an end that nobody told"
    assert not any(isinstance(event, (Finish, Failure)) for event in events[:-1])
