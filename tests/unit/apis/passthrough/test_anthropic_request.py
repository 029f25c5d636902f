"""An Anthropic client's request reaches an Anthropic-format provider unchanged, except for the necessary changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.errors import RequestError
from tests.unit.apis.passthrough.helpers import (
    BASE,
    CLAUDE,
    DEEPSEEK,
    HI,
    READ,
    body_of,
    new_translation,
    send_request,
    sent_body,
)

BILLING = "x-anthropic-billing-header: cc_version=2.1.{}; cch={};"
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}


# -------------------------------------------------------------------------------------------------- what stays as it is


def test_p23_every_field_block_and_beta_passes_byte_for_byte() -> None:
    """Including unknown fields, odd spacing, odd numbers, and the order of everything."""
    body = (b'{"model": "claude-sonnet-4-5",  "max_tokens":1000, "brand_new": {"a" : [1.0, 1e3, "\\u00e9"]},'
            b'"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}]}, "mcp_servers":[{"x":1}],'
            b'"system":[{"type":"text","text":"be","cache_control":{"type":"ephemeral","ttl":"1h"}}],'
            b'"messages":[{"role":"user","content":[{"type":"brand_new_block","data":{"k":  1}},'
            b'{"type":"text","text":"\xc3\xa9 hi","citations":null},'
            b'{"type":"document","source":{"type":"brand_new","id":"f"},"citations":{"enabled":true}}]}],'
            b'"tools":[{"type":"web_search_20250305","name":"web_search"},{"name":"read","input_schema":{"type":'
            b'"object","properties":{}},"eager_input_streaming":true,"allowed_callers":["direct"]}],"stream":true}')
    talk = new_translation("anthropic")
    request = talk.request(body, {"Anthropic-Beta": "a-1,b-2", "anthropic-version": "2023-06-01", "x-other": "1",
                                  "authorization": "Bearer client", "x-api-key": "client"})
    given, got = json.loads(body), json.loads(request.body)
    assert got == given
    assert list(got) == list(given)
    for part in (b'{"a" : [1.0, 1e3, "\\u00e9"]}', b'{"k":  1}', b'"ttl":"1h"', b"\xc3\xa9 hi"):
        assert part in request.body
    assert request.path == "/v1/messages"
    assert request.headers == {
        "content-type": "application/json", "accept": "text/event-stream", "accept-encoding": "identity",
        "anthropic-version": "2023-06-01", "anthropic-beta": "a-1,b-2"}
    talk.start(200, {"content-type": "text/event-stream"})
    assert talk.head is not None
    assert "x-extproc-dropped" not in talk.head.headers, "nothing was dropped"


def test_the_model_name_is_the_only_change() -> None:
    request, _ = send_request("anthropic", settings={"model": "claude-sonnet-4-5-20250929"}, model="claude-sonnet-4-5")
    assert request.body == b'{"model":"claude-sonnet-4-5-20250929","max_tokens":1000,"messages":%b}' % json.dumps(
        HI).encode()


def test_rule_6_the_same_request_gives_the_same_bytes() -> None:
    fields: dict[str, Any] = {"tools": [READ], "thinking": {"type": "enabled", "budget_tokens": 1024},
                              "max_tokens": 4000}
    assert send_request("anthropic", **fields)[0] == send_request("anthropic", **fields)[0]


@pytest.mark.parametrize(("base", "path"), [
    ("https://api.anthropic.com/v1", "/v1/messages"), ("https://api.deepseek.com/anthropic", "/anthropic/v1/messages")])
def test_the_path_is_that_of_the_messages_api_below_the_backends_url(base: str, path: str) -> None:
    assert send_request("anthropic", settings={"url": base, "model": "claude-x"})[0].path == path


def test_half_of_a_surrogate_pair_becomes_a_replacement_character() -> None:
    """Claude Code cuts strings inside emoji; Anthropic refuses the whole request for it."""
    body = b'{"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"a \\ud83d b"}]}'
    assert b'"a \\ufffd b"' in new_translation("anthropic").request(body).body


# ------------------------------------------------------------------------------------------------------- bad requests


@pytest.mark.parametrize(("body", "words"), [
    (b"", "the body is empty"), (b"[1]", "expected a JSON object"), (b'{"model":"m"', "not valid JSON"),
    (b'{"model":"m","max_tokens":1,"messages":[]}', "messages: expected at least one message"),
    (b'{"model":"m","messages":[{"role":"user","content":"x"}]}', "max_tokens: this field is required"),
    (b'{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"x"}]}', "max_tokens: expected at least 1"),
    (b'{"model":3,"max_tokens":1,"messages":[{"role":"user","content":"x"}]}', "model: expected a string"),
    (b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[3]}]}', "messages[0].content[0]"),
    (b'{"model":"m","max_tokens":1,"messages":[],"x":' + b"[" * 200 + b"]" * 200 + b"}", "nested deeper than 128"),
    (b'{"model":"m","max_tokens":1,"messages":[],"x":"\xff"}', "not valid UTF-8"),
])
def test_rule_3_an_error_names_its_place(body: bytes, words: str) -> None:
    with pytest.raises(RequestError) as refused:
        new_translation("anthropic").request(body)
    assert refused.value.status == 400
    error = json.loads(refused.value.body)
    assert error["type"] == "error"
    assert words in error["error"]["message"]


def test_rule_7_too_many_tools_are_refused() -> None:
    tools = [{**READ, "name": f"t{number}"} for number in range(3)]
    assert len(sent_body({"max_tools": 3}, tools=tools)["tools"]) == 3
    with pytest.raises(RequestError) as refused:
        send_request("anthropic", settings={"max_tools": 2}, tools=tools)
    assert "at most 2" in json.loads(refused.value.body)["error"]["message"]


# ------------------------------------------------------------------------------------------------- the settings apply


def test_the_limit_of_the_attempt_clamps_and_the_budget_stays_below_it() -> None:
    thinking = {"type": "enabled", "budget_tokens": 31_999, "display": "updates"}
    body = sent_body({"max_output_tokens": 8000}, max_tokens=32_000, thinking=thinking, checked=False)
    assert body["max_tokens"] == 8000
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 6000, "display": "updates"}
    assert sent_body({"max_output_tokens": 8000}, max_tokens=7000)["max_tokens"] == 7000
    request, talk = send_request("anthropic", settings={"max_output_tokens": 1500}, max_tokens=32_000,
                                 thinking=thinking)
    assert "thinking" not in json.loads(request.body), "no room for a budget"
    assert talk.dropped.losses == ["thinking"]


def test_an_interleaved_budget_above_the_clients_own_limit_passes() -> None:
    thinking = {"type": "enabled", "budget_tokens": 20_000}
    assert sent_body(max_tokens=10_000, thinking=thinking, checked=False)["thinking"] == thinking
    body = sent_body({"max_output_tokens": 8000}, max_tokens=10_000, thinking=thinking, checked=False)
    assert (body["max_tokens"], body["thinking"]) == (8000, thinking)


@pytest.mark.parametrize(("settings", "client", "expected"), [
    ({"tool_choice": "none"}, {"type": "tool", "name": "read"}, {"type": "none"}),
    ({"tool_choice": "required"}, None, {"type": "any"}),
    ({"tool_choice": "auto"}, {"type": "tool", "name": "read"}, {"type": "auto"}),
    ({"tool_choice": "auto"}, None, None),
    ({"parallel_tool_calls": False}, None, {"type": "auto", "disable_parallel_tool_use": True}),
    ({"parallel_tool_calls": False}, {"type": "any"}, {"type": "any", "disable_parallel_tool_use": True}),
    ({"parallel_tool_calls": False}, {"type": "none"}, {"type": "none"}),
    ({"parallel_tool_calls": True}, {"type": "auto", "disable_parallel_tool_use": True},
     {"type": "auto", "disable_parallel_tool_use": False}),
    ({"parallel_tool_calls": True}, None, None),
    ({"tool_choice": "required", "parallel_tool_calls": False}, {"type": "auto"},
     {"type": "any", "disable_parallel_tool_use": True}),
    ({"tool_choice": "required"}, {"type": "none"}, {"type": "none"}),
    ({}, {"type": "auto", "new": 1}, {"type": "auto", "new": 1}),
])
def test_p24_the_attempts_choice_of_tools(settings: dict[str, Any], client: Any, expected: Any) -> None:
    body = sent_body(settings, tools=[READ], tool_choice=client, checked="new" not in (client or {}))
    assert body.get("tool_choice") == expected


def test_p24_a_forced_call_and_a_budget_exclude_each_other() -> None:
    body = sent_body({"tool_choice": "required"}, tools=[READ], max_tokens=4000,
                thinking={"type": "enabled", "budget_tokens": 1024})
    assert body["tool_choice"] == {"type": "any"}
    assert "thinking" not in body


def test_p24_an_endpoint_without_a_flag_for_single_calls_is_asked_in_words() -> None:
    body = sent_body({**DEEPSEEK, "parallel_tool_calls": False}, tools=[READ], checked=False)
    assert "disable_parallel_tool_use" not in body.get("tool_choice", {})
    assert "one" in json.dumps(body["system"])


def test_without_client_tools_the_settings_have_no_effect() -> None:
    assert "tool_choice" not in sent_body({"tool_choice": "none", "parallel_tool_calls": False}, tools=[SEARCH])


def test_prompted_tools_are_re_encoded() -> None:
    body = sent_body({"tool_style": "prompted"}, tools=[READ])
    assert "tools" not in body
    assert "read" in json.dumps(body["system"])


# ---------------------------------------------------------------------------------------------------- the billing line


@pytest.mark.parametrize("rest", ["", "\nYou are a coder.", "\n \n"])
def test_p17_requests_that_differ_in_the_billing_line_only_are_the_same_upstream(rest: str) -> None:
    def request(version: int, nonce: str, **more: Any) -> bytes:
        line = {"type": "text", "text": BILLING.format(version, nonce) + rest}
        kept = {"type": "text", "text": "Be  brief.", "cache_control": {"type": "ephemeral"}}
        return send_request("anthropic", system=[line, kept], **more)[0].body

    one, other = request(1, "aaaaa"), request(2, "b")
    assert one == other
    assert b"billing" not in one
    assert b'{"type": "text", "text": "Be  brief.", "cache_control": {"type": "ephemeral"}}' in one
    assert (b"You are a coder." in one) == ("coder" in rest)


def test_p17_a_system_prompt_of_nothing_but_the_line_goes() -> None:
    line = BILLING.format(1, "a")
    assert "system" not in sent_body(system=line)
    assert sent_body(system=line + "\nrest")["system"] == "rest"
    assert "system" not in sent_body(system=[{"type": "text", "text": line}])
    quoted = f"They send {line}"
    assert sent_body(system=quoted)["system"] == quoted


# ------------------------------------------------------------------------------- what this model or endpoint refuses


ADAPTIVE = {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}


@pytest.mark.parametrize(("target", "fields"), [
    ("claude-sonnet-4-5", ADAPTIVE),
    ("claude-sonnet-4-5", {"messages": [*HI, {"role": "system", "content": "tools: x"}]}),
    ("claude-opus-5", {"temperature": 0.5, "max_tokens": 64_000}),
    ("claude-opus-5", {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000}),
    ("claude-opus-5-5", {"tools": [READ], "tool_choice": {"type": "any"}}),
    ("claude-opus-5-5", {"thinking": {"type": "disabled"}}),
    ("claude-opus-4-6", {"messages": [*HI, {"role": "assistant", "content": "Once"}]}),
    ("claude-sonnet-4-5", {"temperature": 0.5, "top_p": 0.5}),
    ("claude-opus-4-1", {"max_tokens": 128_000}),
])
def test_a_request_for_another_model_is_made_to_fit_this_one(target: str, fields: dict[str, Any]) -> None:
    """The client asks for a name of its own (Claude Code then writes for the newest model)."""
    sent_body({"model": target}, model="my-best-model", **fields)


def test_a_request_for_the_served_model_passes_unchecked() -> None:
    """No table of the gateway stands between a client and a model with new abilities."""
    fields: dict[str, Any] = {"temperature": 0.5, "thinking": {"type": "brand_new"}, "max_tokens": 900_000}
    for name in ("claude-opus-5", "claude-unheard-of"):
        body = sent_body({"model": name}, checked=False, model=name, **fields)
        assert {key: body[key] for key in fields} == fields


@pytest.mark.parametrize("fields", [
    {"messages": [{"role": "user", "content": [{"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": "iVBOR1=="}}]}]},
    {"messages": [{"role": "user", "content": [{"type": "document", "source": {
        "type": "text", "media_type": "text/plain", "data": "words"}}]}]},
    {"messages": [*HI, {"role": "assistant", "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "text", "text": "found"}]}, *HI]},
    {"messages": [*HI, {"role": "system", "content": "tools: x"}]},
])
def test_rule_4_what_a_compatible_endpoint_cannot_take_is_carried_another_way(fields: dict[str, Any]) -> None:
    body = sent_body(DEEPSEEK, checked=False, **fields)
    kinds = {block["type"] for message in body["messages"] if isinstance(message["content"], list)
             for block in message["content"]}
    assert kinds <= {"text"}
    assert {message["role"] for message in body["messages"]} <= {"user", "assistant"}


def test_rule_4_a_server_tool_at_a_compatible_endpoint_is_named() -> None:
    request, talk = send_request("anthropic", settings=DEEPSEEK, tools=[SEARCH, READ])
    assert [tool["name"] for tool in json.loads(request.body)["tools"]] == ["read"]
    assert talk.dropped.losses
    with pytest.raises(RequestError) as refused:
        send_request("anthropic", settings={**DEEPSEEK, "lossy": "reject"}, tools=[SEARCH, READ])
    assert refused.value.status == 400


def test_rule_4_lossy_reject_refuses_nothing_that_passes() -> None:
    fields: dict[str, Any] = {"mcp_servers": [{"url": "https://x"}], "tools": [SEARCH], "service_tier": "auto"}
    _, talk = send_request("anthropic", settings={"lossy": "reject"}, **fields)
    assert (talk.dropped.losses, talk.dropped.hints) == ([], [])


def test_a_compatible_endpoint_gets_plain_requests_unchanged() -> None:
    fields: dict[str, Any] = {"tools": [READ], "temperature": 0.5, "top_k": 5, "system": [
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}], "brand_new": 1}
    body = sent_body(DEEPSEEK, checked=False, **fields)
    assert body == {**BASE["anthropic"], "model": "deepseek-chat", "messages": HI, **fields}


def test_dialects_to_read_require_re_encoding() -> None:
    """A call that the model wrote as text must be recognised."""
    assert "brand_new" not in sent_body({"read_dialects": ["qwen3-coder"]}, tools=[READ], brand_new=1)


def test_only_the_outline_of_a_request_stays_in_memory() -> None:
    talk = new_translation("anthropic")
    talk.request(body_of("anthropic", messages=[{"role": "user", "content": "x" * 100_000}], tools=[READ]))
    assert talk.conversation is not None
    assert talk.conversation.messages == []
    assert [tool.name for tool in talk.conversation.tools] == ["read"]
    assert talk.conversation.model == CLAUDE


