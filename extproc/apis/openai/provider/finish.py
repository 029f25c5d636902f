"""Why a Chat Completions answer ended, in the words of servers -> the conversation's finish reasons, or a failure.

Data. Read by the answer decoder and by the pass-through, by `Choice.finish_word`.
"""

from __future__ import annotations

from extproc.conversation.model import FinishReason
from extproc.errors import Failure

FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",  # Together
    "eos_token": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "continuation": "length",  # Gemini behind a relay
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
"""Finish reasons as they occur, in lower case -> the conversation's. Unknown ones count as "stop"."""

FAILED_REASONS: dict[str, Failure] = {
    "error": Failure("server", "The provider ended the answer with an error."),  # OpenRouter, Mistral
    "network_error": Failure("server", "The provider lost the connection to its model."),  # Z.AI
    "abort": Failure("server", "The provider aborted the answer."),  # vLLM, SGLang
    "cancelled": Failure("server", "The provider cancelled the answer."),
    "timeout": Failure("timeout", "The provider's model took too long.", 504),
    # Gemini, at Google's endpoint in this format and behind relays
    "malformed_function_call": Failure("server", "The model wrote a tool call that the provider cannot read."),
    "unexpected_tool_call": Failure("server", "The model called a tool that was not offered."),
    "insufficient_system_resource": Failure("overloaded", "The provider ran out of capacity.", 503),  # DeepSeek
}
"""Finish reasons that mean that the answer is not whole."""
