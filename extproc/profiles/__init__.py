"""Finds the profile of an endpoint and a model.

A new provider is one file beside this one with a `PROVIDER` record, and its name in `PROVIDERS`. Called when the
configuration is read and by `Translation`; nothing here does I/O.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.bounds import bounded_cache
from extproc.profiles import (
    azure,
    cerebras,
    cohere,
    dashscope,
    deepinfra,
    deepseek,
    featherless,
    fireworks,
    gemini_compat,
    generic,
    github,
    groq,
    huggingface,
    kilo,
    llamacpp,
    lmstudio,
    minimax,
    mistral,
    moonshot,
    novita,
    nvidia,
    ollama,
    openai,
    openrouter,
    perplexity,
    sambanova,
    sglang,
    siliconflow,
    together,
    vllm,
    volcengine,
    xai,
    zai,
)
from extproc.profiles.maker_rules import with_maker_rules
from extproc.profiles.models import find_family
from extproc.profiles.profile import Profile, Provider

__all__ = ["PROVIDERS", "Profile", "Provider", "find_profile", "find_provider"]

PROVIDERS: tuple[Provider, ...] = tuple(module.PROVIDER for module in (
    openai, azure, github, openrouter, kilo, deepseek, moonshot, dashscope, zai, minimax, xai, mistral, groq, cerebras,
    fireworks, together, deepinfra, featherless, novita, siliconflow, sambanova, huggingface, nvidia, volcengine,
    cohere, perplexity, gemini_compat, vllm, sglang, llamacpp, lmstudio, ollama))
"""Every known endpoint in the OpenAI format, in the order of the documentation."""

_BY_NAME = {name: provider for provider in PROVIDERS for name in (provider.name, *provider.aliases)}


@bounded_cache(entries=1024, longest=200, at=2)
def find_profile(provider: str | None, host: str | None, model: str) -> Profile:
    """The profile of `model` at the endpoint.

    `provider` is the name in the configuration and takes precedence over `host` (the host of the backend's URL, without
    a port). An unknown name or host is generic. Rules that follow the model wherever it runs (the form of its tool call
    ids, its chat template, its maker's rules) are combined with those of the endpoint.
    """
    known = find_provider(provider, host)
    endpoint = known or generic.PROVIDER
    profile = with_maker_rules(endpoint.find_profile(model), known, model)
    family = find_family(model)
    if family is None:
        return profile
    if family.never_parallel and endpoint.renders_templates:
        profile = replace(profile, never_parallel=True)
    if family.tool_call_id_form is not None and profile.tool_call_id_form == "hash":
        # An unknown server probably takes what the model's template writes; a known one keeps its limit.
        limit = profile.tool_call_id_max if known is not None else 256
        return replace(profile, tool_call_id_form=family.tool_call_id_form, tool_call_id_max=limit)
    return profile


def find_provider(provider: str | None, host: str | None) -> Provider | None:
    """The record of an endpoint by its name, an alias or its host; None if it is unknown."""
    if provider is not None:
        return _BY_NAME.get(provider.lower())
    if host is None:
        return None
    host = host.lower().rstrip(".")
    return next((known for known in PROVIDERS if known.serves(host)), None)
