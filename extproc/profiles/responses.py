"""The Responses API at endpoints in OpenAI's format: which models are served by it, and what differs there.

An endpoint in OpenAI's format has one base URL and up to two APIs, `/chat/completions` and `/responses`. One attempt
uses one of them (`select_api`), chosen once, when the target of the attempt is made. The profile of the model is that
of Chat Completions; `at_responses` removes what holds only there.

Source: developers.openai.com/api/docs (Migrate to Responses, Function calling), the API reference.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

from msgspec.structs import replace

from extproc.profiles import find_provider, openai
from extproc.profiles.openai import FAMILIES
from extproc.profiles.profile import Profile

EndpointChoice = Literal["auto", "chat", "responses"]
"""The values of `endpoint` in the configuration."""


NOT_IN_RESPONSES = frozenset({"top_k", "seed", "stop", "presence_penalty", "frequency_penalty", "logprobs"})
"""Parameters that the API does not have."""


def select_api(upstream: str, endpoint: EndpointChoice, profile: Profile, provider: str | None, host: str | None,
               base_path: str, client: str = "") -> str:
    """The API of an attempt: `upstream` itself, or `responses` in place of `openai`. `provider`: the name in the
    configuration; `host` of the backend's URL, None for the provider's own; `client`: the client's API.

    `auto`: a model that takes function tools only without reasoning on Chat Completions, or not at all, is served by
    Responses, at the provider's own host. A proxy before it may lack this API. So does Azure's classic endpoint, which
    names deployments. At OpenAI's own host clients of Responses are served by it, whatever the model.
    """
    if upstream != "openai" or endpoint == "chat":
        return upstream
    if endpoint == "responses":
        return "responses"
    same_api = client == "responses" and profile.faithful and host is not None
    if (profile.functions == "taken" and not same_api) or (
            profile.deployment_api_version is not None and not base_path.endswith("/v1")):
        return upstream
    at_own_host = host is None or find_provider(None, host) is find_provider(provider, host)
    return "responses" if at_own_host else upstream


def at_responses(profile: Profile, provider: str | None, host: str | None, model: str) -> Profile:
    """The profile of a model for the Responses API. Tools may stand beside reasoning, PDFs may be URLs, and OpenAI's
    limit of 40 characters for tool call ids is 64. At an unknown host, a model with a name of OpenAI's takes the
    parameters that it takes at OpenAI: the host is probably a proxy."""
    refuses = profile.refuses | NOT_IN_RESPONSES
    if find_provider(provider, host) is None and any(fnmatchcase(model.lower(), family) for family, _ in FAMILIES):
        known = openai.PROVIDER.find_profile(model)
        refuses |= known.refuses
        profile = replace(profile, reasoning=known.reasoning, efforts=known.efforts, thinks=known.thinks)
    return replace(
        profile,
        functions="taken",
        server_tools="*" if profile.faithful else profile.server_tools,
        tool_choices=profile.tool_choices | {"none"} if profile.functions != "taken" else profile.tool_choices,
        tool_call_id_max=64 if profile.tool_call_id_max == 40 else profile.tool_call_id_max,
        document_urls=True,
        refuses=refuses,
    )


