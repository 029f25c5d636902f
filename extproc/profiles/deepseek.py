"""api.deepseek.com, Chat Completions.

Thinking is on by default on V4 and always on with `deepseek-reasoner`; `deepseek-chat` does not think. While it thinks
a forced tool choice is refused ("Thinking mode does not support this tool_choice"). From V3.2 on the reasoning of turns
with tool calls must come back in all later requests, else 400 "Missing reasoning_content field in the assistant
message"; one space is accepted where it was not kept. `max_completion_tokens` is silently ignored, `json_schema` is
refused. Source: the API's documentation and its error messages.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_THINKING = Profile(
    name="deepseek",
    response_format="json_object",
    reasoning="effort",
    efforts=("low", "high", "max"),
    effort_map={"medium": "high"},
    thinking_toggle=True,
    reasoning_history="with_tool_calls",
    reasoning_placeholder=" ",
    tool_choices=frozenset({"auto", "none"}),
    user=False,
)

PROVIDER = Provider(
    name="deepseek",
    hosts=("api.deepseek.com",),
    base=_THINKING,
    families=(
        ("deepseek-chat*", replace(_THINKING, name="deepseek-chat", reasoning="none", thinking_toggle=False,
                                   tool_choices=frozenset({"auto", "required", "tool", "none"}))),
    ),
)
