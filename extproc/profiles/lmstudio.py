"""LM Studio's local server, Chat Completions.

A tool choice is a string; older versions know no other form. `json_object` is refused ("'response_format.type' must be
'json_schema' or 'text'"). Images are taken as data. Models without native tools write calls in a prompted form,
which appears in the text if it is malformed. Source: lmstudio.ai/docs (OpenAI compatibility, Tool use), its error
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
