"""OpenAI Chat Completions, provider side: `request.py` writes requests, `response.py` reads responses. The client side
is `extproc.apis.openai.client`.
"""

from __future__ import annotations

from collections.abc import Mapping

from extproc.apis.base import DecodeContext, EncodedRequest, ResponseDecoder
from extproc.apis.openai.provider.failed_generation import rescue_response
from extproc.apis.openai.provider.request import encode_request
from extproc.apis.openai.provider.response import OpenAIResponseDecoder
from extproc.apis.shared.provider_errors import decode_error
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure
from extproc.profiles.target import Target


class OpenAIProvider:
    """`ProviderApi` for every server with Chat Completions."""

    name = "openai"

    def encode_request(self, request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
        return encode_request(request, target, dropped)

    def make_response_decoder(self, context: DecodeContext) -> ResponseDecoder:
        return OpenAIResponseDecoder(context)

    def decode_error(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return decode_error(status, headers, body)

    def rescue_response(self, status: int, body: bytes, context: DecodeContext) -> bytes | None:
        return rescue_response(body, context.names.to_client) if status == 400 else None


PROVIDER = OpenAIProvider()
