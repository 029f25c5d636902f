"""An OpenAI client's request reaches a faithful endpoint unchanged, except for the necessary changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from extproc.conversation.model import Signature
from extproc.conversation.signatures import embed_in_id
from extproc.errors import RequestError
from extproc.profiles.openai import PLAIN
from extproc.profiles.profile import Profile
from extproc.translation import settings
from tests.unit.apis.passthrough.helpers import BASE, HI, LOOK, body_of, new_translation, send_request

STRICT = {"type": "function", "function": {**LOOK["function"], "strict": True}}
CALL: dict[str, Any] = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{"a":  1.0}'}}
TURN: list[dict[str, Any]] = [
    {"role": "user", "content": "go"}, {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": "r"}]


def sent_body(settings: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(send_request("openai", None, settings, **fields)[0].body)
    return body


@pytest.fixture
def peculiar(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A faithful endpoint with these differences in its profile."""
    def make(**changes: Any) -> None:
        profile: Profile = replace(PLAIN, **changes)
        monkeypatch.setattr(settings, "find_profile", lambda *_: profile)
    return make


def test_every_field_part_and_message_passes_byte_for_byte() -> None:
    body = (b'{"model": "gpt-4o","messages":[{"role":"developer","content":[{"type":"text","text":"\\u00e9"}]},'
            b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/a.png","detail":"low"}},'
            b'{"type":"brand_new","x":1.0}]}], "brand_new":{"a" : [1e3]},"logit_bias":{"5":-1},"store":true,'
            b'"service_tier":"flex","metadata":{"k":"v"},"temperature":0.50,"stop":"END","response_format":{"type":'
            b'"json_schema","json_schema":{"name":"x","schema":{"type":"object"},"strict":true}},"n":2,"seed":1,'
            b'"tools":[{"type":"function","function":{"name":"read","parameters":{"properties":{}, "type":"object"}}}],'
            b'"tool_choice":{"type":"function","function":{"name":"read"}},"logprobs":true,"top_logprobs":2,'
            b'"max_tokens":5}')
    request = new_translation("openai").request(body, {"authorization": "Bearer client", "openai-organization": "o"})
    assert request.body == body.replace(b'"model": ', b'"model":').replace(b'], "brand', b'],"brand')
    assert request.path == "/v1/chat/completions"
    assert request.headers == {"content-type": "application/json", "accept": "application/json",
                               "accept-encoding": "identity"}


def test_a_tool_turn_passes_and_the_outline_knows_its_ids() -> None:
    request, talk = send_request("openai", messages=TURN, tools=[STRICT])
    assert b'"messages":' + json.dumps(TURN).encode() in request.body
    assert b'"strict": true' in request.body
    assert talk.conversation is not None
    assert talk.conversation.messages == []


def test_a_stream_asks_for_usage() -> None:
    assert sent_body(stream=True)["stream_options"] == {"include_usage": True}
    options = {"include_obfuscation": False}
    assert sent_body(stream=True, stream_options=options)["stream_options"] == {**options, "include_usage": True}
    assert "stream_options" not in sent_body(stream=False)


@pytest.mark.parametrize(("settings", "fields", "expected"), [
    ({}, {"max_tokens": 100}, {"max_tokens": 100}),
    ({"model": "gpt-5"}, {"max_tokens": 100}, {"max_completion_tokens": 100}),
    ({}, {"max_completion_tokens": 100}, {"max_tokens": 100}),
    ({}, {"max_completion_tokens": 50, "max_tokens": 100}, {"max_tokens": 50}),
    ({"max_output_tokens": 60}, {"max_tokens": 100}, {"max_tokens": 60}),
    ({"max_output_tokens": 60}, {}, {}),
    ({}, {"max_tokens": -1}, {}),
    ({"model": "gpt-4o"}, {"max_tokens": 32000}, {"max_tokens": 16384}),
    ({"model": "gpt-4o", "max_output_tokens": 60}, {"max_tokens": 32000}, {"max_tokens": 60}),
    ({"model": "o3"}, {"max_tokens": 200_000}, {"max_completion_tokens": 100_000}),
])
def test_p24_limits(settings: dict[str, Any], fields: dict[str, Any], expected: dict[str, int]) -> None:
    body = sent_body(settings, **fields)
    assert {name: body[name] for name in ("max_tokens", "max_completion_tokens") if name in body} == expected


@pytest.mark.parametrize(("settings", "fields", "choice", "parallel"), [
    ({"tool_choice": "required"}, {}, "required", None),
    ({"tool_choice": "none"}, {"tool_choice": "required"}, "none", None),
    ({"tool_choice": "required"}, {"tool_choice": "none"}, "none", None),
    ({"parallel_tool_calls": False}, {"parallel_tool_calls": True}, None, False),
    ({"tool_choice": "required", "parallel_tool_calls": True}, {}, "required", True),
    ({}, {"tool_choice": "auto", "parallel_tool_calls": False}, "auto", False),
])
def test_the_attempts_choice_of_tools(settings: dict[str, Any], fields: dict[str, Any], choice: Any,
                                      parallel: Any) -> None:
    body = sent_body(settings, tools=[LOOK], **fields)
    assert (body.get("tool_choice"), body.get("parallel_tool_calls")) == (choice, parallel)
    bare = sent_body(settings)
    assert "tool_choice" not in bare
    assert "parallel_tool_calls" not in bare


def test_rule_4_refused_fields_are_removed_and_named() -> None:
    request, talk = send_request("openai", settings={"model": "gpt-5"}, temperature=0.5, stop="x", presence_penalty=0,
                           frequency_penalty=0.5)
    assert json.loads(request.body).keys() == {"model", "messages"}
    assert talk.dropped.losses == ["temperature", "stop", "frequency_penalty"]
    with pytest.raises(RequestError) as refused:
        send_request("openai", settings={"model": "gpt-5", "lossy": "reject"}, temperature=0.5)
    assert "temperature" in json.loads(refused.value.body)["error"]["message"]


def test_rule_4_other_servers_fields_are_named_and_unknown_ones_pass() -> None:
    request, talk = send_request("openai", top_k=5, min_p=0.1, provider={"order": ["x"]}, brand_new=1)
    assert json.loads(request.body) == {**BASE["openai"], "messages": HI, "brand_new": 1}
    assert (talk.dropped.losses, talk.dropped.hints) == (["top_k", "min_p"], ["provider"])


@pytest.mark.parametrize(("fields", "name", "expected"), [
    ({"reasoning": {"effort": "high"}}, "reasoning_effort", "high"),
    ({"reasoning_effort": "xhigh"}, "reasoning_effort", "high"),
    ({"reasoning_effort": "low"}, "reasoning_effort", "low"),
    ({"thinking": {"type": "enabled", "budget_tokens": 100}}, "reasoning_effort", "low"),
])
def test_reasoning_settings_of_other_apis_are_translated(fields: dict[str, Any], name: str,
                                                                    expected: str) -> None:
    body = sent_body({"model": "gpt-5"}, **fields)
    assert body[name] == expected
    assert not {"reasoning", "thinking"} & body.keys()


@pytest.mark.parametrize("fields", [
    {"extra_body": {"a": 1}}, {"think": "maybe"}, {"chat_template_kwargs": {"a": 1}}, {"functions": []},
    {"tools": [LOOK], "tool_choice": "any"}, {"tools": [LOOK], "function_call": "auto"},
    {"tools": [LOOK], "tool_choice": {"type": "function", "name": "read"}},
])
def test_fields_and_words_of_other_servers_never_reach_openai(fields: dict[str, Any]) -> None:
    body = sent_body(**fields)
    assert not {"extra_body", "think", "chat_template_kwargs", "functions", "function_call"} & body.keys()
    assert body.get("tool_choice") in (None, "auto", "required", {"type": "function", "function": {"name": "read"}})


@pytest.mark.parametrize("messages", [
    [*TURN[:1], {**TURN[1], "tool_calls": [{**CALL, "index": 0}]}, TURN[2]],
    [*TURN[:1], {**TURN[1], "reasoning_content": "hm"}, TURN[2]],
    [*TURN[:1], {**TURN[1], "parsed": None}, TURN[2]],
    [*TURN[:1], {**TURN[1], "tool_calls": [{**CALL, "id": embed_in_id("call_1", Signature("eA==", "gem1"))}]},
     {**TURN[2], "tool_call_id": embed_in_id("call_1", Signature("eA==", "gem1"))}],
    [*TURN[:1], {**TURN[1], "tool_calls": [{**CALL, "id": "c" * 50}]}, {**TURN[2], "tool_call_id": "c" * 50}],
    [*TURN, *TURN],
    [*TURN[:2], {"role": "tool", "name": "read", "content": "r"}],
    [*TURN[:2], {**TURN[2], "name": "read"}],
    [*TURN[:2], {**TURN[2], "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,eA=="}}]}],
    [*TURN[:2], {"role": "user", "content": "never mind"}],
])
def test_histories_that_openai_refuses_are_re_encoded(messages: list[Any]) -> None:
    """Fields from other servers' responses, ids of other alphabets, results that lost their call."""
    body = sent_body(messages=messages, tools=[LOOK])
    waiting: list[str] = []
    seen: set[str] = set()
    for message in body["messages"]:
        assert message.keys() <= {"role", "content", "tool_calls", "tool_call_id"}
        for call in message.get("tool_calls", ()):
            assert call.keys() == {"id", "type", "function"}
            assert len(call["id"]) <= 40
            assert call["id"] not in seen
            seen.add(call["id"])
            waiting.append(call["id"])
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            assert isinstance(message["content"], str)
    assert not waiting


def test_validation_orphan_results_are_refused_by_name() -> None:
    with pytest.raises(RequestError) as refused:
        send_request("openai", messages=[{"role": "tool", "tool_call_id": "call_9", "content": "r"}], tools=[LOOK])
    assert refused.value.status == 400
    assert "call_9" in json.loads(refused.value.body)["error"]["message"]


@pytest.mark.parametrize("tool", [
    {"type": "function", "function": {"name": "read"}},
    {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}},
    {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}},
    {"name": "read", "input_schema": {"type": "object", "properties": {}}},
    {"type": "function", "function": {"name": "read", "input_schema": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "harbour.tide", "parameters": {"type": "object", "properties": {}}}},
    {"type": "function", "function": {"name": "n" * 70, "parameters": {"type": "object", "properties": {}}}},
])
def test_tools_that_servers_refuse_are_mended(tool: dict[str, Any]) -> None:
    [got] = sent_body(tools=[tool])["tools"]
    assert got["function"]["parameters"]["properties"] == {}
    assert len(got["function"]["name"]) <= 64
    assert "." not in got["function"]["name"]


def test_rule_7_too_many_tools_are_refused() -> None:
    tools = [{"type": "function", "function": {**LOOK["function"], "name": f"t{n}"}} for n in range(129)]
    assert len(sent_body(tools=tools[:128])["tools"]) == 128
    with pytest.raises(RequestError) as refused:
        send_request("openai", tools=tools)
    assert refused.value.status == 400


@pytest.mark.parametrize(("profile", "fields"), [
    ({"native_tools": False}, {"tools": [LOOK]}),
    ({"response_format": "json_object"}, {"response_format": {"type": "json_schema", "json_schema": {
        "name": "x", "schema": {"type": "object"}}}}),
    ({"response_format": "json_schema_only"}, {"response_format": {"type": "json_object"}}),
    ({"format_in_stream": False}, {"response_format": {"type": "json_object"}, "stream": True}),
    ({"max_stop": 1}, {"stop": ["a", "b"]}),
    ({"max_temperature": 1.0}, {"temperature": 1.5}),
    ({"seed_field": "random_seed"}, {"seed": 4}),
    ({"images": False}, {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {
        "url": "https://x/a.png"}}]}]}),
    ({"strict_tools": False}, {"tools": [STRICT]}),
    ({"tool_choices": frozenset({"auto"})}, {"tools": [LOOK], "tool_choice": "required"}),
    ({"required_word": "any"}, {"tools": [LOOK], "tool_choice": "required"}),
    ({"parallel_tool_calls": False}, {"tools": [LOOK], "parallel_tool_calls": False}),
    ({"tool_call_id_form": "functions"}, {"tools": [LOOK], "messages": TURN}),
    ({"system_anywhere": False}, {"messages": [*HI, {"role": "system", "content": "x"}, *HI]}),
    ({"prefill": "prefix"}, {"messages": [*HI, {"role": "assistant", "content": "x"}]}),
])
def test_requests_against_the_profile_are_re_encoded(peculiar: Any, profile: dict[str, Any],
                                                      fields: dict[str, Any]) -> None:
    peculiar()
    plain = sent_body(**fields)
    peculiar(**profile)
    changed = sent_body(**fields)
    assert {**changed, "model": 0} != {**plain, "model": 0}


def test_the_profiles_own_fields_are_always_sent(peculiar: Any) -> None:
    peculiar(extra_body={"tool_stream": True}, user=False, stream_usage=False)
    request, talk = send_request("openai", stream=True, user="u")
    assert json.loads(request.body) == {**BASE["openai"], "messages": HI, "stream": True, "tool_stream": True}
    assert talk.dropped.hints == ["user"]


def test_an_unfaithful_server_gets_a_re_encoded_request() -> None:
    settings = {"url": "http://127.0.0.1:8000/v1", "model": "some-model"}
    body = sent_body(settings, tools=[{"type": "function", "function": {"name": "read"}}])
    assert body["tools"][0]["function"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(("body", "words"), [
    (b"{", "not valid JSON"), (b'{"model":"m","messages":[]}', "messages"),
    (b'{"messages":[{"role":"user"}]}', "model"),
    (b'{"model":"m","messages":[{"role":"user","content":"x"}],"n":0}', "n: expected 1 to 128"),
    (b'{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":0}', "max_tokens: expected at least 1"),
    (b'{"model":"m","messages":[{"role":"user","content":"x"}],"tool_choice":3,"tools":[]}', "tool_choice"),
])
def test_rule_3_an_error_names_its_place(body: bytes, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        new_translation("openai").request(body)
    assert refused.value.status == 400
    assert words in json.loads(refused.value.body)["error"]["message"]


def test_rule_6_the_same_request_gives_the_same_bytes() -> None:
    body = body_of("openai", tools=[LOOK], messages=TURN, user="u" * 100, max_tokens=9)
    one, other = new_translation("openai").request(body), new_translation("openai").request(body)
    assert one == other
    assert len(json.loads(one.body)["user"]) == 32
