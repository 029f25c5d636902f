"""The wire form of a generateContent request, as records that encode in this field order.

Field names are the API's camelCase ones. Fixed order and left-out defaults make the same request the same bytes, so
that prompt caches hit. Used by the request encoder only; a field stands here only if some model is sent it.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Blob(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """`data` is base64."""

    mime_type: str
    data: str


class FileData(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
    file_uri: str
    mime_type: str | None = None


class FunctionCall(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`args` is a JSON object, as it came."""

    name: str
    args: msgspec.Raw
    id: str | None = None


class ResultPart(msgspec.Struct, rename="camel", frozen=True, gc=False):
    inline_data: Blob


class Response(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Exactly one of the two is set."""

    output: str | None = None
    error: str | None = None


class FunctionResponse(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    name: str
    response: Response
    id: str | None = None
    parts: list[ResultPart] = []


class Part(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """Exactly one of the data fields is set; a signature stands beside it. `thought`: the text is a thought."""

    text: str | None = None
    thought: bool = False
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: FunctionCall | None = None
    function_response: FunctionResponse | None = None
    thought_signature: str | None = None


class Content(msgspec.Struct):
    role: Literal["user", "model"]
    parts: list[Part]


class SystemInstruction(msgspec.Struct, frozen=True):
    parts: list[Part]


class FunctionDeclaration(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """At most one of the two schemas is set."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw | None = None
    parameters_json_schema: msgspec.Raw | None = None


class Nothing(msgspec.Struct, frozen=True, gc=False):
    """An object without fields: a provider's own tool with its defaults."""


class Tool(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """Exactly one field is set."""

    function_declarations: list[FunctionDeclaration] = []
    google_search: Nothing | None = None
    url_context: Nothing | None = None
    code_execution: Nothing | None = None


Mode = Literal["AUTO", "ANY", "NONE", "VALIDATED"]


class FunctionCallingConfig(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    mode: Mode
    allowed_function_names: list[str] = []


class ToolConfig(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    function_calling_config: FunctionCallingConfig | None = None
    include_server_side_tool_invocations: bool = False


class SafetySetting(msgspec.Struct, frozen=True, gc=False):
    category: str
    threshold: str


class ThinkingConfig(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
    """Never both a budget and a level: that is a 400."""

    include_thoughts: bool = False
    thinking_budget: int | None = None
    thinking_level: str | None = None


class GenerationConfig(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    stop_sequences: list[str] = []
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    response_mime_type: str | None = None
    response_schema: msgspec.Raw | None = None
    response_json_schema: msgspec.Raw | None = None
    thinking_config: ThinkingConfig | None = None


class Body(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A request. The settings stand before the contents, so that the head of a logged body says what it asks."""

    generation_config: GenerationConfig | None = None
    safety_settings: list[SafetySetting] = []
    tool_config: ToolConfig | None = None
    tools: list[Tool] = []
    system_instruction: SystemInstruction | None = None
    contents: list[Content]
