"""The wire formats. One package per API; `CLIENT_APIS` and `PROVIDER_APIS` are the registry of both halves."""

from __future__ import annotations

from extproc.apis.anthropic import API as ANTHROPIC_CLIENT
from extproc.apis.anthropic_provider import PROVIDER as ANTHROPIC_PROVIDER
from extproc.apis.base import ClientApi, ProviderApi
from extproc.apis.gemini import PROVIDER as GEMINI_PROVIDER
from extproc.apis.openai import PROVIDER as OPENAI_PROVIDER
from extproc.apis.openai_client import API as OPENAI_CLIENT
from extproc.apis.openai_client import EventsApi

CLIENT_APIS: dict[str, ClientApi] = {api.name: api for api in (ANTHROPIC_CLIENT, OPENAI_CLIENT, EventsApi())}
PROVIDER_APIS: dict[str, ProviderApi] = {
    api.name: api for api in (OPENAI_PROVIDER, ANTHROPIC_PROVIDER, GEMINI_PROVIDER)}
