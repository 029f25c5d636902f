"""api.cohere.ai/compatibility/v1, Chat Completions.

`n`, `logit_bias`, `top_logprobs`, `parallel_tool_calls` and the fields of storage and service are not supported;
efforts are none and high; a tool choice is required or none; without one it is auto. Source: docs.cohere.com
(Compatibility API).
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="cohere",
    hosts=("api.cohere.ai", "api.cohere.com"),
    base=Profile(
        name="cohere",
        refuses=frozenset({"top_k", "n", "logprobs", "top_logprobs", "logit_bias"}),
        extra_fields=frozenset(),
        max_stop=5,
        user=False,
        efforts=("none", "high"),
        effort_map={"minimal": "high", "low": "high", "medium": "high"},
        image_urls=False,
        documents=False,
        tool_choices=frozenset({"required", "none"}),
        parallel_tool_calls=False,
    ),
)
