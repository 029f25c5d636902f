"""The wire formats, one folder per API. `APIS` is their registry: one line per API."""

from __future__ import annotations

from extproc.apis import anthropic, gemini, openai, responses
from extproc.apis.base import Api, ClientApi, PassThrough, ProviderApi
from extproc.endpoints import FALLBACK_API

APIS: tuple[Api, ...] = (
    anthropic.API,
    openai.API,
    responses.API,
    gemini.API,
)

CLIENT_APIS: dict[str, ClientApi] = {client.name: client for api in APIS for client in api.clients}
FALLBACK_CLIENT_API = CLIENT_APIS[FALLBACK_API]
"""For clients whose API is unknown."""
PROVIDER_APIS: dict[str, ProviderApi] = {api.name: api.provider for api in APIS}
PASS_THROUGHS: dict[str, PassThrough] = {api.name: api.passthrough for api in APIS if api.passthrough is not None}
"""What forwards requests and responses where client and provider speak one API, by its name."""
