"""Chat Completions: `client` reads requests and writes responses (`/v1/events` too), `provider` writes requests and
reads responses, `passthrough` forwards both where client and provider speak this API."""

from __future__ import annotations

from extproc.apis.base import Api
from extproc.apis.openai.client import API as CLIENT
from extproc.apis.openai.client import EventsApi
from extproc.apis.openai.passthrough import OpenAIPassThrough
from extproc.apis.openai.provider import PROVIDER

API = Api(name="openai", clients=(CLIENT, EventsApi()), provider=PROVIDER, passthrough=OpenAIPassThrough())
