"""router.huggingface.co (Inference Providers), Chat Completions: open models at many hosts.

The fields of a model depend on the host that serves it, so only fields that all hosts know are sent. Reasoning of turns
with calls is sent back as `reasoning_content`, which some hosts require. Source:
huggingface.co/docs/inference-providers; responses.js #54 for reasoning.
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="huggingface",
    aliases=("hf",),
    hosts=("router.huggingface.co",),
    aggregator=True,
    base=Profile(
        name="huggingface",
        user=False,
        thinks="unknown",
        reasoning_history="with_tool_calls",
        documents=False,
        parallel_tool_calls=False,
    ),
)
