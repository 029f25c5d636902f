"""Ollama's /v1, Chat Completions.

It reads `reasoning_effort` with none as a switch, takes reasoning back in `reasoning`, and images as data only.
Versions up to 2026 ignore `tool_choice` without a word, so a forced one is asked for in the system text as well as a
single call at a time; `none` leaves the tools out. A message without content loses the ids of its calls. Streams send
every call whole, all with index 0. Source: docs.ollama.com/api/openai-compatibility; the request record of its
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
