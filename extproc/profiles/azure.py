"""Azure OpenAI and the model endpoint of Azure AI Foundry, Chat Completions.

Two doors: `https://NAME.openai.azure.com/openai/v1`, which has OpenAI's own paths, and the classic one, where the path
names the deployment and the query the version of the API. A backend's URL without `/v1` means the classic door; the
deployment is then the model's name of the attempt. The key goes in the header `api-key` (or a token as a bearer).
Deployments are named at will: the families apply to names that begin like the model, and a name that says nothing
counts as an older model, which every server of this format resembles. The first chunk of a stream has no
choices, only filter results. Source: Azure OpenAI's reference and its versions' changelog.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.openai import FAMILIES, PLAIN
from extproc.profiles.profile import Profile, Provider

API_VERSION = "2024-10-21"
"""The latest version of the classic door that is generally available."""
# Azure's reference knows fewer fields than OpenAI's and answers 400 "Unrecognized request argument" to the others.
_FIELDS = frozenset({"audio", "logit_bias", "metadata", "modalities", "prediction", "prompt_cache_key", "store"})


def _at_azure(profile: Profile) -> Profile:
    # not faithful: the path differs from OpenAI's at the classic door
    return replace(profile, name=profile.name.replace("openai", "azure", 1), faithful=False, extra_fields=_FIELDS,
                   deployment_api_version=API_VERSION)


PROVIDER = Provider(
    name="azure",
    aliases=("azure-openai",),
    hosts=("openai.azure.com", "openai.azure.us", "cognitiveservices.azure.com", "services.ai.azure.com"),
    base=_at_azure(PLAIN),
    families=tuple((pattern, _at_azure(profile)) for pattern, profile in FAMILIES),
)
