"""api.novita.ai, Chat Completions: open models.

Reasoning is received and sent back as `reasoning_content`; Kimi and DeepSeek respond with 400 if that of a turn with
calls is missing, as at their own endpoints. Source: novita.ai/docs (LLM API, Interleaved thinking); responses.js #54.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="novita",
    splits_reasoning=True,  # or both tags, with `separate_reasoning: false`
    refuses=frozenset(),
    reasoning="none",
    thinks="unknown",
    reasoning_history="with_tool_calls",
    documents=False,
    parallel_tool_calls=False,
)
_DEMANDING = replace(_PLAIN, name="novita-demanding", reasoning_placeholder=" ")

PROVIDER = Provider(
    name="novita",
    hosts=("api.novita.ai",),
    base=_PLAIN,
    families=(("kimi-*", _DEMANDING), ("deepseek-v*", _DEMANDING)),
)
