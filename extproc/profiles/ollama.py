"""Ollama's /v1, Chat Completions.

`reasoning_effort: none` switches reasoning off. It takes reasoning back in `reasoning`, and images as data only.
Versions up to 2026 silently ignore `tool_choice`, so the system text asks for a forced choice and for single calls;
`none` omits the tools. A message without content loses the ids of its calls. Streams send
whole calls, all with index 0. Source: docs.ollama.com/api/openai-compatibility; the request record of its
source.
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="ollama",
    hosts=("ollama.com",),
    base=Profile(
        name="ollama",
        splits_reasoning=True,  # into `reasoning`: docs.ollama.com/capabilities/thinking
        refuses=frozenset({"top_k", "n", "logit_bias"}),
        user=False,
        efforts=("none", "low", "medium", "high"),
        thinks="by_default",
        reasoning_history="always",
        reasoning_field="reasoning",
        empty_content="empty",
        image_urls=False,
        documents=False,
        tool_choices=frozenset({"auto"}),
        parallel_tool_calls=False,
    ),
)
