"""`anthropic-beta` by endpoint: each gets the values that it takes, and no field that only another value allows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.errors import RequestError
from tests.unit.apis.passthrough.helpers import CLAUDE, DEEPSEEK, HI, READ, send_request

CLAUDE_CODE = ("claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,"
               "mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20,"
               "effort-2025-11-24,thinking-display-updates-2026-08-18")
"""The value that Claude Code sends with every request."""
BEDROCK = {"url": "https://bedrock-mantle.us-east-1.api.aws/anthropic",
           "model": "anthropic.claude-sonnet-4-5-v1:0"}
VERTEX = {"url": "https://us-east5-aiplatform.googleapis.com/v1", "model": "claude-sonnet-4-5"}
FOUNDRY = {"url": "https://acme.services.ai.azure.com/anthropic", "model": "claude-sonnet-4-5"}
THIRD_PARTIES = [
    DEEPSEEK, {"url": "https://api.moonshot.ai/anthropic", "model": "kimi-k3"},
    {"url": "https://api.z.ai/api/anthropic", "model": "glm-5.3"},
    {"url": "http://127.0.0.1:8000/v1", "model": "qwen3"}]


def betas_at(settings: dict[str, Any], header: str = CLAUDE_CODE, **fields: Any) -> list[str]:
    request, _ = send_request("anthropic", {"anthropic-beta": header}, settings, **fields)
    return [value for value in request.headers.get("anthropic-beta", "").split(",") if value]


def test_3_7_bedrock_gets_its_own_list_and_its_own_names() -> None:
    """It answers "invalid beta flag" to any other value."""
    assert betas_at(BEDROCK) == [
        "claude-code-20250219", "interleaved-thinking-2025-05-14", "context-management-2025-06-27",
        "tool-search-tool-2025-10-19", "effort-2025-11-24", "thinking-display-updates-2026-08-18"]


def test_3_7_vertex_and_foundry_get_theirs() -> None:
    assert betas_at(VERTEX) == ["interleaved-thinking-2025-05-14", "context-management-2025-06-27",
                                "tool-search-tool-2025-10-19", "thinking-display-updates-2026-08-18"]
    assert betas_at(FOUNDRY) == ["interleaved-thinking-2025-05-14", "context-management-2025-06-27",
                                 "advanced-tool-use-2025-11-20", "effort-2025-11-24",
                                 "thinking-display-updates-2026-08-18"]


@pytest.mark.parametrize("settings", THIRD_PARTIES)
def test_3_7_third_parties_get_none(settings: dict[str, Any]) -> None:
    assert betas_at(settings) == []


def test_3_7_anthropic_gets_all_values() -> None:
    assert ",".join(betas_at({}, CLAUDE_CODE + ",brand-new-2027-01-01")) == CLAUDE_CODE + ",brand-new-2027-01-01"


@pytest.mark.parametrize("settings", [BEDROCK, VERTEX, FOUNDRY, *THIRD_PARTIES])
def test_3_7_a_removed_value_is_named(settings: dict[str, Any]) -> None:
    _, talk = send_request("anthropic", {"anthropic-beta": "files-of-tomorrow-2027-01-01, context-1m-2025-08-07"},
                           settings)
    talk.start(200, {"content-type": "application/json"})
    assert "anthropic-beta" in talk.dropped.hints
    assert talk.dropped.losses == []


def test_3_7_the_fields_of_a_beta_go_with_it() -> None:
    """Without their beta they are a 400: "Extra inputs are not permitted"."""
    more: dict[str, Any] = {"context_management": {"edits": []}, "speed": "fast", "fallbacks": "default",
                            "container": {"skills": []}}
    request, talk = send_request("anthropic", {"anthropic-beta": CLAUDE_CODE}, BEDROCK, **more)
    body = json.loads(request.body)
    assert body["context_management"] == {"edits": []}, "Bedrock takes this beta"
    assert not {"speed", "fallbacks", "container"} & body.keys()
    assert talk.dropped.hints == ["speed", "fallbacks", "container", "anthropic-beta"]
    request, talk = send_request("anthropic", None, DEEPSEEK, **more)
    assert not more.keys() & json.loads(request.body).keys()
    assert set(talk.dropped.hints) == set(more)


def test_3_7_mcp_servers_are_a_loss() -> None:
    servers = [{"type": "url", "url": "https://example.com/mcp", "name": "x"}]
    request, talk = send_request("anthropic", {"anthropic-beta": "mcp-client-2025-11-20"}, BEDROCK, mcp_servers=servers)
    assert "mcp_servers" not in json.loads(request.body)
    assert talk.dropped.losses == ["mcp_servers"]
    with pytest.raises(RequestError):
        send_request("anthropic", None, {**BEDROCK, "lossy": "reject"}, mcp_servers=servers)


def test_3_7_thinking_updates_are_requested_where_supported() -> None:
    thinking = {"type": "enabled", "budget_tokens": 2000, "display": "updates"}
    fields: dict[str, Any] = {"thinking": thinking, "max_tokens": 4000}
    assert json.loads(send_request("anthropic", None, BEDROCK, **fields)[0].body)["thinking"] == thinking
    body = json.loads(send_request("anthropic", None, DEEPSEEK, **fields)[0].body)
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}


def test_3_7_a_re_encoded_request_keeps_to_the_list() -> None:
    """The gateway's own betas: thinking between tool calls, and dropped blocks of bound thinking."""
    fields: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000,
                              "tools": [READ], "model": "gpt-5", "temperature": 0.5, "top_p": 0.5}
    assert betas_at(VERTEX, "", **fields) == ["interleaved-thinking-2025-05-14"]
    assert betas_at(THIRD_PARTIES[3], "", **fields) == []


@pytest.mark.parametrize("path", ["pass", "anew"])
@pytest.mark.parametrize("effort", ["low", "medium", "high", "max"])
def test_3_7_deepseek_gets_no_effort_beside_disabled_thinking(path: str, effort: str) -> None:
    fields: dict[str, Any] = {"thinking": {"type": "disabled"}, "output_config": {"effort": effort}}
    if path == "anew":
        fields["messages"] = [*HI, {"role": "system", "content": "be brief"}]
    body = json.loads(send_request("anthropic", None, DEEPSEEK, **fields)[0].body)
    assert body["thinking"] == {"type": "disabled"}
    assert "output_config" not in body


def test_an_effort_beside_thinking_stays() -> None:
    fields: dict[str, Any] = {"thinking": {"type": "enabled", "budget_tokens": 2000}, "max_tokens": 4000}
    body = json.loads(send_request("anthropic", None, DEEPSEEK, **fields, output_config={"effort": "high"})[0].body)
    assert body["output_config"] == {"effort": "high"}


@pytest.mark.parametrize("history", [HI, [*HI, {"role": "system", "content": "be brief"}]])
def test_deepseek_gets_the_user_in_its_alphabet(history: list[Any]) -> None:
    """400 "Invalid 'user_id': string does not match pattern"; Claude Code sends JSON there."""
    user = json.dumps({"device_id": "a" * 64, "session_id": "b"})
    body = json.loads(send_request("anthropic", None, DEEPSEEK, metadata={"user_id": user}, messages=history)[0].body)
    assert len(body["metadata"]["user_id"]) == 32
    assert body["metadata"]["user_id"].isalnum()
    plain = json.loads(send_request("anthropic", None, DEEPSEEK, metadata={"user_id": "a-b_1"},
                                    messages=history)[0].body)
    assert plain["metadata"]["user_id"] == "a-b_1"
    same = json.loads(send_request("anthropic", None, {"model": CLAUDE}, metadata={"user_id": user})[0].body)
    assert same["metadata"]["user_id"] == user
