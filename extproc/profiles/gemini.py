"""What is peculiar about the models behind Gemini's API, and about its two doors, AI Studio and Vertex.

Data, one record each, each value with its source. The request encoder and the answer decoder of `extproc.apis.gemini`
ask these records; they never ask "is this model X?". Nothing here does I/O.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal

import msgspec

from extproc.profiles.profile import Effort


class GeminiModel(msgspec.Struct, frozen=True, kw_only=True):
    """A generation of models. The defaults are those of the newest one: a name nobody knows is a newer model."""

    patterns: tuple[str, ...]
    thinking: Literal["level", "budget", "none"] = "level"
    """How thinking is asked for: `thinkingLevel`, `thinkingBudget`, or not at all (then the wish is named)."""
    levels: tuple[Effort, ...] = ("low", "medium", "high")
    """The values of `thinkingLevel`; another wish becomes the nearest one."""
    budgets: tuple[int, int] = (0, 0)
    """Least and most tokens of `thinkingBudget`."""
    thinks_always: bool = True
    """Thinking cannot be switched off: a disabled one becomes the least there is."""
    signatures: Literal["required", "optional", "none"] = "required"
    """Whether the first call of a step must carry a signature (else 400), may, or never has one."""
    json_schema: bool = True
    """Whether `parametersJsonSchema` and `responseJsonSchema` are taken; else the OpenAPI subset is sent."""
    media_in_results: bool = True
    """Whether a function response may hold images and documents (`parts`)."""
    format_with_tools: bool = True
    """Whether a response schema may stand beside functions."""
    prefill: bool = False
    """Whether the conversation may end with the model's turn, to be continued."""
    system_instruction: bool = True
    """Whether `systemInstruction` is taken; else it goes in front of the first user turn."""
    functions: bool = True
    """Whether function declarations are taken."""
    max_output_tokens: int = 65_536
    """The most that `maxOutputTokens` may say: more is a 400."""
    max_stop: int = 5


class GeminiDoor(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint that speaks the API."""

    name: Literal["studio", "vertex"]
    call_ids: bool
    """Whether `id` is taken in functionCall and functionResponse."""
    media_type_required: bool
    """Whether `fileData` must say its type."""
    any_of_alone: bool
    """Whether `anyOf` must be the only keyword of its schema (`parameters` only)."""


STUDIO = GeminiDoor(name="studio", call_ids=True, media_type_required=False, any_of_alone=False)
VERTEX = GeminiDoor(name="vertex", call_ids=False, media_type_required=True, any_of_alone=True)

MODELS: tuple[GeminiModel, ...] = (
    GeminiModel(patterns=("gemma-*", "*gemma*"), thinking="none", signatures="none", json_schema=False,
                media_in_results=False, format_with_tools=False, prefill=True, system_instruction=False,
                functions=False, max_output_tokens=8192),
    GeminiModel(patterns=("gemini-1*", "gemini-2.0*", "gemini-pro", "gemini-pro-vision", "learnlm*"), thinking="none",
                signatures="none", json_schema=False, media_in_results=False, format_with_tools=False, prefill=True,
                max_output_tokens=8192),
    GeminiModel(patterns=("gemini-2.5-flash-lite*",), thinking="budget", budgets=(512, 24_576), thinks_always=False,
                signatures="optional", media_in_results=False, format_with_tools=False, prefill=True),
    GeminiModel(patterns=("gemini-2.5-flash*",), thinking="budget", budgets=(1, 24_576), thinks_always=False,
                signatures="optional", media_in_results=False, format_with_tools=False, prefill=True),
    GeminiModel(patterns=("gemini-2.5*",), thinking="budget", budgets=(128, 32_768), signatures="optional",
                media_in_results=False, format_with_tools=False, prefill=True),
    GeminiModel(patterns=("gemini-3-pro*",), levels=("low", "high")),
    GeminiModel(patterns=("gemini-3-flash*",), levels=("minimal", "low", "medium", "high")),
    GeminiModel(patterns=("*",)),
)
"""The first match wins, on the lower-case model id without what stands before its last slash."""

_VERTEX_HOST = re.compile(r"(^|[.-])aiplatform\.googleapis\.com$|^aiplatform\.")


@lru_cache(maxsize=1024)
def gemini_model(model: str) -> GeminiModel:
    """The record of a model id, such as `gemini-2.5-pro` or `models/gemini-3-pro-preview`."""
    plain = model.lower().rpartition("/")[2]
    return next(record for record in MODELS if any(fnmatchcase(plain, pattern) for pattern in record.patterns))


@lru_cache(maxsize=256)
def gemini_door(endpoint: str, base_path: str, provider: str | None = None) -> GeminiDoor:
    """Vertex by its host, by the project in its path or by the name `vertex` of the configuration, else AI Studio.
    `endpoint` is the host of the backend's URL, with a port where it has one."""
    host = endpoint.lower().partition(":")[0]
    vertex = provider == "vertex" or _VERTEX_HOST.search(host) is not None or "/projects/" in base_path + "/"
    return VERTEX if vertex else STUDIO
