"""integrate.api.nvidia.com (NVIDIA NIM), Chat Completions: open models.

Its servers refuse unknown fields ("Extra inputs are not permitted"): no `user`, no efforts except for gpt-oss.
Variables of the chat template switch reasoning. Source: docs.api.nvidia.com and NIM's error messages.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="nvidia",
    refuses=frozenset({"top_k", "n", "logit_bias"}),
    extra_fields=frozenset({"chat_template_kwargs", "nvext"}),
    user=False,
    reasoning="none",
    thinks="unknown",
    documents=False,
    parallel_tool_calls=False,
)

PROVIDER = Provider(
    name="nvidia",
    aliases=("nvidia-nim", "nim"),
    hosts=("integrate.api.nvidia.com",),
    renders_templates=True,
    base=_PLAIN,
    families=(
        ("gpt-oss*", replace(_PLAIN, name="nvidia-gpt-oss", reasoning="effort", thinks="always")),
        ("qwen3*", replace(_PLAIN, name="nvidia-qwen", thinking_toggle="template:enable_thinking")),
        ("deepseek-v*", replace(_PLAIN, name="nvidia-deepseek", thinking_toggle="template:thinking")),
    ),
)
