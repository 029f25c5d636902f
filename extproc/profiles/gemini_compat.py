"""Google's endpoint in the OpenAI format (generativelanguage.googleapis.com/v1beta/openai), for Gemini.

An unknown field is a 400 ("Unknown name ...: Cannot find field"), and it knows few: no penalties, seed, logprobs or
logit_bias. Thought signatures are in `extra_content.google.thought_signature` of calls; Gemini 3 responds with 400 if
that of a turn's first call is missing, and takes a fixed value for calls of other models. Efforts become thinking
levels or budgets; only 2.5 Flash takes none. System text is one instruction. Images are taken as data, other files not
at all. Schemas are forwarded to Gemini: `$ref`, `const` and most formats are a 400 ("Unknown name "const" at
'tools[0].function_declarations[0].parameters'"). `completion_tokens` excludes the thoughts. Requested thoughts are
content marked `extra_content.google.thought`. Source: ai.google.dev/gemini-api/docs/openai and
/thought-signatures; error messages.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_GEMINI_3 = Profile(
    name="gemini-compat",
    refuses=frozenset({"top_k", "seed", "presence_penalty", "frequency_penalty", "logprobs", "top_logprobs",
                       "logit_bias"}),
    extra_fields=frozenset({"extra_body"}),
    max_stop=5,
    user=False,
    efforts=("minimal", "low", "medium", "high"),
    thinks="always",
    call_signature_placeholder="skip_thought_signature_validator",
    system_anywhere=False,
    empty_content="empty",
    image_urls=False,
    documents=False,
    parallel_tool_calls=False,
    reasoning_uncounted=True,
    schemas="gemini",
)
_GEMINI_25 = replace(_GEMINI_3, name="gemini-compat-2.5", call_signature_placeholder=None)
_OLDER = replace(_GEMINI_25, name="gemini-compat-2.0", reasoning="none", thinks="when_asked")

PROVIDER = Provider(
    name="gemini-compat",
    aliases=("google-compat", "gemini-openai"),
    hosts=("generativelanguage.googleapis.com",),
    base=_GEMINI_3,
    families=(
        ("gemini-2.5-flash*", replace(_GEMINI_25, name="gemini-compat-2.5-flash", thinks="by_default",
                                      efforts=("none", "minimal", "low", "medium", "high"))),
        ("gemini-2.5*", _GEMINI_25),
        ("gemini-[12]*", _OLDER),
        ("gemma*", _OLDER),
    ),
)
