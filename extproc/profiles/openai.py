"""api.openai.com, Chat Completions.

The reasoning families (o-series, gpt-5) take `max_completion_tokens` only and answer 400 to temperature, top_p, stop,
penalties, logprobs and logit_bias; the others answer 400 to `reasoning_effort`. An unknown field is refused. The API
takes at most 128 tools, tool names of 64 and tool call ids of 40 characters. Custom tools and `allowed_tools` came with
gpt-5. Source: the API reference and its error messages.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

FIELDS = frozenset({
    "audio", "logit_bias", "metadata", "modalities", "moderation", "prediction", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "verbosity",
    "web_search_options",
})
"""Fields of the API reference that the conversation model has no place for."""

_PLAIN = Profile(
    name="openai",
    faithful=True,
    extra_fields=FIELDS,
    reasoning="none",  # 400 "Unrecognized request argument" at gpt-4o and older
    max_tools=128,
    strict_tools=True,
)
_REASONING = replace(
    _PLAIN,
    name="openai-reasoning",
    max_tokens_field="max_completion_tokens",
    refuses=_PLAIN.refuses | {"temperature", "top_p", "stop", "presence_penalty", "frequency_penalty", "logprobs",
                              "top_logprobs", "logit_bias"},
    reasoning="effort",
    thinks="always",
)
# The o-series answers 400 to parallel_tool_calls and knows three efforts.
_O_SERIES = replace(_REASONING, name="openai-o", parallel_tool_calls=False)
_GPT_5 = replace(_REASONING, name="openai-gpt-5", efforts=("minimal", "low", "medium", "high"), custom_tools=True,
                 allowed_tools=True)
_GPT_5_PRO = replace(_GPT_5, name="openai-gpt-5-pro", efforts=("high",))
# From 5.1 on "none" replaced "minimal" and is the default; from 5.2 on "xhigh" exists.
_GPT_5_1 = replace(_GPT_5, name="openai-gpt-5.1", efforts=("none", "low", "medium", "high"), thinks="when_asked")
_GPT_5_X = replace(_GPT_5_1, name="openai-gpt-5.x", efforts=("none", "low", "medium", "high", "xhigh"))

FAMILIES = (
    ("gpt-5*chat*", replace(_PLAIN, name="openai-chat", max_tokens_field="max_completion_tokens")),
    ("gpt-5-pro*", _GPT_5_PRO),
    ("gpt-5-codex*", replace(_GPT_5, name="openai-codex", efforts=("low", "medium", "high"))),
    ("gpt-5.1*", _GPT_5_1),
    ("gpt-5.*", _GPT_5_X),
    ("gpt-5*", _GPT_5),
    ("o[134]*", _O_SERIES),
)

# More is a 400: "max_tokens is too large: 32000. This model supports at most 16384 completion tokens". Source: "Max
# output tokens" of each model's page, platform.openai.com/docs/models. Other hosts of the models set their own.
_LIMITS = (
    ("gpt-5*chat*", 16_384),
    ("gpt-5-pro*", 272_000),
    ("gpt-5*", 128_000),
    ("o1-preview*", 32_768),
    ("o1-mini*", 65_536),
    ("o[134]*", 100_000),
    ("gpt-4.1*", 32_768),
    ("gpt-4o-2024-05-13", 4096),  # the first one; those behind it write four times as much
    ("gpt-4o*", 16_384),
    ("chatgpt-4o*", 16_384),
    ("gpt-4-turbo*", 4096),
    ("gpt-4-*preview", 4096),  # what was to become gpt-4-turbo
    ("gpt-4", 8192),
    ("gpt-4-0613", 8192),
    ("gpt-3.5-turbo*", 4096),
)

PROVIDER = Provider(name="openai", hosts=("api.openai.com",), base=_PLAIN, families=FAMILIES, output_limits=_LIMITS)
