"""The Chat Completions request as it stands on the wire, as typed records.

Most messages hold text, images by URL and calls of functions: such a request becomes a `RequestBody[KnownTurn]` in one
pass. Whatever is else is read piece by piece (`RequestBody[Raw]`, `Turn[Raw, Raw]`, then part by part). Used by the
request modules of this package only. Nothing here knows the conversation model. Fields that servers and
clients added to the format stand here as soon as we understand them; what only passes through stays the client's own
bytes as `msgspec.Raw`.
"""

from __future__ import annotations

from typing import Generic, Literal, TypeVar

import msgspec
from msgspec.structs import astuple

Raw = msgspec.Raw

T = TypeVar("T")
C = TypeVar("C")


class RequestBody(msgspec.Struct, Generic[T]):
    """POST /v1/chat/completions: what has a place in the conversation model. All other fields go to `Request.extra`,
    so nothing is forbidden here."""

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


class Turn(msgspec.Struct, Generic[T, C], forbid_unknown_fields=True):
    """A message of any role, with parts `T` and calls `C`. Of the fields behind `function_call` each is some server's;
    clients echo them all."""

    role: str
    content: str | list[T] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[C] | None = None
    refusal: str | None = None
    audio: Raw = Raw()
    annotations: Raw = Raw()
    function_call: Raw = Raw()
    reasoning_content: Raw = Raw()
    reasoning: Raw = Raw()
    reasoning_details: Raw = Raw()
    thinking: Raw = Raw()
    thinking_blocks: Raw = Raw()
    cache_control: Raw = Raw()
    prefix: Raw = Raw()
    partial: Raw = Raw()
    parsed: Raw = Raw()
    """The official SDK's reading of the content."""

    @property
    def further(self) -> tuple[Raw, ...]:
        """What stands in the raw fields: nothing in most messages."""
        values = astuple(self)[_FIRST_RAW:]
        return () if values == _NOTHING else values


_FIRST_RAW = Turn.__struct_fields__.index("audio")
"""From here on the fields of a message are raw ones."""
_NOTHING = astuple(Turn(""))[_FIRST_RAW:]


# --------------------------------------------------------------------------------------------------------------- parts


class TextPart(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of one of the types that mean text."""

    text: str | None
    cache_control: Raw = Raw()
    annotations: Raw = Raw()


class TypedText(TextPart, forbid_unknown_fields=True, kw_only=True):
    """The same with its type, whatever that is."""

    type: str


class KnownText(TextPart, tag_field="type", tag="text", forbid_unknown_fields=True, kw_only=True):
    """The same of the type `text`."""


class RefusalPart(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    refusal: str


class UrlPart(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part that names its media by a URL: the member has the part's own name (`image_url`...) and holds an object or
    the URL alone. `detail` stands beside it in the words of the Responses API."""

    image_url: Raw = Raw()
    video_url: Raw = Raw()
    audio_url: Raw = Raw()
    detail: str | None = None
    file_id: str | None = None
    cache_control: Raw = Raw()


class TypedUrl(UrlPart, forbid_unknown_fields=True, kw_only=True):
    """The same with its type, whatever that is."""

    type: str


class KnownImage(UrlPart, tag_field="type", tag="image_url", forbid_unknown_fields=True, kw_only=True):
    """The same of the type `image_url`."""


class Url(msgspec.Struct, forbid_unknown_fields=True):
    url: str
    detail: str | None = None


class DocumentUrlPart(msgspec.Struct, forbid_unknown_fields=True):
    """A document by URL: `document_url` as clients of Mistral write it, `file_url` as those of Perplexity."""

    type: str
    document_url: Raw = Raw()
    file_url: Raw = Raw()
    document_name: str | None = None
    file_name: str | None = None
    cache_control: Raw = Raw()


class AudioPart(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    input_audio: Raw
    cache_control: Raw = Raw()


class Audio(msgspec.Struct, forbid_unknown_fields=True):
    data: str
    format: str | None = None


class FilePart(msgspec.Struct, forbid_unknown_fields=True):
    """`file` in this API; the members beside it are those of the Responses API's `input_file`."""

    type: str
    file: Raw = Raw()
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None
    cache_control: Raw = Raw()


class File(msgspec.Struct, forbid_unknown_fields=True):
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None
    format: str | None = None


# ----------------------------------------------------------------------------------------------------------- reasoning


class ThinkingPart(msgspec.Struct, forbid_unknown_fields=True):
    """Anthropic's block, whose text is a string, or Mistral's, whose text is a list of text parts."""

    type: str
    thinking: str | list[Raw] = ""
    signature: str | None = None
    closed: bool | None = None
    cache_control: Raw = Raw()


class RedactedPart(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    data: str
    cache_control: Raw = Raw()


class ReasoningItem(msgspec.Struct):
    """One of OpenRouter's `reasoning_details`."""

    type: str
    id: str | None = None
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None
    format: str | None = None
    index: int | None = None


# ---------------------------------------------------------------------------------------------------- calls and tools


class Call(msgspec.Struct, forbid_unknown_fields=True):
    id: str | None = None
    type: str | None = None
    index: Raw = Raw()
    function: Raw = Raw()
    custom: Raw = Raw()
    extra_content: Raw = Raw()
    """What Google's OpenAI-compatible endpoint sends along with a call."""
    cache_control: Raw = Raw()


class CalledFunction(msgspec.Struct, forbid_unknown_fields=True):
    """`arguments` is JSON text; some clients send the object itself."""

    name: str
    arguments: Raw = Raw()
    parsed_arguments: Raw = Raw()


class CalledCustom(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    input: str = ""


class KnownFunction(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    arguments: str = ""


class KnownCall(msgspec.Struct, forbid_unknown_fields=True):
    """A call of a function as this API's own clients send it."""

    id: str
    function: KnownFunction
    type: Literal["function"] = "function"


KnownTurn = Turn[str | KnownText | KnownImage, KnownCall]
"""A message of parts and calls that we know, with fields that we know."""
AnyTurn = Turn[Raw, Raw] | KnownTurn


class WholeBody(RequestBody[KnownTurn], forbid_unknown_fields=True):
    """A request whose fields all stand in the format or here (what OpenRouter, vLLM and llama.cpp are told most): it
    need not be searched for others. That is all that the list is for."""

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


class ToolHead(msgspec.Struct):
    type: str | None = None
    name: str | None = None
    function: Raw = Raw()
    custom: Raw = Raw()
    cache_control: Raw = Raw()
    eager_input_streaming: bool | None = None


class TemplateSwitches(msgspec.Struct):
    """What `chat_template_kwargs` of vLLM, SGLang and llama.cpp says of reasoning."""

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


class Function(msgspec.Struct, forbid_unknown_fields=True):
    """A function, inside `function`, as a legacy `functions` entry, or flat (Responses, Anthropic: `input_schema`)."""

    name: str
    type: str | None = None
    description: str | None = None
    parameters: Raw = Raw()
    input_schema: Raw = Raw()
    strict: bool | None = None
    cache_control: Raw = Raw()
    eager_input_streaming: bool | None = None


class Custom(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    type: str | None = None
    description: str | None = None
    format: Raw = Raw()
    cache_control: Raw = Raw()


class Choice(msgspec.Struct, forbid_unknown_fields=True):
    """The object forms of `tool_choice`: nested as in this API, flat as in others."""

    type: str | None = None
    name: str | None = None
    function: Raw = Raw()
    custom: Raw = Raw()
    allowed_tools: Raw = Raw()
    mode: str | None = None
    tools: list[Raw] | None = None


class Named(msgspec.Struct):
    name: str


class AllowedTools(msgspec.Struct, forbid_unknown_fields=True):
    mode: str
    tools: list[Raw]


# ---------------------------------------------------------------------------------------------------------- parameters


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class Format(msgspec.Struct, forbid_unknown_fields=True):
    """`schema` beside the type is how Together, Fireworks and llama.cpp take it."""

    type: str
    json_schema: Raw = Raw()
    schema: dict[str, object] | None = None


class JsonSchema(msgspec.Struct, forbid_unknown_fields=True):
    name: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None
    description: str | None = None


class Reasoning(msgspec.Struct, forbid_unknown_fields=True):
    """OpenRouter's `reasoning`."""

    effort: str | None = None
    max_tokens: int | None = None
    enabled: bool | None = None
    exclude: bool | None = None
    summary: Raw = Raw()


class ThinkingBody(msgspec.Struct, forbid_unknown_fields=True):
    """`thinking` of Anthropic, DeepSeek, Moonshot, Z.AI."""

    type: str = "enabled"
    """Z.AI's default."""
    budget_tokens: int | None = None
    clear_thinking: bool | None = None
    display: Raw = Raw()
