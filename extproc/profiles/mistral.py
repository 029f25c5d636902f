"""api.mistral.ai, Chat Completions.

Unknown fields are a 422 `extra_forbidden`: there is no `user`, no `stream_options` (streams end with the usage in any
case), no `logprobs`; the seed is `random_seed`. Tool call ids are nine alphanumerics. A user message may not follow a
tool message ("Unexpected role 'user' after role 'tool'"), system messages come first, and the last message must be of
the user, a tool, or the assistant with `prefix: true`. `any` is its original name for `required`. Magistral always
reasons, in parts of type `thinking` inside the content; Mistral Small and Medium of 2026 reason with `reasoning_effort:
high` (Large at three levels), and take their reasoning back in the same parts. Documents are its own `document_url`;
audio for Voxtral is `input_audio` with only base64 or a URL. `prompt_cache_key` raises its cache hit rate. Source:
docs.mistral.ai (Chat Completion, Reasoning, Prompt caching, Document QnA, Audio), mistral-common's validator, the API's
error messages.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="mistral",
    refuses=frozenset({"top_k", "logprobs", "top_logprobs", "logit_bias"}),
    seed_field="random_seed",
    max_temperature=1.5,
    extra_fields=frozenset({"guardrails", "metadata", "prediction", "prompt_cache_key", "prompt_mode",
                            "safe_prompt"}),
    user=False,
    stream_usage=False,
    reasoning="none",
    system_anywhere=False,
    empty_content="empty",
    bridge_after_tools="I have the results.",
    prefill="prefix",
    document_part="document_url",
    document_urls=True,
    required_word="any",
    tool_call_id_pattern="[a-zA-Z0-9]{9}",
    tool_call_id_max=9,
    tool_call_id_form="nine",
)
_REASONING = replace(_PLAIN, name="mistral-reasoning", reasoning="effort", efforts=("none", "high"),
                     effort_map={"minimal": "high", "low": "high", "medium": "high"},
                     reasoning_history="with_tool_calls", reasoning_field="thinking_parts")

PROVIDER = Provider(
    name="mistral",
    aliases=("mistralai",),
    hosts=("api.mistral.ai", "codestral.mistral.ai"),
    base=_PLAIN,
    families=(
        ("voxtral*", replace(_PLAIN, name="mistral-voxtral", audio="text")),
        ("magistral*", replace(_REASONING, name="mistral-magistral", reasoning="none", thinks="always")),
        ("mistral-small-latest", _REASONING),
        ("mistral-small-26*", _REASONING),
        ("mistral-medium-3[.-]5*", _REASONING),
        ("mistral-large-4*", replace(_REASONING, name="mistral-large-4", efforts=("none", "low", "medium", "high"),
                                     effort_map={})),
    ),
)
