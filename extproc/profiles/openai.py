"""api.openai.com: Chat Completions, and which models are served by Responses.

The reasoning families (o-series, gpt-5 and all later ones) take `max_completion_tokens` only and refuse temperature,
top_p, stop, penalties, logprobs and logit_bias with 400 (o3-mini takes stop); the others refuse `reasoning_effort` with
400. An unknown field is refused. The API takes at most 128 tools, tool names of 64 and tool call ids of 40 characters.
Custom tools and `allowed_tools` came with gpt-5.

From gpt-5.4 on a request with function tools is a 400 ("Function tools with reasoning_effort are not supported for
gpt-5.6-sol in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'"), even
without an effort, since these models reason by default from gpt-5.5 on. gpt-6-astra and gpt-6.1-sol have no effort
`none`, so they take no tools in this API. All of these models are served by the Responses API, unless the configuration
has `endpoint: chat`; so are those that Chat Completions does not have (`-pro`, codex, deep research).

Source: the API reference and its error messages; for gpt-5.4 and later developers.openai.com/api/docs (deployment
checklist, pages of the models), litellm #34569, livekit/agents #7169, bolna #1019 and litellm-docs #1173, which probed
the models.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

FIELDS = frozenset({
    "audio", "logit_bias", "metadata", "modalities", "moderation", "prediction", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier", "store", "verbosity",
    "web_search_options",
})
"""Fields of the API reference that the conversation model does not have."""

PLAIN = Profile(
    name="openai",
    faithful=True,
    extra_fields=FIELDS,
    reasoning="none",  # 400 "Unrecognized request argument" at gpt-4o and older
    max_tools=128,
    strict_tools=True,
)
"""gpt-4o, its relatives and all older models."""
_REASONING = replace(
    PLAIN,
    name="openai-reasoning",
    max_tokens_field="max_completion_tokens",
    refuses=PLAIN.refuses | {"temperature", "top_p", "stop", "presence_penalty", "frequency_penalty", "logprobs",
                             "top_logprobs", "logit_bias"},
    reasoning="effort",
    thinks="always",
)
# The o-series refuses parallel_tool_calls with 400 and knows three efforts.
_O_SERIES = replace(_REASONING, name="openai-o", parallel_tool_calls=False)
_O3_MINI = replace(_O_SERIES, name="openai-o3-mini", refuses=_O_SERIES.refuses - {"stop"})
_GPT_5 = replace(_REASONING, name="openai-gpt-5", efforts=("minimal", "low", "medium", "high"), custom_tools=True,
                 allowed_tools=True)
_ONLY_RESPONSES = "this model is on the Responses API only, which `endpoint: auto` chooses"
_GPT_5_PRO = replace(_GPT_5, name="openai-gpt-5-pro", efforts=("high",), functions="refused",
                     functions_advice=_ONLY_RESPONSES)
# From 5.1 on "none" replaced "minimal" and is the default; from 5.2 on "xhigh" exists.
_GPT_5_1 = replace(_GPT_5, name="openai-gpt-5.1", efforts=("none", "low", "medium", "high"), thinks="when_asked")
_GPT_5_2 = replace(_GPT_5_1, name="openai-gpt-5.2", efforts=("none", "low", "medium", "high", "xhigh"))
# A request with tool_choice none omits the tools, so that the model may reason.
_GPT_5_4 = replace(_GPT_5_2, name="openai-gpt-5.4", functions="without_reasoning", message_phase=True,
                   tool_choices=_GPT_5_2.tool_choices - {"none"})
# From 5.5 on "medium" is the default.
_NEWEST = replace(_GPT_5_4, name="openai-newest", thinks="by_default")
_WITHOUT_TOOLS = replace(
    _NEWEST, name="openai-without-tools", efforts=("low", "medium", "high", "xhigh"), thinks="always",
    functions="refused",
    functions_advice="`endpoint: auto` chooses Responses, which takes them; gpt-5.2 and older models take tools there, "
                     "gpt-5.4 to gpt-5.6, gpt-6-sol and gpt-6-luna take them without reasoning")
_PRO = replace(_WITHOUT_TOOLS, name="openai-pro", efforts=("medium", "high", "xhigh"))
_CODEX = replace(_GPT_5, name="openai-codex", efforts=("low", "medium", "high"), functions="refused",
                 functions_advice=_ONLY_RESPONSES)
_NEW_CODEX = replace(_CODEX, name="openai-new-codex", efforts=("low", "medium", "high", "xhigh"))
_O_PRO = replace(_O_SERIES, name="openai-o-pro", functions="refused", functions_advice=_ONLY_RESPONSES)
_CHAT = replace(PLAIN, name="openai-chat", max_tokens_field="max_completion_tokens")

FAMILIES = (
    ("gpt-[5-9]*chat*", _CHAT),
    ("chat-latest*", _CHAT),
    ("gpt-5-pro*", _GPT_5_PRO),
    ("gpt-[5-9]*-pro*", _PRO),
    ("gpt-5-codex*", _CODEX),
    ("gpt-5.1-codex-max*", _NEW_CODEX),
    ("gpt-5.1-codex*", _CODEX),
    ("gpt-5.2-codex*", _NEW_CODEX),
    ("gpt-[5-9]*-codex*", replace(_NEW_CODEX, message_phase=True)),
    ("codex-mini*", replace(_O_PRO, name="openai-codex-mini")),
    ("gpt-5.1*", _GPT_5_1),
    ("gpt-5.[23]*", _GPT_5_2),
    ("gpt-5.4*", _GPT_5_4),
    ("gpt-5.*", _NEWEST),
    ("gpt-5*", _GPT_5),
    ("gpt-6-astra*", _WITHOUT_TOOLS),
    ("gpt-6.1-sol*", _WITHOUT_TOOLS),
    ("gpt-oss*", PLAIN),
    ("gpt-[34]*", PLAIN),
    ("gpt-audio*", PLAIN),
    ("gpt-realtime*", PLAIN),
    ("chatgpt-4*", PLAIN),
    ("gpt-*", _NEWEST),
    ("o3-mini*", _O3_MINI),
    ("o[0-9]*-pro*", _O_PRO),
    ("o[0-9]*-deep-research*", _O_PRO),
    ("o[0-9]*", _O_SERIES),
)
"""An unknown `gpt-` model counts as one of the newest."""

# More is a 400: "max_tokens is too large: 32000. This model supports at most 16384 completion tokens". Source: "Max
# output tokens" of each model's page, platform.openai.com/docs/models. Other hosts of the models set their own.
_LIMITS = (
    ("gpt-[5-9]*chat*", 16_384),
    ("gpt-5-pro*", 272_000),
    ("gpt-5*", 128_000),
    ("gpt-6*", 128_000),
    ("o1-preview*", 32_768),
    ("o1-mini*", 65_536),
    ("o[134]*", 100_000),
    ("gpt-4.1*", 32_768),
    ("gpt-4o-2024-05-13", 4096),  # the first version; later ones write four times as much
    ("gpt-4o*", 16_384),
    ("chatgpt-4o*", 16_384),
    ("gpt-4-turbo*", 4096),
    ("gpt-4-*preview", 4096),  # previews of gpt-4-turbo
    ("gpt-4", 8192),
    ("gpt-4-0613", 8192),
    ("gpt-3.5-turbo*", 4096),
)

# Any other name counts as one of the newest, too.
PROVIDER = Provider(name="openai", hosts=("api.openai.com",), base=_NEWEST, families=FAMILIES, output_limits=_LIMITS)
