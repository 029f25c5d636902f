"""OpenAI clients at OpenAI-format providers whose responses need no repair: chunks pass, with the client's name of the
model.

Most servers of this format deviate from it (ids, indexes, calls written as text, reasoning in many fields) and are
translated like any other pair. Bytes pass where the profile says that the endpoint is `faithful`, and responses also
where the client asked for something that only bytes carry (several choices, log probabilities). `request` and `history`
decide on the request, `response` reads the response.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from extproc.apis.base import (
    DecodeContext,
    ForwardedRequest,
    PatchedRequest,
    ProviderRequest,
    ResponseDecoder,
    ResponseEncoder,
    request_headers,
)
from extproc.apis.openai.client.finalizing import wants_final
from extproc.apis.openai.client.request import ChatRequest
from extproc.apis.openai.passthrough.history import call_ids
from extproc.apis.openai.passthrough.request import change, fits, read_native, restrict
from extproc.apis.openai.passthrough.response import ChatPassThroughDecoder
from extproc.apis.openai.provider.request import chat_path
from extproc.apis.shared.body import checked
from extproc.apis.shared.forwarding import forward_fields
from extproc.apis.shared.json_fields import encode_fields, fields_of
from extproc.apis.shared.passthrough import COMMENT, PassThroughEncoder
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.headers import PASSED_THROUGH
from extproc.profiles.target import Target


class OpenAIPassThrough:
    """`PassThrough` for Chat Completions."""

    def patch_request(self, body: bytes, headers: Mapping[str, str], target: Target, limits: Limits,
                      dropped: Dropped) -> PatchedRequest | None:
        if not target.profile.faithful or not _is_native(target) or wants_final(headers):
            return None
        body = checked(body, limits.json_depth)
        native = read_native(body, limits)
        if native is None or not restrict(native, target, dropped) or not fits(native, target):
            return None
        change(native, target, dropped)
        head = request_headers(stream=native.outline.stream)
        request = ProviderRequest(method="POST", path=chat_path(target), headers=head,
                                  body=encode_fields(native.fields))
        return PatchedRequest(request, native.outline, call_ids(native.body.messages))

    def forward_request(self, path: str, body: bytes, headers: Mapping[str, str], target: Target, limits: Limits,
                        dropped: Dropped) -> ForwardedRequest:
        """Embeddings."""
        fields = fields_of(checked(body, limits.json_depth)) or {}
        head = {"content-type": "application/json", "accept-encoding": "identity"}
        head.update({name: headers[name] for name in PASSED_THROUGH if headers.get(name)})
        return forward_fields(fields, _forwarded_path(path, target), head, target)

    def can_pass_response(self, request: Request, target: Target, *, patched: bool) -> bool:
        """The response to a re-encoded request may differ in form from what the client expects: legacy functions,
        custom tools, and reasoning that the client excluded."""
        if not _is_native(target) or not (target.profile.faithful or request.logprobs or request.choices > 1):
            return False
        if patched:
            return True
        plain = not isinstance(request, ChatRequest) or (request.show_reasoning and not request.legacy_functions)
        return plain and (target.profile.custom_tools or not any(tool.custom for tool in request.tools))

    def make_response_decoder(self, context: DecodeContext, decoder: ResponseDecoder) -> ChatPassThroughDecoder:
        return ChatPassThroughDecoder(context, decoder)

    def make_response_encoder(self, encoder: ResponseEncoder, decoder: ResponseDecoder, *,
                              stream: bool) -> PassThroughEncoder:
        return PassThroughEncoder(encoder, COMMENT, stream=stream)


def _is_native(target: Target) -> bool:
    return target.tool_style in ("auto", "native")


def _forwarded_path(path: str, target: Target) -> str:
    """Azure's classic endpoint names the deployment in the path (source: its API reference)."""
    version, base = target.profile.deployment_api_version, target.base_path
    if version is None or base.endswith("/v1"):
        return base + path
    root, _, deployment = base.partition("/deployments/")
    root = root.removesuffix("/openai") + "/openai"
    return f"{root}/deployments/{deployment or quote(target.model, safe='')}{path}?api-version={version}"
