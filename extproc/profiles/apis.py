"""Facts of each provider API for the configuration: one record per API, data only, quick to load.

The codecs of an API are in its folder under `extproc/apis/`. This table has the facts that are needed without them: to
check a configuration, and to configure how Envoy sends a key. A test compares its names with the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from extproc.profiles import PROVIDERS
from extproc.profiles.anthropic import KNOWN_NAMES
from extproc.profiles.gemini import VERTEX, find_gemini_endpoint

ApiName = Literal["openai", "anthropic", "gemini"]
"""The values of `api:` of a backend. `openai` stands for Chat Completions and Responses (`profiles.responses`)."""

EndpointTest = Callable[[str, str, str | None], bool]
"""(host, with its port if the URL has one; base path; `provider` in the configuration) -> bool."""


def _always(authority: str, base_path: str, provider: str | None) -> bool:
    return True


def _is_google_host(authority: str, base_path: str, provider: str | None) -> bool:
    return f".{authority.partition(':')[0]}".endswith(".googleapis.com")


class ApiFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One API of providers."""

    default_base_path: str
    """The base path of a backend without a URL."""
    key_header: str
    """The API's own header for a key, without a prefix (`auth: key`)."""
    takes_bearer: EndpointTest
    """True if an endpoint expects `Authorization: Bearer KEY`, unless `auth` sets another form."""
    provider_names: tuple[str, ...]
    """The values of `provider` for this API."""
    invalid_key_is_400: EndpointTest = _is_google_host
    """True if an endpoint refuses an invalid key with 400 and the reason API_KEY_INVALID in the body. Google does so in
    every API (`extproc.apis.shared.google_errors`)."""
    safety_categories: tuple[str, ...] = ()
    """The categories of `safety`; empty: the API has no such setting."""
    safety_thresholds: tuple[str, ...] = ()
    """The values of `safety`."""
    url_mistake: Callable[[str, str, str | None], str | None] = lambda authority, base_path, provider: None
    """The mistake in a base URL, None if it has none; the arguments are those of `EndpointTest`."""
    has_reasoning_field: bool = True
    """True if the API has a field for reasoning, whatever the model."""
    fixed_fields: Mapping[str, str] = {}
    """Fields of a request that the translation needs as they are -> why an operator cannot change them."""
    list_headers: frozenset[str] = frozenset()
    """Request headers whose value is a list: an operator's value is added to the gateway's own."""


ANTHROPIC_WITH_BEARER = ("moonshot.ai", "moonshot.cn", "z.ai", "bigmodel.cn", "openrouter.ai", "minimax.io",
                         "minimaxi.com")
"""Hosts, with their subdomains, whose endpoints in Anthropic's format take a bearer token. Source: their guides for
Claude Code use ANTHROPIC_AUTH_TOKEN, which is sent as one, instead of ANTHROPIC_API_KEY."""


def _is_vertex(authority: str, base_path: str, provider: str | None) -> bool:
    return find_gemini_endpoint(authority, base_path, provider) is VERTEX


def _anthropic_takes_bearer(authority: str, base_path: str, provider: str | None) -> bool:
    known = tuple(f".{host}" for host in ANTHROPIC_WITH_BEARER)
    return _is_vertex(authority, base_path, provider) or f".{authority.partition(':')[0]}".endswith(known)


def _gemini_url_mistake(authority: str, base_path: str, provider: str | None) -> str | None:
    """Recognises URLs from Google's own pages that are too long or belong to another API."""
    if base_path.endswith(("/openai", "/endpoints/openapi")):
        return "is the endpoint in OpenAI's format: say api: openai, or leave out what follows the version"
    if "/models" in base_path:
        return "must end before /models"
    if _is_vertex(authority, base_path, provider):
        return None if "/publishers/" in base_path else (
            "lacks the publisher: .../v1/projects/PROJECT/locations/LOCATION/publishers/google")
    return None if base_path else "lacks the version, such as /v1beta"


_CONTENT = "it is the client's conversation"
_STREAMING = "the client chooses whether the response is streamed"
_MODEL = "give it as model of the attempt"
_TOOLS = "use the key tools"
_ONE_RESPONSE = "the client gets one response"
_HISTORY = "the client sends the whole conversation"

_OPENAI_FIXED = {
    "model": _MODEL, "messages": _CONTENT, "input": _CONTENT, "instructions": _CONTENT, "prompt": _CONTENT,
    "stream": _STREAMING, "stream_options": "the gateway needs usage figures", "background": _STREAMING,
    "tools": _TOOLS, "tool_choice": _TOOLS, "functions": _TOOLS, "function_call": _TOOLS,
    "parallel_tool_calls": _TOOLS, "n": _ONE_RESPONSE, "previous_response_id": _HISTORY, "conversation": _HISTORY,
    "include": "the gateway needs encrypted reasoning"}
"""Of both APIs in OpenAI's format: a backend may use either."""

_OPENAI_FORMAT = tuple(name for known in PROVIDERS for name in (known.name, *known.aliases))

API_FACTS: dict[str, ApiFacts] = {
    "openai": ApiFacts(
        default_base_path="/v1",
        key_header="api-key",  # OpenAI has no such header; this is Azure's
        takes_bearer=_always,
        provider_names=_OPENAI_FORMAT,
        has_reasoning_field=False,
        fixed_fields=_OPENAI_FIXED),
    "responses": ApiFacts(
        default_base_path="/v1",
        key_header="api-key",
        takes_bearer=_always,
        provider_names=_OPENAI_FORMAT,
        fixed_fields=_OPENAI_FIXED),
    "anthropic": ApiFacts(
        default_base_path="/v1",
        key_header="x-api-key",
        takes_bearer=_anthropic_takes_bearer,
        provider_names=KNOWN_NAMES,
        fixed_fields={"model": _MODEL, "messages": _CONTENT, "system": _CONTENT, "stream": _STREAMING, "tools": _TOOLS,
                      "tool_choice": _TOOLS},
        list_headers=frozenset({"anthropic-beta"})),
    "gemini": ApiFacts(
        default_base_path="/v1beta",
        key_header="x-goog-api-key",
        takes_bearer=_is_vertex,
        invalid_key_is_400=_always,
        provider_names=("gemini", "google", "aistudio", "vertex"),
        # The enums HarmCategory and HarmBlockThreshold of generateContent, without UNSPECIFIED, which is refused.
        safety_categories=tuple(f"HARM_CATEGORY_{name}" for name in (
            "HARASSMENT", "HATE_SPEECH", "SEXUALLY_EXPLICIT", "DANGEROUS_CONTENT", "CIVIC_INTEGRITY",
            # Vertex only.
            "JAILBREAK", "IMAGE_HATE", "IMAGE_DANGEROUS_CONTENT", "IMAGE_HARASSMENT", "IMAGE_SEXUALLY_EXPLICIT")),
        safety_thresholds=("OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE"),
        url_mistake=_gemini_url_mistake,
        fixed_fields={"model": _MODEL, "contents": _CONTENT, "systemInstruction": _CONTENT,
                      "system_instruction": _CONTENT, "tools": _TOOLS, "toolConfig": _TOOLS, "tool_config": _TOOLS,
                      "generationConfig.candidateCount": _ONE_RESPONSE,
                      "generation_config.candidate_count": _ONE_RESPONSE}),
}
