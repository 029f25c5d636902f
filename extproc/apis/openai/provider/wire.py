"""The wire form of a Chat Completions request, as records that encode in this field order.

Fixed order and left-out defaults make the same request the same bytes, so that prompt caches hit. Used by the
request encoder only; a field stands here only if some profile sends it.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from extproc.apis.shared.cache_marks import CacheControl

# -------------------------------------------------------------------------------------------------------------- parts


class TextPart(msgspec.Struct, tag_field="type", tag="text", omit_defaults=True):
    text: str
    cache_control: CacheControl | None = None


class ImageUrl(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    url: str
    detail: str | None = None


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url", omit_defaults=True):
    image_url: ImageUrl
    cache_control: CacheControl | None = None


class FileData(msgspec.Struct, frozen=True, gc=False):
    filename: str
    file_data: str


class FilePart(msgspec.Struct, tag_field="type", tag="file", omit_defaults=True):
    file: FileData
    cache_control: CacheControl | None = None


class DocumentUrlPart(msgspec.Struct, tag_field="type", tag="document_url", omit_defaults=True):
    """A PDF at Mistral."""

    document_url: str
    document_name: str | None = None
    cache_control: CacheControl | None = None


class FileUrlPart(msgspec.Struct, tag_field="type", tag="file_url", omit_defaults=True):
    """A PDF at Perplexity."""

    file_url: ImageUrl
    file_name: str | None = None
    cache_control: CacheControl | None = None


class AudioData(msgspec.Struct, frozen=True, gc=False):
    data: str
    format: str


class AudioPart(msgspec.Struct, tag_field="type", tag="input_audio", omit_defaults=True):
    input_audio: AudioData | str
    cache_control: CacheControl | None = None


class VideoPart(msgspec.Struct, tag_field="type", tag="video_url", omit_defaults=True):
    video_url: ImageUrl
    cache_control: CacheControl | None = None


class ThinkingPart(msgspec.Struct, tag_field="type", tag="thinking"):
    """Reasoning inside the content, as Mistral writes it."""

    thinking: list[TextPart]


Part = TextPart | ImagePart | FilePart | DocumentUrlPart | FileUrlPart | AudioPart | VideoPart
AssistantPart = TextPart | ThinkingPart

# -------------------------------------------------------------------------------------------------------------- calls


class FunctionCall(msgspec.Struct, frozen=True, gc=False):
    name: str
    arguments: str


class GoogleContent(msgspec.Struct, frozen=True, gc=False):
    thought_signature: str


class Call(msgspec.Struct, tag_field="type", tag="function", omit_defaults=True):
    id: str
    function: FunctionCall
    extra_content: dict[str, GoogleContent] | None = None
    """What Google's endpoints want back with a call, by the member that it came in."""

    @property
    def name(self) -> str:
        return self.function.name


class CustomInput(msgspec.Struct, frozen=True, gc=False):
    name: str
    input: str


class CustomCall(msgspec.Struct, tag_field="type", tag="custom", frozen=True, gc=False):
    """A call of a tool that takes free text."""

    id: str
    custom: CustomInput

    @property
    def name(self) -> str:
        return self.custom.name


AnyCall = Call | CustomCall

# ----------------------------------------------------------------------------------------------------------- messages


class SystemMessage(msgspec.Struct, tag_field="role", tag="system", frozen=True):
    content: str | list[TextPart]


class UserMessage(msgspec.Struct, tag_field="role", tag="user", frozen=True):
    content: str | list[Part]


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant", omit_defaults=True):
    """`content` has no default: null is sent as null."""

    content: str | list[AssistantPart] | None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, object]] = []
    tool_calls: list[AnyCall] = []
    prefix: bool = False
    partial: bool = False


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool", frozen=True):
    tool_call_id: str
    content: str | list[TextPart]


WireMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage

# -------------------------------------------------------------------------------------------------------------- tools


class Function(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    parameters: msgspec.Raw
    description: str | None = None
    strict: bool | None = None


class FunctionTool(msgspec.Struct, tag_field="type", tag="function", omit_defaults=True):
    function: Function
    cache_control: CacheControl | None = None
    eager_input_streaming: bool | None = None


class Custom(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    description: str | None = None
    format: msgspec.Raw | None = None


class CustomTool(msgspec.Struct, tag_field="type", tag="custom", frozen=True):
    custom: Custom


AnyTool = FunctionTool | CustomTool | msgspec.Raw
"""A tool that the endpoint runs itself stands as the client wrote it."""


class ToolName(msgspec.Struct, frozen=True, gc=False):
    name: str


class NamedChoice(msgspec.Struct, tag_field="type", tag="function", frozen=True, gc=False):
    function: ToolName


class NamedCustomChoice(msgspec.Struct, tag_field="type", tag="custom", frozen=True, gc=False):
    custom: ToolName


class AllowedTools(msgspec.Struct, frozen=True):
    mode: Literal["auto", "required"]
    tools: list[NamedChoice | NamedCustomChoice]


class AllowedChoice(msgspec.Struct, tag_field="type", tag="allowed_tools", frozen=True):
    allowed_tools: AllowedTools


Choice = Literal["auto", "required", "any", "none"] | NamedChoice | NamedCustomChoice | AllowedChoice

# --------------------------------------------------------------------------------------------------------- parameters


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


class ThinkingToggle(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`thinking` as DeepSeek, Moonshot, Z.AI and others take it."""

    type: Literal["enabled", "adaptive", "disabled"]
    clear_thinking: bool | None = None


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`reasoning` as OpenRouter takes it: one of the three."""

    effort: str | None = None
    max_tokens: int | None = None
    enabled: bool | None = None


class Body(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A request. The parameters stand before the messages, so that the head of a logged body says what it asks."""

    model: str
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    random_seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    stop: list[str] = []
    reasoning_effort: str | None = None
    reasoning: Reasoning | None = None
    thinking: ThinkingToggle | None = None
    enable_thinking: bool | None = None
    thinking_budget: int | None = None
    chat_template_kwargs: dict[str, object] = {}
    response_format: JsonObject | JsonSchema | None = None
    user: str | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: Choice | None = None
    tools: list[AnyTool] = []
    messages: list[WireMessage]
