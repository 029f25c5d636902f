"""Any conversation: the request for an OpenAI-format provider keeps its rules, or is refused."""

from __future__ import annotations

import copy
import json
import re
from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extproc.apis.openai.provider.request import encode_request
from extproc.apis.shared.provider_errors import decode_error, failure_from_chunk
from extproc.conversation.model import Media, Message, Request, Text, Thinking, Tool, ToolCall, ToolResult
from extproc.conversation.tool_names import build_name_map
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.schemas.function_parameters import clean_parameters
from tests.unit.apis.openai.provider.helpers import GENERIC, assert_strictly_paired, target

IDS = st.sampled_from(["a", "b", "call_0", "toolu_" + "x" * 50, "functions.read:0", "null"])
NAMES = st.sampled_from(["read", "write", "a.b", "a/b", "m" * 80])
TEXTS = st.builds(Text, st.text(max_size=8))
IMAGES = st.just(Media("image", media_type="image/png", data="iVBOR"))
CALLS = st.builds(ToolCall, IDS, NAMES, st.sampled_from(["", "{}", '{"a":1}', "[", "null"]))
RESULTS = st.builds(ToolResult, IDS, st.lists(st.one_of(TEXTS, IMAGES), max_size=3), st.booleans())
MESSAGES = st.one_of(
    st.builds(Message, st.just("user"), st.lists(st.one_of(TEXTS, IMAGES, RESULTS), max_size=4)),
    st.builds(Message, st.just("assistant"),
              st.lists(st.one_of(TEXTS, CALLS, st.builds(Thinking, st.text(max_size=4))), max_size=4)),
    st.builds(Message, st.just("system"), st.lists(TEXTS, max_size=2)),
)
PROFILES = st.sampled_from([
    GENERIC,
    replace(GENERIC, system_anywhere=False),
    replace(GENERIC, tool_call_id_pattern="[a-zA-Z0-9]{9}", tool_call_id_max=9, tool_call_id_form="nine"),
    replace(GENERIC, bridge_after_tools="Noted.", empty_content="empty"),
    replace(GENERIC, reasoning_history="with_tool_calls", reasoning_placeholder=" "),
])
KEYWORDS = st.sampled_from(["type", "properties", "items", "anyOf", "allOf", "enum", "required", "$ref", "pattern",
                            "exclusiveMinimum", "minimum", "description", "$defs", "not", "title", "default"])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-3, 3),
              st.sampled_from(["object", "array", "str", "[", "#/$defs/a", "a"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.one_of(KEYWORDS, st.just("a")), inner,
                                                                         max_size=4)),
    max_leaves=12)
SCHEMAS = st.dictionaries(KEYWORDS, VALUES, max_size=5)


def healed(messages: list[Message]) -> list[Message]:
    """The conversation without results whose call comes nowhere before them, so that it is never refused."""
    seen: set[str] = set()
    out = []
    for message in messages:
        content = [block for block in message.content if not isinstance(block, ToolResult) or block.call_id in seen]
        seen.update(block.id for block in content if isinstance(block, ToolCall))
        out.append(Message(message.role, content))
    return out


@given(st.lists(MESSAGES, max_size=8), PROFILES)
@settings(max_examples=150, deadline=None)
def test_results_are_strictly_paired_or_the_request_is_refused_by_id(messages, profile):
    request = Request(model="m", messages=[Message("user", [Text("hi")]), *messages])
    sent = None
    with suppress(BadRequest):
        sent = encode_request(request, target(profile), Dropped())
    if sent is None:
        calls = {block.id for message in messages for block in message.content if isinstance(block, ToolCall)}
        results = [block.call_id for message in messages for block in message.content if isinstance(block, ToolResult)]
        assert results, "only results can be a reason to refuse"
        assert healed(messages) != messages or not calls
    else:
        assert_strictly_paired(json.loads(sent.request.body)["messages"])


@given(st.lists(MESSAGES, max_size=8), PROFILES)
@settings(max_examples=100, deadline=None)
def test_no_result_and_no_text_of_a_sound_conversation_is_lost(messages, profile):
    request = Request(model="m", messages=[Message("user", [Text("hi")]), *healed(messages)])
    body = json.loads(encode_request(request, target(profile), Dropped()).request.body)
    assert_strictly_paired(body["messages"])
    sent = json.dumps(body["messages"], ensure_ascii=False)
    for message in request.messages:
        for block in message.content:
            texts = block.content if isinstance(block, ToolResult) else [block]
            for text in texts:
                if isinstance(text, Text):
                    assert json.dumps(text.text, ensure_ascii=False)[1:-1] in sent


@given(st.lists(MESSAGES, max_size=6), st.lists(st.builds(Tool, NAMES, st.none(), SCHEMAS), max_size=3))
@settings(max_examples=100, deadline=None)
def test_rule_6_the_same_request_is_the_same_bytes_and_stays_unchanged(messages, tools):
    request = Request(model="m", messages=[Message("user", [Text("hi")]), *messages], tools=tools, stream=True)
    kept = copy.deepcopy(request)
    with suppress(BadRequest):
        first = encode_request(request, target(), Dropped()).request
        assert encode_request(kept, target(), Dropped()).request == first
    assert request == kept


@given(st.lists(st.one_of(NAMES, st.text(max_size=70)), unique=True, max_size=8))
@settings(max_examples=150, deadline=None)
def test_p22_any_names_are_legal_distinct_and_restored(names):
    found = build_name_map(Request(model="m", messages=[], tools=[Tool(name, None, {}) for name in names]))
    sent = [found.to_provider[name] for name in names]
    assert len(set(sent)) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in sent)
    assert [found.client_name(name) for name in sent] == names


@given(SCHEMAS)
@settings(max_examples=300, deadline=None)
def test_cleaning_a_schema_twice_changes_nothing_more(schema):
    kept = copy.deepcopy(schema)
    cleaned = clean_parameters(schema)
    assert schema == kept
    assert clean_parameters(cleaned) == cleaned
    assert cleaned["type"] == "object"
    assert isinstance(cleaned["properties"], dict)
    assert not {"anyOf", "oneOf", "allOf", "enum", "not", "const", "$ref", "$schema"} & set(cleaned)


@given(st.dictionaries(st.one_of(KEYWORDS, st.text(max_size=5)), SCHEMAS, max_size=4))
@settings(max_examples=100, deadline=None)
def test_p7_every_property_keeps_its_name(properties):
    cleaned = clean_parameters({"type": "object", "properties": properties})
    assert list(cleaned["properties"]) == list(properties)


@given(st.integers(300, 599), st.one_of(st.binary(max_size=60), VALUES.map(lambda value: json.dumps(value).encode())))
@settings(max_examples=150, deadline=None)
def test_p14_any_body_is_a_failure_with_a_message(status, body):
    failure = decode_error(status, {}, body)
    assert failure.message
    assert 400 <= failure.status <= 599


@given(st.dictionaries(st.sampled_from(["error", "message", "code", "type", "detail", "metadata", "object"]), VALUES))
@settings(max_examples=100, deadline=None)
def test_p1_any_error_object_is_a_failure_with_a_message(chunk):
    failure = failure_from_chunk(chunk)
    assert failure.message
    assert 400 <= failure.status <= 599
