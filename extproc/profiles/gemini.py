"""The models behind Gemini's API, and its two endpoints, AI Studio and Vertex AI.

Data, one record each, each value with its source. The request encoder and the response decoder of
`extproc.apis.gemini.provider` read these records and never ask "is this model X?". Nothing here does I/O.

Sources, by the marks in the table:
[think]  ai.google.dev/gemini-api/docs/thinking: levels, budgets, which models cannot stop thinking.
[3.5]    docs.cloud.google.com, "Developer's guide to Gemini 3.5 Flash": levels of 3.5 Flash, 3.1 Pro, 3.1 Flash-Lite.
[3.7]    docs.cloud.google.com, developer's guides to Gemini 3.7 and 3.8 Flash: `minimal` is gone.
[latest] ai.google.dev/gemini-api/docs/latest-model: from 3.6 Flash and 3.5 Flash-Lite on, sampling is fixed and a
         conversation may not end with the model's turn.
[sig]    ai.google.dev/gemini-api/docs/thought-signatures: enforced for Gemini 3, not for its image models.
[fr]     docs.cloud.google.com, Gemini 3 guides: images and PDFs in function responses.
[pen]    vercel/ai 8943, google-gemini/cookbook 1290: "Penalty is not enabled for this model", all but 2.0.
[4]      docs.cloud.google.com, models 4-argon and 4-carbon (LOW, MEDIUM, HIGH), thinking (Hydrogen: up to XHIGH).
[mix]    ai.google.dev/gemini-api/docs/tool-combination: from Gemini 3 on; 400 "Please enable
         tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling"; Vertex
         responds with 400 to the name of this switch (vercel/ai 14655, ag2ai/ag2 3145).
[gemma]  ai.google.dev/gemma/docs/core/gemma_on_gemini_api; 400 "Developer instruction is not enabled", "Function
         calling is not enabled", "JSON mode is not enabled" for Gemma 3.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec.structs import replace

from extproc.bounds import bounded_cache
from extproc.profiles.profile import Effort


class GeminiModel(msgspec.Struct, frozen=True, kw_only=True):
    """A generation of models. The defaults are those of the newest one, because an unknown name is a newer model."""

    patterns: tuple[str, ...]

    # -------------------------------------------------------------------------------------------------- reasoning
    thinking: Literal["level", "budget", "none"] = "level"
    """The field for thinking: `thinkingLevel`, `thinkingBudget`, or none (then a request for thinking is named)."""
    levels: tuple[Effort, ...] = ("low", "medium", "high")
    """The values of `thinkingLevel`; another effort becomes the nearest one."""
    level_map: dict[str, Effort] = {}
    """Efforts that become another level than the nearest one."""
    budgets: tuple[int, int] = (0, 0)
    """Minimum and maximum of `thinkingBudget`, in tokens."""
    thinks_always: bool = True
    """True if thinking cannot be switched off: disabled thinking becomes the least possible."""
    signatures: Literal["required", "optional", "none"] = "required"
    """The first call of a step must carry a signature (else 400), may carry one, or never has one."""

    # ------------------------------------------------------------------------------------------------- parameters
    max_output_tokens: int = 65_536
    """The maximum of `maxOutputTokens`: more is a 400."""
    max_stop: int = 5
    """Maximum number of stop sequences; further ones are dropped and named."""
    sampling: bool = False
    """True if `temperature`, `topP` and `topK` have an effect. Otherwise they will become a 400."""
    max_top_k: int = 64
    """The maximum of `topK`: more is a 400."""
    penalties: bool = False
    """True if `presencePenalty` and `frequencyPenalty` are taken; otherwise they are a 400."""
    structured_output: bool = True
    """True if a response format is taken; otherwise the system text asks for it."""
    json_schema: bool = True
    """True if `parametersJsonSchema` and `responseJsonSchema` are taken; otherwise the OpenAPI subset is sent."""
    format_with_tools: bool = True
    """True if a response format may stand beside tools."""

    # --------------------------------------------------------------------------------------------------- contents
    system_instruction: bool = True
    """True if `systemInstruction` is taken; otherwise it goes in front of the first user turn."""
    prefill: bool = False
    """True if the conversation may end with a model turn, which the model continues."""
    media: frozenset[str] = frozenset({"image", "document", "audio", "video"})
    """The kinds of media that are taken."""
    media_in_results: bool = True
    """True if a function response may hold images and documents (`parts`)."""

    # ------------------------------------------------------------------------------------------------------ tools
    functions: bool = True
    """True if function declarations are taken. Otherwise tools are written into the prompt."""
    server_tools: bool = True
    """True if `googleSearch`, `urlContext` and `codeExecution` are taken."""
    server_tools_beside_functions: bool = True
    """True if they may stand beside functions of the client. [mix]"""
    validated: bool = True
    """True if the mode VALIDATED is taken."""
    call_ids: bool = True
    """True if the model's calls have an `id` (if the endpoint takes it)."""


class GeminiEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint of the API."""

    name: Literal["studio", "vertex"]
    call_ids: bool
    """True if `id` is taken in functionCall and functionResponse."""
    media_type_required: bool
    """True if `fileData` must have a type."""
    mixing_switch: bool
    """True if server tools beside functions need `toolConfig.includeServerSideToolInvocations`; elsewhere the name is
    unknown. [mix]"""
    any_of_alone: bool
    """True if `anyOf` must be the only keyword of its schema (`parameters` only)."""
    finish_reasons: tuple[str, ...]
    """The names of the enum FinishReason by number: some proxies write the JSON of the protocol buffers with numbers.
    The endpoints count differently from 5 on."""


STUDIO = GeminiEndpoint(
    name="studio", call_ids=True, media_type_required=False, mixing_switch=True, any_of_alone=False,
    # googleapis, google/ai/generativelanguage/v1beta/generative_service.proto
    finish_reasons=(
        "FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "LANGUAGE", "BLOCKLIST",
        "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS", "IMAGE_PROHIBITED_CONTENT", "IMAGE_OTHER", "NO_IMAGE", "IMAGE_RECITATION"))
VERTEX = GeminiEndpoint(
    name="vertex", call_ids=False, media_type_required=True, mixing_switch=False, any_of_alone=True,
    # googleapis, google/cloud/aiplatform/v1/content.proto
    finish_reasons=(
        "FINISH_REASON_UNSPECIFIED", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER", "BLOCKLIST",
        "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "MODEL_ARMOR", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER", "UNEXPECTED_TOOL_CALL", "NO_IMAGE"))

_ALL_LEVELS: tuple[Effort, ...] = ("minimal", "low", "medium", "high")
_GEMINI_2 = GeminiModel(  # shared by 2.0 and 2.5
    patterns=(), signatures="optional", sampling=True, media_in_results=False, format_with_tools=False, prefill=True,
    call_ids=False, server_tools_beside_functions=False)
_GEMINI_3 = GeminiModel(patterns=(), levels=_ALL_LEVELS, sampling=True)

MODELS: tuple[GeminiModel, ...] = (
    # Gemma 4 knows system text, functions and thinking; it thinks only on request. [gemma]
    replace(_GEMINI_3, patterns=("gemma-4*", "*gemma4*"), levels=("minimal", "high"), signatures="optional",
            json_schema=False, format_with_tools=False, media_in_results=False, validated=False, call_ids=False,
            server_tools_beside_functions=False, media=frozenset({"image", "video"}), max_output_tokens=32_768),
    GeminiModel(patterns=("gemma-*", "*gemma*"), thinking="none", signatures="none", sampling=True,
                structured_output=False, json_schema=False, media_in_results=False, format_with_tools=False,
                prefill=True, system_instruction=False, functions=False, server_tools=False, validated=False,
                call_ids=False, media=frozenset({"image"}), max_output_tokens=8192),
    # Image models of every generation take neither functions nor levels of thinking; signatures are not enforced.
    # [think] [sig]
    replace(_GEMINI_2, patterns=("*-image", "*-image-*"), thinking="none", functions=False, validated=False,
            prefill=False, structured_output=False, max_output_tokens=32_768),
    # 2.0 thinks no more than 1.5: its experimental thinking models are gone. [pen] topK up to 40.
    replace(_GEMINI_2, patterns=("gemini-1*", "gemini-2.0*", "gemini-pro", "gemini-pro-vision", "learnlm*"),
            thinking="none", signatures="none", json_schema=False, penalties=True, validated=False, max_top_k=40,
            max_output_tokens=8192),
    # The budgets of 2.5; not every model can stop thinking. [think]
    replace(_GEMINI_2, patterns=("gemini-2.5-flash-lite*", "gemini-flash-lite-2.5*"), thinking="budget",
            budgets=(512, 24_576), thinks_always=False),
    replace(_GEMINI_2, patterns=("gemini-2.5-flash*", "gemini-robotics-er-1.5*"), thinking="budget",
            budgets=(1, 24_576), thinks_always=False),
    replace(_GEMINI_2, patterns=("gemini-2.5*",), thinking="budget", budgets=(128, 32_768)),
    # 3 Pro has no medium; Google's own OpenAI endpoint maps a medium effort to high.
    # ai.google.dev/gemini-api/docs/openai, "Thinking"
    replace(_GEMINI_3, patterns=("gemini-3-pro*",), levels=("low", "high"), level_map={"medium": "high"}),
    replace(_GEMINI_3, patterns=("gemini-3.1-pro*",), levels=("low", "medium", "high")),  # [3.5]
    replace(_GEMINI_3, patterns=("gemini-3.5-flash-lite*", "gemini-3.6*"), sampling=False),  # [3.7] [latest]
    replace(_GEMINI_3, patterns=("gemini-3-flash*", "gemini-3.1-flash*", "gemini-3.5-flash*")),  # [think] [3.5]
    # Of Gemini 4 only Hydrogen thinks up to xhigh; an unknown later model counts as the newest. [4]
    GeminiModel(patterns=("gemini-4-argon*", "gemini-4-carbon*")),
    GeminiModel(patterns=("gemini-4*", "gemini-[5-9]*"), levels=("low", "medium", "high", "xhigh")),
    # 3.7, 3.8 and the names that mean the latest model. [3.7] [latest] [sig] [fr]
    GeminiModel(patterns=("*",)),
)
"""The first match wins, on the part of the model id after the last slash, in lower case."""

_VERTEX_HOST = re.compile(r"(^|[.-])aiplatform\.googleapis\.com$|^aiplatform\.")


@bounded_cache(entries=1024, longest=200)
def find_gemini_model(model: str) -> GeminiModel:
    """The record of a model id, such as `gemini-2.5-pro` or `models/gemini-3-pro-preview`."""
    name = model.lower().rpartition("/")[2]
    return next(record for record in MODELS if any(fnmatchcase(name, pattern) for pattern in record.patterns))


@lru_cache(maxsize=256)
def find_gemini_endpoint(endpoint: str, base_path: str, provider: str | None = None) -> GeminiEndpoint:
    """Vertex by its host, by the project in its path or by the name `vertex` in the configuration, else AI Studio.
    `endpoint`: the host of the backend's URL, with its port if it has one."""
    host = endpoint.lower().partition(":")[0]
    vertex = provider == "vertex" or _VERTEX_HOST.search(host) is not None or "/projects/" in base_path + "/"
    return VERTEX if vertex else STUDIO
