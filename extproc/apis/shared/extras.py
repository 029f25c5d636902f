"""Fields of a client's API that only a provider of that API understands: whether their omission is a loss or a hint.

A client API puts them into `Request.extra`. A provider of another API calls `name_extras`; one of the same API calls
`name_extra` for each field that its endpoint refuses. A field in `LOSSES` changes what the model sees or does. Any
other field, known or not, is a hint: it concerns storage, routing, caching or a service level.
"""

from __future__ import annotations

import msgspec

from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped

_members: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])

LOSSES = frozenset({
    # OpenAI
    "audio", "logit_bias", "modalities", "moderation", "verbosity", "web_search_options",
    # sampling of open servers: vLLM, SGLang, llama.cpp, OpenRouter
    "bad_words", "dry_multiplier", "early_stopping", "frequency_penalty_decay", "ignore_eos", "length_penalty",
    "min_p", "min_tokens", "mirostat", "mirostat_eta", "mirostat_tau", "no_repeat_ngram_size", "presence_context_size",
    "repeat_penalty", "repetition_penalty", "stop_token_ids", "tfs_z", "top_a", "typical_p", "use_beam_search",
    # constrained output: vLLM, llama.cpp
    "grammar", "guided_choice", "guided_grammar", "guided_json", "guided_regex", "json_schema", "structured_outputs",
    # content of the prompt: vLLM's templates, OpenRouter's and Perplexity's search, xAI's search, DashScope
    "chat_template", "chat_template_kwargs", "documents", "enable_search", "plugins", "safe_prompt",
    "search_domain_filter", "search_parameters", "search_recency_filter", "transforms", "web_search",
})
"""Fields that change what the model sees or does."""

_NEUTRAL: dict[str, tuple[bytes, ...]] = {
    "usage": (b'{"include":true}', b'{"include":false}'),  # figures are sent in the form of the client's API
    "modalities": (b'["text"]',),
    "verbosity": (b'"medium"',),
    "service_tier": (b'"auto"', b'"default"'),
    "min_p": (b"0", b"0.0"),
    "top_a": (b"0", b"0.0"),
    "min_tokens": (b"0",),
    "repetition_penalty": (b"1", b"1.0"),
    "repeat_penalty": (b"1", b"1.0"),
    "length_penalty": (b"1", b"1.0"),
}
"""Values that equal the default behaviour."""

_SWITCHES = frozenset({"enable_thinking", "thinking"})
"""Members of `chat_template_kwargs` about reasoning, which every provider gets in its own form (`Request.thinking`).
The same holds for Ollama's `think`."""

_NOTHING = (b"null", b"false", b"{}", b"[]", b'""')
_ASKED_BY_PRESENCE = frozenset({"web_search_options"})
"""Fields that have an effect even if they are empty."""


def name_extra(name: str, value: msgspec.Raw, dropped: Dropped) -> None:
    """Names one field that is not sent, unless its value has no effect."""
    if name == "think" or (name == "chat_template_kwargs" and _members_of(value) <= _SWITCHES):
        return
    compact = bytes(value).translate(None, b" \t\r\n")
    nothing = _NOTHING[:2] if name in _ASKED_BY_PRESENCE else _NOTHING
    if compact in nothing or compact in _NEUTRAL.get(name, ()):
        return
    if name in LOSSES:
        dropped.loss(name)
    else:
        dropped.hint(name)


def name_extras(request: Request, dropped: Dropped) -> None:
    """Names all of them, for a provider of another API than the client's."""
    for name, value in request.extra.items():
        name_extra(name, value, dropped)


def _members_of(value: msgspec.Raw) -> set[str]:
    try:
        return set(_members.decode(value))
    except msgspec.ValidationError:
        return {""}
