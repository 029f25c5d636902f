"""OpenAI's Responses API: `provider` writes requests and reads responses.

The configuration has no name for it: a backend with `api: openai` serves both of OpenAI's APIs, and
`extproc.profiles.responses` chooses one for each attempt.
"""

from __future__ import annotations

from extproc.apis.base import Api
from extproc.apis.responses.provider import PROVIDER

API = Api(name="responses", provider=PROVIDER)
