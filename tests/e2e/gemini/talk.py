"""What the end-to-end tests with Gemini share: the gateway's configuration, tools, a client's loop over turns.

The loop does what every client does: runs the tools, sends everything back as it came, and knows nothing of Gemini.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anthropic

from tests.e2e.gateway import configuration
from tests.providers.gemini import KEY, TOKEN, GeminiProvider

PRO = "gemini-3-pro-preview"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
IMAGE: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
WEATHER: Any = {
    "name": "weather", "description": "The weather of a town",
    "input_schema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {
        "town": {"type": "string", "minLength": 1}, "days": {"type": ["integer", "null"], "exclusiveMinimum": 0}},
        "required": ["town"], "additionalProperties": False}}
NOW: Any = {"name": "now", "description": "The time", "input_schema": {"type": "object", "properties": {}}}
TOOLS: list[Any] = [WEATHER, NOW]
THINKING: Any = {"type": "enabled", "budget_tokens": 2048}
BYPASS = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""What stands for a signature that does not exist: `skip_thought_signature_validator` in base64."""
QUESTION: Any = {"role": "user", "content": "Weather in Ulm and Jena?"}


def gemini_configuration(gemini: GeminiProvider, openai_url: str) -> dict[str, Any]:
    """AI Studio and Vertex at the same scripted provider, and pairs of Gemini and an OpenAI-compatible provider."""
    studio = {"backend": "studio", "model": PRO}
    plain = {"backend": "plain", "model": "gpt-5.2"}
    return configuration(openai_url, workers=1, models=[
        {"match": "three", "attempts": [studio]},
        {"match": "flash", "attempts": [{"backend": "studio", "model": "gemini-2.5-flash"}]},
        {"match": "two", "attempts": [{"backend": "studio", "model": "gemini-2.0-flash"}]},
        {"match": "gemma", "attempts": [{"backend": "studio", "model": "gemma-3-27b-it"}]},
        {"match": "vertex", "attempts": [{"backend": "vertex", "model": PRO}]},
        {"match": "vertex-two", "attempts": [{"backend": "vertex", "model": "gemini-2.0-flash"}]},
        {"match": "wrong-key", "attempts": [{"backend": "wrong", "model": PRO}]},
        {"match": "wrong-token", "attempts": [{"backend": "wrong-vertex", "model": PRO}]},
        {"match": "gemini-first", "attempts": [studio, plain]},
        {"match": "openai-first", "attempts": [plain, studio]},
        {"match": "studio-first", "attempts": [studio, {"backend": "vertex", "model": PRO}]},
    ], backends={
        "studio": {"api": "gemini", "url": gemini.url, "key": KEY},
        "vertex": {"api": "gemini", "url": gemini.vertex_url, "key": TOKEN},
        "wrong": {"api": "gemini", "url": gemini.url, "key": "AIza-wrong-0123456789"},
        "wrong-vertex": {"api": "gemini", "url": gemini.vertex_url, "key": "ya29.wrong-0123456789"},
        "plain": {"api": "openai", "url": openai_url, "provider": "openai", "key": "sk-provider-0123456789"},
    })


class Conversation:
    """A client's side of one conversation, streamed or not."""

    def __init__(self, sdk: anthropic.Anthropic, model: str, streamed: bool = True, **fields: Any) -> None:
        self.sdk = sdk
        self.streamed = streamed
        self.fields: dict[str, Any] = {"model": model, "max_tokens": 4096, "tools": TOOLS, **fields}
        self.messages: list[Any] = [QUESTION]

    def turn(self, *results: Any) -> anthropic.types.Message:
        """Asks; then appends the answer, and `results` for its calls in order (contents, or tool_result fields)."""
        asked: Any = {**self.fields, "messages": self.messages}
        if self.streamed:
            with self.sdk.messages.stream(**asked) as answer:
                message = answer.get_final_message()
        else:
            message = self.sdk.messages.create(**asked)
        self.messages.append({"role": "assistant", "content": message.model_dump(exclude_none=True)["content"]})
        used = calls_of(message)
        assert message.stop_reason == ("tool_use" if used else "end_turn"), message
        assert len(used) == len(results), message
        if used:
            self.messages.append({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": block.id,
                 **(result if isinstance(result, dict) else {"content": result})}
                for block, result in zip(used, results, strict=True)]})
        return message


def calls_of(message: anthropic.types.Message) -> list[Any]:
    return [block for block in message.content if block.type == "tool_use"]


def said(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def thought(message: anthropic.types.Message) -> str:
    return "".join(block.thinking for block in message.content if block.type == "thinking")


def outputs(responses: Sequence[dict[str, Any]], key: str = "output") -> list[Any]:
    return [response["response"].get(key) for response in responses]
