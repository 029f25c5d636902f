"""OpenAI's Responses API: `client` reads requests and writes responses (`/v1/responses/compact` too), `provider` writes
requests and reads responses, `passthrough` forwards both where client and provider speak this API.

The configuration has no name for the provider half: a backend with `api: openai` serves both of OpenAI's APIs, and
`extproc.profiles.responses` chooses one for each attempt.
"""

from __future__ import annotations

from extproc.apis.base import Api
from extproc.apis.responses.client import API as CLIENT
from extproc.apis.responses.client import CompactApi
from extproc.apis.responses.passthrough import ResponsesPassThrough
from extproc.apis.responses.provider import PROVIDER

API = Api(name="responses", clients=(CLIENT, CompactApi()), provider=PROVIDER, passthrough=ResponsesPassThrough())
