"""How an answer ends in this API's words: finish reason and usage. Called by all encoders of this package."""

from __future__ import annotations

from collections.abc import Callable

from extproc.conversation.model import FinishReason, Usage

FINISH_REASONS: dict[FinishReason, str] = {
    "stop": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "pause": "stop",
    "context_length": "length",
}


def finish_reason(reason: FinishReason, called: bool) -> str:
    """`called`: the answer holds a tool call. Clients take tool_calls as the promise of one, and stop reading calls
    when it says stop."""
    word = FINISH_REASONS[reason]
    if word in ("stop", "tool_calls"):
        return "tool_calls" if called else "stop"
    return word


def whole_calls(reason: FinishReason) -> bool:
    """Whether a call at the end of the answer is whole: no limit and no filter cut it off."""
    return reason in ("stop", "stop_sequence", "tool_calls", "pause")


def usage_fields(usage: Usage, prompt_estimate: Callable[[], int]) -> dict[str, object]:
    """`prompt_tokens` is the whole prompt, with what caches served as a part of it. A provider that says 0 for the
    prompt said nothing: then the estimate stands."""
    prompt = usage.input if usage.input > 0 else prompt_estimate()
    output = max(0, usage.output)
    prompt_details = {"cached_tokens": max(0, usage.cached)}
    if usage.cache_write > 0:
        prompt_details["cache_write_tokens"] = usage.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": prompt_details,
        "completion_tokens_details": {"reasoning_tokens": max(0, usage.reasoning)},
    }
