"""The Messages API: `client` reads requests and writes responses, `provider` writes requests and reads responses,
`passthrough` forwards both where client and provider speak this API."""

from __future__ import annotations

from extproc.apis.anthropic.client import API as CLIENT
from extproc.apis.anthropic.passthrough import AnthropicPassThrough
from extproc.apis.anthropic.provider import PROVIDER
from extproc.apis.base import Api

API = Api(name="anthropic", clients=(CLIENT,), provider=PROVIDER, passthrough=AnthropicPassThrough())
