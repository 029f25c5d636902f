"""The records of Chat Completions responses, read leniently, and the finish reasons of servers.

One record serves the chunks of a stream (`delta`) and whole responses (`message`), since servers mix them up. Leaf
fields are untyped on purpose: a server that sends an object where a string belongs must not cost the whole response.
"""

from __future__ import annotations

from typing import Any

import msgspec

from extproc.conversation.model import FinishReason
from extproc.errors import Failure

GOOGLE_MEMBERS = ("google", "vertex")
"""The members of `extra_content` in which Google's endpoints send the signature of a call, and expect it back."""


def _argument_text(value: object) -> str | None:
    """Arguments are JSON text; some servers send the object itself (Ollama, Mistral)."""
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


class FunctionDelta(msgspec.Struct):
    name: Any = None
    arguments: Any = None

    @property
    def name_text(self) -> str | None:
        return self.name if isinstance(self.name, str) else None

    @property
    def arguments_text(self) -> str | None:
        return _argument_text(self.arguments)


class CustomDelta(msgspec.Struct):
    """A call of a custom tool, which takes free text: `input` is that text, or a piece of it."""

    name: Any = None
    input: Any = None


class CallDelta(msgspec.Struct):
    index: Any = None
    id: Any = None
    function: FunctionDelta | None = None
    custom: CustomDelta | None = None
    extra_content: Any = None

    @property
    def is_custom(self) -> bool:
        """True for a call of a custom tool. An empty `custom` is ignored: servers that re-encode typed records put one
        beside every function."""
        return self.custom is not None and bool(self.custom.name or self.custom.input)

    @property
    def holds_nothing_else(self) -> bool:
        """True if the entry has only index, id, name and arguments."""
        return self.extra_content is None and not self.is_custom

    @property
    def function_name(self) -> str | None:
        if self.custom is not None and self.is_custom:
            return self.custom.name if isinstance(self.custom.name, str) else None
        return self.function.name_text if self.function is not None else None

    @property
    def arguments_text(self) -> str | None:
        if self.function is None:
            return None
        value = self.function.arguments
        return value if isinstance(value, str) else _argument_text(value)

    @property
    def free_text(self) -> str | None:
        """The input of a custom tool; None for a function."""
        return self.custom.input if self.custom is not None and isinstance(self.custom.input, str) else None

    @property
    def thought_signature(self) -> tuple[str, str] | None:
        """The member of `extra_content` and the signature that Google's endpoints expect back with this call."""
        for member, fields in _google(self.extra_content):
            value = fields.get("thought_signature")
            if isinstance(value, str) and value:
                return member, value
        return None


class OpenAIDelta(msgspec.Struct):
    content: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    thinking: Any = None
    """Ollama's own API, and proxies before it."""
    reasoning_text: Any = None
    """GitHub Copilot."""
    reasoning_details: list[Any] | None = None
    thinking_blocks: list[Any] | None = None
    """LiteLLM: Anthropic's blocks."""
    extra_content: Any = None
    tool_calls: list[CallDelta | None] | None = None
    function_call: FunctionDelta | None = None
    refusal: Any = None
    audio: Any = None
    images: Any = None
    annotations: Any = None
    """Sources of the text."""

    @property
    def holds_something(self) -> bool:
        """True if it has more than a role."""
        return bool(self.content or self.reasons or self.tool_calls or self.function_call or self.refusal
                    or self.audio or self.images or self.annotations)

    @property
    def reasons(self) -> bool:
        """True if any field of reasoning has content."""
        return bool(self.reasoning_content or self.reasoning or self.reasoning_details or self.thinking
                    or self.reasoning_text or self.thinking_blocks)

    @property
    def transcript(self) -> str:
        """The transcript of a spoken response, which comes without `content`."""
        words = self.audio.get("transcript") if isinstance(self.audio, dict) else None
        return words if isinstance(words, str) else ""


class OpenAIChoice(msgspec.Struct):
    index: Any = 0
    delta: OpenAIDelta | None = None
    message: OpenAIDelta | None = None
    finish_reason: Any = None
    error: Any = None
    """OpenRouter: the reason why this choice broke off."""
    stop_reason: Any = None
    """vLLM: the stop string that matched."""
    matched_stop: Any = None
    """SGLang: the same."""
    usage: Any = None

    @property
    def finish_word(self) -> str:
        """The finish reason in lower case, "" for none. Google's endpoint appends its own reason to the format's:
        `content_filter: RECITATION`, `function_call_filter: MALFORMED_FUNCTION_CALL`."""
        word, _, own = self.finish_reason.lower().partition(": ") if isinstance(self.finish_reason, str) else ("",) * 3
        return own if word == "function_call_filter" else word

    def stop_sequence(self, sequences: list[str]) -> str | None:
        """The client's stop sequence that ended the response, where the server reports it."""
        for value in (self.stop_reason, self.matched_stop):
            if isinstance(value, str) and value in sequences:
                return value
        return None


class OpenAIChunk(msgspec.Struct):
    id: Any = None
    object: Any = None
    model: Any = None
    choices: list[OpenAIChoice | None] | None = None
    usage: Any = None
    x_groq: Any = None
    citations: Any = None
    """Perplexity, xAI: URLs."""
    search_results: Any = None
    """Perplexity: the same with titles."""
    error: Any = None

    @property
    def is_error(self) -> bool:
        """True for an error in place of a response. Some servers send an empty `error` with every chunk."""
        return bool(self.error) or self.object == "error" or (self.error is not None and not self.choices)


def _google(extra: object) -> list[tuple[str, dict[str, Any]]]:
    """Google's members of an `extra_content`, by name: `google`, and `vertex` at Vertex AI's endpoint."""
    if not isinstance(extra, dict):
        return []
    return [(member, extra[member]) for member in GOOGLE_MEMBERS if isinstance(extra.get(member), dict)]


def is_thought(extra: object) -> bool:
    """True if the content beside this `extra_content` is a thought. Google's endpoints mark requested thoughts."""
    return any(fields.get("thought") is True for _, fields in _google(extra))


# ------------------------------------------------------------------------------------------------------ finish reasons

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",  # Together
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "continuation": "length",  # Gemini behind a proxy
    "model_length": "context_length",  # Mistral
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Z.AI
    "safety": "content_filter",
    "recitation": "content_filter",
    "prohibited_content": "content_filter",
    "blocklist": "content_filter",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_length",  # Z.AI
}
"""Finish reasons of servers, in lower case -> the conversation's. Unknown ones count as "stop"."""

FAILED_REASONS: dict[str, Failure] = {
    "error": Failure("server", "The provider ended the response with an error."),  # OpenRouter, Mistral
    "network_error": Failure("server", "The provider lost the connection to its model."),  # Z.AI
    "abort": Failure("server", "The provider aborted the response."),  # vLLM, SGLang
    "cancelled": Failure("server", "The provider cancelled the response."),
    "timeout": Failure("timeout", "The provider's model took too long.", 504),
    # Gemini, at Google's endpoint in this format and behind proxies
    "malformed_function_call": Failure("server", "The model wrote a tool call that the provider cannot read."),
    "unexpected_tool_call": Failure("server", "The model called a tool that was not offered."),
    "insufficient_system_resource": Failure("overloaded", "The provider ran out of capacity.", 503),  # DeepSeek
}
"""Finish reasons of an incomplete response."""
