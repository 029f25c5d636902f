"""A Chat Completions request without its messages: read from clients, written for providers.

The rules are those of `wire_messages`: one record does both where reading and writing agree, otherwise the lenient
record for reading is beside the strict one for writing.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec

from extproc.apis.openai.wire_messages import KnownMessage, ProviderMessage
from extproc.apis.shared.cache_marks import CacheControl

Raw = msgspec.Raw

T = TypeVar("T")

# -------------------------------------------------------------------------------------------------------------- tools


class ToolHead(msgspec.Struct):
    type: str | None = None
    name: str | None = None
    function: Raw = Raw()
    custom: Raw = Raw()
    cache_control: Raw = Raw()
    eager_input_streaming: bool | None = None


class Function(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A function: inside `function`, as an entry of the legacy `functions`, or flat (Responses API; Anthropic with
    `input_schema`). The first four fields are written, the others only read."""

    name: str
    parameters: Raw = Raw()
    description: str | None = None
    strict: bool | None = None
    type: str | None = None
    input_schema: Raw = Raw()
    cache_control: Raw = Raw()
    eager_input_streaming: bool | None = None


class FunctionTool(msgspec.Struct, tag_field="type", tag="function", omit_defaults=True):
    function: Function
    cache_control: CacheControl | None = None
    eager_input_streaming: bool | None = None


class ClientCustom(msgspec.Struct, forbid_unknown_fields=True):
    """A tool that takes free text."""

    name: str
    type: str | None = None
    description: str | None = None
    format: Raw = Raw()
    cache_control: Raw = Raw()


class Custom(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    description: str | None = None
    format: Raw | None = None


class CustomTool(msgspec.Struct, tag_field="type", tag="custom", frozen=True):
    custom: Custom


AnyTool = FunctionTool | CustomTool | Raw
"""Raw: a tool that the endpoint runs itself, in the client's own bytes."""

# ------------------------------------------------------------------------------------------------------------- choice


class ClientToolChoice(msgspec.Struct, forbid_unknown_fields=True):
    """The object forms of `tool_choice`: nested as in this API, flat as in others."""

    type: str | None = None
    name: str | None = None
    function: Raw = Raw()
    custom: Raw = Raw()
    allowed_tools: Raw = Raw()
    mode: str | None = None
    tools: list[Raw] | None = None


class ToolName(msgspec.Struct, frozen=True, gc=False):
    name: str


class NamedChoice(msgspec.Struct, tag_field="type", tag="function", frozen=True, gc=False):
    function: ToolName


class NamedCustomChoice(msgspec.Struct, tag_field="type", tag="custom", frozen=True, gc=False):
    custom: ToolName


class AllowedTools(msgspec.Struct, Generic[T], frozen=True, forbid_unknown_fields=True):
    mode: str
    tools: list[T]


class AllowedChoice(msgspec.Struct, tag_field="type", tag="allowed_tools", frozen=True):
    allowed_tools: AllowedTools[NamedChoice | NamedCustomChoice]


ToolChoiceField = Literal["auto", "required", "any", "none"] | NamedChoice | NamedCustomChoice | AllowedChoice

# ---------------------------------------------------------------------------------------------------------- parameters


class StreamOptions(msgspec.Struct, frozen=True, gc=False):
    include_usage: bool | None = None


class ClientFormat(msgspec.Struct, forbid_unknown_fields=True):
    """`response_format`. `schema` beside the type is the form of Together, Fireworks and llama.cpp."""

    type: str
    json_schema: Raw = Raw()
    schema: dict[str, object] | None = None


class NamedSchema(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`description` is only read."""

    name: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None
    description: str | None = None


class JsonObjectFormat(msgspec.Struct, tag_field="type", tag="json_object", frozen=True, gc=False):
    pass


class JsonSchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema", frozen=True):
    json_schema: NamedSchema


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """OpenRouter's `reasoning`. One of the first three fields is written; the last two are only read."""

    effort: str | None = None
    max_tokens: int | None = None
    enabled: bool | None = None
    exclude: bool | None = None
    summary: Raw = Raw()


class ClientThinking(msgspec.Struct, forbid_unknown_fields=True):
    """`thinking` of Anthropic, DeepSeek, Moonshot and Z.AI."""

    type: str = "enabled"
    """Z.AI's default."""
    budget_tokens: int | None = None
    clear_thinking: bool | None = None
    display: Raw = Raw()


class ThinkingToggle(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """`thinking` as sent to DeepSeek, Moonshot, Z.AI and others."""

    type: Literal["enabled", "adaptive", "disabled"]
    clear_thinking: bool | None = None


class TemplateSwitches(msgspec.Struct):
    """The members of `chat_template_kwargs` (vLLM, SGLang, llama.cpp) that control reasoning."""

    enable_thinking: bool | None = None
    thinking: bool | None = None


class GoogleThinking(msgspec.Struct):
    """`thinking_config` of Gemini's endpoint in this format, in its two spellings."""

    thinking_budget: int | None = None
    thinkingBudget: int | None = None  # noqa: N815 - the wire's name
    thinking_level: str | None = None
    thinkingLevel: str | None = None  # noqa: N815


class GoogleBody(msgspec.Struct):
    thinking_config: GoogleThinking | None = None


class ExtraBody(msgspec.Struct):
    """`extra_body` of the same endpoint."""

    google: GoogleBody | None = None


# ---------------------------------------------------------------------------------------------------------------- body


class ClientBody(msgspec.Struct, Generic[T]):
    """POST /v1/chat/completions: the fields that have a place in the conversation model, with messages `T`. All other
    fields go to `Request.extra`, so none is forbidden."""

    model: str
    messages: list[T]
    stream: bool | None = None
    stream_options: Raw = Raw()
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: str | list[str] | None = None
    n: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    user: str | None = None
    tools: list[Raw] | None = None
    tool_choice: Raw = Raw()
    parallel_tool_calls: bool | None = None
    functions: list[Raw] | None = None
    function_call: Raw = Raw()
    response_format: Raw = Raw()
    reasoning_effort: str | None = None
    reasoning: Raw = Raw()
    include_reasoning: bool | None = None
    thinking: Raw = Raw()
    enable_thinking: bool | None = None
    thinking_budget: int | None = None


class WholeClientBody(ClientBody[KnownMessage], forbid_unknown_fields=True):
    """A request of listed fields only: those of the format, and those most often sent to OpenRouter, vLLM and
    llama.cpp. It need not be searched for others, which is the only purpose of the list."""

    audio: Raw = Raw()
    cache_prompt: Raw = Raw()
    chat_template_kwargs: Raw = Raw()
    logit_bias: Raw = Raw()
    metadata: Raw = Raw()
    min_p: Raw = Raw()
    modalities: Raw = Raw()
    models: Raw = Raw()
    plugins: Raw = Raw()
    prediction: Raw = Raw()
    prompt_cache_key: Raw = Raw()
    prompt_cache_retention: Raw = Raw()
    provider: Raw = Raw()
    repetition_penalty: Raw = Raw()
    route: Raw = Raw()
    safety_identifier: Raw = Raw()
    service_tier: Raw = Raw()
    store: Raw = Raw()
    transforms: Raw = Raw()
    usage: Raw = Raw()
    verbosity: Raw = Raw()
    web_search_options: Raw = Raw()


class ProviderBody(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A request to be sent. The parameters come before the messages, so that the head of a logged body shows
    them."""

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
    response_format: JsonObjectFormat | JsonSchemaFormat | None = None
    user: str | None = None
    parallel_tool_calls: bool | None = None
    tool_choice: ToolChoiceField | None = None
    tools: list[AnyTool] = []
    messages: list[ProviderMessage]
