"""api.x.ai (Grok), Chat Completions.

`strict` in tools, `name` in messages and `parallel_tool_calls` are refused; penalties by all models from Grok 3 on, and
stop sequences by those that reason ("Model ... does not support parameter presencePenalty"). grok-3-mini takes
`reasoning_effort`, models from grok-4.3 on also take none, and all others refuse it with 400. Only some models take a
forced tool choice or a response format beside tools, so neither is sent: the system text asks for them. Files other
than images are refused. Calls are whole, in one chunk with an empty finish reason; `completion_tokens` excludes the
tokens of reasoning. Source: the API's documentation and error messages; hermes-agent #23088 and open-webui #21266 for
parameters.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_FIELDS = frozenset({"deferred", "search_parameters", "service_tier", "web_search_options"})

_GROK_2 = Profile(
    name="xai-grok-2",
    extra_fields=_FIELDS | {"logit_bias"},
    reasoning="none",
    format_with_tools=False,
    documents=False,
    max_tools=128,
    tool_choices=frozenset({"auto", "none"}),
    parallel_tool_calls=False,
    reasoning_uncounted=True,
)
_PLAIN = replace(_GROK_2, name="xai-plain", extra_fields=_FIELDS,
                 refuses=frozenset({"top_k", "presence_penalty", "frequency_penalty", "logit_bias"}))
_REASONING = replace(_PLAIN, name="xai", refuses=_PLAIN.refuses | {"stop"}, thinks="always")
_WITH_EFFORT = replace(_REASONING, name="xai-effort", reasoning="effort", thinks="by_default",
                       efforts=("none", "low", "medium", "high"))

PROVIDER = Provider(
    name="xai",
    aliases=("grok", "x-ai"),
    hosts=("api.x.ai",),
    base=_REASONING,
    families=(
        ("*non-reasoning*", _PLAIN),
        ("grok-2*", _GROK_2),
        ("grok-3-mini*", replace(_REASONING, name="xai-grok-3-mini", reasoning="effort", efforts=("low", "high"))),
        ("grok-3*", _PLAIN),
        ("grok-4.[3-9]*", _WITH_EFFORT),
        ("grok-[5-9]*", _WITH_EFFORT),
        ("grok-latest*", _WITH_EFFORT),
    ),
)
