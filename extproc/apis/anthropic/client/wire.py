"""The Messages request as it stands on the wire, as typed records.

Most requests hold nothing but what we know: they become a `RequestBody[KnownTurn]` in one pass. All others are read
piece by piece (`RequestBody[Raw]`, `Turn`, then block by block), so that one odd block neither fails a request nor
hides. Used by `request` and `blocks` only. Nothing here knows the conversation model, and what only passes through
(tool arguments, server tools) stays the client's own bytes as `msgspec.Raw`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

Raw = msgspec.Raw

T = TypeVar("T")

# ------------------------------------------------------------------------------------------------------- the records
# `forbid_unknown_fields` makes the common case one pass: only a body that has an unknown field is read twice (Shape).


class RequestBody(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    """POST /v1/messages and /v1/messages/count_tokens."""

    model: str
    messages: list[T]
    max_tokens: int | None = None
    system: str | list[Raw] | None = None
    tools: list[Raw] | None = None
    tool_choice: Raw = Raw()
    metadata: Raw = Raw()
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    thinking: Raw = Raw()
    output_config: Raw = Raw()
    output_format: Raw = Raw()
    mcp_servers: Raw = Raw()
    context_management: Raw = Raw()
    service_tier: Raw = Raw()
    container: Raw = Raw()


class Turn(msgspec.Struct, forbid_unknown_fields=True):
    role: str
    content: str | list[Raw] | None


class TextBlock(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    text: str
    cache_control: Raw = Raw()


class ImageBlock(msgspec.Struct, tag_field="type", tag="image", forbid_unknown_fields=True):
    source: Raw
    cache_control: Raw = Raw()


class DocumentBlock(msgspec.Struct, tag_field="type", tag="document", forbid_unknown_fields=True):
    source: Raw
    title: str | None = None
    context: str | None = None
    citations: Raw = Raw()
    cache_control: Raw = Raw()


class Source(msgspec.Struct, forbid_unknown_fields=True):
    """Where an image or a document comes from. `content` belongs to the type "content"."""

    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: str | list[Raw] | None = None


class Citations(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool | None = None


class SearchResultBlock(msgspec.Struct, tag_field="type", tag="search_result", forbid_unknown_fields=True):
    source: str
    title: str
    content: list[Raw]
    citations: Raw = Raw()
    cache_control: Raw = Raw()


class ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use", forbid_unknown_fields=True):
    id: str
    name: str
    input: Raw = Raw()
    cache_control: Raw = Raw()


class ToolResultBlock(msgspec.Struct, Generic[T], tag_field="type", tag="tool_result", forbid_unknown_fields=True):
    tool_use_id: str
    content: str | list[T] | None = None
    is_error: bool | None = None
    name: Raw = Raw()
    """Not in the API: some clients say whose result it is."""
    cache_control: Raw = Raw()


class ToolReferenceBlock(msgspec.Struct, tag_field="type", tag="tool_reference", forbid_unknown_fields=True):
    tool_name: str
    cache_control: Raw = Raw()


class ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking", forbid_unknown_fields=True):
    thinking: str = ""
    signature: str | None = None
    cache_control: Raw = Raw()


class RedactedThinkingBlock(msgspec.Struct, tag_field="type", tag="redacted_thinking", forbid_unknown_fields=True):
    data: str
    cache_control: Raw = Raw()


KnownPart = TextBlock | ImageBlock | DocumentBlock | SearchResultBlock | ToolReferenceBlock
"""What a tool's result may hold."""
KnownBlock = KnownPart | ToolUseBlock | ToolResultBlock[KnownPart] | ThinkingBlock | RedactedThinkingBlock


class KnownTurn(msgspec.Struct, forbid_unknown_fields=True):
    """A message of blocks that we know, with fields that we know."""

    role: str
    content: str | list[KnownBlock] | None


class ToolHead(msgspec.Struct):
    type: str | None = None
    name: str | None = None


class ToolDefinition(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: Raw = Raw()
    input_examples: Raw = Raw()
    strict: bool | None = None
    defer_loading: bool | None = None
    cache_control: Raw = Raw()


class ToolChoiceBody(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingBody(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    budget_tokens: int | None = None
    display: Raw = Raw()


class OutputConfig(msgspec.Struct, forbid_unknown_fields=True):
    effort: str | None = None
    format: Raw = Raw()


class FormatBody(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    schema: dict[str, object] | None = None
    name: str | None = None


class Metadata(msgspec.Struct, forbid_unknown_fields=True):
    user_id: str | None = None
