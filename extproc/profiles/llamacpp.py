"""llama.cpp's server, Chat Completions (with `--jinja`).

A tool choice is one of the words auto, none and required. Reasoning of the past is read from `reasoning_content`;
the template's `enable_thinking` switches it. Unknown fields are ignored. Source: the server's README and source.
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
