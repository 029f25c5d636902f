"""The Messages API, provider side: `request.py` writes requests, `response.py` reads responses, `chunks.py` reads their
events. The client side is `extproc.apis.anthropic.client`; the peculiarities of models and endpoints are in
`extproc.profiles.anthropic`.
"""

from __future__ import annotations

from collections.abc import Mapping

from extproc.apis.anthropic.provider.request import encode_request
from extproc.apis.anthropic.provider.response import AnthropicResponseDecoder
from extproc.apis.base import DecodeContext, EncodedRequest, ResponseDecoder
from extproc.apis.shared.provider_errors import decode_error
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure
from extproc.profiles.target import Target


class AnthropicProvider:
    """`ProviderApi` for Anthropic and every server with its API."""

    name = "anthropic"

    def encode_request(self, request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
        return encode_request(request, target, dropped)

    def make_response_decoder(self, context: DecodeContext) -> ResponseDecoder:
        return AnthropicResponseDecoder(context)

    def decode_error(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return decode_error(status, headers, body)

    def rescue_response(self, status: int, body: bytes, context: DecodeContext) -> bytes | None:
        return None


PROVIDER = AnthropicProvider()
