"""Thinking by model generation: what is requested, what excludes it, what goes back (P10, P24)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.conversation.model import Message, Signature, Text, Thinking, ThinkingConfig, ToolChoice
from extproc.conversation.signatures import embed_in_text, origin_of
from extproc.conversation.unsupported import Dropped
from tests.unit.apis.anthropic.provider.helpers import assistant, call, encode, result, sent, tool, user

TOOLS = [tool("read")]
SIGNED = Thinking("hm", signature="c2ln")
LOOP = (user("go"), assistant(call("a")), user(result("a", "1")))
SIGNED_LOOP = (user("go"), assistant(SIGNED, call("a")), user(result("a", "1")))


def config(mode: Any = None, budget: int | None = None, effort: str | None = None) -> ThinkingConfig:
    return ThinkingConfig(mode, budget=budget, effort=effort)


def thinking_fields(model: str, thinking: ThinkingConfig | None, *messages: Any, dropped: Dropped | None = None,
          **fields: Any) -> tuple[Any, Any]:
    """(thinking, effort) of the body."""
    body = encode(*messages, model=model, thinking=thinking, dropped=dropped, **fields)
    return body.get("thinking"), body.get("output_config", {}).get("effort")


SUMMARIZED = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(("model", "thinking", "expected"), [
    # no setting: the model's default
    ("claude-sonnet-4-5", None, (None, None)), ("claude-opus-5", None, (None, None)),
    # an effort of an OpenAI client
    ("claude-3-5-haiku-latest", config(effort="high"), (None, None)),
    ("claude-sonnet-4-5", config(effort="low"), ({"type": "enabled", "budget_tokens": 4096}, None)),
    ("claude-sonnet-4-5", config(effort="medium"), ({"type": "enabled", "budget_tokens": 16384}, None)),
    ("claude-sonnet-4-5", config(effort="minimal"), ({"type": "enabled", "budget_tokens": 1024}, None)),
    ("claude-opus-4-5", config(effort="xhigh"), ({"type": "enabled", "budget_tokens": 24000}, "high")),
    ("claude-opus-4-6", config(effort="high"), ({"type": "adaptive"}, "high")),
    ("claude-opus-4-6", config(effort="xhigh"), ({"type": "adaptive"}, "high")),
    ("claude-opus-4-7", config(effort="xhigh"), (SUMMARIZED, "xhigh")),
    ("claude-sonnet-5", config(effort="minimal"), (SUMMARIZED, "low")),
    ("claude-opus-5-5", config(effort="max"), (SUMMARIZED, "max")),
    # a budget
    ("claude-3-7-sonnet-latest", config("enabled", 2000), ({"type": "enabled", "budget_tokens": 2000}, None)),
    ("claude-haiku-4-5", config("enabled", 100), ({"type": "enabled", "budget_tokens": 1024}, None)),
    ("claude-sonnet-4-6", config("enabled", 2000), ({"type": "enabled", "budget_tokens": 2000}, None)),
    ("claude-opus-4-8", config("enabled", 2000), (SUMMARIZED, "low")),
    ("claude-opus-4-8", config("enabled", 20_000), (SUMMARIZED, "high")),
    # adaptive, for models with and without it
    ("claude-opus-4-8", config("adaptive"), (SUMMARIZED, None)),
    ("claude-haiku-4-5", config("adaptive"), ({"type": "enabled", "budget_tokens": 16384}, None)),
    # off
    ("claude-haiku-4-5", config("disabled"), (None, None)), ("claude-opus-4-7", config("disabled"), (None, None)),
    ("claude-opus-5", config("disabled"), ({"type": "disabled"}, None)),
    ("claude-opus-5", config("disabled", effort="max"), ({"type": "disabled"}, "high")),
    ("claude-sonnet-5-5", config("disabled"), ({"type": "between_tools"}, None)),
    ("claude-haiku-5-5", config("disabled"), ({"type": "disabled"}, None)),
    ("claude-opus-5-5", config("disabled"), (None, "low")), ("claude-fable-5", config("disabled"), (None, "low")),
    ("anthropic.claude-opus-4-1-20250805-v1:0", config(effort="low"), ({"type": "enabled", "budget_tokens": 4096},
                                                                       None)),
    ("anthropic/claude-sonnet-4.5", config(effort="low"), ({"type": "enabled", "budget_tokens": 4096}, None)),
    ("claude-opus-4-20250514", config(effort="low"), ({"type": "enabled", "budget_tokens": 4096}, None)),
])
def test_p24_each_generation_gets_its_own_form(model: str, thinking: ThinkingConfig | None,
                                                         expected: tuple[Any, Any]) -> None:
    assert thinking_fields(model, thinking) == expected


@pytest.mark.parametrize(("model", "thinking"), [
    ("claude-3-5-haiku-latest", config(effort="high")), ("claude-opus-5-5", config("disabled"))])
def test_rule_4_an_unsupported_setting_is_named(model: str, thinking: ThinkingConfig) -> None:
    dropped = Dropped()
    thinking_fields(model, thinking, dropped=dropped)
    assert dropped.losses == ["thinking"]


# -------------------------------------------------------------------------------------------------- budget, max_tokens


@pytest.mark.parametrize(("limit", "budget", "expected"), [
    (32_000, 32_000, (32_000, 24_000)),  # the settings of a real coding client
    (32_000, 10_000, (32_000, 10_000)), (2049, 10_000, (2049, 1025)),
    (None, 40_000, (64_000, 40_000)), (10**6, 10**6, (64_000, 48_000)),
])
def test_p24_the_budget_stays_below_max_tokens(limit: int | None, budget: int, expected: tuple[int, int]) -> None:
    body = encode(thinking=config("enabled", budget), max_output_tokens=limit)
    assert (body["max_tokens"], body["thinking"]["budget_tokens"]) == expected


@pytest.mark.parametrize("thinking", [config("enabled", 5000), config(effort="low")])
def test_without_room_for_a_budget_thinking_is_off(thinking: ThinkingConfig) -> None:
    dropped = Dropped()
    body = encode(thinking=thinking, max_output_tokens=1024, dropped=dropped)
    assert "thinking" not in body
    assert "thinking" in dropped.losses


def test_thinking_fixes_the_sampling() -> None:
    dropped = Dropped()
    body = encode(thinking=config("enabled", 2000), temperature=0.3, top_k=5, dropped=dropped)
    assert not {"temperature", "top_k"} & set(body)
    assert dropped.losses == ["temperature", "top_k"]
    dropped = Dropped()
    assert "temperature" not in encode(thinking=config("enabled", 2000), temperature=1.0, dropped=dropped)
    assert dropped.losses == []


# ------------------------------------------------------------------------------------------------------ forced choices


@pytest.mark.parametrize("choice", [ToolChoice("required"), ToolChoice("tool", "read")])
def test_a_forced_tool_has_precedence_over_a_budget(choice: ToolChoice) -> None:
    dropped = Dropped()
    body = encode(thinking=config("enabled", 2000), tools=TOOLS, tool_choice=choice, temperature=0.3, dropped=dropped)
    assert "thinking" not in body
    assert body["temperature"] == 0.3
    assert dropped.losses == ["thinking"]


def test_adaptive_thinking_goes_with_a_forced_tool() -> None:
    dropped = Dropped()
    for model in ("claude-opus-4-6", "claude-opus-4-8", "claude-sonnet-5"):
        body = encode(model=model, thinking=config("adaptive"), tools=TOOLS, tool_choice=ToolChoice("required"),
                      dropped=dropped)
        assert (body["thinking"]["type"], body["tool_choice"]["type"]) == ("adaptive", "any")
    assert dropped.losses == []


# --------------------------------------------------------------------------------------------------------- the history


def test_p10_signed_thinking_stays_first_in_its_turn() -> None:
    body = encode(*SIGNED_LOOP, thinking=config("enabled", 2000), tools=TOOLS)
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    late = encode(user("go"), assistant("text", SIGNED, call("a")), user(result("a", "1")),
                  thinking=config("enabled", 2000), tools=TOOLS)
    assert [block["type"] for block in late["messages"][1]["content"]] == ["thinking", "text", "tool_use"]


def test_p10_redacted_and_omitted_thinking_go_back() -> None:
    body = encode(user("go"), assistant(Thinking("", redacted="ZGF0YQ=="), call("a")), user(result("a", "1")),
                  thinking=config("enabled", 2000), tools=TOOLS)
    assert body["messages"][1]["content"][0] == {"type": "redacted_thinking", "data": "ZGF0YQ=="}
    body = encode(user("go"), assistant(Thinking("", signature="c2ln"), call("a")), user(result("a", "1")),
                  model="claude-opus-4-8", thinking=config("adaptive"), tools=TOOLS)
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "", "signature": "c2ln"}


@pytest.mark.parametrize("foreign", [
    Thinking("hm"), Thinking("hm", signature=embed_in_text(Signature("gemini", "abcd")))])
def test_p10_foreign_thinking_is_dropped_never_forged(foreign: Thinking) -> None:
    dropped = Dropped()
    body = encode(user("go"), assistant(foreign, "yes"), user("on"), thinking=config("enabled", 2000), dropped=dropped)
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text"]
    assert body["thinking"]["type"] == "enabled"
    assert dropped.hints == ["messages.thinking"]


@pytest.mark.parametrize("after", [(), (user("and now this"),)])
def test_p10_a_loop_without_signed_thinking_continues_without_a_budget(after: tuple[Message, ...]) -> None:
    dropped = Dropped()
    body = encode(*LOOP, *after, thinking=config("enabled", 2000), tools=TOOLS, dropped=dropped)
    assert "thinking" not in body
    assert dropped.hints == ["thinking"]
    assert dropped.losses == []


@pytest.mark.parametrize("silent", [assistant(Thinking("hm")), assistant(" "), assistant(SIGNED)])
def test_p10_a_turn_that_is_not_sent_does_not_end_the_loop_before_it(silent: Message) -> None:
    dropped = Dropped()
    body = encode(*LOOP, user("more"), silent, user("go on"), thinking=config("enabled", 2000), tools=TOOLS,
                  dropped=dropped)
    assert "thinking" not in body
    assert "thinking" in dropped.hints


def test_p10_only_the_first_round_of_a_loop_needs_signed_thinking() -> None:
    body = encode(*SIGNED_LOOP, assistant(call("b")), user(result("b", "2")), thinking=config("enabled", 2000),
                  tools=TOOLS)
    assert body["thinking"]["type"] == "enabled"


def test_p10_a_closed_loop_needs_no_thinking() -> None:
    body = encode(*LOOP, assistant("done"), user("next"), thinking=config("enabled", 2000), tools=TOOLS)
    assert body["thinking"]["type"] == "enabled"


def test_adaptive_thinking_takes_any_loop() -> None:
    assert thinking_fields("claude-opus-4-8", config("adaptive"), *LOOP, tools=TOOLS)[0] == SUMMARIZED
    assert thinking_fields("claude-sonnet-4-6", config("enabled", 2000), *LOOP, tools=TOOLS)[0] == {"type": "adaptive"}


def test_past_thinking_is_left_out_while_thinking_is_off() -> None:
    dropped = Dropped()
    body = encode(user("a"), assistant(SIGNED, "b"), user("c"), dropped=dropped)
    assert [block["type"] for block in body["messages"][1]["content"]] == ["text"]
    assert dropped.hints == ["messages.thinking"]


def test_a_turn_of_thinking_alone_is_left_out() -> None:
    body = encode(user("a"), assistant("b", SIGNED), user("c"), assistant(SIGNED), user("d"), model="claude-opus-5")
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]


# --------------------------------------------------------------------------------------------------------------- betas


def test_thinking_between_calls_needs_a_beta_at_older_models() -> None:
    def beta(model: str, **fields: Any) -> str | None:
        return sent(model=model, thinking=config(effort="high"), **fields).headers.get("anthropic-beta")
    assert beta("claude-sonnet-4-5", tools=TOOLS) == "interleaved-thinking-2025-05-14"
    assert beta("claude-sonnet-4-5") is None
    assert beta("claude-3-7-sonnet-latest", tools=TOOLS) is None
    assert beta("claude-opus-4-6", tools=TOOLS) is None


def test_bound_thinking_of_an_edited_history_is_dropped_not_refused() -> None:
    request = sent(*SIGNED_LOOP, model="claude-opus-5-5", tools=TOOLS)
    body = json.loads(request.body)
    assert body["thinking"] == {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    assert request.headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01"
    assert "anthropic-beta" not in sent(*LOOP, model="claude-opus-5-5", tools=TOOLS).headers


# --------------------------------------------------------------------------------------------------------- other hosts

DEEPSEEK = {"endpoint": "api.deepseek.com", "base_path": "/anthropic"}
MOONSHOT = {"endpoint": "api.moonshot.ai", "base_path": "/anthropic"}


def compatible(*messages: Any, model: str = "deepseek-v4-pro", settings: dict[str, Any] = DEEPSEEK,
          **fields: Any) -> dict[str, Any]:
    return encode(*messages, model=model, settings=settings, checked=False, **fields)


def test_p10_deepseek_gets_its_thinking_back_with_every_call() -> None:
    body = compatible(user("go"), assistant(Thinking("so"), call("a")), user(result("a", "1")), assistant(call("b")),
                 user(result("b", "2")), tools=TOOLS)
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "so", "signature": ""}
    assert body["messages"][3]["content"][0] == {"type": "thinking", "thinking": " ", "signature": ""}
    off = compatible(*LOOP, tools=TOOLS, thinking=config("disabled"))
    assert off["thinking"] == {"type": "disabled"}
    assert [block["type"] for block in off["messages"][1]["content"]] == ["tool_use"]


def test_a_signature_goes_back_to_its_own_endpoint_only() -> None:
    own = embed_in_text(Signature("s1", origin_of("anthropic", "api.deepseek.com")))
    other_one = embed_in_text(Signature("s2", origin_of("anthropic", "api.z.ai")))
    body = compatible(user("a"), assistant(Thinking("x", signature=own), Thinking("y", signature=other_one), "b"),
                      user("c"))
    assert [block["signature"] for block in body["messages"][1]["content"][:2]] == ["s1", ""]


def test_efforts_and_switches_of_other_hosts() -> None:
    body = compatible(thinking=config(effort="medium"))
    assert (body["thinking"]["type"], body["output_config"]) == ("enabled", {"effort": "high"})
    k3 = compatible(thinking=config(effort="medium"), model="kimi-k3", settings=MOONSHOT)
    assert ("thinking" in k3, k3["output_config"]) == (False, {"effort": "low"})
    k2 = compatible(thinking=config("disabled"), model="kimi-k2.6", settings=MOONSHOT)
    assert k2["thinking"] == {"type": "disabled"}
    local = compatible(thinking=config(effort="low"), model="qwen3", settings={"endpoint": "127.0.0.1:8000"})
    assert local["thinking"] == {"type": "enabled", "budget_tokens": 4096}
    assert "thinking" not in compatible(model="qwen3", settings={"endpoint": "127.0.0.1:8000"})


def test_a_forced_tool_switches_thinking_off_where_it_is_the_default() -> None:
    body = compatible(tools=TOOLS, tool_choice=ToolChoice("required"))
    assert (body["thinking"], body["tool_choice"]) == ({"type": "disabled"}, {"type": "any"})


def test_other_hosts_get_no_betas_and_no_marks() -> None:
    dropped = Dropped()
    request = sent(Message("user", [Text("a", cache=True)]), model="deepseek-v4-pro", settings=DEEPSEEK, tools=TOOLS,
                   thinking=config("enabled", 2000), dropped=dropped)
    assert "anthropic-beta" not in request.headers
    assert b"cache_control" not in request.body
    assert dropped.hints == ["cache_control"]
