"""models.github.ai (GitHub Models), Chat Completions: OpenAI's models and others under `vendor/name`.

OpenAI's models follow OpenAI's rules, with fewer fields. Source: docs.github.com (REST API, models inference).
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.openai import FAMILIES, PLAIN
from extproc.profiles.profile import Profile, Provider


def _at_github(profile: Profile) -> Profile:
    return replace(profile, name=profile.name.replace("openai", "github", 1), faithful=False,
                   extra_fields=frozenset({"modalities"}), user=False)


PROVIDER = Provider(
    name="github",
    aliases=("github-models",),
    hosts=("models.github.ai", "models.inference.ai.azure.com"),
    base=replace(_at_github(PLAIN), strict_tools=False),
    families=tuple((pattern, _at_github(profile)) for pattern, profile in FAMILIES),
)
