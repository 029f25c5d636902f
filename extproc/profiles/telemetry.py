"""What a provider is called in telemetry: a backend's API, URL and `provider` -> the `gen_ai.provider.name` of the
OpenTelemetry conventions.

Names that the conventions list are theirs, others are the profile's own. They depend on the configuration only.
"""

from __future__ import annotations

from functools import lru_cache

from extproc.profiles import find_provider
from extproc.profiles.anthropic import anthropic_endpoint
from extproc.profiles.gemini import VERTEX, gemini_endpoint

_CONVENTION = {
    "azure": "azure.ai.openai",
    "gemini-compat": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}
"""Profiles that the conventions (gen_ai.provider.name, registry of attributes) call something else."""
UNKNOWN = "generic"
"""An endpoint that nobody knows."""


@lru_cache(maxsize=1024)
def provider_name(api: str, host: str, base_path: str, provider: str | None) -> str:
    """`host` and `base_path` are those of the URL; `provider` is the name that the configuration gives, which need not
    be a profile's."""
    if api == "gemini":
        return "gcp.vertex_ai" if gemini_endpoint(host, base_path, provider) is VERTEX else "gcp.gemini"
    if api == "anthropic":
        name = anthropic_endpoint(host, provider, "").name
        return provider or UNKNOWN if name == "compatible" else _CONVENTION.get(name, name)
    found = find_provider(provider, host)
    if found is None:
        return provider or UNKNOWN
    return _CONVENTION.get(found.name, found.name)
