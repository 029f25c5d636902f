"""api.fireworks.ai, Chat Completions.

Reasoning is received and sent back as `reasoning_content`; interleaved models need that of turns with calls. Efforts
differ by family. Tools and a response format exclude each other. Files are not taken. GLM ids write `p` for the dot
(`glm-5p3`). Source: docs.fireworks.ai (Reasoning, Tool calling, Structured responses).
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="fireworks",
    splits_reasoning=True,
    refuses=frozenset(),
    format_with_tools=False,
    thinks="unknown",
    reasoning_history="with_tool_calls",
    documents=False,
)

PROVIDER = Provider(
    name="fireworks",
    aliases=("fireworks-ai",),
    hosts=("api.fireworks.ai",),
    base=_PLAIN,
    families=(
        ("glm*", replace(_PLAIN, name="fireworks-glm", efforts=("none", "high", "max"), effort_map={
            "minimal": "high", "low": "high", "medium": "high"})),
        ("deepseek-v4*", replace(_PLAIN, name="fireworks-deepseek", efforts=("none", "low", "medium", "high",
                                                                             "xhigh"))),
        ("*llama*", replace(_PLAIN, name="fireworks-plain", reasoning="none", reasoning_history="drop")),
    ),
)
