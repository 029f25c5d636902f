"""api.cerebras.ai, Chat Completions.

Unknown properties are a 400 `wrong_api_format`, also `reasoning_content` in messages. Reasoning is received in
`reasoning`; gpt-oss takes it back in that field, GLM and Qwen as `<think>` before the content. Efforts are low, medium
and high; all models but gpt-oss also take none. `frequency_penalty`, `presence_penalty` and `logit_bias` are refused by
most models; a schema as response format excludes tools. Text models take no images. Source: inference-docs.cerebras.ai
(Chat Completions, Reasoning, OpenAI compatibility); error messages in kilocode #10375 and pydantic-ai #5606.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="cerebras",
    splits_reasoning=True,  # docs: reasoning_format, parsed by default
    max_tokens_field="max_completion_tokens",
    refuses=frozenset({"top_k", "n", "presence_penalty", "frequency_penalty", "logit_bias"}),
    extra_fields=frozenset({"clear_thinking", "prediction", "service_tier"}),
    reasoning="none",
    format_with_tools=False,
    images=False,
    documents=False,
)
_THINK_TAGS = replace(_PLAIN, name="cerebras-reasoning", reasoning="effort", efforts=("none", "low", "medium", "high"),
                      thinks="by_default", reasoning_history="with_tool_calls", reasoning_field="think_tags")

PROVIDER = Provider(
    name="cerebras",
    hosts=("api.cerebras.ai",),
    base=_PLAIN,
    families=(
        ("gpt-oss*", replace(_PLAIN, name="cerebras-gpt-oss", reasoning="effort", thinks="always",
                             reasoning_history="with_tool_calls", reasoning_field="reasoning")),
        ("zai-glm*", _THINK_TAGS),
        ("qwen*", _THINK_TAGS),
        ("gemma*", replace(_PLAIN, name="cerebras-vision", images=True)),
        ("*llama-4*", replace(_PLAIN, name="cerebras-vision", images=True)),
    ),
)
