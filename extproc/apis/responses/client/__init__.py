"""OpenAI's Responses API, client side: `API` implements `ClientApi`. `CompactApi` is the same API with a summary of the
conversation as its response (`POST /v1/responses/compact`).

`parts`, `items`, `tools` and `request` read requests. `response` and `errors` write responses; `calls` chooses the item
of a call and `custom_input` reads the text of a custom tool's call. `envelopes` carries reasoning and summaries in
`encrypted_content`. Nothing is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from extproc.apis.base import ClientOptions, HttpError, ResponseEncoder
from extproc.apis.responses.client import request as _request
from extproc.apis.responses.client.errors import http_error
from extproc.apis.responses.client.response import CompactionEncoder, EventEncoder
from extproc.apis.responses.client.response import ResponseEncoder as WholeEncoder
from extproc.apis.shared.rate_limits import OPENAI_FORMAT
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure

__all__ = ["API", "CompactApi", "ResponsesApi"]

_encode = msgspec.json.Encoder().encode


class ResponsesApi:
    """Stateless."""

    name = "responses"
    call_prefix = "call_"
    request_id_header = "x-request-id"
    rate_limits = OPENAI_FORMAT

    def with_options(self, options: ClientOptions) -> ResponsesApi:
        """The API itself: no option concerns it."""
        return self

    def decode_request(self, body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
        """Decodes POST /v1/responses. Raises BadRequest with the place and what to do."""
        return _request.decode_request(body, dropped, limits)

    def decode_count_request(self, body: bytes, limits: Limits) -> Request:
        """Decodes POST /v1/responses/input_tokens. Raises BadRequest."""
        return _request.decode_count_request(body, Dropped(), limits)

    def make_response_encoder(self, request: Request, message_id: str,
                              prompt_estimate: Callable[[], int]) -> ResponseEncoder:
        """A stream or one response object, as the request asks; `model` is the client's name for it."""
        encoder = EventEncoder if request.stream else WholeEncoder
        return encoder(request, message_id, prompt_estimate)

    def encode_error(self, failure: Failure, request_id: str | None = None) -> HttpError:
        """The error response in this API's shape."""
        return http_error(failure, request_id)

    def encode_models(self, names: Sequence[str]) -> bytes:
        """Raises NotImplementedError: `GET /v1/models` is never answered in this API's shape."""
        raise NotImplementedError

    def encode_token_count(self, tokens: int) -> bytes:
        """The body of `POST /v1/responses/input_tokens`."""
        return _encode({"object": "response.input_tokens", "input_tokens": tokens})


class CompactApi(ResponsesApi):
    """Every response is a compaction, and none streams."""

    name = "responses-compact"

    def decode_request(self, body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
        """Decodes POST /v1/responses/compact. Raises BadRequest with the place and what to do."""
        return _request.decode_compact_request(body, dropped, limits)

    def make_response_encoder(self, request: Request, message_id: str,
                              prompt_estimate: Callable[[], int]) -> ResponseEncoder:
        """One object with one compaction item."""
        return CompactionEncoder(request, message_id, prompt_estimate)


API = ResponsesApi()
