"""SGLang's OpenAI server, Chat Completions.

Like vLLM: it ignores unknown fields, reads past reasoning from `reasoning_content`, and switches reasoning by variables
of the chat template. It drops calls of tools that were not offered. `parallel_tool_calls` is in its request record, but
has no effect. Source: docs.sglang.ai (OpenAI APIs, Reasoning Parser, Tool Parser) and its source.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider
from extproc.profiles.vllm import PROVIDER as VLLM


def _at_sglang(profile: Profile) -> Profile:
    return replace(profile, name=profile.name.replace("vllm", "sglang", 1), parallel_tool_calls=False)


PROVIDER = Provider(
    name="sglang",
    renders_templates=True,
    base=_at_sglang(VLLM.base),
    families=tuple((pattern, _at_sglang(profile)) for pattern, profile in VLLM.families),
)
