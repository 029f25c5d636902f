"""The provider side of the Responses API: `request.py` writes requests, `response.py` reads responses."""

from __future__ import annotations

from collections.abc import Mapping

from extproc.apis.base import DecodeContext, EncodedRequest, ResponseDecoder
from extproc.apis.responses.provider.request import encode_request
from extproc.apis.responses.provider.response import ResponsesDecoder
from extproc.apis.shared.provider_errors import decode_error
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure
from extproc.profiles.target import Target


class ResponsesProvider:
    """`ProviderApi` for every server with the Responses API."""

    name = "responses"

    def encode_request(self, request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
        return encode_request(request, target, dropped)

    def make_response_decoder(self, context: DecodeContext) -> ResponseDecoder:
        return ResponsesDecoder(context)

    def decode_error(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return decode_error(status, headers, body)

    def rescue_response(self, status: int, body: bytes, context: DecodeContext) -> bytes | None:
        return None


PROVIDER = ResponsesProvider()
