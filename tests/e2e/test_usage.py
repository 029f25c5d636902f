"""Token figures: wherever the provider puts them, the client gets them in Anthropic's places (P15, P16)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.wire import payload, post, stream
from tests.providers.openai import USAGE, OpenAIProvider, chunk, sse, text

PARTIAL = {"prompt_tokens": 21, "completion_tokens": 3, "total_tokens": 24}
FINISH = chunk({}, finish="stop")

CASES: dict[str, tuple[list[Any], bool]] = {
    "a-own-chunk": ([chunk({"content": "x"}), FINISH, chunk(usage=USAGE)], True),
    "b-finish-chunk": ([chunk({"content": "x"}), {**FINISH, "usage": USAGE}], True),
    "c-every-chunk": ([chunk({"content": "x"}, usage=PARTIAL), {**FINISH, "usage": USAGE}, chunk(usage=USAGE)], True),
    "d-no-done": ([chunk({"content": "x"}), FINISH, chunk(usage=USAGE)], False),
    "f-x-groq": ([chunk({"content": "x"}), {**FINISH, "x_groq": {"usage": USAGE}}], True),
    "f-in-choice": ([chunk({"content": "x"}), {**FINISH, "choices": [
        {"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]}], True),
}


@pytest.mark.parametrize("case", CASES)
def test_p15_usage_wherever_it_comes(gateway: Gateway, provider: OpenAIProvider, case: str) -> None:
    items, done = CASES[case]
    provider.script(sse(items, done=done))
    with stream(gateway.base_url) as answer:
        events = answer.read()
    assert isinstance(events[0]["message"]["usage"]["input_tokens"], int)
    final = events[-2]["usage"]
    assert (final["input_tokens"], final["output_tokens"]) == (21, 7)


def test_p15_no_usage_at_all(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(sse([chunk({"content": "some words of an answer"}), FINISH]), text("some words", usage=None))
    with stream(gateway.base_url) as answer:
        events = answer.read()
    assert isinstance(events[0]["message"]["usage"]["input_tokens"], int)
    assert isinstance(events[-2]["usage"]["output_tokens"], int)
    assert isinstance(post(gateway.base_url, payload()).json()["usage"]["input_tokens"], int)


def test_the_provider_is_asked_for_usage(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("x"))
    with stream(gateway.base_url) as answer:
        answer.read()
    assert provider.last.body["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("usage", [
    {"prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 800},
     "completion_tokens_details": {"reasoning_tokens": 20}},
    {"prompt_tokens": 1000, "completion_tokens": 50, "prompt_cache_hit_tokens": 800, "prompt_cache_miss_tokens": 200},
    {"prompt_tokens": 1000, "completion_tokens": 50, "cached_tokens": 800},
], ids=["openai", "deepseek", "moonshot"])
@pytest.mark.parametrize("streamed", [True, False])
def test_p16_cached_tokens_are_not_counted_twice(gateway: Gateway, provider: OpenAIProvider, usage: Any,
                                                 streamed: bool) -> None:
    provider.script(text("x", usage=usage))
    if streamed:
        with stream(gateway.base_url) as answer:
            found = answer.read()[-2]["usage"]
    else:
        found = post(gateway.base_url, payload()).json()["usage"]
    assert found["input_tokens"] == 200
    assert found["cache_read_input_tokens"] == 800
    assert found["output_tokens"] == 50


def test_p16_never_negative(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("x", usage={"prompt_tokens": 10, "completion_tokens": 1,
                                     "prompt_tokens_details": {"cached_tokens": 500}}))
    assert post(gateway.base_url, payload()).json()["usage"]["input_tokens"] >= 0
