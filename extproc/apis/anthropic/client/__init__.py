"""The Anthropic Messages API, client side: `API` implements `ClientApi`.

`blocks`, `tool_changes` and `request` read requests; `grammar`, `response` and `errors` write responses. The responses
that need no provider (the list of models, a token count) are in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from extproc.apis.anthropic.client import request as _request
from extproc.apis.anthropic.client.errors import http_error
from extproc.apis.anthropic.client.response import MessageEncoder, StreamEncoder
from extproc.apis.base import ClientOptions, HttpError, ResponseEncoder
from extproc.apis.shared.rate_limits import RateLimitFormat
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure

__all__ = ["API", "AnthropicApi"]


_encode = msgspec.json.Encoder().encode

_UNKNOWN_DATE = "1970-01-01T00:00:00Z"
"""The API gives the epoch where a release date is not known."""


class AnthropicApi:
    """Stateless."""

    name = "anthropic"
    call_prefix = "toolu_"
    request_id_header = "request-id"
    rate_limits = RateLimitFormat("anthropic-ratelimit-{unit}-{field}", has_reset_time=True)

    def with_options(self, options: ClientOptions) -> AnthropicApi:
        """The API itself: no option concerns it."""
        return self

    def decode_request(self, body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
        """Decodes POST /v1/messages. Raises BadRequest with the place and what to do."""
        return _request.decode_request(body, headers, dropped, limits)

    def decode_count_request(self, body: bytes, limits: Limits) -> Request:
        """Decodes POST /v1/messages/count_tokens, which may lack the output limit. Raises BadRequest."""
        return _request.decode_count_request(body, limits)

    def make_response_encoder(self, request: Request, message_id: str,
                              prompt_estimate: Callable[[], int]) -> ResponseEncoder:
        """A stream or one message, as the request asks; `model` is the client's name for it."""
        encoder = StreamEncoder if request.stream else MessageEncoder
        return encoder(request.model, message_id, prompt_estimate)

    def encode_error(self, failure: Failure, request_id: str | None = None) -> HttpError:
        """The error response in this API's shape."""
        return http_error(failure, request_id)

    def encode_models(self, names: Sequence[str]) -> bytes:
        """The body of `GET /v1/models`: all names on one page."""
        data = [{"type": "model", "id": name, "display_name": name, "created_at": _UNKNOWN_DATE} for name in names]
        return _encode({"data": data, "has_more": False, "first_id": names[0] if names else None,
                        "last_id": names[-1] if names else None})

    def encode_token_count(self, tokens: int) -> bytes:
        """The body of `POST /v1/messages/count_tokens`."""
        return _encode({"input_tokens": tokens})


API = AnthropicApi()
