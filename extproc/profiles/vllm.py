"""vLLM's OpenAI server, Chat Completions.

It ignores unknown fields. Past reasoning goes to the chat template, which selects the part that the model needs; it is
read from `reasoning` and, by all versions, from `reasoning_content`. Variables of the template, which depend on the
family, switch reasoning. Without `--tool-call-parser` calls are text. Errors in a stream are `{"object": "error"}`.
Source: docs.vllm.ai (OpenAI-Compatible Server, Reasoning Outputs, Interleaved Thinking) and its source.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_PLAIN = Profile(
    name="vllm",
    refuses=frozenset(),
    reasoning="none",
    thinks="unknown",
    reasoning_history="always",
    documents=False,
    tool_call_id_max=256,
)

FAMILIES = (
    ("gpt-oss*", replace(_PLAIN, name="vllm-gpt-oss", reasoning="effort", thinks="always")),
    ("*thinking*", replace(_PLAIN, name="vllm-thinking", thinks="always")),
    ("*qwen3*", replace(_PLAIN, name="vllm-qwen", thinking_toggle="template:enable_thinking", thinks="by_default")),
    ("*glm-*", replace(_PLAIN, name="vllm-glm", thinking_toggle="template:enable_thinking", thinks="by_default")),
    ("*deepseek-v*", replace(_PLAIN, name="vllm-deepseek", thinking_toggle="template:thinking")),
    ("*kimi-k2.[56]*", replace(_PLAIN, name="vllm-kimi", thinking_toggle="template:thinking", thinks="by_default")),
)

PROVIDER = Provider(name="vllm", renders_templates=True, base=_PLAIN, families=FAMILIES)
