"""The endpoints beside the messages themselves: count_tokens, models, prefixes and query strings."""

from __future__ import annotations

from typing import Any

import anthropic

from tests.e2e.gateway import CLIENT_KEY, Gateway
from tests.e2e.wire import HELLO, payload, post, request
from tests.providers.openai import OpenAIProvider, text

LISTED = ["claude-test", "claude-clamped", "claude-official", "claude-down", "claude-new", "glob/one", "glob/two",
          "prompted", "strict", "written/kimi", "reads-glm"]


def test_count_tokens_answers_locally(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    tool: Any = {"name": "look", "description": "Look closely. " * 40, "input_schema": {"type": "object"}}
    short = sdk.messages.count_tokens(model="claude-test", messages=HELLO).input_tokens
    long = sdk.messages.count_tokens(model="claude-test", messages=[
        {"role": "user", "content": "some words " * 1000}]).input_tokens
    with_tool = sdk.messages.count_tokens(model="claude-test", messages=HELLO, tools=[tool]).input_tokens
    assert 0 < short < 50
    assert 1500 < long < 4000
    assert with_tool > short + 80
    assert provider.seen == []


def test_count_tokens_of_an_unknown_model(gateway: Gateway) -> None:
    answer = post(gateway.base_url, {"model": "nope", "messages": HELLO}, path="/v1/messages/count_tokens")
    assert answer.status == 404
    assert answer.error()[0] == "not_found_error"


def test_models_in_anthropics_shape(sdk: anthropic.Anthropic) -> None:
    assert [model.id for model in sdk.models.list(limit=100)] == LISTED


def test_models_in_openais_shape(gateway: Gateway) -> None:
    answer = request(gateway.base_url, "GET", "/v1/models", headers={"authorization": f"Bearer {CLIENT_KEY}"})
    assert answer.status == 200
    body = answer.json()
    assert body["object"] == "list"
    assert [model["id"] for model in body["data"]] == LISTED
    assert all(model["object"] == "model" for model in body["data"])


def test_prefix_and_query_are_tolerated(gateway: Gateway, provider: OpenAIProvider) -> None:
    for path in ("/anthropic/v1/messages", "/v1/messages?beta=true", "/anthropic/v1/messages?beta=true&x=%20"):
        provider.script(text("ok"))
        assert post(gateway.base_url, payload(), path=path).status == 200
        assert provider.last.path == "/v1/chat/completions"


def test_probes_of_claude_code(gateway: Gateway) -> None:
    """Claude Code asks HEAD / before anything else; any answer but a failure is fine."""
    for path in ("/", "/api/hello"):
        assert request(gateway.base_url, "HEAD", path).status < 500
