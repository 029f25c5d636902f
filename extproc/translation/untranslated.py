"""One HTTP exchange on a path that is not translated: bytes are forwarded, except the model's name and errors.

`/v1/embeddings` and Anthropic's `count_tokens` are sent unchanged to backends of the same API; the client reads the
name of the model that it asked for. The API's pass-through writes the request. `Translation` does everything else
(errors in the client's shape, idle time, codings, headers). Responses are whole bodies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from extproc.apis.base import ProviderRequest
from extproc.apis.shared.forwarding import ForwardedResponseDecoder, ForwardedResponseEncoder
from extproc.conversation.model import Request
from extproc.translation.client_response import ResponseCodec
from extproc.translation.encoding import plain_request_body
from extproc.translation.exchange import Translation


class UntranslatedExchange(Translation):
    """client: the API of the client and of the backend. model: the provider's name of it. path: after the backend's
    base path, such as `/embeddings`. settings: as for `Translation`."""

    __slots__ = ("_path",)

    def __init__(self, client: str, model: str, path: str, **settings: Any) -> None:
        super().__init__(client, client, model, endpoint="chat", **settings)
        self._path = path

    def _request(self, body: bytes, headers: Mapping[str, str]) -> ProviderRequest:
        """The client's body with the provider's name of the model."""
        assert self._pass_through is not None
        body = plain_request_body(body, headers, self._limits.body)
        forwarded = self._pass_through.forward_request(self._path, body, headers, self._target, self._limits,
                                                       self.dropped)
        self.conversation = Request(model=forwarded.model, messages=[], api=self._client.name)
        return forwarded.request

    def _make_codec(self, conversation: Request) -> ResponseCodec:
        return ResponseCodec(ForwardedResponseDecoder(conversation, self._limits), ForwardedResponseEncoder())
