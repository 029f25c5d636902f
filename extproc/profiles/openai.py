"""api.openai.com, Chat Completions.

The reasoning families (o-series, gpt-5) take `max_completion_tokens` only and answer 400 to temperature, top_p and
stop; the others answer 400 to `reasoning_effort`. The API takes at most 128 tools, tool names of 64 and tool call ids
of 40 characters. Source: the API reference and its error messages.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="openai",
    reasoning="none",  # 400 "Unrecognized request argument" at gpt-4o and older
    max_tools=128,
    strict_tools=True,
)
_REASONING = replace(
    _PLAIN,
    name="openai-reasoning",
    max_tokens_field="max_completion_tokens",
    refuses=_PLAIN.refuses | {"temperature", "top_p", "stop"},
    reasoning="effort",
)
# The o-series answers 400 to parallel_tool_calls and knows three efforts.
_O_SERIES = replace(_REASONING, name="openai-o", parallel_tool_calls=False)
_GPT_5 = replace(_REASONING, name="openai-gpt-5", efforts=("minimal", "low", "medium", "high"))
_GPT_5_PRO = replace(_GPT_5, name="openai-gpt-5-pro", efforts=("high",))
# From 5.1 on "none" replaced "minimal"; from 5.2 on "xhigh" exists.
_GPT_5_1 = replace(_GPT_5, name="openai-gpt-5.1", efforts=("none", "low", "medium", "high"))
_GPT_5_X = replace(_GPT_5, name="openai-gpt-5.x", efforts=("none", "low", "medium", "high", "xhigh"))

PROVIDER = Provider(
    name="openai",
    hosts=("api.openai.com",),
    base=_PLAIN,
    families=(
        ("gpt-5*chat*", replace(_PLAIN, name="openai-chat", max_tokens_field="max_completion_tokens")),
        ("gpt-5-pro*", _GPT_5_PRO),
        ("gpt-5-codex*", _REASONING),
        ("gpt-5.1*", _GPT_5_1),
        ("gpt-5.*", _GPT_5_X),
        ("gpt-5*", _GPT_5),
        ("o[134]*", _O_SERIES),
    ),
)
