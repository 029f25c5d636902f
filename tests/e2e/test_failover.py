"""Attempts in order, through the real Envoy: what fails before the first content goes to the next attempt, what fails
after it is an error event, never a splice. The same backend stands twice with two models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from tests.e2e.gateway import CLIENT_KEY, Gateway, configuration
from tests.providers.openai import OpenAIProvider, chunk, openai_error, sse, status, text

ASKED: dict[str, Any] = {"model": "pair", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(scope="module")
def client(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[anthropic.Anthropic]:
    attempts = [{"backend": "plain", "model": model} for model in ("first", "second")]
    config = configuration(provider_server.url, workers=1, models=[{"match": "pair", "attempts": attempts}])
    running = Gateway(config, tmp_path_factory.mktemp("failover"))
    with anthropic.Anthropic(base_url=running.base_url, api_key=CLIENT_KEY, max_retries=0, timeout=30) as one:
        yield one
    assert running.terminate() == 0, running.output


def said(client: anthropic.Anthropic, streamed: bool) -> str:
    if not streamed:
        return "".join(block.text for block in client.messages.create(**ASKED).content if block.type == "text")
    with client.messages.stream(**ASKED) as answer:
        return answer.get_final_text()


FAILS = [pytest.param(status(code, openai_error("no"), {"retry-after": "7"}), id=str(code))
         for code in (401, 402, 403, 404, 408, 429, 500, 502, 503, 529)]
FAILS += [pytest.param(sse([chunk({"role": "assistant", "content": ""}), {"error": {"message": "busy", "code": 502}}]),
                       id="an error in a 200 stream before the first token"),
          pytest.param(sse([chunk({"role": "assistant", "content": ""})], done=False),
                       id="an end before the first token")]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("failure", FAILS)
def test_the_next_attempt_answers(client: anthropic.Anthropic, provider: OpenAIProvider, failure: Any,
                                  streamed: bool) -> None:
    provider.script(failure, text("From the second."))
    assert said(client, streamed) == "From the second."
    assert [seen.body["model"] for seen in provider.seen] == ["first", "second"]


def test_the_last_error_reaches_the_client_in_its_shape(client: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(status(503, openai_error("first is down")),
                    status(429, openai_error("slow down"), {"retry-after": "7"}))
    with pytest.raises(anthropic.RateLimitError) as caught:
        said(client, True)
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.body["error"]["type"] == "rate_limit_error"  # type: ignore[index]
    assert "slow down" in caught.value.message


def test_a_refusal_of_the_request_itself_is_not_tried_again(client: anthropic.Anthropic,
                                                            provider: OpenAIProvider) -> None:
    provider.script(status(400, openai_error("bad temperature")))
    with pytest.raises(anthropic.BadRequestError):
        said(client, True)
    assert len(provider.seen) == 1


def test_after_the_first_content_it_is_an_error_event(client: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    provider.script(sse([chunk({"content": "Half"}), {"error": {"message": "busy", "code": 502}}]))
    with client.messages.stream(**ASKED) as answer:
        pieces = iter(answer.text_stream)
        assert next(pieces) == "Half"
        with pytest.raises(anthropic.APIStatusError):
            next(pieces)
    assert len(provider.seen) == 1
