"""A Responses API request: read from clients, written for providers.

Reading is lenient and precise about places: unknown fields by name, unknown items by type. Most requests hold only
listed fields and become a `ClientBody` in one pass. Writing is strict: fields in a fixed order, defaults left out, so
that the same request is the same bytes. One record does both where the two agree; otherwise the record for reading is
called `Client...`, beside the one for writing.

Nothing here depends on the conversation model. Source: the types of openai-python 3.54 (`openai.types.responses`), and
what Codex CLI 0.169 sends.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Generic, Literal, TypeVar

import msgspec

Raw = msgspec.Raw

T = TypeVar("T")

# --------------------------------------------------------------------------------------------------------------- parts


class ClientPart(msgspec.Struct, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A part of a message or of a tool's output, of any type."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None
    image_url: Raw = Raw()
    """A URL; some clients send Chat Completions' object with a `url`."""
    detail: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    input_audio: Raw = Raw()
    annotations: Raw = Raw()
    logprobs: Raw = Raw()
    prompt_cache_breakpoint: Raw = Raw()


class InputText(msgspec.Struct, tag_field="type", tag="input_text", frozen=True, gc=False):
    text: str


class OutputText(msgspec.Struct, tag_field="type", tag="output_text", frozen=True, gc=False):
    """Text of an assistant message."""

    text: str


class InputImage(msgspec.Struct, tag_field="type", tag="input_image", frozen=True, gc=False, omit_defaults=True):
    """`image_url` is an https or data URL."""

    image_url: str | None = None
    file_id: str | None = None
    detail: str | None = None


class InputFile(msgspec.Struct, tag_field="type", tag="input_file", frozen=True, gc=False, omit_defaults=True):
    """`file_data` is a data URL."""

    filename: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None


class Audio(msgspec.Struct, frozen=True, gc=False):
    """`data` is base64, `format` wav or mp3."""

    data: str
    format: str | None = None


class InputAudio(msgspec.Struct, tag_field="type", tag="input_audio", frozen=True):
    input_audio: Audio


InputPart = InputText | OutputText | InputImage | InputFile | InputAudio

# --------------------------------------------------------------------------------------------------------------- items


class ClientItem(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """An item of `input`, of any type; a message may lack its type."""

    type: str | None = None
    id: str | None = None
    role: str | None = None
    content: str | list[ClientPart] | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Raw = Raw()
    """JSON text; an object in a tool_search_call."""
    input: Raw = Raw()
    """Of a custom tool call: the raw text."""
    output: Raw = Raw()
    action: Raw = Raw()
    operation: Raw = Raw()
    summary: Raw = Raw()
    encrypted_content: Raw = Raw()
    tools: list[Raw] | None = None
    execution: str | None = None
    reasoning: Raw = Raw()
    text: Raw = Raw()
    status: Raw = Raw()
    phase: Raw = Raw()
    internal_chat_message_metadata_passthrough: Raw = Raw()
    """Codex's own notes. Never forwarded."""

    @property
    def raw_fields(self) -> list[Raw]:
        """The raw fields that hold anything."""
        return [value for value in _raw_fields(self) if value]


_raw_fields = attrgetter(*(field.name for field in msgspec.structs.fields(ClientItem) if field.type is Raw))


class Message(msgspec.Struct, tag_field="type", tag="message", omit_defaults=True):
    """`phase` (commentary, final_answer): of an assistant message, for gpt-5.3-codex and later."""

    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[InputPart]
    phase: str | None = None


class Reasoning(msgspec.Struct, tag_field="type", tag="reasoning"):
    """Reasoning of an earlier turn. `encrypted_content` must be the provider's own, byte for byte."""

    encrypted_content: str
    summary: list[Raw] = []


class FunctionCall(msgspec.Struct, tag_field="type", tag="function_call", omit_defaults=True):
    call_id: str
    name: str
    arguments: str
    namespace: str | None = None


class FunctionCallOutput(msgspec.Struct, tag_field="type", tag="function_call_output"):
    call_id: str
    output: str | list[InputPart]


class CustomToolCall(msgspec.Struct, tag_field="type", tag="custom_tool_call", omit_defaults=True):
    call_id: str
    name: str
    input: str
    namespace: str | None = None


class CustomToolCallOutput(msgspec.Struct, tag_field="type", tag="custom_tool_call_output"):
    call_id: str
    output: str | list[InputPart]


InputItem = Message | Reasoning | FunctionCall | FunctionCallOutput | CustomToolCall | CustomToolCallOutput | Raw
"""Raw: an item in the client's own bytes."""

# --------------------------------------------------------------------------------------------------------------- tools


class ClientTool(msgspec.Struct, forbid_unknown_fields=True):
    """A tool of a type that the client runs. `tools` are the members of a namespace."""

    type: str | None = None
    name: str | None = None
    description: str | None = None
    parameters: Raw = Raw()
    strict: bool | None = None
    format: Raw = Raw()
    tools: list[Raw] | None = None
    execution: str | None = None
    defer_loading: bool | None = None
    function: Raw = Raw()
    """Chat Completions' nested form, which some clients send."""
    allowed_callers: Raw = Raw()
    environment: Raw = Raw()
    output_schema: Raw = Raw()


class FunctionTool(msgspec.Struct, tag_field="type", tag="function", omit_defaults=True):
    """`strict` is always written: the API takes a missing one for true, and makes optional parameters required."""

    name: str
    parameters: Raw
    strict: bool
    description: str | None = None


class CustomTool(msgspec.Struct, tag_field="type", tag="custom", omit_defaults=True):
    """A tool that takes free text; `format` is a grammar."""

    name: str
    description: str | None = None
    format: Raw | None = None


class NamespaceTool(msgspec.Struct, tag_field="type", tag="namespace", omit_defaults=True):
    name: str
    description: str | None = None
    tools: list[FunctionTool | CustomTool] = []


AnyTool = FunctionTool | CustomTool | NamespaceTool | Raw
"""Raw: a tool that the endpoint runs itself, in the client's own bytes."""


class ClientToolChoice(msgspec.Struct, forbid_unknown_fields=True):
    """The object forms of `tool_choice`."""

    type: str | None = None
    name: str | None = None
    namespace: str | None = None
    mode: str | None = None
    tools: list[Raw] | None = None
    function: Raw = Raw()
    server_label: str | None = None


class NamedFunction(msgspec.Struct, tag_field="type", tag="function", frozen=True, gc=False, omit_defaults=True):
    name: str
    namespace: str | None = None


class NamedCustom(msgspec.Struct, tag_field="type", tag="custom", frozen=True, gc=False):
    name: str


class AllowedTools(msgspec.Struct, tag_field="type", tag="allowed_tools", frozen=True):
    mode: Literal["auto", "required"]
    tools: list[NamedFunction | NamedCustom]


ToolChoiceField = Literal["auto", "required", "none"] | NamedFunction | NamedCustom | AllowedTools

# ---------------------------------------------------------------------------------------------------------- parameters


class ClientReasoning(msgspec.Struct, forbid_unknown_fields=True):
    """`context` and `mode`: which past reasoning the model sees."""

    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    """The old name of `summary`."""
    context: Raw = Raw()
    mode: Raw = Raw()


class ReasoningField(msgspec.Struct, omit_defaults=True, frozen=True):
    effort: str | None = None
    summary: str | None = None


class ClientFormat(msgspec.Struct, forbid_unknown_fields=True):
    """`text.format`."""

    type: str
    name: str | None = None
    schema: dict[str, object] | None = None
    strict: bool | None = None
    description: str | None = None
    json_schema: Raw = Raw()
    """Chat Completions' nested form."""


class JsonObjectFormat(msgspec.Struct, tag_field="type", tag="json_object", frozen=True, gc=False):
    pass


class JsonSchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema", frozen=True, omit_defaults=True):
    name: str
    schema: dict[str, object]
    strict: bool | None = None


class ClientText(msgspec.Struct, forbid_unknown_fields=True):
    format: Raw = Raw()
    verbosity: Raw = Raw()


class TextField(msgspec.Struct, omit_defaults=True):
    format: JsonObjectFormat | JsonSchemaFormat | None = None
    verbosity: str | None = None


# ---------------------------------------------------------------------------------------------------------------- body


class ClientBody(msgspec.Struct, Generic[T], forbid_unknown_fields=True):
    """POST /v1/responses, with items `T`. Also /responses/compact and /responses/input_tokens, which know fewer fields.
    Unknown fields go to `Request.extra`."""

    model: str
    input: str | list[T] | None = None
    instructions: Raw = Raw()
    stream: bool | None = None
    tools: list[Raw] | None = None
    tool_choice: Raw = Raw()
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning: Raw = Raw()
    text: Raw = Raw()
    user: str | None = None
    safety_identifier: str | None = None
    store: bool | None = None
    include: Raw = Raw()
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: Raw = Raw()
    prompt: Raw = Raw()
    truncation: str | None = None
    metadata: Raw = Raw()
    prompt_cache_key: Raw = Raw()
    prompt_cache_options: Raw = Raw()
    prompt_cache_retention: Raw = Raw()
    service_tier: Raw = Raw()
    stream_options: Raw = Raw()
    top_logprobs: Raw = Raw()
    max_tool_calls: Raw = Raw()
    moderation: Raw = Raw()
    client_metadata: Raw = Raw()
    """Codex's own: it names the machine. Never forwarded."""


class ProviderBody(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A request to be sent. The parameters come before the items, so that the head of a logged body shows them. `store`
    is always written: the API takes a missing one for true."""

    model: str
    stream: bool = False
    store: bool | msgspec.UnsetType = msgspec.UNSET
    include: list[str] = []
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    reasoning: ReasoningField | None = None
    text: TextField | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: Any = None
    safety_identifier: str | None = None
    user: str | None = None
    service_tier: Any = None
    tool_choice: ToolChoiceField | None = None
    tools: list[AnyTool] = []
    instructions: str | None = None
    input: list[InputItem]
