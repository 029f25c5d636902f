"""The records of Responses API responses, read leniently: response object, output items, usage, events of a stream.

One record serves all types of items and one all types of events: a server that leaves a field out, or sends one of
another type, must not cost the whole response. So leaf fields are untyped. The provider side reads these records; the
client side writes the same objects.

Source: the types of openai-python 3.54 (`openai.types.responses`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from extproc.conversation.model import FinishReason, Usage

# -------------------------------------------------------------------------------------------------------------- items

MESSAGE = "message"
REASONING = "reasoning"
FUNCTION_CALL = "function_call"
CUSTOM_TOOL_CALL = "custom_tool_call"
TOOL_SEARCH_CALL = "tool_search_call"
TOOL_SEARCH = "tool_search"
"""The only name that the tool behind a `tool_search_call` can have."""


class OutputItem(msgspec.Struct):
    """One item of `output`, of any type."""

    type: Any = None
    id: Any = None
    status: Any = None
    """in_progress, completed or incomplete."""
    role: Any = None
    phase: Any = None
    """Of a message: commentary or final_answer."""
    content: Any = None
    """Of a message: parts of type output_text and refusal. Of reasoning: parts of type reasoning_text."""
    summary: Any = None
    """Of reasoning: parts of type summary_text."""
    encrypted_content: Any = None
    call_id: Any = None
    name: Any = None
    namespace: Any = None
    arguments: Any = None
    """Of a function call: JSON text; of a tool_search_call an object."""
    input: Any = None
    """Of a custom tool call: the raw text."""
    action: Any = None
    operation: Any = None
    execution: Any = None

    @property
    def kind(self) -> str:
        """The type, "" for none. A search for tools is a function call, unless the provider runs it itself: servers
        that know the tool write their own item for it, although it was offered as a function."""
        if self.type == TOOL_SEARCH_CALL and self.execution != "server":
            return FUNCTION_CALL
        return self.type if isinstance(self.type, str) else ""

    @property
    def tool_name(self) -> str:
        """The name of the tool that a call is for, "" for none."""
        if self.type == TOOL_SEARCH_CALL:
            return TOOL_SEARCH
        return self.name if isinstance(self.name, str) else ""

    def texts(self, field: str, *kinds: str) -> list[str]:
        """The texts of the parts in `content` or `summary` of these types."""
        parts = getattr(self, field)
        return [text for kind, text in _parts(parts) if kind in kinds]

    @property
    def size(self) -> int:
        """Characters of its texts."""
        values = (self.arguments, self.input, self.encrypted_content)
        return (sum(len(value) for value in values if isinstance(value, str))
                + sum(len(text) for parts in (self.content, self.summary) for _, text in _parts(parts)))

    @property
    def refuses(self) -> bool:
        """True if a part is a refusal."""
        return any(kind == "refusal" for kind, _ in _parts(self.content))


def _parts(parts: object) -> Iterator[tuple[str, str]]:
    """(type, text) of each part."""
    if isinstance(parts, str):
        yield "output_text", parts
        return
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        kind = part.get("type")
        text = part.get("refusal") if kind == "refusal" else part.get("text")
        if isinstance(kind, str) and isinstance(text, str):
            yield kind, text


# -------------------------------------------------------------------------------------------------- the whole response


class IncompleteDetails(msgspec.Struct):
    reason: Any = None


class ResponseObject(msgspec.Struct):
    """A whole response: the body of a request without `stream`, and `response` in the first and the last events of a
    stream."""

    object: Any = None
    id: Any = None
    model: Any = None
    status: Any = None
    """completed, incomplete, failed, cancelled, in_progress or queued."""
    output: list[OutputItem | None] | None = None
    error: Any = None
    """{code, message} of a failed response."""
    incomplete_details: IncompleteDetails | None = None
    usage: Any = None

    @property
    def finish_reason(self) -> FinishReason:
        """The conversation's finish reason of a response that is completed or incomplete."""
        if self.status != "incomplete":
            return "stop"
        reason = self.incomplete_details.reason if self.incomplete_details is not None else None
        return INCOMPLETE_REASONS.get(reason, "length") if isinstance(reason, str) else "length"


INCOMPLETE_REASONS: dict[str, FinishReason] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
"""`incomplete_details.reason` -> the conversation's finish reason. Unknown ones count as "length"."""


# -------------------------------------------------------------------------------------------------------------- events


class ResponseEvent(msgspec.Struct):
    """One event of a stream, of any type."""

    type: Any = None
    item: OutputItem | None = None
    """Of `response.output_item.added` and `.done`."""
    delta: Any = None
    output_index: Any = None
    item_id: Any = None
    summary_index: Any = None
    content_index: Any = None
    response: ResponseObject | None = None
    """Of `response.created`, `.in_progress` and the terminal events."""
    error: Any = None
    code: Any = None
    message: Any = None
    """The flat event `error`, with `code`."""


# --------------------------------------------------------------------------------------------------------------- usage


def read_usage(usage: object) -> Usage | None:
    """The usage of a response object; None if it has none. `input_tokens` includes the cached ones, `output_tokens` the
    reasoning, as in the conversation model."""
    if not isinstance(usage, dict):
        return None
    of_input, of_output = usage.get("input_tokens_details"), usage.get("output_tokens_details")
    return Usage(input=_count(usage, "input_tokens"), output=_count(usage, "output_tokens"),
                 cached=_count(of_input, "cached_tokens"), cache_write=_count(of_input, "cache_write_tokens"),
                 reasoning=_count(of_output, "reasoning_tokens"))


def write_usage(usage: Usage) -> dict[str, object]:
    """The usage of a response object."""
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


def _count(fields: object, name: str) -> int:
    value = fields.get(name) if isinstance(fields, dict) else None
    return max(0, int(value)) if isinstance(value, int | float) else 0
