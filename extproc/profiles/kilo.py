"""Kilo Code's gateway (api.kilo.ai, formerly api.kilocode.ai), Chat Completions.

It forwards to OpenRouter and has its format: the object `reasoning`, `reasoning_details`, `cache_control`. Source:
kilo.ai/docs/gateway; the client's own requests.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.openrouter import PROVIDER as OPENROUTER
from extproc.profiles.profile import Profile, Provider


def _at_kilo(profile: Profile) -> Profile:
    return replace(profile, name=profile.name.replace("openrouter", "kilo", 1))


PROVIDER = Provider(
    name="kilo",
    aliases=("kilocode",),
    hosts=("api.kilo.ai", "api.kilocode.ai", "kilocode.ai"),
    aggregator=True,
    base=_at_kilo(OPENROUTER.base),
    families=tuple((pattern, _at_kilo(profile)) for pattern, profile in OPENROUTER.families),
)
