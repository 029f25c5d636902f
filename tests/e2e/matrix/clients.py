"""The two official SDKs behind one vocabulary: a conversation goes out, what the model said comes in.

A `Client` holds an SDK, a `Talk` is one conversation with it, streamed or not. Streams are read with the SDK's own
accumulator, and what it accumulated is echoed in the next turn as clients do. `Said` has the same words for both.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import anthropic
import httpx2
import openai
from openai.lib.streaming.chat import ChatCompletionStreamState
from pydantic import BaseModel

from tests.e2e.gateway import CLIENT_KEY

BROKEN = (anthropic.APIError, openai.APIError, httpx2.TransportError)
"""What an SDK raises when an answer breaks."""


@dataclass
class Tool:
    name: str
    description: str
    schema: dict[str, Any]


@dataclass
class Called:
    id: str
    name: str
    arguments: Any


@dataclass
class Figures:
    """Tokens. `input` holds `cached`, `output` holds `reasoning`."""

    input: int
    cached: int
    output: int
    reasoning: int


@dataclass
class Said:
    """An answer. `stop` is end, calls, length or refusal; `pieces` counts the deltas of text in a stream."""

    text: str
    thinking: str
    calls: list[Called]
    stop: str
    figures: Figures | None
    model: str
    pieces: int = 0
    parsed: Any = None


@dataclass
class Result:
    """The result of a call; `image` is base64."""

    text: str
    image: str | None = None


@dataclass
class Failed:
    """How an SDK reports an error: the class of its exception, what the body says."""

    kind: str
    status: int
    type: str
    code: str | None
    message: str
    headers: dict[str, str]


@dataclass
class Wish:
    """What a conversation asks of every turn."""

    model: str
    streamed: bool
    system: str | None = None
    tools: Sequence[Tool] = ()
    thinking: bool = False
    forced: str | None = None
    parallel: bool = True
    limit: int = 4096
    temperature: float | None = None
    stop: list[str] = field(default_factory=list)
    format: type[BaseModel] | None = None


class Talk(ABC):
    """One conversation. `forgetful`: the client keeps of an answer only what the API's own documentation has."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.forgetful = False
        self.messages: list[Any] = []

    @abstractmethod
    def say(self, text: str, *, image: str | None = None, document: str | None = None) -> None:
        """The user says something; media are base64 (PNG, PDF)."""

    @abstractmethod
    def turn(self) -> Said:
        """The model's turn; what it said joins the conversation."""

    @abstractmethod
    def answer(self, *results: tuple[Called, Result]) -> None:
        """The results of calls, in this order."""


class Client(ABC):
    """An SDK that talks to the gateway. `headers` are those of the last response."""

    name: str

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    def _note(self, response: Any) -> None:
        self.headers = dict(response.headers)

    @abstractmethod
    def talk(self, wish: Wish) -> Talk: ...

    @abstractmethod
    def failed(self, error: BaseException) -> Failed:
        """An exception of this SDK for a response with an error status."""

    @abstractmethod
    def close(self) -> None: ...


# ---------------------------------------------------------------------------------------------------------- Anthropic


class AnthropicTalk(Talk):
    def __init__(self, sdk: anthropic.Anthropic, wish: Wish) -> None:
        super().__init__(wish)
        self._sdk = sdk

    def say(self, text: str, *, image: str | None = None, document: str | None = None) -> None:
        blocks: list[Any] = [{"type": "text", "text": text}]
        blocks += [_image(image)] if image else []
        if document:
            blocks.append({"type": "document", "source": {"type": "base64", "media_type": "application/pdf",
                                                          "data": document}})
        self.messages.append({"role": "user", "content": blocks if len(blocks) > 1 else text})

    def answer(self, *results: tuple[Called, Result]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": called.id,
                   "content": [{"type": "text", "text": result.text}, _image(result.image)]
                   if result.image else result.text} for called, result in results]
        self.messages.append({"role": "user", "content": blocks})

    def turn(self) -> Said:
        pieces = 0
        if self.wish.streamed:
            with self._sdk.messages.stream(**self._asked()) as stream:
                for event in stream:
                    pieces += event.type == "text"
                message: Any = stream.get_final_message()
        elif self.wish.format is not None:
            message = self._sdk.messages.parse(**self._asked())
        else:
            message = self._sdk.messages.create(**self._asked())
        self.messages.append({"role": "assistant", "content": [
            block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in message.content]})
        usage = message.usage
        cached = usage.cache_read_input_tokens or 0
        details = usage.output_tokens_details
        return Said(
            "".join(block.text for block in message.content if block.type == "text"),
            "".join(block.thinking for block in message.content if block.type == "thinking"),
            [Called(block.id, block.name, block.input) for block in message.content if block.type == "tool_use"],
            {"end_turn": "end", "tool_use": "calls", "max_tokens": "length"}.get(message.stop_reason,
                                                                                 message.stop_reason),
            Figures(usage.input_tokens + cached, cached, usage.output_tokens,
                    details.thinking_tokens if details is not None else 0),
            message.model, pieces, getattr(message, "parsed_output", None))

    def _asked(self) -> dict[str, Any]:
        wish = self.wish
        asked: dict[str, Any] = {"model": wish.model, "max_tokens": wish.limit, "messages": self.messages}
        if wish.system:
            asked["system"] = wish.system
        if wish.tools:
            asked["tools"] = [{"name": tool.name, "description": tool.description, "input_schema": tool.schema}
                              for tool in wish.tools]
        if wish.forced:
            asked["tool_choice"] = {"type": "tool", "name": wish.forced}
        if not wish.parallel:
            asked["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
        if wish.thinking:
            asked["thinking"] = {"type": "enabled", "budget_tokens": 2048}
        if wish.stop:
            asked["stop_sequences"] = wish.stop
        if wish.temperature is not None:  # newer SDKs have no such parameter, and name a version that refuses it
            asked["extra_body"] = {"temperature": wish.temperature}
            asked["extra_headers"] = {"anthropic-version": "2023-06-01"}
        if wish.format:
            asked["output_format"] = wish.format
        return asked


def _image(data: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


class AnthropicClient(Client):
    name = "anthropic"

    def __init__(self, base_url: str) -> None:
        super().__init__()
        http = anthropic.DefaultHttpxClient(event_hooks={"response": [self._note]})
        self.sdk = anthropic.Anthropic(base_url=base_url, api_key=CLIENT_KEY, max_retries=0, timeout=30,
                                       http_client=http)

    def talk(self, wish: Wish) -> AnthropicTalk:
        return AnthropicTalk(self.sdk, wish)

    def failed(self, error: BaseException) -> Failed:
        assert isinstance(error, anthropic.APIStatusError), repr(error)
        body: Any = error.body
        return Failed(type(error).__name__, error.status_code, body["error"]["type"], None, body["error"]["message"],
                      dict(error.response.headers))

    def close(self) -> None:
        self.sdk.close()


# ------------------------------------------------------------------------------------------------------------- OpenAI

PLAIN_FIELDS = ("role", "content", "tool_calls")


class OpenAITalk(Talk):
    def __init__(self, sdk: openai.OpenAI, wish: Wish) -> None:
        super().__init__(wish)
        self._sdk = sdk
        if wish.system:
            self.messages.append({"role": "system", "content": wish.system})

    def say(self, text: str, *, image: str | None = None, document: str | None = None) -> None:
        parts: list[Any] = [{"type": "text", "text": text}]
        parts += [_image_part(image)] if image else []
        if document:
            parts.append({"type": "file", "file": {"filename": "a.pdf",
                                                   "file_data": f"data:application/pdf;base64,{document}"}})
        self.messages.append({"role": "user", "content": parts if len(parts) > 1 else text})

    def answer(self, *results: tuple[Called, Result]) -> None:
        self.messages += [{"role": "tool", "tool_call_id": called.id,
                           "content": [{"type": "text", "text": result.text}, _image_part(result.image)]
                           if result.image else result.text} for called, result in results]

    def turn(self) -> Said:
        pieces = 0
        completion: Any
        completions = self._sdk.chat.completions
        if self.wish.streamed:
            completion, pieces = self._streamed()
        elif self.wish.format is not None:
            completion = completions.parse(**self._asked())
        else:
            completion = completions.create(**self._asked())
        (choice,) = completion.choices
        message = choice.message
        echoed = message.model_dump(exclude_none=True, exclude={"parsed"})
        self.messages.append({key: value for key, value in echoed.items()
                              if not self.forgetful or key in PLAIN_FIELDS})
        usage = completion.usage
        return Said(
            message.content or "", getattr(message, "reasoning_content", None) or "",
            [Called(call.id, call.function.name, json.loads(call.function.arguments))
             for call in message.tool_calls or ()],
            {"stop": "end", "tool_calls": "calls", "content_filter": "refusal"}.get(choice.finish_reason,
                                                                                    choice.finish_reason),
            None if usage is None else Figures(
                usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens,
                usage.completion_tokens_details.reasoning_tokens),
            completion.model, pieces, getattr(message, "parsed", None))

    def _streamed(self) -> tuple[Any, int]:
        """The completion that the SDK's accumulator made, and the number of pieces of text. (The helper around it
        raises at a limit and at a filter, like the one that parses.)"""
        pieces = 0
        completions = self._sdk.chat.completions
        asked = {**self._asked(), "stream_options": {"include_usage": True}}
        if self.wish.format is not None:
            with completions.stream(**asked) as stream:
                for event in stream:
                    pieces += event.type == "content.delta" and bool(event.delta)
                return stream.get_final_completion(), pieces
        state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
        for chunk in completions.create(**asked, stream=True):
            state.handle_chunk(chunk)
            pieces += any(choice.delta.content for choice in chunk.choices)
        return state.current_completion_snapshot, pieces

    def _asked(self) -> dict[str, Any]:
        wish = self.wish
        asked: dict[str, Any] = {"model": wish.model, "max_tokens": wish.limit, "messages": self.messages}
        if wish.tools:
            asked["tools"] = [{"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.schema}} for tool in wish.tools]
        if wish.forced:
            asked["tool_choice"] = {"type": "function", "function": {"name": wish.forced}}
        if not wish.parallel:
            asked["parallel_tool_calls"] = False
        if wish.thinking:
            asked["reasoning_effort"] = "low"
        if wish.stop:
            asked["stop"] = wish.stop
        if wish.temperature is not None:
            asked["temperature"] = wish.temperature
        if wish.format:
            asked["response_format"] = wish.format
        return asked


def _image_part(data: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


class OpenAIClient(Client):
    name = "openai"

    def __init__(self, base_url: str) -> None:
        super().__init__()
        http = openai.DefaultHttpxClient(event_hooks={"response": [self._note]})
        self.sdk = openai.OpenAI(base_url=f"{base_url}/v1", api_key=CLIENT_KEY, max_retries=0, timeout=30,
                                 http_client=http)

    def talk(self, wish: Wish) -> Talk:
        return OpenAITalk(self.sdk, wish)

    def failed(self, error: BaseException) -> Failed:
        assert isinstance(error, openai.APIStatusError), repr(error)
        body: Any = error.body
        return Failed(type(error).__name__, error.status_code, body["type"], body["code"], body["message"],
                      dict(error.response.headers))

    def close(self) -> None:
        self.sdk.close()

