"""LM Studio's local server, Chat Completions.

A tool choice is a string; older versions know no other. `json_object` is refused ("'response_format.type' must be
'json_schema' or 'text'"). Images come as data. Calls of models without native tools are read from a prompted form,
which leaks into the text when it is malformed. Source: lmstudio.ai/docs (OpenAI compatibility, Tool use), its error
messages.
"""

from __future__ import annotations

from extproc.profiles.profile import Profile, Provider

PROVIDER = Provider(
    name="lmstudio",
    aliases=("lm-studio", "lm_studio"),
    base=Profile(
        name="lmstudio",
        refuses=frozenset(),
        thinks="unknown",
        response_format="json_schema_only",
        image_urls=False,
        documents=False,
        tool_choices=frozenset({"auto", "none", "required"}),
        parallel_tool_calls=False,
    ),
)
