"""Azure OpenAI and the model endpoint of Azure AI Foundry, Chat Completions.

Two forms of paths: `https://NAME.openai.azure.com/openai/v1` has OpenAI's own paths; in the classic form the path names
the deployment and the query names the API version. A backend's URL without `/v1` means the classic form; the deployment
is then the model name of the attempt. The key goes into the header `api-key` (or a token as a bearer). Customers choose
the names of deployments: the families apply to names that begin like the model, and any other name counts as an older
model, which every server of this format resembles. The first chunk of a stream has no choices, only filter results.
Source: Azure OpenAI's reference and its versions' changelog.
"""

from __future__ import annotations

from msgspec.structs import replace

from extproc.profiles.openai import FAMILIES, PLAIN
from extproc.profiles.profile import Profile, Provider

API_VERSION = "2024-10-21"
"""The latest generally available version of the classic form."""
# Azure's reference has fewer fields than OpenAI's; the others are a 400 "Unrecognized request argument".
_FIELDS = frozenset({"audio", "logit_bias", "metadata", "modalities", "prediction", "prompt_cache_key", "store"})


def _at_azure(profile: Profile) -> Profile:
    # not faithful: in the classic form the path differs from OpenAI's
    return replace(profile, name=profile.name.replace("openai", "azure", 1), faithful=False, extra_fields=_FIELDS,
                   deployment_api_version=API_VERSION)


PROVIDER = Provider(
    name="azure",
    aliases=("azure-openai",),
    hosts=("openai.azure.com", "openai.azure.us", "cognitiveservices.azure.com", "services.ai.azure.com"),
    base=_at_azure(PLAIN),
    families=tuple((pattern, _at_azure(profile)) for pattern, profile in FAMILIES),
)
