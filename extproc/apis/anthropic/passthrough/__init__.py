"""Anthropic clients at Anthropic-format providers: betas, cache marks, thinking and signatures stay unchanged.

`request` and `history` decide whether a request passes and make the necessary changes; `response` reads the response.
"""

from __future__ import annotations

from collections.abc import Mapping

from extproc.apis.anthropic.client.response import PING
from extproc.apis.anthropic.passthrough.request import (
    change_fields,
    clean_fields,
    fits,
    outline,
    read_summary,
    restrict,
    sent_headers,
)
from extproc.apis.anthropic.passthrough.response import MessagesPassThroughDecoder
from extproc.apis.anthropic.wire import RequestSummary
from extproc.apis.base import (
    DecodeContext,
    ForwardedRequest,
    PatchedRequest,
    ProviderRequest,
    ResponseDecoder,
    ResponseEncoder,
)
from extproc.apis.shared.body import checked
from extproc.apis.shared.forwarding import forward_fields
from extproc.apis.shared.json_fields import Fields, encode_fields, encode_raw, fields_of
from extproc.apis.shared.passthrough import PassThroughEncoder
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.profiles.anthropic import find_anthropic_endpoint, messages_path
from extproc.profiles.models import find_family
from extproc.profiles.target import Target


class AnthropicPassThrough:
    """`PassThrough` for the Messages API."""

    def patch_request(self, body: bytes, headers: Mapping[str, str], target: Target, limits: Limits,
                      dropped: Dropped) -> PatchedRequest | None:
        if not _is_native(target):
            return None
        read = _read(body, limits)
        endpoint = find_anthropic_endpoint(target.endpoint, target.provider, target.model)
        if read is None or not restrict(*read, target, dropped) or not fits(*read, target, endpoint):
            return None
        summary, fields = read
        history = change_fields(summary, fields, target, endpoint, dropped)
        if history is None:
            return None
        request = ProviderRequest(method="POST", path=messages_path(target.base_path), body=encode_fields(fields),
                                  headers=sent_headers(headers, endpoint, dropped, stream=bool(summary.stream)))
        seen = outline(summary, None)
        if not self.can_pass_response(seen, target, patched=True):
            seen = outline(summary, fields.get("tools"))
        return PatchedRequest(request, seen, frozenset(history.ids))

    def forward_request(self, path: str, body: bytes, headers: Mapping[str, str], target: Target, limits: Limits,
                        dropped: Dropped) -> ForwardedRequest:
        """A request to count tokens, with the members that its provider takes."""
        body = checked(body, limits.json_depth)
        summary, fields = read_summary(body), fields_of(body) or {}
        endpoint = find_anthropic_endpoint(target.endpoint, target.provider, target.model)
        if summary is not None:
            clean_fields(fields, summary, target, endpoint, dropped)
        forwarded = messages_path(target.base_path) + path.removeprefix("/messages")
        streamed = fields.get("stream") == encode_raw(True)
        return forward_fields(fields, forwarded, sent_headers(headers, endpoint, dropped, stream=streamed), target)

    def can_pass_response(self, request: Request, target: Target, *, patched: bool) -> bool:
        """The response of a server of unknown make is decoded, unless its model is known to be reliable."""
        if not _is_native(target):
            return False
        if find_anthropic_endpoint(target.endpoint, target.provider, target.model).faithful:
            return True
        family = find_family(target.model)
        return family.native if family is not None else not request.tools

    def make_response_decoder(self, context: DecodeContext, decoder: ResponseDecoder) -> MessagesPassThroughDecoder:
        return MessagesPassThroughDecoder(context, decoder)

    def make_response_encoder(self, encoder: ResponseEncoder, decoder: ResponseDecoder, *,
                              stream: bool) -> PassThroughEncoder:
        return PassThroughEncoder(encoder, PING, stream=stream)


def _is_native(target: Target) -> bool:
    return target.tool_style in ("auto", "native")


def _read(body: bytes, limits: Limits) -> tuple[RequestSummary, Fields] | None:
    body = checked(body, limits.json_depth)
    summary, fields = read_summary(body), fields_of(body)
    return None if summary is None or fields is None else (summary, fields)
