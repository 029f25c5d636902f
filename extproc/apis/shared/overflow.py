"""Recognises errors about context overflow by the wording of each server.

Clients compact their conversation only if an error says in known words that it is too long, so an overflow must not
look like another error. The table has the wording of each server, with the figures in it. The error decoder calls
`find_overflow` with a text of bounded length.
"""

from __future__ import annotations

import re

import msgspec


class Overflow(msgspec.Struct, frozen=True, gc=False):
    """The figures of an overflow in tokens, as far as the text has them."""

    prompt_tokens: int | None = None
    context_limit: int | None = None
    max_tokens: int | None = None


CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded",
                   "model_context_window_exceeded", "3051", "too_many_prompt_tokens", "requested_too_many_tokens"})
"""Error codes and types that always mean an overflow: OpenAI, llama.cpp, proxies, Mistral, Perplexity."""

# Groups: p prompt, m requested output, t both together, c the limit. The first match counts.
_PATTERNS = tuple(re.compile(pattern.replace("#", r"[\d,]+"), re.IGNORECASE | re.DOTALL) for pattern in (
    # vLLM, with separate figures of prompt and output
    r"'max_(?:completion_)?tokens'.{0,40}too large: (?P<m>#).{0,20}maximum context length is (?P<c>#) tokens and your "
    r"request has (?P<p>#) input tokens",
    r"passed (?P<p>#) input tokens and requested (?P<m>#) output tokens.{0,60}context length is only (?P<c>#)",
    # OpenAI, DeepSeek, vLLM: "... you requested T tokens (P in the messages, M in the completion)"
    r"maximum context length is (?P<c>#) tokens.{0,60}requested (?:about )?(?P<t>#) tokens \((?P<p>#) in the messages, "
    r"(?P<m>#) in the completion",
    # OpenRouter: "(P of text input, Q of tool input, M in the output)"
    r"maximum context length is (?P<c>#) tokens.{0,60}requested (?:about )?(?P<t>#) tokens \(.{0,120}?(?P<m>#) in the "
    r"output",
    r"maximum context length is (?P<c>#) tokens.{0,60}requested (?:about )?(?P<t>#) tokens",
    r"maximum context length is (?P<c>#) tokens.{0,80}(?:resulted in|request has) (?P<p>#) (?:input )?tokens",
    # OpenAI, newer models
    r"input tokens exceed the configured limit of (?P<c>#) tokens.{0,60}resulted in (?P<p>#) tokens",
    # vLLM, engine
    r"prompt \(length (?P<p>#)\) is longer than the maximum model length of (?P<c>#)",
    # SGLang
    r"input \((?P<p>#) tokens\) is longer than the model'?s context length \((?P<c>#) tokens\)",
    r"maximum context length of (?P<c>#) tokens.{0,40}requested a total of (?P<t>#) tokens: (?P<p>#) tokens from the "
    r"input messages and (?P<m>#) tokens",
    r"input length \((?P<p>#)(?: tokens)?\) exceeds the maximum allowed length \((?P<c>#)",
    # llama.cpp
    r"request \((?P<p>#) tokens\) exceeds the available context size \((?P<c>#) tokens\)",
    # Gemini
    r"input token count \(?(?P<p>#)\)? exceeds the maximum number of tokens allowed \(?(?P<c>#)",
    r"input token count exceeds the maximum number of tokens allowed \(?(?P<c>#)",
    r"input token count is (?P<p>#) but (?:the )?model only supports up to (?P<c>#)",  # Vertex
    # Mistral
    r"prompt contains (?P<p>#) tokens.{0,60}too large for model with (?P<c>#) maximum context length",
    # Anthropic and its relays
    r"input length and `?max_tokens`? exceed context limit: (?P<p>#) \+ (?P<m>#) > (?P<c>#)",
    r"prompt is too long: (?P<p>#) tokens > (?P<c>#) maximum",
    # xAI, Moonshot, Fireworks, Together, Copilot, Cerebras
    r"maximum prompt length is (?P<c>#) but the request contains (?P<p>#) tokens",
    r"exceeded model token limit: (?P<c>#) \(requested: (?P<t>#)\)",
    r"prompt is too long: (?P<p>#), model maximum context length: (?P<c>#)",
    r"must be <= (?P<c>#)\. Given: (?P<p>#) `inputs` tokens and (?P<m>#) `max_new_tokens`",
    r"prompt token count of (?P<p>#) exceeds the limit of (?P<c>#)",
    r"current length is (?P<p>#) while limit is (?P<c>#)",
    # LM Studio
    r"keep the first (?P<p>#) tokens when context the overflows.{0,80}context length of only (?P<c>#) tokens",
    # Qwen (DashScope), Cohere, text-generation-inference
    r"range of input length should be \[\d+, (?P<c>#)\]",
    r"number of tokens in the prompt exceeds the limit of (?P<c>#)",
    r"inputs must have less than (?P<c>#) tokens\. given: (?P<p>#)",
    # Perplexity
    r"requested (?P<m>#) to generate tokens, following a prompt of length (?P<p>#), which exceeds the max limit of "
    r"(?P<c>#)",
    r"user input tokens exceeds? (?P<c>#) tokens",
    # any other wording with the limit in it
    r"(?:maximum|available|model'?s) context (?:length|size|window)(?: is| of| \()? ?(?P<c>#)",
))
_WORDS = re.compile(
    r"context[ _]length[ _]exceeded|maximum context length|maximum model length|maximum prompt length"
    r"|exceed\w* (?:the |this |its |your |model'?s? )*(?:available |maximum |model'?s? )*context|context window exceed"
    r"|input token count .{0,40}exceeds|input token count is .{0,40}only supports"
    r"|model token limit|prompt is too long|input is too long|prompt exceeds max"
    r"|longer than the model'?s context|input tokens exceed|context (?:the )?overflow|too large for model with"
    r"|context length is only|prompt token count of|(?:`inputs` tokens \+)"
    r"|reduce the length of the (?:messages|prompt|input|either)|input length .{0,40}exceeds the maximum allowed length"
    r"|range of input length should be|number of tokens in the prompt exceeds|inputs must have less than [\d,]+ tokens"
    # Ollama Cloud; Perplexity, where its code is lost on the way
    r"|prompt too long|exceed\w* max(?:imum)? context length|user input tokens exceeds? [\d,]+ tokens"
    r"|following a prompt of length [\d,]+, which exceeds|total length of all messages is too long"
    r"|contextwindowexceeded|max_tokens must be at least 1, got -\d",  # older vLLM: a negative rest for the output
    re.IGNORECASE | re.DOTALL)


def find_overflow(message: str, code: str | None = None) -> Overflow | None:
    """The figures of a context overflow; None for any other error. `code`: the error's code or type."""
    if code not in CODES and not _WORDS.search(message):
        return None
    for pattern in _PATTERNS:
        found = pattern.search(message)
        if found is not None:
            return _figures({name: _number(value) for name, value in found.groupdict().items() if value})
    return Overflow()


def _figures(found: dict[str, int]) -> Overflow:
    prompt, output, total = found.get("p"), found.get("m"), found.get("t")
    if total is not None and prompt is not None and output is not None:
        # The parts in parentheses may omit tools; the total is right.
        prompt = max(prompt, total - output)
    elif total is not None and prompt is None:
        prompt = total if output is None else total - output
    return Overflow(prompt, found.get("c"), output)


def _number(digits: str) -> int:
    return int(digits.replace(",", "") or "0")
