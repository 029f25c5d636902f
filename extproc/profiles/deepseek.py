"""api.deepseek.com, Chat Completions.

Thinking is on by default on V4 and always on with `deepseek-reasoner`; `deepseek-chat` does not think. While it
thinks, a forced tool choice is refused ("Thinking mode does not support this tool_choice"); with `thinking: disabled`
it is taken. From V3.2 on all later requests must hold the reasoning of turns with tool calls, else 400 "Missing
reasoning_content field in the assistant message"; one space is accepted in place of lost reasoning. Efforts are low,
high and max; medium counts as high. `max_completion_tokens` is silently ignored, `json_schema` is refused,
and so are parts other than text ("unknown variant `image_url`, expected `text`"). `parallel_tool_calls`, `user`, `n`
and `seed` are not in its reference. Source: the API's documentation and its error messages; litellm #37470 for
choices while thinking.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_V4 = Profile(
    name="deepseek",
    splits_reasoning=True,
    refuses=frozenset({"top_k", "n", "seed", "logit_bias"}),
    max_stop=16,
    response_format="json_object",
    efforts=("low", "high", "max"),
    effort_map={"medium": "high"},
    thinking_toggle="thinking",
    thinks="by_default",
    choice_while_thinking=False,
    reasoning_history="with_tool_calls",
    reasoning_placeholder=" ",
    user=False,
    images=False,
    documents=False,
    parallel_tool_calls=False,
)

PROVIDER = Provider(
    name="deepseek",
    hosts=("api.deepseek.com",),
    base=_V4,
    families=(
        ("deepseek-chat*", replace(_V4, name="deepseek-chat", reasoning="none", thinking_toggle=None,
                                   thinks="when_asked")),
        ("deepseek-reasoner*", replace(_V4, name="deepseek-reasoner", thinks="always")),
    ),
)
