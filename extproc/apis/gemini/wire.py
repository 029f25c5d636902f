"""The wire records of generateContent: requests as they are sent, responses as they are read.

Field names are the API's camelCase ones. Requests: a fixed field order and omitted defaults make the same request the
same bytes, so that prompt caches hit; a field is listed only if it is sent to some model. Responses: one record serves
the chunks of a stream, the elements of the array form and whole responses. Their leaf fields are untyped on purpose: a
field of an odd type must not cost the whole response. Raw JSON stays where it only passes through (the arguments of
calls) or is rare (grounding). Unknown fields are skipped, since Google adds some every month.

Sources: the GenerateContentRequest and GenerateContentResponse references of AI Studio (v1beta) and Vertex AI (v1).
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

_ABSENT = msgspec.Raw(b"")

# ------------------------------------------------------------------------------------------------------------ request


class Blob(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """`data` is base64."""

    mime_type: str
    data: str


class FileData(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
    file_uri: str
    mime_type: str | None = None


class RequestCall(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """`args`: a JSON object, as it came."""

    name: str
    args: msgspec.Raw
    id: str | None = None


class ResultPart(msgspec.Struct, rename="camel", frozen=True, gc=False):
    inline_data: Blob


class ResultObject(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Exactly one of the two is set."""

    output: str | None = None
    error: str | None = None


class FunctionResponse(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    name: str
    response: ResultObject
    id: str | None = None
    parts: list[ResultPart] = []


class RequestPart(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """Exactly one of the data fields is set; a signature may stand beside it. `thought`: the text is a thought."""

    text: str | None = None
    thought: bool = False
    inline_data: Blob | None = None
    file_data: FileData | None = None
    function_call: RequestCall | None = None
    function_response: FunctionResponse | None = None
    thought_signature: str | None = None


class RequestContent(msgspec.Struct):
    role: Literal["user", "model"]
    parts: list[RequestPart]


class SystemInstruction(msgspec.Struct, frozen=True):
    parts: list[RequestPart]


class FunctionDeclaration(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """At most one of the two schemas is set."""

    name: str
    description: str | None = None
    parameters: msgspec.Raw | None = None
    parameters_json_schema: msgspec.Raw | None = None


class EmptyConfig(msgspec.Struct, frozen=True, gc=False):
    """An object without fields: a tool that Google runs, with its defaults."""


class WireTool(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """Exactly one field is set."""

    function_declarations: list[FunctionDeclaration] = []
    google_search: EmptyConfig | None = None
    url_context: EmptyConfig | None = None
    code_execution: EmptyConfig | None = None


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


class WireThinking(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
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
    thinking_config: WireThinking | None = None


class RequestBody(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """A request. The settings precede the contents, so that the start of a logged body shows them."""

    generation_config: GenerationConfig | None = None
    safety_settings: list[SafetySetting] = []
    tool_config: ToolConfig | None = None
    tools: list[WireTool] = []
    system_instruction: SystemInstruction | None = None
    contents: list[RequestContent]


# ----------------------------------------------------------------------------------------------------------- response


class PartialArg(msgspec.Struct, rename="camel", gc=False):
    """A piece of streamed arguments (Vertex): one value at `json_path`, or the next piece of a string there."""

    json_path: Any = None
    string_value: Any = None
    number_value: msgspec.Raw = _ABSENT
    bool_value: msgspec.Raw = _ABSENT
    null_value: msgspec.Raw = _ABSENT
    struct_value: msgspec.Raw = _ABSENT
    list_value: msgspec.Raw = _ABSENT
    will_continue: Any = None


class ResponseCall(msgspec.Struct, rename="camel", gc=False):
    id: Any = None
    name: Any = None
    args: msgspec.Raw = _ABSENT
    partial_args: list[PartialArg | None] | None = None
    will_continue: Any = None

    @property
    def name_text(self) -> str:
        return self.name if isinstance(self.name, str) else ""

    @property
    def id_text(self) -> str | None:
        return self.id if isinstance(self.id, str) and self.id else None

    @property
    def arguments(self) -> str:
        """The JSON text of the arguments as it came, "" for none. Whole responses are indented: the indentation goes,
        since the model reads the text again in every later turn."""
        raw = bytes(self.args)
        if raw in (b"", b"null"):
            return ""
        if raw[:1] == b'"':  # some proxies encode the object twice
            text = msgspec.json.decode(raw)
            assert isinstance(text, str)
            return text if text.strip()[:1] in ("{", "") else raw.decode("utf-8", "replace")
        if b"\n" in raw:
            raw = msgspec.json.format(raw, indent=-1)
        return raw.decode("utf-8", "replace")


class ResponsePart(msgspec.Struct, rename="camel", gc=False):
    text: Any = None
    thought: Any = None
    thought_signature: Any = None
    function_call: ResponseCall | None = None
    inline_data: Any = None
    file_data: Any = None
    executable_code: Any = None
    code_execution_result: Any = None
    tool_call: Any = None
    tool_response: Any = None
    function_response: Any = None

    @property
    def signature(self) -> str | None:
        value = self.thought_signature
        return value if isinstance(value, str) and value else None


class ResponseContent(msgspec.Struct, gc=False):
    parts: list[ResponsePart | None] | None = None


class Candidate(msgspec.Struct, rename="camel", gc=False):
    index: Any = None
    content: ResponseContent | None = None
    finish_reason: Any = None
    finish_message: Any = None
    grounding_metadata: msgspec.Raw = _ABSENT
    url_context_metadata: msgspec.Raw = _ABSENT
    citation_metadata: msgspec.Raw = _ABSENT


class PromptFeedback(msgspec.Struct, rename="camel", gc=False):
    block_reason: Any = None
    block_reason_message: Any = None
    """Vertex only."""


class UsageMetadata(msgspec.Struct, rename="camel", gc=False):
    prompt_token_count: Any = None
    tool_use_prompt_token_count: Any = None
    cached_content_token_count: Any = None
    candidates_token_count: Any = None
    thoughts_token_count: Any = None
    total_token_count: Any = None


class ResponseChunk(msgspec.Struct, rename="camel", gc=False):
    candidates: list[Candidate | None] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: UsageMetadata | None = None
    model_version: Any = None
    response_id: Any = None
    error: Any = None
