"""Gemini's generateContent, as AI Studio and Vertex AI serve it. Provider side only: `request.py` writes requests (with
`contents.py`, `results.py`, `media.py`, `tools.py`, `parameters.py` and the records of `wire.py`), `schema.py` rewrites
the schemas of tools, `answer.py` reads answers, `signatures.py` knows whose thought signature is whose."""

from __future__ import annotations

from collections.abc import Mapping

from extproc.apis.base import DecodeContext, EncodedRequest, ResponseDecoder
from extproc.apis.gemini.provider.request import encode_request
from extproc.apis.gemini.provider.response import GeminiResponseDecoder
from extproc.apis.shared.provider_errors import decode_error
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure
from extproc.profiles.target import Target


class GeminiProvider:
    """`ProviderApi` for generateContent."""

    name = "gemini"

    def encode_request(self, request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
        return encode_request(request, target, dropped)

    def response_decoder(self, context: DecodeContext) -> ResponseDecoder:
        return GeminiResponseDecoder(context)

    def decode_error(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        return decode_error(status, headers, body)

    def rescued_response(self, status: int, body: bytes, context: DecodeContext) -> bytes | None:
        return None


PROVIDER = GeminiProvider()
