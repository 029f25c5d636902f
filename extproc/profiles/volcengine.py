"""ark.cn-beijing.volces.com and BytePlus ModelArk (Doubao and open models), Chat Completions.

`thinking {type}` switches reasoning, which is on by default; from Doubao 1.8 on also `reasoning_effort`. Reasoning of
turns with calls is sent back as `reasoning_content`. Source: Volcengine Ark's reference (ChatCompletions, deep
thinking).
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="volcengine",
    aliases=("doubao", "ark", "byteplus"),
    hosts=("ark.cn-beijing.volces.com", "volces.com", "bytepluses.com"),
    base=Profile(
        name="volcengine",
        splits_reasoning=True,
        refuses=frozenset({"top_k", "n", "seed"}),
        user=False,
        reasoning="none",
        thinking_toggle="thinking",
        thinks="by_default",
        reasoning_history="with_tool_calls",
        documents=False,
        parallel_tool_calls=True,
    ),
)
