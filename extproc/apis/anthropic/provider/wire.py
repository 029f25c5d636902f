"""The wire form of a Messages request, as records that encode in this field order.

Fixed order and left-out defaults make the same request the same bytes, so that prompt caches hit. Used by the request
encoder only.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.apis.shared.cache_marks import CacheControl

Raw = msgspec.Raw


class TextBlock(msgspec.Struct, tag_field="type", tag="text", omit_defaults=True):
    text: str
    cache_control: CacheControl | None = None


class Base64Source(msgspec.Struct, tag_field="type", tag="base64", frozen=True, gc=False):
    media_type: str
    data: str


class UrlSource(msgspec.Struct, tag_field="type", tag="url", frozen=True, gc=False):
    url: str


class FileSource(msgspec.Struct, tag_field="type", tag="file", frozen=True, gc=False):
    file_id: str


class TextSource(msgspec.Struct, tag_field="type", tag="text", frozen=True, gc=False):
    media_type: str
    data: str


Source = Base64Source | UrlSource | FileSource | TextSource


class ImageBlock(msgspec.Struct, tag_field="type", tag="image", omit_defaults=True):
    source: Source
    cache_control: CacheControl | None = None


class DocumentBlock(msgspec.Struct, tag_field="type", tag="document", omit_defaults=True):
    source: Source
    title: str | None = None
    context: str | None = None
    cache_control: CacheControl | None = None


class ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking", frozen=True, gc=False):
    thinking: str
    signature: str


class RedactedBlock(msgspec.Struct, tag_field="type", tag="redacted_thinking", frozen=True, gc=False):
    data: str


class ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use", omit_defaults=True):
    id: str
    name: str
    input: Raw
    cache_control: CacheControl | None = None


class ToolResultBlock(msgspec.Struct, tag_field="type", tag="tool_result", omit_defaults=True):
    tool_use_id: str
    content: str | list[TextBlock | ImageBlock | DocumentBlock] | None = None
    is_error: bool = False
    cache_control: CacheControl | None = None


Marked = TextBlock | ImageBlock | DocumentBlock | ToolUseBlock | ToolResultBlock
"""Blocks that may carry a cache mark."""
Block = Marked | ThinkingBlock | RedactedBlock | Raw
"""Raw: a block that only Anthropic has, as its client sent it."""


class WireMessage(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: list[Block]


class ToolDefinition(msgspec.Struct, omit_defaults=True):
    name: str
    input_schema: Raw
    description: str | None = None
    strict: bool = False
    cache_control: CacheControl | None = None


class Choice(msgspec.Struct, omit_defaults=True):
    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool = False


class BlockBinding(msgspec.Struct, frozen=True):
    prefix_mismatch_behavior: Literal["drop_block"] = "drop_block"


class ThinkingField(msgspec.Struct, omit_defaults=True):
    type: Literal["enabled", "adaptive", "disabled", "between_tools"]
    budget_tokens: int | None = None
    display: Literal["summarized"] | None = None
    block_binding: BlockBinding | None = None


class SchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema", frozen=True):
    schema: dict[str, object]


class OutputConfig(msgspec.Struct, omit_defaults=True):
    effort: str | None = None
    format: SchemaFormat | None = None


class Metadata(msgspec.Struct, frozen=True):
    user_id: str


class Body(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A request. The parameters stand before the messages, so that the head of a logged body says what it asks."""

    model: str
    max_tokens: int
    stream: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] = []
    thinking: ThinkingField | None = None
    output_config: OutputConfig | None = None
    metadata: Metadata | None = None
    tool_choice: Choice | None = None
    tools: list[ToolDefinition | Raw] = []
    system: list[TextBlock] = []
    messages: list[WireMessage]
