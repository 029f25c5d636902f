"""What each endpoint in the OpenAI format refuses beyond, or instead of, OpenAI's own rules: data and small checks.

`openai_rules.refusal(body, "mistral")` applies the rules of one of them. They are written from the endpoints'
documentation and error messages, not from the gateway's profiles, so that the two can disagree. An endpoint that
ignores what it does not know has `fields=None`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.providers.openai_checks import (
    Check,
    alternating,
    at_most,
    cerebras,
    dashscope,
    deepseek,
    efforts,
    four_marks,
    gemini_compat,
    groq,
    images_as_data,
    mistral,
    moonshot,
    no_files,
    no_format_beside_tools,
    no_tools,
    one_call_a_turn,
    one_choice,
    openai_reasoning,
    openrouter,
    text_only,
    xai,
    zai,
)
from tests.providers.refusals import Json, Refusal, unsupported

OPENAI_FIELDS = frozenset({
    "messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
    "max_completion_tokens", "max_tokens", "metadata", "modalities", "n", "parallel_tool_calls", "prediction",
    "presence_penalty", "prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "response_format",
    "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options", "temperature",
    "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options",
})
_PARTS = frozenset({"text", "image_url", "input_audio", "file"})


@dataclass(frozen=True)
class Strictness:
    """The rules of one endpoint. The defaults are OpenAI's."""

    name: str
    fields: frozenset[str] | None = OPENAI_FIELDS
    """Top-level fields; None: unknown ones are ignored."""
    message_fields: dict[str, frozenset[str]] = field(default_factory=dict)
    """Further fields of messages, by role."""
    call_fields: frozenset[str] = frozenset()
    part_fields: frozenset[str] = frozenset()
    """Further fields of content parts."""
    user_parts: frozenset[str] = _PARTS
    assistant_parts: frozenset[str] = frozenset({"text", "refusal"})
    id_pattern: str = r"(?s).{1,40}"
    id_refusal: str = ""
    """The wording for an id that does not fit; OpenAI's when empty."""
    tool_fields: frozenset[str] = frozenset()
    """Further fields beside a function."""
    server_tools: str = ""
    """The pattern of the types of tools that it runs itself."""
    strict_tools: bool = True
    custom_tools: bool = False
    choices: tuple[str, ...] = ("none", "auto", "required")
    named_choice: bool = True
    max_stop: int = 4
    max_tools: int | None = None
    formats: tuple[str, ...] = ("text", "json_object", "json_schema")
    developer_role: bool = True
    checks: tuple[Check, ...] = ()
    status: int = 400


_REASONED = {"assistant": frozenset({"reasoning_content"})}
_TEXT_AND_IMAGES = frozenset({"text", "image_url"})

OPENAI = Strictness("openai", custom_tools=True, max_tools=128, checks=(openai_reasoning,))

STRICTNESS: dict[str, Strictness] = {strictness.name: strictness for strictness in (
    OPENAI,
    Strictness("azure", OPENAI_FIELDS - {"safety_identifier", "service_tier", "verbosity", "web_search_options",
                                         "prompt_cache_retention"}, custom_tools=True, max_tools=128,
               checks=(openai_reasoning,)),
    Strictness("mistral", frozenset({
        "model", "messages", "temperature", "top_p", "max_tokens", "stream", "stop", "random_seed", "response_format",
        "tools", "tool_choice", "presence_penalty", "frequency_penalty", "n", "prediction", "parallel_tool_calls",
        "prompt_cache_key", "prompt_mode", "safe_prompt", "metadata", "reasoning_effort", "guardrails"}),
        message_fields={"assistant": frozenset({"prefix"}), "tool": frozenset({"name"})},
        user_parts=_TEXT_AND_IMAGES | {"document_url", "input_audio"}, assistant_parts=frozenset({"text", "thinking"}),
        id_pattern="[a-zA-Z0-9]{9}",
        id_refusal="Tool call id was {} but must be a-z, A-Z, 0-9, with a length of 9.",
        choices=("none", "auto", "required", "any"), developer_role=False, status=422,
        checks=(mistral, at_most("temperature", 1.5))),
    Strictness("deepseek", None, message_fields=_REASONED, user_parts=frozenset({"text"}), max_stop=16,
               formats=("text", "json_object"), developer_role=False, checks=(deepseek,)),
    Strictness("moonshot", None, message_fields={"assistant": frozenset({"reasoning_content", "partial"})},
               user_parts=_TEXT_AND_IMAGES, id_pattern=r"functions\.[a-zA-Z0-9_-]+:\d+", strict_tools=False, max_stop=5,
               developer_role=False, checks=(moonshot, images_as_data)),
    Strictness("xai", None, user_parts=_TEXT_AND_IMAGES, strict_tools=False,
               checks=(xai, no_format_beside_tools, no_files)),
    Strictness("groq", OPENAI_FIELDS - {"logprobs", "top_logprobs", "logit_bias", "prediction", "prompt_cache_key",
                                        "verbosity", "safety_identifier"} | {"reasoning_format", "include_reasoning"},
               max_tools=128, checks=(groq, one_choice, no_format_beside_tools, text_only("llama-4"))),
    Strictness("cerebras", OPENAI_FIELDS - {"logit_bias", "presence_penalty", "frequency_penalty", "prompt_cache_key",
                                            "verbosity", "metadata", "store"} | {"clear_thinking"},
               message_fields={"assistant": frozenset({"reasoning"})},
               checks=(cerebras, one_choice, no_format_beside_tools, text_only("gemma|llama-4"))),
    Strictness("zai", None, message_fields=_REASONED, user_parts=_TEXT_AND_IMAGES, choices=("auto",),
               named_choice=False, max_stop=1, formats=("text", "json_object"), developer_role=False,
               checks=(zai, at_most("temperature", 1), text_only(r"glm-\d(\.\d)?v"))),
    Strictness("dashscope", None, message_fields={"assistant": frozenset({"reasoning_content", "partial"})},
               part_fields=frozenset({"cache_control"}), user_parts=_TEXT_AND_IMAGES, developer_role=False,
               checks=(dashscope, four_marks)),
    Strictness("openrouter", None, message_fields={"assistant": frozenset({"reasoning", "reasoning_details"})},
               part_fields=frozenset({"cache_control"}), user_parts=_PARTS | {"video_url"},
               server_tools="openrouter:.+",
               tool_fields=frozenset({"cache_control", "eager_input_streaming"}), checks=(openrouter, four_marks)),
    Strictness("fireworks", None, message_fields=_REASONED, user_parts=_TEXT_AND_IMAGES,
               checks=(no_format_beside_tools,)),
    Strictness("together", None, message_fields=_REASONED, user_parts=_TEXT_AND_IMAGES),
    Strictness("deepinfra", None, message_fields=_REASONED, user_parts=_TEXT_AND_IMAGES, choices=("auto", "none"),
               named_choice=False, checks=(efforts("none", "low", "medium", "high"),)),
    Strictness("featherless", None, user_parts=_TEXT_AND_IMAGES, choices=("auto", "none"), named_choice=False,
               checks=(one_choice,)),
    Strictness("lmstudio", None, user_parts=_TEXT_AND_IMAGES, named_choice=False, formats=("text", "json_schema"),
               checks=(images_as_data,)),
    Strictness("ollama", None, message_fields={"assistant": frozenset({"reasoning"})}, user_parts=_TEXT_AND_IMAGES,
               checks=(images_as_data, one_choice)),
    Strictness("vllm", None, message_fields=_REASONED, id_pattern=r"(?s).{1,256}", user_parts=_TEXT_AND_IMAGES,
               checks=(one_call_a_turn("llama-3"),)),
    Strictness("sglang", None, message_fields=_REASONED, id_pattern=r"(?s).{1,256}", user_parts=_TEXT_AND_IMAGES,
               checks=(one_call_a_turn("llama-3"),)),
    Strictness("llama.cpp", None, message_fields=_REASONED, id_pattern=r"(?s).{1,256}", user_parts=_TEXT_AND_IMAGES,
               named_choice=False),
    Strictness("gemini-compat", frozenset({
        "model", "messages", "max_tokens", "max_completion_tokens", "n", "reasoning_effort", "response_format", "stop",
        "stream", "stream_options", "temperature", "tool_choice", "tools", "top_p", "extra_body"}),
        call_fields=frozenset({"extra_content"}), user_parts=_TEXT_AND_IMAGES, max_stop=5, strict_tools=False,
        developer_role=False, checks=(gemini_compat, images_as_data)),
    Strictness("minimax", None, user_parts=_TEXT_AND_IMAGES, choices=("auto",), named_choice=False, formats=("text",),
               checks=(one_choice, at_most("temperature", 1), text_only("m3"))),
    Strictness("cohere", frozenset({
        "model", "messages", "stream", "stream_options", "temperature", "top_p", "seed", "stop", "max_tokens",
        "presence_penalty", "frequency_penalty", "tools", "tool_choice", "response_format", "reasoning_effort"}),
        user_parts=_TEXT_AND_IMAGES, choices=("required", "none"), named_choice=False, max_stop=5,
        checks=(efforts("none", "high"), images_as_data)),
    Strictness("perplexity", None, user_parts=_TEXT_AND_IMAGES | {"file_url"}, checks=(no_tools, alternating)),
)}


def check_choice_words(choice: Json, strictness: Strictness) -> None:
    if isinstance(choice, str) and choice not in strictness.choices:
        raise unsupported(choice, strictness.choices, "tool_choice")
    if isinstance(choice, dict) and not strictness.named_choice:
        raise Refusal("Invalid tool_choice type: 'object'. Supported string values: "
                      + ", ".join(strictness.choices), "tool_choice")
