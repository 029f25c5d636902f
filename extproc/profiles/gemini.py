"""What is peculiar about the models behind Gemini's API, and about its two doors, AI Studio and Vertex.

Data, one record each, each value with its source. The request encoder and the answer decoder of
`extproc.apis.gemini.provider` ask these records; they never ask "is this model X?". Nothing here does I/O.

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
         tool_config.include_server_side_tool_invocations to use Built-in tools with Function calling"; Vertex answers
         400 to the name of this switch (vercel/ai 14655, ag2ai/ag2 3145).
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
    """A generation of models. The defaults are those of the newest one: a name nobody knows is a newer model."""

    patterns: tuple[str, ...]

    # -------------------------------------------------------------------------------------------------- reasoning
    thinking: Literal["level", "budget", "none"] = "level"
    """How thinking is asked for: `thinkingLevel`, `thinkingBudget`, or not at all (then the wish is named)."""
    levels: tuple[Effort, ...] = ("low", "medium", "high")
    """The values of `thinkingLevel`; another wish becomes the nearest one."""
    level_map: dict[str, Effort] = {}
    """Efforts that become another level than the nearest one below."""
    budgets: tuple[int, int] = (0, 0)
    """Least and most tokens of `thinkingBudget`."""
    thinks_always: bool = True
    """Thinking cannot be switched off: a disabled one becomes the least there is."""
    signatures: Literal["required", "optional", "none"] = "required"
    """Whether the first call of a step must carry a signature (else 400), may, or never has one."""

    # ------------------------------------------------------------------------------------------------- parameters
    max_output_tokens: int = 65_536
    """The most that `maxOutputTokens` may say: more is a 400."""
    max_stop: int = 5
    """Most stop sequences; further ones are dropped and named."""
    sampling: bool = False
    """Whether `temperature`, `topP` and `topK` do anything. Where they do not, they are on their way to a 400."""
    max_top_k: int = 64
    """The most that `topK` may say: more is a 400."""
    penalties: bool = False
    """Whether `presencePenalty` and `frequencyPenalty` are taken; else they are a 400."""
    structured_output: bool = True
    """Whether a response format is taken at all; else it is asked for in words."""
    json_schema: bool = True
    """Whether `parametersJsonSchema` and `responseJsonSchema` are taken; else the OpenAPI subset is sent."""
    format_with_tools: bool = True
    """Whether a response format may stand beside tools."""

    # --------------------------------------------------------------------------------------------------- contents
    system_instruction: bool = True
    """Whether `systemInstruction` is taken; else it goes in front of the first user turn."""
    prefill: bool = False
    """Whether the conversation may end with the model's turn, to be continued."""
    media: frozenset[str] = frozenset({"image", "document", "audio", "video"})
    """The kinds of media that are taken."""
    media_in_results: bool = True
    """Whether a function response may hold images and documents (`parts`)."""

    # ------------------------------------------------------------------------------------------------------ tools
    functions: bool = True
    """Whether function declarations are taken. If not, tools are written into the prompt."""
    server_tools: bool = True
    """Whether `googleSearch`, `urlContext` and `codeExecution` are taken."""
    server_tools_beside_functions: bool = True
    """Whether they may stand beside functions of the client. [mix]"""
    validated: bool = True
    """Whether the mode VALIDATED is taken."""
    call_ids: bool = True
    """Whether the model's calls have an `id` (where the door takes it)."""


class GeminiEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that speaks the API."""

    name: Literal["studio", "vertex"]
    call_ids: bool
    """Whether `id` is taken in functionCall and functionResponse."""
    media_type_required: bool
    """Whether `fileData` must say its type."""
    mixing_switch: bool
    """Whether server tools beside functions need `toolConfig.includeServerSideToolInvocations`; elsewhere the name is
    unknown, and needed by nothing. [mix]"""
    any_of_alone: bool
    """Whether `anyOf` must be the only keyword of its schema (`parameters` only)."""
    finish_reasons: tuple[str, ...]
    """The names of the enum FinishReason by their numbers: some relays write the JSON of the protocol buffers with
    numbers. The two doors count differently from 5 on."""


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
_GEMINI_2 = GeminiModel(  # what 2.0 and 2.5 share
    patterns=(), signatures="optional", sampling=True, media_in_results=False, format_with_tools=False, prefill=True,
    call_ids=False, server_tools_beside_functions=False)
_GEMINI_3 = GeminiModel(patterns=(), levels=_ALL_LEVELS, sampling=True)

MODELS: tuple[GeminiModel, ...] = (
    # Gemma 4 knows system text, functions and thinking; it thinks only when it is told to. [gemma]
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
    # Budgets of 2.5 and who can stop. [think]
    replace(_GEMINI_2, patterns=("gemini-2.5-flash-lite*", "gemini-flash-lite-2.5*"), thinking="budget",
            budgets=(512, 24_576), thinks_always=False),
    replace(_GEMINI_2, patterns=("gemini-2.5-flash*", "gemini-robotics-er-1.5*"), thinking="budget",
            budgets=(1, 24_576), thinks_always=False),
    replace(_GEMINI_2, patterns=("gemini-2.5*",), thinking="budget", budgets=(128, 32_768)),
    # 3 Pro has no medium; Google's own OpenAI endpoint takes a medium effort for high there.
    # ai.google.dev/gemini-api/docs/openai, "Thinking"
    replace(_GEMINI_3, patterns=("gemini-3-pro*",), levels=("low", "high"), level_map={"medium": "high"}),
    replace(_GEMINI_3, patterns=("gemini-3.1-pro*",), levels=("low", "medium", "high")),  # [3.5]
    replace(_GEMINI_3, patterns=("gemini-3.5-flash-lite*", "gemini-3.6*"), sampling=False),  # [3.7] [latest]
    replace(_GEMINI_3, patterns=("gemini-3-flash*", "gemini-3.1-flash*", "gemini-3.5-flash*")),  # [think] [3.5]
    # Of Gemini 4 Hydrogen alone thinks up to xhigh; a later model that nobody knows counts as the newest. [4]
    GeminiModel(patterns=("gemini-4-argon*", "gemini-4-carbon*")),
    GeminiModel(patterns=("gemini-4*", "gemini-[5-9]*"), levels=("low", "medium", "high", "xhigh")),
    # 3.7, 3.8 and the names that mean the latest model. [3.7] [latest] [sig] [fr]
    GeminiModel(patterns=("*",)),
)
"""The first match wins, on the lower-case model id without what stands before its last slash."""

_VERTEX_HOST = re.compile(r"(^|[.-])aiplatform\.googleapis\.com$|^aiplatform\.")


@bounded_cache(entries=1024, longest=200)
def gemini_model(model: str) -> GeminiModel:
    """The record of a model id, such as `gemini-2.5-pro` or `models/gemini-3-pro-preview`."""
    plain = model.lower().rpartition("/")[2]
    return next(record for record in MODELS if any(fnmatchcase(plain, pattern) for pattern in record.patterns))


@lru_cache(maxsize=256)
def gemini_endpoint(endpoint: str, base_path: str, provider: str | None = None) -> GeminiEndpoint:
    """Vertex by its host, by the project in its path or by the name `vertex` of the configuration, else AI Studio.
    `endpoint` is the host of the backend's URL, with a port where it has one."""
    host = endpoint.lower().partition(":")[0]
    vertex = provider == "vertex" or _VERTEX_HOST.search(host) is not None or "/projects/" in base_path + "/"
    return VERTEX if vertex else STUDIO
