"""api.groq.com, Chat Completions.

`logprobs`, `top_logprobs`, `logit_bias`, `messages[].name` and `n` other than 1 are a 400; so is any unknown property,
also inside messages ("property 'reasoning_content' is unsupported"), so no reasoning is sent back. `reasoning_effort`
is low, medium or high for gpt-oss, none or default for Qwen 3, and an error for others. Qwen 3 writes `<think>` unless
the request has `reasoning_format: parsed`. Structured output excludes tools and streams. Content must be text, except
for vision models. Calls that fail its validation are a 400 `tool_use_failed` with the model's text in
`failed_generation`. Usage is also in `x_groq`. Source: console.groq.com/docs/openai, /docs/reasoning,
/docs/structured-outputs; error messages in spring-ai #6968 and gptel #774.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="groq",
    splits_reasoning=True,  # parsed on request, else both tags are in the text
    max_tokens_field="max_completion_tokens",
    refuses=frozenset({"top_k", "n", "logprobs", "top_logprobs", "logit_bias"}),
    extra_fields=frozenset({"citation_options", "compound_custom", "disable_tool_validation", "documents",
                            "exclude_domains", "include_domains", "include_reasoning", "metadata", "reasoning_format",
                            "search_settings", "service_tier", "store"}),
    reasoning="none",
    format_with_tools=False,
    format_in_stream=False,
    empty_content="empty",
    images=False,
    documents=False,
    max_tools=128,
)

PROVIDER = Provider(
    name="groq",
    hosts=("api.groq.com",),
    base=_PLAIN,
    families=(
        ("gpt-oss*", replace(_PLAIN, name="groq-gpt-oss", reasoning="effort", thinks="always")),
        ("qwen3*", replace(_PLAIN, name="groq-qwen", reasoning="effort", efforts=("none",), thinks="by_default",
                           extra_body={"reasoning_format": "parsed"})),
        ("deepseek-r1*", replace(_PLAIN, name="groq-r1", thinks="always",
                                 extra_body={"reasoning_format": "parsed"})),
        ("*llama-4*", replace(_PLAIN, name="groq-vision", images=True)),
    ),
)
