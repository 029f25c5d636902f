"""api.moonshot.ai and api.moonshot.cn, Chat Completions.

With a thinking model every assistant message with tool calls must carry `reasoning_content` (400 "reasoning_content is
missing in assistant tool call message"); a single space satisfies the check. `tool_choice: required` and strict tools
are not supported; `reasoning_effort: none` is refused, thinking is switched off by `thinking: {"type": "disabled"}`.
Tool call ids are `functions.NAME:N`, N counted over the conversation: other ids in the history teach the model to write
other ids. Source: the API's documentation and its error messages.
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="moonshot",
    hosts=("api.moonshot.ai", "api.moonshot.cn"),
    base=Profile(
        name="moonshot",
        reasoning="none",
        thinking_toggle=True,
        reasoning_history="with_tool_calls",
        reasoning_placeholder=" ",
        tool_choices=frozenset({"auto", "none", "tool"}),
        tool_call_id_form="functions",
        tool_call_id_max=256,
    ),
)
