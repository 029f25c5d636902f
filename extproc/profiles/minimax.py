"""api.minimax.io and api.minimaxi.com, Chat Completions.

MiniMax-M2 always reasons, in `<think>` inside the content, and requires all of it back with every turn. M3 reasons
adaptively, and reasoning can be switched off. `max_tokens` is deprecated; penalties, logit_bias, n, tool_choice,
response_format and `parallel_tool_calls` are ignored or refused; temperatures up to 1. Errors may come with status 200.
Source: platform.minimax.io/docs (OpenAI API, M2 function calling).
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_M2 = Profile(
    name="minimax",
    splits_reasoning=True,  # both tags are in the text
    max_tokens_field="max_completion_tokens",
    refuses=frozenset({"top_k", "n", "seed", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs",
                       "logit_bias"}),
    max_temperature=1.0,
    user=False,
    response_format="none",
    reasoning="none",
    thinks="always",
    reasoning_history="always",
    reasoning_field="think_tags",
    images=False,
    documents=False,
    tool_choices=frozenset({"auto"}),
    parallel_tool_calls=False,
)

PROVIDER = Provider(
    name="minimax",
    hosts=("api.minimax.io", "api.minimaxi.com", "api.minimax.chat"),
    base=_M2,
    families=(("minimax-m3*", replace(_M2, name="minimax-m3", thinking_toggle="thinking", thinking_on="adaptive",
                                      thinks="by_default", images=True)),),
)
