"""What follows a model through hosts that pass requests on: the rules of its maker, wherever the model is asked for.

An aggregator (OpenRouter, Kilo...) has a format of its own, but the model behind it refuses what its maker's endpoint
refuses. Each guard names a family and its maker; what the maker's profile does not take of tools, the profile of the
aggregator does not take either. Nothing is copied: a change of the maker's file changes all hosts. Called by
`find_profile`.

Source: the makers' files beside this one (`xai`, `zai`); that aggregators hand a forced choice and a response format
on: openrouter.ai/docs (Tool Calling, Provider Routing: parameters that an endpoint does not support).
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec
from msgspec.structs import replace

from extproc.profiles import xai, zai
from extproc.profiles.profile import Profile, Provider


class Guard(msgspec.Struct, frozen=True, kw_only=True):
    """One family of models."""

    models: str
    """A glob on the lower-case model id, without a leading "vendor/"."""
    maker: Provider
    vendors: frozenset[str] = frozenset()
    """What stands before the model's name at aggregators. At a host that nobody knows such an id tells that the host
    is one; without it the host may serve the open weights itself, where the maker's rules do not hold. Empty: the
    weights are not open, so that the name alone tells."""

    def holds(self, provider: Provider | None, model: str) -> bool:
        """Whether it holds for this model at this endpoint; None is one that nobody knows."""
        vendor, _, plain = model.lower().rpartition("/")
        if not fnmatchcase(plain, self.models):
            return False
        if provider is not None:
            return provider.aggregator
        return not self.vendors or vendor.rpartition("/")[2] in self.vendors


GUARDS = (
    # Grok 1 and 2 are open.
    Guard(models="grok-[!12]*", maker=xai.PROVIDER),
    Guard(models="glm-*", maker=zai.PROVIDER, vendors=frozenset({"z-ai", "zai", "zhipu", "zhipuai", "bigmodel"})),
)


def guarded(profile: Profile, provider: Provider | None, model: str) -> Profile:
    """`profile`, which the endpoint has for `model`, without what the model's maker does not take of tools."""
    for guard in GUARDS:
        if guard.holds(provider, model):
            own = guard.maker.profile(model)
            return replace(profile, tool_choices=profile.tool_choices & own.tool_choices,
                           format_with_tools=profile.format_with_tools and own.format_with_tools)
    return profile
