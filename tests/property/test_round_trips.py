"""Every client API with every provider API: a conversation loses nothing that both can carry, an answer says the same
to the official SDK, a signature comes back, and any cut of the stream gives the same bytes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.translation.exchange import Translation
from tests.property.answers import (
    PROVIDERS,
    Answer,
    Provider,
    answers,
    heard_by,
    stream_of,
    whole_of,
)
from tests.property.stories import SETTINGS, WORDS, WRITERS, Step, read, steps, story_of
from tests.providers.anthropic_rules import refusal as refused_by_anthropic
from tests.providers.gemini_rules import refusal as refused_by_gemini
from tests.providers.openai_rules import refusal as refused_by_openai
from tests.providers.responses_rules import refusal as refused_by_responses

SPEAKERS = ("openai", "anthropic", "responses")
CLIENTS = (*SPEAKERS, "events")
PAIRS = list(itertools.product(SPEAKERS, PROVIDERS))
ALL_PAIRS = list(itertools.product(CLIENTS, PROVIDERS))
ASKED: dict[str, Any] = {
    "openai": {"messages": [{"role": "user", "content": "hi"}], "stream_options": {"include_usage": True}},
    "anthropic": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4096},
    "events": {"messages": [{"role": "user", "content": "hi"}]},
    "responses": {"input": [{"role": "user", "content": "hi"}], "reasoning": {"summary": "auto"}},
}
FUNCTIONS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
             for name in ("weather", "now")]
FLAT = [{"type": "function", "strict": False, **function["function"]} for function in FUNCTIONS]
INPUTS = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in ("weather", "now")]


def translation(client: str, provider: Provider) -> Translation:
    endpoint = "chat" if provider.api == "openai" else "auto"  # OpenAI serves clients of Responses by Responses
    return Translation(client, provider.api, provider.model, provider=provider.name, url=provider.url,
                       endpoint=endpoint)


def request_of(client: str, *, stream: bool, **fields: Any) -> bytes:
    tools = {"anthropic": INPUTS, "responses": FLAT}.get(client, FUNCTIONS)
    body = {"model": "m", **ASKED[client], "tools": tools, **fields}
    if not stream:
        body.pop("stream_options", None)
    return json.dumps({**body, "stream": stream}).encode()


def answered(client: str, provider: Provider, pieces: list[bytes], *, stream: bool, head: str) -> tuple[int, bytes]:
    """What the client gets for a provider's body in these pieces."""
    talk = translation(client, provider)
    talk.request(request_of(client, stream=stream))
    talk.start(200, {"content-type": head})
    out = b"".join(talk.feed(piece) for piece in pieces) + talk.finish()
    assert talk.head is not None
    return talk.head.status, out


# ------------------------------------------------------------------------------------------------------------ requests


def assert_taken(provider: Provider, request: Any) -> Any:
    """The provider's own rules hold."""
    body = json.loads(request.body)
    if provider.api == "openai":
        assert refused_by_openai(body) is None
    elif provider.api == "anthropic":
        assert refused_by_anthropic(body, {"anthropic-version": "2023-06-01", **request.headers}) is None
    elif provider.api == "responses":
        assert refused_by_responses(body) is None
    else:
        assert refused_by_gemini(body, provider.model) is None
    return body


@pytest.mark.parametrize(("client", "provider"), PAIRS, ids=str)
@given(data=st.data())
@settings(max_examples=60)
def test_a_conversation_keeps_what_both_can_carry(client: str, provider: Provider, data: st.DataObject) -> None:
    made: list[Step] = data.draw(steps(errors=client == "anthropic"))
    system = data.draw(st.just("") | WORDS)
    wished = data.draw(SETTINGS)
    if "responses" in (client, provider.api):  # has no stop sequences
        wished.pop("stop", None)
    if not provider.samples:
        wished.pop("temperature", None)
    body = WRITERS[client](system, made, wished)
    talk = translation(client, provider)
    request = talk.request(json.dumps(body).encode())
    assert_taken(provider, request)
    assert talk.dropped.losses == []
    told, found = story_of(system, made, wished), read(provider.api, request.body)
    assert found.system == told.system
    assert (found.said, found.answered, found.calls) == (told.said, told.answered, told.calls)
    assert [(number, error) for number, _, error in found.results] == [
        (number, error) for number, _, error in told.results]
    for (_, got, _), (_, text, _) in zip(found.results, told.results, strict=True):
        assert got.split("\n[image attached")[0] == text
    assert sorted(found.images) == sorted(told.images)
    assert found.order == told.order
    assert {name: (about, set(properties)) for name, (about, properties) in found.tools.items()} == {
        name: (about, set(properties)) for name, (about, properties) in told.tools.items()}
    assert {**found.settings, "limit": wished.get("limit")} == {**told.settings, "limit": wished.get("limit")}
    if "limit" in wished:
        assert found.settings["limit"] == wished["limit"]


@pytest.mark.parametrize(("client", "provider"), PAIRS, ids=str)
@given(data=st.data())
@settings(max_examples=20)
def test_rule_6_the_next_turn_begins_with_the_same_messages(client: str, provider: Provider,
                                                            data: st.DataObject) -> None:
    """Prompt caches hit: what was sent stays as it was when the conversation goes on."""
    made: list[Step] = data.draw(steps(errors=False))
    more: list[Step] = data.draw(steps(errors=False))
    key = {"gemini": "contents", "responses": "input"}.get(provider.api, "messages")

    def sent(of: list[Step]) -> list[Any]:
        body = WRITERS[client]("Be brief.", of, {})
        found: list[Any] = json.loads(translation(client, provider).request(json.dumps(body).encode()).body)[key]
        return found

    before, after = sent(made), sent([*made, *more])
    assert after[:len(before) - 1] == before[:-1], "all but the last word of the user"


# ------------------------------------------------------------------------------------------------------------- answers


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(("client", "provider"), PAIRS, ids=str)
@given(data=st.data())
@settings(max_examples=30)
def test_an_answer_says_the_same_to_the_sdk(client: str, provider: Provider, stream: bool,
                                            data: st.DataObject) -> None:
    answer: Answer = data.draw(answers(provider))
    written = stream_of(provider, answer) if stream else whole_of(provider, answer)
    head = "text/event-stream" if stream else "application/json"
    status, out = answered(client, provider, [written], stream=stream, head=head)
    assert status == 200
    heard = heard_by(client, out, stream=stream)
    assert heard.text == answer.text
    assert heard.thinking == answer.thinking
    assert heard.calls == answer.calls
    assert heard.stop == answer.stop
    assert len(set(heard.ids)) == len(answer.calls)
    assert (heard.input, heard.output) == (21, 7)


@pytest.mark.parametrize("client", SPEAKERS)
@pytest.mark.parametrize("provider", [one for one in PROVIDERS if one.signs], ids=str)
@given(data=st.data())
@settings(max_examples=40)
def test_p8_p10_a_signature_comes_back_to_who_issued_it(client: str, provider: Provider, data: st.DataObject) -> None:
    """The client echoes what its SDK made of the answer, with the results of the calls."""
    answer: Answer = data.draw(answers(provider, signed=True))
    wish = {"anthropic": {"thinking": {"type": "enabled", "budget_tokens": 2048}},
            "openai": {"reasoning_effort": "low"}, "responses": {"reasoning": {"effort": "low"}}}[client]
    _, out = answered(client, provider, [stream_of(provider, answer)], stream=True, head="text/event-stream")
    heard = heard_by(client, out, stream=True)
    echoed = heard.echo
    if client == "responses":
        results = [{"type": "function_call_output", "call_id": call_id, "output": "ok"} for call_id in heard.ids]
    elif client == "anthropic":
        results = [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"], "content": "ok"}
                                                for block in echoed["content"] if block["type"] == "tool_use"]}]
    else:
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in echoed["tool_calls"]]
    name = "input" if client == "responses" else "messages"
    history = {name: [*ASKED[client][name], *(heard.items or [echoed]), *results]}
    request = translation(client, provider).request(request_of(client, stream=True, **history, **wish))
    body = json.loads(request.body)
    if provider.api == "gemini":
        found = [part.get("thoughtSignature") for content in body["contents"] for part in content["parts"]
                 if "functionCall" in part]
        assert answer.signature is not None
        assert refused_by_gemini(body, provider.model, issued={answer.signature}) is None
        assert found == [answer.signature, *[None] * (len(answer.calls) - 1)]
    elif provider.api == "responses":
        assert answer.signature is not None
        assert refused_by_responses(body, {answer.signature}) is None
        assert [item["encrypted_content"] for item in body["input"] if item.get("type") == "reasoning"] == [
            answer.signature]
    else:
        (turn,) = [message for message in body["messages"] if message["role"] == "assistant"]
        assert turn["content"][0] == {"type": "thinking", "thinking": answer.thinking, "signature": answer.signature}
        assert body["thinking"]["type"] == "enabled", "thinking stays on"


# ---------------------------------------------------------------------------------------------------------- any cut


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize(("client", "provider"), ALL_PAIRS, ids=str)
@given(data=st.data())
@settings(max_examples=30)
def test_rule_1_any_cut_same_bytes(client: str, provider: Provider, stream: bool, data: st.DataObject) -> None:
    """Whatever the client asked for and whatever the provider sends: a stream, or a whole answer."""
    answer: Answer = data.draw(answers(provider))
    streams = data.draw(st.booleans())
    written = stream_of(provider, answer) if streams else whole_of(provider, answer)
    cuts = data.draw(st.lists(st.integers(0, len(written)), max_size=8))
    at = [0, *sorted(cuts), len(written)]
    how: dict[str, Any] = {"stream": stream, "head": "text/event-stream" if streams else "application/json"}
    at_once = answered(client, provider, [written], **how)
    assert answered(client, provider, [written[a:b] for a, b in itertools.pairwise(at)], **how) == at_once
    assert at_once[0] == 200


@pytest.mark.parametrize(("client", "provider"), ALL_PAIRS, ids=str)
@given(data=st.data())
@settings(max_examples=30)
def test_rule_2_what_is_cut_off_never_looks_finished(client: str, provider: Provider, data: st.DataObject) -> None:
    answer: Answer = data.draw(answers(provider))
    written = stream_of(provider, answer, ends=False)
    cut = data.draw(st.integers(0, len(written)))
    status, out = answered(client, provider, [written[:cut]], stream=True, head="text/event-stream")
    ends = {"openai": b"[DONE]", "anthropic": b'"message_stop"', "events": b'"done":true',
            "responses": b"event: response.completed"}[client]
    if ends in out:  # some servers in OpenAI's format stop right behind whole calls
        assert provider.api == "openai"
        assert answer.calls
    else:
        assert status >= 400 or (b"event: response.failed" if client == "responses" else b'"error"') in out
