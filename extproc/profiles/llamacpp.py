"""llama.cpp's server, Chat Completions (with `--jinja`).

A tool choice is auto, none or required. Past reasoning is read from `reasoning_content`; `enable_thinking` of the
template switches reasoning. Unknown fields are ignored. Source: the server's README and source.
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="llama.cpp",
    aliases=("llamacpp", "llama-cpp", "llama-server"),
    base=Profile(
        name="llama.cpp",
        splits_reasoning=True,  # the default of --reasoning-format
        refuses=frozenset(),
        reasoning="none",
        thinking_toggle="template:enable_thinking",
        thinks="by_default",
        reasoning_history="always",
        documents=False,
        tool_choices=frozenset({"auto", "none", "required"}),
        tool_call_id_max=256,
    ),
)
