"""Which profile an endpoint and a model get.

A new provider is one file beside this one with a `PROVIDER` record, and one line in `_PROVIDERS`. Called when the
configuration is read and by `Translation`; nothing here does I/O.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from extproc.profiles import deepseek, generic, moonshot, openai
from extproc.profiles.models import family_of
from extproc.profiles.profile import Profile, Provider

__all__ = ["Profile", "Provider", "find_profile"]

_PROVIDERS: tuple[Provider, ...] = (openai.PROVIDER, deepseek.PROVIDER, moonshot.PROVIDER)
_BY_NAME = {provider.name: provider for provider in _PROVIDERS}


@lru_cache(maxsize=1024)
def find_profile(provider: str | None, host: str | None, model: str) -> Profile:
    """The profile of `model` at the endpoint.

    `provider` is the name of the configuration and outranks `host` (the host of the backend's URL, without a port).
    An unknown name and an unknown host are generic. What is peculiar about the model wherever it runs (the form of its
    tool call ids) joins what is peculiar about the endpoint.
    """
    profile = _endpoint_profile(provider, host, model)
    family = family_of(model)
    if family is not None and family.tool_call_id_form is not None and profile.tool_call_id_form == "hash":
        return replace(profile, tool_call_id_form=family.tool_call_id_form, tool_call_id_max=256)
    return profile


def _endpoint_profile(provider: str | None, host: str | None, model: str) -> Profile:
    if provider is not None:
        return _BY_NAME.get(provider.lower(), generic.PROVIDER).profile(model)
    for known in _PROVIDERS:
        if host is not None and known.serves(host.lower().rstrip(".")):
            return known.profile(model)
    return generic.PROVIDER.profile(model)
