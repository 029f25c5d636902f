"""Many exchanges at once: none sees a byte of another."""

from __future__ import annotations

import asyncio
import random

import anthropic

from tests.e2e.gateway import CLIENT_KEY, Gateway
from tests.providers.http import Reply
from tests.providers.openai import OpenAIProvider, Seen, calls, text


def echo(seen: Seen) -> Reply:
    """Says the request's own words, or calls the tool with them."""
    words = seen.messages[-1]["content"]
    answer = calls((f"call_{words}", "say", {"words": words})) if "tools" in seen.body else text(words, pieces=3)
    return answer if isinstance(answer, Reply) else answer(seen)


def test_parallel_exchanges_do_not_mix(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.always(echo)

    async def one(client: anthropic.AsyncAnthropic, number: int) -> None:
        words = f"words-{number}-" + "x" * random.Random(number).randrange(2000)
        tools = [{"name": "say", "input_schema": {"type": "object"}}] if number % 2 else anthropic.omit
        async with client.messages.stream(model="claude-test", max_tokens=99, tools=tools,  # type: ignore[arg-type]
                                          messages=[{"role": "user", "content": words}]) as answer:
            block = (await answer.get_final_message()).content[0]
        assert (block.input if block.type == "tool_use" else block.text) == (  # type: ignore[union-attr]
            {"words": words} if number % 2 else words)

    async def all_at_once() -> None:
        async with anthropic.AsyncAnthropic(base_url=gateway.base_url, api_key=CLIENT_KEY, max_retries=0) as client:
            await asyncio.gather(*(one(client, number) for number in range(60)))

    asyncio.run(all_at_once())
    assert len(provider.seen) == 60
