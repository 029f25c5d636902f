"""api.sambanova.ai, Chat Completions: open models.

`parallel_tool_calls`, strict tools, penalties, logit_bias, n and seed are not supported; gpt-oss takes an effort.
Source: docs.sambanova.ai (OpenAI compatibility, Function calling).
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="sambanova",
    refuses=frozenset({"n", "seed", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs",
                       "logit_bias"}),
    user=False,
    reasoning="none",
    thinks="unknown",
    documents=False,
    parallel_tool_calls=False,
)

PROVIDER = Provider(
    name="sambanova",
    hosts=("api.sambanova.ai",),
    base=_PLAIN,
    families=(("gpt-oss*", replace(_PLAIN, name="sambanova-gpt-oss", reasoning="effort", thinks="always")),),
)
