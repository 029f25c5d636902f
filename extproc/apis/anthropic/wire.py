"""The Messages request as it stands on the wire, as typed records for `apis.wire` to read.

Used by `request` and `blocks` only. Nothing here knows the conversation model, and what only passes through (tool
arguments, server tools) stays the client's own bytes as `msgspec.Raw`.
"""

from __future__ import annotations

import msgspec

Raw = msgspec.Raw

# ------------------------------------------------------------------------------------------------------- the records
# `forbid_unknown_fields` makes the common case one pass: only a body that has an unknown field is read twice (Shape).


class RequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """POST /v1/messages and /v1/messages/count_tokens."""

    model: str
    messages: list[Raw]
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


class TextBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    text: str
    cache_control: Raw = Raw()


class ImageBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    source: Raw
    cache_control: Raw = Raw()


class DocumentBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
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


class SearchResultBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    source: str
    title: str
    content: list[Raw]
    citations: Raw = Raw()
    cache_control: Raw = Raw()


class ToolUseBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    id: str
    name: str
    input: Raw = Raw()
    cache_control: Raw = Raw()


class ToolResultBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    tool_use_id: str
    content: str | list[Raw] | None = None
    is_error: bool | None = None
    cache_control: Raw = Raw()


class ToolReferenceBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    tool_name: str
    cache_control: Raw = Raw()


class ThinkingBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    thinking: str = ""
    signature: str | None = None
    cache_control: Raw = Raw()


class RedactedThinkingBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    data: str
    cache_control: Raw = Raw()


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
