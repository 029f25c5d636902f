"""router.huggingface.co (Inference Providers), Chat Completions: open models at many hosts.

What a model understands depends on the host it is routed to, so only what all know is sent; reasoning of turns with
calls goes back as `reasoning_content`, which some of them demand. Source: huggingface.co/docs/inference-providers;
responses.js #54 for reasoning.
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
