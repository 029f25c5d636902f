"""One-hop mode: the shipped, hand-written Envoy configuration with `extproc serve` behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import PROVIDER_KEY, configuration
from tests.e2e.hand_written import BACKEND, adapted, running
from tests.e2e.wire import ANTHROPIC, HELLO, payload, post, stream
from tests.ports import free_port
from tests.providers.openai import OpenAIProvider, calls, chunk, openai_error, sse, status, text

NOW: Any = {"name": "now", "input_schema": {"type": "object"}}


@pytest.fixture(scope="module")
def one_hop(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of the hand-written Envoy."""
    directory: Path = tmp_path_factory.mktemp("onehop")
    edge, processor = free_port(), free_port()
    config = configuration(provider_server.url, workers=1)
    config["backends"] = {BACKEND: config["backends"]["plain"]}
    config["models"] = [{"match": "claude-test", "attempts": [{"backend": BACKEND, "model": "scripted/model-1"}]}]
    del config["teams"]
    with running(config, adapted(edge, processor, provider_server.port), directory, edge, processor) as found:
        yield found.url


def test_one_hop_tool_cycle(one_hop: str, provider: OpenAIProvider) -> None:
    provider.script(calls(("call_0", "now", "{}"), content="Wait."), text("Noon."))
    with anthropic.Anthropic(base_url=one_hop, api_key="any", max_retries=0, timeout=20) as sdk:
        with sdk.messages.stream(model="claude-test", max_tokens=99, messages=HELLO, tools=[NOW]) as answer:
            message = answer.get_final_message()
        used = message.content[-1]
        assert used.type == "tool_use"
        whole = sdk.messages.create(model="claude-test", max_tokens=99, tools=[NOW], messages=[
            *HELLO, {"role": "assistant", "content": message.model_dump(exclude_none=True)["content"]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": used.id, "content": "12:00"}]}])
    assert whole.content[0].type == "text"
    assert whole.content[0].text == "Noon."
    sent = provider.last
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {PROVIDER_KEY}"
    assert sent.roles() == ["user", "assistant", "tool"]
    assert not [name for name in sent.headers if name.startswith(("x-extproc", "x-api-key", "anthropic-"))]


def test_one_hop_errors(one_hop: str, provider: OpenAIProvider) -> None:
    provider.script(status(429, openai_error("Slow down"), {"retry-after": "3"}))
    answer = post(one_hop, payload())
    assert answer.status == 429
    assert answer.error()[0] == "rate_limit_error"
    assert answer.headers["retry-after"] == "3"
    assert post(one_hop, b"{").error()[0] == "invalid_request_error"
    unknown = post(one_hop, payload("claude-tset"))
    assert unknown.status == 404
    assert "claude-test" in unknown.error()[1]


def test_one_hop_broken_stream(one_hop: str, provider: OpenAIProvider) -> None:
    provider.script(sse([chunk({"content": "one"})], done=False))
    with stream(one_hop) as answer:
        assert answer.read()[-1]["type"] == "error"


def test_one_hop_large_request(one_hop: str, provider: OpenAIProvider) -> None:
    words = "x" * (5 * 1024 * 1024)
    provider.script(text("ok"))
    assert post(one_hop, payload(messages=[{"role": "user", "content": words}]), headers=ANTHROPIC).status == 200
    assert provider.last.messages[0]["content"] == words
