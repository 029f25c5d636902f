"""A Messages request: read from clients, written for providers, and the summary that the pass-through reads.

Reading is lenient and precise about places: raw fields, unknown fields by name. Most requests hold only known blocks
and fields and become a `ClientBody[KnownMessage]` in one pass (`forbid_unknown_fields`); all others are read piece by
piece, so that one odd block neither fails a request nor hides. Writing is strict: fields in a fixed order, defaults
left out, so that the same request is the same bytes and prompt caches hit. One record does both where the two agree;
otherwise the record for reading is called `Client...`, beside the one for writing.

Nothing here depends on the conversation model. Tool arguments and server tools stay the client's own bytes.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

import msgspec

from extproc.apis.shared.cache_marks import CacheControl

Raw = msgspec.Raw

T = TypeVar("T")

# -------------------------------------------------------------------------------------------------------------- blocks


class ClientTextBlock(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    text: str
    cache_control: Raw = Raw()


class TextBlock(msgspec.Struct, tag_field="type", tag="text", omit_defaults=True):
    text: str
    cache_control: CacheControl | None = None


class ClientSource(msgspec.Struct, forbid_unknown_fields=True):
    """The source of an image or a document. `content` belongs to the type "content"."""

    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: str | list[Raw] | None = None


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


class ClientImageBlock(msgspec.Struct, tag_field="type", tag="image", forbid_unknown_fields=True):
    source: Raw
    cache_control: Raw = Raw()


class ImageBlock(msgspec.Struct, tag_field="type", tag="image", omit_defaults=True):
    source: Source
    cache_control: CacheControl | None = None


class ClientDocumentBlock(msgspec.Struct, tag_field="type", tag="document", forbid_unknown_fields=True):
    source: Raw
    title: str | None = None
    context: str | None = None
    citations: Raw = Raw()
    cache_control: Raw = Raw()


class DocumentBlock(msgspec.Struct, tag_field="type", tag="document", omit_defaults=True):
    source: Source
    title: str | None = None
    context: str | None = None
    cache_control: CacheControl | None = None


class Citations(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool | None = None


class SearchResultBlock(msgspec.Struct, tag_field="type", tag="search_result", forbid_unknown_fields=True):
    source: str
    title: str
    content: list[Raw]
    citations: Raw = Raw()
    cache_control: Raw = Raw()


class ClientToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use", forbid_unknown_fields=True):
    id: str
    name: str
    input: Raw = Raw()
    cache_control: Raw = Raw()


class ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use", omit_defaults=True):
    id: str
    name: str
    input: Raw
    cache_control: CacheControl | None = None


class ClientToolResultBlock(msgspec.Struct, Generic[T], tag_field="type", tag="tool_result",
                            forbid_unknown_fields=True):
    tool_use_id: str
    content: str | list[T] | None = None
    is_error: bool | None = None
    name: Raw = Raw()
    """The tool's name. Not in the API; some clients send it."""
    cache_control: Raw = Raw()


class ToolResultBlock(msgspec.Struct, tag_field="type", tag="tool_result", omit_defaults=True):
    tool_use_id: str
    content: str | list[TextBlock | ImageBlock | DocumentBlock] | None = None
    is_error: bool = False
    cache_control: CacheControl | None = None


class ToolReferenceBlock(msgspec.Struct, tag_field="type", tag="tool_reference", forbid_unknown_fields=True):
    tool_name: str
    cache_control: Raw = Raw()


class ClientThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking", forbid_unknown_fields=True):
    thinking: str = ""
    signature: str | None = None
    cache_control: Raw = Raw()


class ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking", frozen=True, gc=False):
    thinking: str
    signature: str


class RedactedThinkingBlock(msgspec.Struct, tag_field="type", tag="redacted_thinking", frozen=True, gc=False,
                            omit_defaults=True, forbid_unknown_fields=True):
    """`cache_control` is only read."""

    data: str
    cache_control: Raw = Raw()


KnownPart = ClientTextBlock | ClientImageBlock | ClientDocumentBlock | SearchResultBlock | ToolReferenceBlock
"""The known blocks of a tool's result."""
KnownBlock = (KnownPart | ClientToolUseBlock | ClientToolResultBlock[KnownPart] | ClientThinkingBlock
              | RedactedThinkingBlock)

MarkableBlock = TextBlock | ImageBlock | DocumentBlock | ToolUseBlock | ToolResultBlock
"""Written blocks that may carry a cache mark."""
ProviderBlock = MarkableBlock | ThinkingBlock | RedactedThinkingBlock | Raw
"""Raw: a block that only Anthropic has, in its client's bytes."""


class ClientMessage(msgspec.Struct, forbid_unknown_fields=True):
    role: str
    content: str | list[Raw] | None


class KnownMessage(msgspec.Struct, forbid_unknown_fields=True):
    """A message of known blocks and fields."""

    role: str
    content: str | list[KnownBlock] | None


class ProviderMessage(msgspec.Struct):
    role: Literal["user", "assistant", "system"]
    content: list[ProviderBlock]


class BlockSummary(msgspec.Struct):
    """The fields of a block that the pass-through reads. In a block of an unknown type they may hold anything."""

    type: str = ""
    id: Any = None
    tool_use_id: Any = None
    signature: Any = None
    data: Any = None


class MessageSummary(msgspec.Struct):
    role: str = ""
    content: list[BlockSummary] | str | None = None

    @property
    def blocks(self) -> list[BlockSummary]:
        return self.content if isinstance(self.content, list) else []

    def has_block(self, *types: str) -> bool:
        """True if any block has one of these types."""
        return any(block.type in types for block in self.blocks)


# -------------------------------------------------------------------------------------------------------------- tools


class ToolHead(msgspec.Struct):
    type: str | None = None
    name: str | None = None


class ClientTool(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: Raw = Raw()
    input_examples: Raw = Raw()
    strict: bool | None = None
    defer_loading: bool | None = None
    cache_control: Raw = Raw()


class ToolDefinition(msgspec.Struct, omit_defaults=True):
    name: str
    input_schema: Raw
    description: str | None = None
    strict: bool = False
    cache_control: CacheControl | None = None


class ToolSummary(msgspec.Struct):
    name: str = ""
    type: str | None = None
    strict: bool | None = None


class ToolChoiceField(msgspec.Struct, omit_defaults=True):
    """Written, and read where unknown fields are allowed."""

    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ClientToolChoice(ToolChoiceField, forbid_unknown_fields=True):
    pass


# ---------------------------------------------------------------------------------------------------------- parameters


class ThinkingSummary(msgspec.Struct):
    type: str
    budget_tokens: int | None = None


class ClientThinking(ThinkingSummary, forbid_unknown_fields=True):
    display: Raw = Raw()


class BlockBinding(msgspec.Struct, frozen=True):
    prefix_mismatch_behavior: Literal["drop_block"] = "drop_block"


class ThinkingField(msgspec.Struct, omit_defaults=True):
    type: Literal["enabled", "adaptive", "disabled", "between_tools"]
    budget_tokens: int | None = None
    display: Literal["summarized"] | None = None
    block_binding: BlockBinding | None = None


class OutputConfigSummary(msgspec.Struct):
    effort: str | None = None
    format: Raw = Raw()


class ClientOutputConfig(OutputConfigSummary, forbid_unknown_fields=True):
    pass


class ClientFormat(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    schema: dict[str, object] | None = None
    name: str | None = None


class SchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema", frozen=True):
    schema: dict[str, object]


class OutputConfig(msgspec.Struct, omit_defaults=True):
    effort: str | None = None
    format: SchemaFormat | None = None


class Metadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    user_id: str | None = None


# ---------------------------------------------------------------------------------------------------------------- body


class ClientBody(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    """POST /v1/messages and /v1/messages/count_tokens, with messages `T`."""

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


class RequestSummary(msgspec.Struct):
    """The fields of a request that the pass-through reads, in one pass and without the texts. Unknown fields are
    allowed everywhere."""

    model: str
    messages: list[MessageSummary]
    max_tokens: int | None = None
    stream: bool | None = None
    tools: list[ToolSummary] | None = None
    tool_choice: ToolChoiceField | None = None
    stop_sequences: list[str] | None = None
    thinking: ThinkingSummary | None = None
    output_config: OutputConfigSummary | None = None
    output_format: Raw = Raw()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None

    @property
    def client_tools(self) -> list[ToolSummary]:
        """The tools that the client runs."""
        return [tool for tool in self.tools or () if tool.type in (None, "custom")]

    @property
    def thinking_type(self) -> str | None:
        return self.thinking.type if self.thinking is not None else None


class ProviderBody(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A request to be sent. The parameters come before the messages, so that the head of a logged body shows
    them."""

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
    tool_choice: ToolChoiceField | None = None
    tools: list[ToolDefinition | Raw] = []
    system: list[TextBlock] = []
    messages: list[ProviderMessage]
