"""After a failover the history contains other providers' turns: no endpoint refuses them, and nothing else changes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.anthropic.provider.messages import origin_at
from extproc.conversation.model import Signature
from extproc.conversation.signatures import embed_in_id, embed_in_text
from extproc.errors import RequestError
from tests.unit.apis.passthrough.helpers import DEEPSEEK, READ, body_of, new_translation, send_request, sent_body

OWN = "c2lnbmF0dXJl"
THINKING = {"type": "enabled", "budget_tokens": 1024}
BUDGET: dict[str, Any] = {"tools": [READ], "thinking": THINKING, "max_tokens": 4000}
FROM_GEMINI = embed_in_id("toolu_1", Signature("Z2VtaW5p", "gem1"))
FROM_DEEPSEEK = embed_in_text(Signature("deep-id", origin_at("api.deepseek.com")))


def user(*content: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(content) if content and isinstance(content[0], dict) else content[0]}


def model(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def thought(signature: str | None = OWN, words: str = "hm") -> dict[str, Any]:
    block = {"type": "thinking", "thinking": words}
    return block if signature is None else {**block, "signature": signature}


def call(id: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "read", "input": {"a":  1.0}}


def result(id: str = "toolu_1", *rest: Any) -> dict[str, Any]:
    return user({"type": "tool_result", "tool_use_id": id, "content": [text("r")]}, *rest)


ASK = user("go")


# ------------------------------------------------------------------------------------------------------------- thinking


def test_p10_own_thinking_passes_and_the_bytes_of_the_messages_with_it() -> None:
    messages = [ASK, model(thought(), call()), result(), model({"type": "redacted_thinking", "data": "ZGF0YQ=="},
                                                               text("so")), ASK]
    request, talk = send_request("anthropic", messages=messages, **BUDGET)
    assert b'"messages":' + json.dumps(messages).encode() in request.body
    assert talk.dropped.hints == []


@pytest.mark.parametrize("signature", [None, "", FROM_DEEPSEEK, embed_in_text(Signature("x", "abcd"))])
def test_p10_thinking_that_anthropic_did_not_sign_is_removed(signature: str | None) -> None:
    messages = [ASK, model(thought(signature), text("a"), call()), result(), model(text("ok")), ASK]
    body = sent_body(messages=messages, **BUDGET)
    assert body["messages"][1]["content"] == [text("a"), call()]
    assert body["thinking"] == THINKING, "that loop is closed: thinking stays on"


def test_encrypted_thinking_of_another_issuer_is_removed() -> None:
    """Encrypted items of other providers reach Anthropic clients as redacted thinking."""
    sealed = {"type": "redacted_thinking", "data": embed_in_text(Signature("{}", "abcd"))}
    body = sent_body(messages=[ASK, model(sealed, text("a")), ASK])
    assert body["messages"][1]["content"] == [text("a")]
    other = {"model": "claude-opus-4-6"}  # re-encoded
    anew = sent_body(other, messages=[ASK, model(sealed, text("a")), ASK], temperature=0.5, top_p=0.5)
    assert anew["messages"][1]["content"] == [text("a")]
    own = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
    assert sent_body(messages=[ASK, model(own, text("a")), ASK])["messages"][1]["content"] == [own, text("a")]
    assert sent_body(DEEPSEEK, messages=[ASK, model(own, text("a")), ASK], checked=False)["messages"][1]["content"] == [
        text("a")]


def test_what_was_dropped_is_named() -> None:
    _, talk = send_request("anthropic", messages=[ASK, model(thought(""), text("a")), ASK])
    assert (talk.dropped.hints, talk.dropped.losses) == (["messages.thinking"], [])


def test_a_turn_of_nothing_but_foreign_thinking_leaves_no_gap() -> None:
    """Its neighbours become one message, because roles alternate."""
    messages = [user("go"), model(thought("")), user(text("on"), text("and"))]
    assert sent_body(messages=messages)["messages"] == [user(text("go"), text("on"), text("and"))]
    messages = [ASK, model(call()), result(), model(thought("")), user("on")]
    assert sent_body(messages=messages, tools=[READ])["messages"][2:] == [result("toolu_1", text("on"))]
    assert sent_body(messages=[ASK, model(thought(""))])["messages"] == [ASK]


# -------------------------------------------------------------------------------------------------- a loop that is open


@pytest.mark.parametrize("lost", [[thought("")], [thought(FROM_DEEPSEEK)], [], [text("I read.")]])
def test_a_loop_without_own_thinking_at_its_start_continues_without_thinking(lost: list[Any]) -> None:
    """400 "Expected `thinking` or `redacted_thinking`, but found `tool_use`"."""
    management = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"},
                            {"type": "clear_tool_uses_20250919"}]}
    messages = [ASK, model(*lost, call("a")), result("a"), model(thought(), call("b")), result("b")]
    request, talk = send_request("anthropic", messages=messages, context_management=management, **BUDGET)
    body = json.loads(request.body)
    assert "thinking" not in body
    assert body["context_management"] == {"edits": [{"type": "clear_tool_uses_20250919"}]}
    assert "thinking" in talk.dropped.hints
    sent_body(messages=messages, **BUDGET)


def test_context_edits_of_thinking_are_removed_with_it() -> None:
    management = {"edits": [{"type": "clear_thinking_20251015"}]}
    assert "context_management" not in sent_body(messages=[ASK, model(call()), result()], context_management=management,
                                            **BUDGET)


def test_a_model_with_both_kinds_continues_adaptively() -> None:
    body = sent_body({"model": "claude-opus-4-6"}, model="claude-opus-4-6", tools=[READ], max_tokens=4000,
                messages=[ASK, model(call()), result()], thinking={**THINKING, "display": "summarized"}, checked=False)
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize("messages", [
    [ASK, model(thought(), call("a")), result("a"), model(call("b")), result("b")],
    [ASK, model(thought(), call("a")), result("a", text("<system-reminder>")), model(thought(""), call("b")),
     result("b")],
    [ASK, model({"type": "redacted_thinking", "data": "ZGF0YQ=="}, call("a")), result("a")],
    [ASK, model(call("a")), result("a"), model(text("done")), ASK],
])
def test_a_loop_that_begins_with_its_own_thinking_keeps_its_budget(messages: list[Any]) -> None:
    assert sent_body(messages=messages, **BUDGET)["thinking"] == THINKING


# ---------------------------------------------------------------------------------------------------------------- ids


def test_rule_5_ids_that_carry_a_signature_become_short_in_call_and_result() -> None:
    messages = [ASK, model(text("a"), call(FROM_GEMINI)), result(FROM_GEMINI, text("b")), ASK, model(text("c")), ASK]
    messages.pop(3)
    request, _ = send_request("anthropic", messages=messages, tools=[READ])
    body = json.loads(request.body)
    assert body["messages"][1:3] == [model(text("a"), call()), result("toolu_1", text("b"))]
    assert b"_xs1_" not in request.body
    assert b'{"a": 1.0}' in request.body, "the rest of the block keeps its bytes"


def test_a_mark_inside_a_text_is_only_a_text() -> None:
    messages = [user(f"what is {FROM_GEMINI} and {FROM_DEEPSEEK}?")]
    assert sent_body(messages=messages)["messages"] == messages


@pytest.mark.parametrize("ids", [("call_0", "call_0"), ("functions.read:0", "functions.read:1"), ("a b", "ü")])
def test_p22_histories_of_other_gateways_are_re_encoded(ids: tuple[str, str]) -> None:
    """Repeated ids, and ids that Anthropic does not take."""
    first, second = ids
    messages = [ASK, model(call(first)), result(first), model(call(second)), result(second)]
    body = sent_body(messages=messages, tools=[READ])
    assert len({message["content"][0]["id"] for message in body["messages"] if message["role"] == "assistant"}) == 2


def test_orphans_are_refused_in_words_that_clients_of_anthropic_know() -> None:
    messages = [ASK, model(text("a")), result("toolu_9")]
    with pytest.raises(RequestError) as refused:
        sent_body(messages=messages, tools=[READ])
    error = json.loads(refused.value.body)["error"]
    assert error["message"].startswith("unexpected `tool_use_id` found in `tool_result` blocks: ")
    assert "toolu_9" in error["message"]


# ------------------------------------------------------------------------------------------------ compatible endpoints


def test_a_compatible_endpoint_gets_its_own_signature_back_and_no_mark_of_another() -> None:
    messages = [ASK, model(thought(FROM_DEEPSEEK), text("a")), ASK,
                model(thought(embed_in_text(Signature("x", "abcd"))), text("b")), ASK, model(thought(), text("c")), ASK]
    body = sent_body(DEEPSEEK, messages=messages, checked=False)
    assert [message["content"][0]["signature"] for message in body["messages"] if message["role"] == "assistant"] == [
        "deep-id", "", OWN]
    assert all(message["content"][0]["thinking"] == "hm" for message in body["messages"]
               if message["role"] == "assistant"), "the thinking itself stays"


def test_p10_required_thinking_has_a_placeholder() -> None:
    """DeepSeek: 400 "The content[].thinking in the thinking mode must be passed back"."""
    messages = [ASK, model(text("a"), call("a")), result("a"), model(thought(""), call("b")), result("b")]
    body = sent_body(DEEPSEEK, messages=messages, tools=[READ], checked=False)
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": " ", "signature": ""}
    assert body["messages"][1]["content"][1:] == messages[1]["content"]
    assert body["messages"][3:] == messages[3:]
    off = sent_body(DEEPSEEK, messages=messages, tools=[READ], thinking={"type": "disabled"}, checked=False)
    assert off["messages"] == messages


def test_a_loop_at_an_endpoint_that_checks_no_signatures_keeps_its_thinking() -> None:
    body = sent_body({**DEEPSEEK, "url": "https://api.minimax.io/anthropic"}, messages=[ASK, model(call()), result()],
                checked=False, **BUDGET)
    assert body["thinking"] == THINKING


# -------------------------------------------------------------------------------------------------------- odd histories


@pytest.mark.parametrize("messages", [
    [user("x"), {"role": "assistant", "content": []}],
    [user("x"), model({"type": "tool_use", "name": "read", "input": {}})],
    [user({"type": "tool_result", "tool_use_id": 7})],
    [user({"type": "unheard_of", "id": {"a": 1}, "signature": [], "data": 0})],
    [user("x"), model({"type": "thinking", "thinking": "a", "signature": 3})],
    [{"role": "tool", "content": "x"}],
    [{"role": "user", "content": [{"no": "type"}]}],
])
def test_odd_histories_neither_crash_nor_pass_for_something_else(messages: list[Any]) -> None:
    talk = new_translation("anthropic")
    request = talk.request(body_of("anthropic", messages=messages, tools=[READ]))
    given = [message for message in messages if message["content"] != [
        {"type": "thinking", "thinking": "a", "signature": 3}]]
    assert json.loads(request.body)["messages"] == given
