"""api.together.xyz, Chat Completions.

`reasoning {enabled}` switches the reasoning of hybrid models; gpt-oss takes an effort. Reasoning is received as
`reasoning` or `reasoning_content`, and sent back as the latter. DeepSeek V4 refuses a forced tool choice. Streams may
finish with `eos`. Source: docs.together.ai (Reasoning, Function calling).
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="together",
    splits_reasoning=True,
    refuses=frozenset(),
    reasoning="none",
    thinks="unknown",
    reasoning_history="with_tool_calls",
    documents=False,
    parallel_tool_calls=False,
)
_HYBRID = replace(_PLAIN, name="together-hybrid", thinking_toggle="reasoning", thinks="by_default")

PROVIDER = Provider(
    name="together",
    aliases=("togetherai", "together-ai"),
    hosts=("api.together.xyz", "api.together.ai"),
    base=_PLAIN,
    families=(
        ("gpt-oss*", replace(_PLAIN, name="together-gpt-oss", reasoning="effort", thinks="always")),
        ("glm-5.3*", replace(_PLAIN, name="together-glm", reasoning="effort", thinks="always",
                             efforts=("low", "medium", "high", "max"))),
        ("deepseek-v4*", replace(_HYBRID, name="together-deepseek", tool_choices=frozenset({"auto", "none"}))),
        ("deepseek-v3*", _HYBRID),
        ("kimi-k2.[56]*", _HYBRID),
        ("glm-*", _HYBRID),
    ),
)
