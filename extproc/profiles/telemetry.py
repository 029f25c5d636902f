"""The name of a provider in telemetry: `gen_ai.provider.name` of the OpenTelemetry conventions.

Providers that the conventions list have the conventions' names; others have the name of their profile. The name depends
on the configuration only.
"""

from __future__ import annotations

from functools import lru_cache

from extproc.profiles import find_provider
from extproc.profiles.anthropic import find_anthropic_endpoint
from extproc.profiles.gemini import VERTEX, find_gemini_endpoint

_CONVENTION_NAMES = {
    "azure": "azure.ai.openai",
    "gemini-compat": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "xai": "x_ai",
}
"""Profiles with another name in the conventions (gen_ai.provider.name, registry of attributes)."""
_UNKNOWN = "generic"


@lru_cache(maxsize=1024)
def telemetry_provider_name(api: str, host: str, base_path: str, provider: str | None) -> str:
    """`host` and `base_path`: those of the backend's URL. `provider`: the name in the configuration, which need not
    be a profile's."""
    if api == "gemini":
        return "gcp.vertex_ai" if find_gemini_endpoint(host, base_path, provider) is VERTEX else "gcp.gemini"
    if api == "anthropic":
        name = find_anthropic_endpoint(host, provider, "").name
        return provider or _UNKNOWN if name == "compatible" else _CONVENTION_NAMES.get(name, name)
    found = find_provider(provider, host)
    if found is None:
        return provider or _UNKNOWN
    return _CONVENTION_NAMES.get(found.name, found.name)
