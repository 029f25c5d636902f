"""openrouter.ai, Chat Completions.

The object `reasoning {effort | max_tokens | enabled}` requests reasoning, which is received in `reasoning` and, item by
item, in `reasoning_details`. Signed or encrypted items (Claude, Gemini 3, OpenAI, Grok) must be sent back unmodified
and in order on their assistant message, or tool loops fail; for Gemini the signature of a turn is one encrypted item
with the id of its first call. Other models take plain `reasoning` back. Claude and Gemini behind it take
`cache_control` on parts, Claude with a `ttl`. Models that must reason refuse `enabled: false` with 400, so it is sent
only to models that are known to take it. With a forced choice it removes Claude's reasoning by itself. Tools take
`cache_control` and `eager_input_streaming` beside their function; it runs tools of a type `openrouter:...` itself.
Schemas reach Gemini unchanged, which refuses `$ref`, `const` and most formats with 400. PDFs may be URLs; audio and
video go to the models that take them. Source: openrouter.ai/docs (Reasoning Tokens, Prompt Caching, Server Tools, the
type ChatFunctionTool, PDF Inputs, Audio, Video Inputs); Roo-Code #10640 and massgen #624 for Gemini's items.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.profile import Profile, Provider

_OPEN = Profile(
    name="openrouter",
    splits_reasoning=True,
    refuses=frozenset(),
    document_urls=True,
    audio="object",
    videos=True,
    reasoning="object",
    efforts=("minimal", "low", "medium", "high", "xhigh"),
    reasoning_history="always",
    reasoning_field="reasoning",
    thinks="unknown",
    tool_cache_marks=True,
    eager_tools=True,
    server_tools="openrouter:*",
)
_HYBRID = replace(_OPEN, name="openrouter-hybrid", efforts=("none", *_OPEN.efforts))
# Kimi and DeepSeek respond with 400 if the reasoning of a turn with calls is missing, as at their own endpoints.
_DEMANDING = replace(_OPEN, name="openrouter-demanding", reasoning_placeholder=" ")
_DEMANDING_HYBRID = replace(_HYBRID, name="openrouter-demanding", reasoning_placeholder=" ")
_CLAUDE = replace(
    _OPEN,
    name="openrouter-claude",
    reasoning_budget=True,
    reasoning_field="reasoning_details",
    details_format="anthropic-claude-v1",
    thinks="when_asked",
    signed_thinking=True,
    cache_marks=True,
    cache_ttl=True,
    tool_call_id_pattern="[a-zA-Z0-9_-]+",
)
_GEMINI_2 = replace(
    _OPEN,
    name="openrouter-gemini",
    reasoning_budget=True,
    reasoning_field="reasoning_details",
    details_format="google-gemini-v1",
    call_signatures="details",
    cache_marks=True,
    schemas="gemini",
)
_GEMINI = replace(_GEMINI_2, name="openrouter-gemini-3", reasoning_budget=False, thinks="always",
                  call_signature_placeholder="skip_thought_signature_validator")
_OPENAI = replace(_OPEN, name="openrouter-openai", reasoning_field="reasoning_details",
                  details_format="openai-responses-v1", strict_tools=True)
_GROK = replace(_OPEN, name="openrouter-grok", reasoning_field="reasoning_details",
                details_format="xai-responses-v1")

FAMILIES = (
    ("claude-*", _CLAUDE),
    ("gemini-[12]*", _GEMINI_2),
    ("gemini-*", _GEMINI),
    ("gpt-oss*", _OPEN),
    ("gpt-*", _OPENAI),
    ("o[134]*", _OPENAI),
    ("grok-*", _GROK),
    ("kimi-k2.[56]*", _DEMANDING_HYBRID),
    ("kimi-*", _DEMANDING),
    ("*thinking*", _OPEN),
    ("deepseek-r1*", _OPEN),
    ("deepseek-*", _DEMANDING_HYBRID),
    ("glm-*", _HYBRID),
    ("qwen3*", _HYBRID),
)

PROVIDER = Provider(name="openrouter", hosts=("openrouter.ai",), aggregator=True, base=_OPEN, families=FAMILIES)
