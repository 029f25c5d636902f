"""Any conversation: the request for Gemini keeps the rules for calls, results and signatures, or is refused."""

from __future__ import annotations

import copy
import json
import re
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.apis.gemini.provider.request import encode_request
from extproc.apis.gemini.provider.signatures import BYPASS, origin
from extproc.conversation.model import (
    Media,
    Message,
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
from extproc.conversation.signatures import embed_in_text, extract_from_text
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from extproc.profiles.gemini import find_gemini_endpoint, find_gemini_model
from extproc.profiles.target import Target
from tests.google_types import validate_body
from tests.providers.gemini_rules import refusal
from tests.unit.apis.gemini.request.helpers import FLASH_25, LATEST, OLD, PDF, PNG, PRO_3, VERTEX, target

TARGETS = st.sampled_from([target(model, **door) for model in (PRO_3, LATEST, FLASH_25, OLD, "gemini-2.5-pro")
                           for door in ({}, VERTEX)])
IDS = st.sampled_from(["a", "b", "call_0", "toolu_" + "x" * 60, "functions.read:0", "null"])
NAMES = st.sampled_from(["read", "write", "a.b", "a/b", "m" * 80, "1st"])
TEXTS = st.builds(Text, st.text(max_size=8))
MEDIA = st.sampled_from([Media("image", media_type="image/png", data=PNG), Media("image", data="R0lGODlhAAAA"),
                         Media("image", url="https://example.com/a"),
                         Media("audio", media_type="audio/mp3", data="SUQz"),
                         Media("document", media_type="application/pdf", data=PDF, title="T"),
                         Media("document", media_type="text/plain", text="words"), Media("video", file_id="v1")])
VALUES = st.sampled_from(["c2ln", "b25l" * 300, "url_safe-Xw="])
OWN, OWN_THOUGHT = "own", "own thought"
SIGNATURES = st.one_of(st.none(), st.builds(Signature, VALUES, st.sampled_from([OWN, "ABCD"])))
CALLS = st.builds(ToolCall, IDS, NAMES, st.sampled_from(["", "{}", '{"a":1}', "[", "null"]), signature=SIGNATURES)
THINKING = st.builds(Thinking, st.text(max_size=4),
                     st.one_of(st.none(), st.just("EqQB"),
                               st.builds(Signature, VALUES, st.sampled_from([OWN, OWN_THOUGHT]))))
RESULTS = st.builds(ToolResult, IDS, st.lists(st.one_of(TEXTS, MEDIA), max_size=3), st.booleans())
MESSAGES = st.lists(st.one_of(
    st.builds(Message, st.just("user"), st.lists(st.one_of(TEXTS, MEDIA, RESULTS), max_size=4)),
    st.builds(Message, st.just("assistant"), st.lists(st.one_of(TEXTS, CALLS, THINKING), max_size=4)),
    st.builds(Message, st.just("system"), st.lists(TEXTS, max_size=2)),
), max_size=8)
STEPS = st.lists(st.tuples(st.lists(CALLS, min_size=1, max_size=3), st.permutations(range(3)), st.booleans()),
                 min_size=1, max_size=4)
"""Steps of an agent: calls, the order their results come back in, and whether the user says something with them."""


def at(messages: list[Message], where: Target) -> list[Message]:
    """The conversation as the client echoes it to this target: what is its own has its origin."""
    def signed(block: Any) -> Any:
        if isinstance(block, ToolCall) and block.signature is not None and block.signature.origin == OWN:
            return ToolCall(block.id, block.name, block.arguments,
                            signature=Signature(block.signature.value, origin(where)))
        if isinstance(block, Thinking) and isinstance(block.signature, Signature):
            own = origin(where, thought=block.signature.origin == OWN_THOUGHT)
            return Thinking(block.text, embed_in_text(Signature(block.signature.value, own)))
        return block
    return [Message(message.role, [signed(block) for block in message.content]) for message in messages]


def sound(messages: list[Message]) -> list[Message]:
    """The conversation without results whose call comes nowhere before them, so that it is never refused."""
    out: list[Message] = []
    seen: set[str] = set()
    for message in messages:
        content = [block for block in message.content if not isinstance(block, ToolResult) or block.call_id in seen]
        seen.update(block.id for block in content if isinstance(block, ToolCall))
        out.append(Message(message.role, content))
    return out


def checked(request: Request, where: Target) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_request(request, where, Dropped()).request.body)
    validate_body(body)
    vertex = find_gemini_endpoint(where.endpoint, where.base_path, where.provider).name == "vertex"
    own = [block.signature.value for message in request.messages for block in message.content
           if isinstance(block, ToolCall) and block.signature is not None and block.signature.origin == origin(where)]
    own += [signature.value for message in request.messages for block in message.content
            if isinstance(block, Thinking) and (signature := extract_from_text(block.signature or "")) is not None]
    found = refusal(body, where.model, vertex=vertex, issued=set(own))
    assert found is None, found
    return body


def assert_paired_and_signed(body: dict[str, Any], where: Target) -> None:
    """8.3 and 8.4 of the reference, in this project's own words, beside the scripted provider's."""
    contents = body["contents"]
    assert contents[0]["role"] == "user"
    for here, following in zip(contents, [*contents[1:], {"role": "end", "parts": []}], strict=True):
        assert here["parts"]
        assert all(part.get("text") != "" for part in here["parts"])
        calls = [part for part in here["parts"] if "functionCall" in part]
        answers = [part["functionResponse"] for part in following["parts"] if "functionResponse" in part]
        if calls:
            assert [part["functionCall"]["name"] for part in calls] == [one["name"] for one in answers]
            assert [part["functionCall"].get("id") for part in calls] == [one.get("id") for one in answers]
            assert len(answers) == len(following["parts"])
            assert all(part.get("thoughtSignature") != BYPASS for part in calls[1:])
            if find_gemini_model(where.model).signatures == "required":
                assert calls[0]["thoughtSignature"]
        else:
            assert not answers


@given(MESSAGES, TARGETS)
@settings(max_examples=200, deadline=None)
def test_p9_calls_and_results_are_strictly_paired_or_refused_by_id(messages, where):
    request = Request(model="m", messages=at([Message("user", [Text("hi")]), *messages], where))
    body = None
    with suppress(BadRequest):
        body = checked(request, where)
    if body is not None:
        assert_paired_and_signed(body, where)
        return
    calls = {block.id for message in messages for block in message.content if isinstance(block, ToolCall)}
    assert sound(messages) != messages or not calls, "only a result without a call before it can be a reason to refuse"


@given(STEPS, TARGETS)
@settings(max_examples=150, deadline=None)
def test_p8_p9_the_steps_of_an_agent_keep_every_result_and_every_own_signature(steps, where):
    """Results come back in any order, some never; ids are new in each step, as those of a real client."""
    messages = [Message("user", [Text("go")])]
    for number, (calls, order, says) in enumerate(steps):
        named = [ToolCall(f"t{number}_{at_}", one.name, one.arguments, signature=one.signature)
                 for at_, one in enumerate(calls)]
        results = [ToolResult(f"t{number}_{at_}", [Text(f"result {number} {at_}.")]) for at_ in order
                   if at_ < len(named) and (at_ + number) % 5]
        messages += [Message("assistant", list(named)), Message("user", [*results, *([Text("well")] if says else [])])]
    request = Request(model="m", messages=at(messages, where))
    body = checked(request, where)
    assert_paired_and_signed(body, where)
    parts = [part for content in body["contents"] for part in content["parts"]]
    sent = [part for part in parts if "functionCall" in part]
    answers = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    flat = [(number, at_, block) for number, (calls, _, _) in enumerate(steps) for at_, block in enumerate(calls)]
    assert len(sent) == len(answers) == len(flat)
    for (number, at_, block), part, answer in zip(flat, sent, answers, strict=True):
        expected = f"result {number} {at_}." if (at_ + number) % 5 else None
        assert answer == ({"output": expected} if expected else {"error": "no result was returned for this call"})
        if block.signature is not None and block.signature.origin == OWN:
            takes = find_gemini_model(where.model).signatures != "none"
            assert part.get("thoughtSignature") == (block.signature.value if takes else None)
        else:
            assert part.get("thoughtSignature") in (None, BYPASS)


@given(MESSAGES, TARGETS)
@settings(max_examples=100, deadline=None)
def test_no_result_and_no_text_of_a_sound_conversation_is_lost(messages, where):
    kept = sound([Message("user", [Text("hi")]), *messages])
    sent = json.dumps(checked(Request(model="m", messages=at(kept, where)), where), ensure_ascii=False)
    for message in kept:
        for block in message.content:
            for text in block.content if isinstance(block, ToolResult) else [block]:
                if isinstance(text, Text):
                    assert json.dumps(text.text, ensure_ascii=False)[1:-1] in sent


CHOICES = st.one_of(st.none(), st.builds(ToolChoice, st.sampled_from(["auto", "required", "none"])),
                    st.builds(ToolChoice, st.just("tool"), st.just("read")),
                    st.builds(ToolChoice, st.sampled_from(["auto", "required"]), st.none(), st.just(("read",))))
WISHES = st.one_of(st.none(), st.builds(
    ThinkingConfig, st.sampled_from([None, "enabled", "adaptive", "disabled"]),
    st.one_of(st.none(), st.integers(0, 200_000)),
    st.sampled_from([None, "minimal", "low", "medium", "high", "xhigh", "max"])))
SCHEMA = {"type": "object", "required": ["a", "c"],
          "properties": {"a": {"const": 1}, "b": {"type": ["string", "null"]}}}
NUMBERS = st.one_of(st.none(), st.floats(-5, 5))


@given(st.data(), TARGETS)
@settings(max_examples=200, deadline=None)
def test_any_settings_are_taken(data, where):
    names = data.draw(st.lists(NAMES, unique=True, max_size=3))
    tools = [Tool("read", None, SCHEMA), *(Tool(name, "x", SCHEMA, strict=data.draw(st.booleans()))
                                           for name in names if name != "read")]
    request = Request(
        model="m", messages=[Message("user", [Text("hi")])], system=data.draw(st.lists(TEXTS, max_size=2)),
        tools=data.draw(st.sampled_from([tools, []])), thinking=data.draw(WISHES),
        parallel_tool_calls=data.draw(st.sampled_from([None, True, False])),
        max_output_tokens=data.draw(st.one_of(st.none(), st.integers(1, 200_000))), temperature=data.draw(NUMBERS),
        top_p=data.draw(NUMBERS), top_k=data.draw(st.one_of(st.none(), st.integers(-1, 1000))),
        stop=data.draw(st.lists(st.text(min_size=1, max_size=3), max_size=7)),
        seed=data.draw(st.one_of(st.none(), st.integers(-2**63, 2**63))), presence_penalty=data.draw(NUMBERS),
        frequency_penalty=data.draw(NUMBERS), stream=data.draw(st.booleans()),
        output_format=data.draw(st.sampled_from([None, OutputFormat(None), OutputFormat(SCHEMA)])))
    request.tool_choice = data.draw(CHOICES) if request.tools else None
    thinking = checked(request, where).get("generationConfig", {}).get("thinkingConfig", {})
    assert not {"thinkingBudget", "thinkingLevel"} <= set(thinking)


@given(MESSAGES, TARGETS)
@settings(max_examples=100, deadline=None)
def test_rule_6_the_same_request_is_the_same_bytes_and_stays_unchanged(messages, where):
    request = Request(model="m", messages=at([Message("user", [Text("hi")]), *messages], where), stream=True,
                      tools=[Tool("read", "x", SCHEMA)])
    kept = copy.deepcopy(request)
    with suppress(BadRequest):
        first = encode_request(request, where, Dropped()).request
        assert encode_request(kept, where, Dropped()).request == first
    assert request == kept


@given(STEPS, TARGETS)
@settings(max_examples=60, deadline=None)
def test_rule_6_what_was_sent_stays_the_same_when_the_conversation_goes_on(steps, where):
    """Prompt caches hit: the contents of a request begin those of the next one."""
    messages = [Message("user", [Text("go")])]
    before: list[Any] = []
    for number, (calls, _, says) in enumerate(steps):
        named = [ToolCall(f"t{number}_{at_}", one.name, one.arguments, signature=one.signature)
                 for at_, one in enumerate(calls)]
        messages += [Message("assistant", list(named)),
                     Message("user", [*(ToolResult(one.id, [Text("ok")]) for one in named),
                                      *([Text("well")] if says else [])])]
        contents = checked(Request(model="m", messages=at(messages, where)), where)["contents"]
        assert contents[:len(before)] == before
        before = contents


@given(st.lists(st.one_of(NAMES, st.text(max_size=80)), unique=True, max_size=8))
@settings(max_examples=100, deadline=None)
def test_p22_any_names_are_legal_distinct_and_restored(names):
    tools = [Tool(name, None, {}) for name in names]
    request = Request(model="m", messages=[Message("user", [Text("hi")])], tools=tools)
    encoded = encode_request(request, target(), Dropped())
    sent = [encoded.names.to_provider[name] for name in names]
    assert len(set(sent)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", name) for name in sent)
    assert [encoded.names.client_name(name) for name in sent] == names
