"""Rules of a model's maker that also hold at hosts that forward requests to the maker.

An aggregator (OpenRouter, Kilo...) has a format of its own, but the model behind it refuses what its maker's endpoint
refuses. Each rule names a family and its maker: tool choices and response formats that the maker's profile does not
take are removed from the aggregator's profile. Nothing is copied, so a change in the maker's file applies to all hosts.
Called by `find_profile`.

Sources: the makers' files beside this one (`xai`, `zai`). That aggregators forward a forced choice and a response
format: openrouter.ai/docs (Tool Calling, Provider Routing: parameters that an endpoint does not support).
"""

from __future__ import annotations

from fnmatch import fnmatchcase

import msgspec
from msgspec.structs import replace

from extproc.profiles import xai, zai
from extproc.profiles.profile import Profile, Provider


class MakerRule(msgspec.Struct, frozen=True, kw_only=True):
    """One family of models and its maker."""

    models: str
    """A glob on the lower-case model id, without a leading "vendor/"."""
    maker: Provider
    vendors: frozenset[str] = frozenset()
    """Prefixes of the model id at aggregators. At an unknown host, such a prefix shows that the host is an aggregator;
    without it the host may serve the open weights itself, where the maker's rules do not apply. Empty: the weights are
    not open, so the name of the model suffices."""

    def applies(self, provider: Provider | None, model: str) -> bool:
        """True if the rule applies to this model at this endpoint. `provider`: None for an unknown endpoint."""
        vendor, _, name = model.lower().rpartition("/")
        if not fnmatchcase(name, self.models):
            return False
        if provider is not None:
            return provider.aggregator
        return not self.vendors or vendor.rpartition("/")[2] in self.vendors


MAKER_RULES = (
    MakerRule(models="grok-[!12]*", maker=xai.PROVIDER),  # the weights of Grok 1 and 2 are open
    MakerRule(models="glm-*", maker=zai.PROVIDER, vendors=frozenset({"z-ai", "zai", "zhipu", "zhipuai", "bigmodel"})),
)


def with_maker_rules(profile: Profile, provider: Provider | None, model: str) -> Profile:
    """The endpoint's profile of a model, without the tool choices and formats that the model's maker refuses."""
    for rule in MAKER_RULES:
        if rule.applies(provider, model):
            maker_profile = rule.maker.find_profile(model)
            return replace(profile, tool_choices=profile.tool_choices & maker_profile.tool_choices,
                           format_with_tools=profile.format_with_tools and maker_profile.format_with_tools)
    return profile
