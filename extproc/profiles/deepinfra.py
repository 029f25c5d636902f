"""api.deepinfra.com, Chat Completions.

Tool choice is auto or none, and tool messages hold strings. It does not know `parallel_tool_calls` and strict tools.
Efforts are none, low, medium and high. Source: deepinfra.com/docs (Function calling, Chat completions), pydantic-ai's
notes.
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="deepinfra",
    hosts=("api.deepinfra.com",),
    base=Profile(
        name="deepinfra",
        splits_reasoning=True,
        refuses=frozenset(),
        efforts=("none", "low", "medium", "high"),
        reasoning_history="with_tool_calls",
        empty_content="empty",
        documents=False,
        tool_choices=frozenset({"auto", "none"}),
        parallel_tool_calls=False,
    ),
)
