"""The wire form of a Chat Completions request, as records that encode in this field order.

Fixed order and left-out defaults make the same request the same bytes, so that prompt caches hit. Used by the
request encoder only; a field stands here only if some profile sends it.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class TextPart(msgspec.Struct, tag_field="type", tag="text", frozen=True, gc=False):
    text: str


class ImageUrl(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    url: str
    detail: str | None = None


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url", frozen=True, gc=False):
    image_url: ImageUrl


class FileData(msgspec.Struct, frozen=True, gc=False):
    filename: str
    file_data: str


class FilePart(msgspec.Struct, tag_field="type", tag="file", frozen=True, gc=False):
    file: FileData


Part = TextPart | ImagePart | FilePart


class FunctionCall(msgspec.Struct, frozen=True, gc=False):
    name: str
    arguments: str


class Call(msgspec.Struct, tag_field="type", tag="function", frozen=True, gc=False):
    id: str
    function: FunctionCall


class SystemMessage(msgspec.Struct, tag_field="role", tag="system", frozen=True, gc=False):
    content: str


class UserMessage(msgspec.Struct, tag_field="role", tag="user", frozen=True):
    content: str | list[Part]


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant", omit_defaults=True):
    """`content` has no default: null is sent as null."""

    content: str | None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[Call] = []
    prefix: bool = False
    partial: bool = False


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool", frozen=True, gc=False):
    tool_call_id: str
    content: str


WireMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class Function(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    parameters: dict[str, object]
    description: str | None = None
    strict: bool | None = None


class FunctionTool(msgspec.Struct, tag_field="type", tag="function", frozen=True):
    function: Function


class FunctionName(msgspec.Struct, frozen=True, gc=False):
    name: str


class NamedChoice(msgspec.Struct, tag_field="type", tag="function", frozen=True, gc=False):
    function: FunctionName


class StreamOptions(msgspec.Struct, frozen=True, gc=False):
    include_usage: bool


class JsonObject(msgspec.Struct, tag_field="type", tag="json_object", frozen=True, gc=False):
    pass


class NamedSchema(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    schema: dict[str, object]
    strict: bool | None = None


class JsonSchema(msgspec.Struct, tag_field="type", tag="json_schema", frozen=True):
    json_schema: NamedSchema


class ThinkingToggle(msgspec.Struct):
    """`thinking` as DeepSeek and Moonshot take it."""

    type: Literal["enabled", "disabled"]


class Body(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A request. The parameters stand before the messages, so that the head of a logged body says what it asks."""

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] = []
    reasoning_effort: str | None = None
    thinking: ThinkingToggle | None = None
    response_format: JsonObject | JsonSchema | None = None
    user: str | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: Literal["auto", "required", "none"] | NamedChoice | None = None
    tools: list[FunctionTool] = []
    messages: list[WireMessage]
