"""api.siliconflow.com and .cn, Chat Completions: open models.

`enable_thinking` switches the reasoning of hybrid models and `thinking_budget` bounds it. Reasoning is received and
sent back as `reasoning_content`. Source: docs.siliconflow.com (Chat Completions, Reasoning models).
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="siliconflow",
    splits_reasoning=True,
    refuses=frozenset({"logit_bias"}),
    user=False,
    response_format="json_object",
    reasoning="none",
    thinks="unknown",
    reasoning_history="with_tool_calls",
    documents=False,
    parallel_tool_calls=False,
)
_HYBRID = replace(_PLAIN, name="siliconflow-hybrid", thinking_toggle="enable_thinking", thinking_budget=True,
                  thinks="by_default")

PROVIDER = Provider(
    name="siliconflow",
    hosts=("api.siliconflow.com", "api.siliconflow.cn"),
    base=_PLAIN,
    families=(
        ("*thinking*", replace(_PLAIN, name="siliconflow-thinking", thinking_budget=True, thinks="always")),
        ("*instruct*", _PLAIN),
        ("qwen3*", _HYBRID),
        ("glm-*", _HYBRID),
        ("deepseek-v*", _HYBRID),
    ),
)
