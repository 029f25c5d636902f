"""Responses clients at endpoints that keep to the API (OpenAI itself): items and events pass, with the client's name of
the model. `request` decides on the request and changes it, `response` reads the response.

What the conversation model cannot hold stays whole here: tools that OpenAI runs, ids and phases of items, encrypted
reasoning, fields and events that are newer than this code.
"""

from __future__ import annotations

from collections.abc import Mapping

from extproc.apis.base import (
    DecodeContext,
    ForwardedRequest,
    PatchedRequest,
    ResponseDecoder,
    ResponseEncoder,
)
from extproc.apis.responses.passthrough.request import patch_request
from extproc.apis.responses.passthrough.response import ResponsesPassThroughDecoder, ResponsesPassThroughEncoder
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.profiles.target import Target


class ResponsesPassThrough:
    """`PassThrough` for the Responses API."""

    def patch_request(self, body: bytes, headers: Mapping[str, str], target: Target, limits: Limits,
                      dropped: Dropped) -> PatchedRequest | None:
        return patch_request(body, target, limits, dropped)

    def forward_request(self, path: str, body: bytes, headers: Mapping[str, str], target: Target, limits: Limits,
                        dropped: Dropped) -> ForwardedRequest:
        """Raises NotImplementedError: this API has no path without translation."""
        raise NotImplementedError

    def can_pass_response(self, request: Request, target: Target, *, patched: bool) -> bool:
        """The response to a re-encoded request has flat names of tools, and reasoning that only its issuer reads."""
        return patched

    def make_response_decoder(self, context: DecodeContext, decoder: ResponseDecoder) -> ResponsesPassThroughDecoder:
        return ResponsesPassThroughDecoder(context, decoder)

    def make_response_encoder(self, encoder: ResponseEncoder, decoder: ResponseDecoder, *,
                              stream: bool) -> ResponsesPassThroughEncoder:
        assert isinstance(decoder, ResponsesPassThroughDecoder)
        return ResponsesPassThroughEncoder(encoder, decoder, stream=stream)
