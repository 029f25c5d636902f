"""api.featherless.ai, Chat Completions.

Tool choice is auto or none. Many of its models have no tool parser: calls are then text in the model's own form.
A variable of the chat template switches reasoning. No files, no strict tools. Source: featherless.ai/docs (Tool
calling, API overview).
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="featherless",
    hosts=("api.featherless.ai",),
    base=Profile(
        name="featherless",
        refuses=frozenset({"n", "logprobs", "top_logprobs"}),
        response_format="json_object",
        reasoning="none",
        thinking_toggle="template:enable_thinking",
        empty_content="empty",
        documents=False,
        tool_choices=frozenset({"auto", "none"}),
        parallel_tool_calls=False,
    ),
)
