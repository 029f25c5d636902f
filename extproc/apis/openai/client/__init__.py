"""The OpenAI Chat Completions API, client side: `API` implements `ClientApi`. `EventsApi` is the same API with
application events as its response (`POST /v1/events`).

`parts`, `media`, `reasoning`, `messages`, `tools`, `parameters` and `request` read requests. `response` (streams),
`completion` (whole bodies) and `errors` write responses; `signatures` embeds signatures in the ids of calls. `events`
writes application events, `finalizing` prepares a request for a final answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from extproc.apis.base import ClientOptions, HttpError, ResponseEncoder
from extproc.apis.openai.client import request as _request
from extproc.apis.openai.client.completion import CompletionEncoder
from extproc.apis.openai.client.errors import http_error
from extproc.apis.openai.client.events import EventsApi, ToolLabel
from extproc.apis.openai.client.finalizing import finalize, wants_final
from extproc.apis.openai.client.response import ChunkEncoder
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.conversation.notes import FINAL_NOTE
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure

__all__ = ["API", "EventsApi", "OpenAIApi", "ToolLabel", "models_body"]


_encode = msgspec.json.Encoder().encode

_UNKNOWN_DATE = 0
"""A fixed value, because a model name has no date: the same configuration gives the same bytes."""


def models_body(names: Sequence[str]) -> bytes:
    """The body of `GET /v1/models`, which needs no provider. `names`: the models of the configuration."""
    rows = [{"id": name, "object": "model", "created": _UNKNOWN_DATE, "owned_by": "extproc"} for name in names]
    return _encode({"object": "list", "data": rows})


class OpenAIApi:
    """`final_note`: the system note of a request for a final answer (`x-extproc-finalize`); "" for none."""

    name = "openai"
    call_prefix = "call_"

    def __init__(self, final_note: str = FINAL_NOTE) -> None:
        self._final_note = final_note

    def with_options(self, options: ClientOptions) -> OpenAIApi:
        """The same API with the final note of a configuration."""
        return OpenAIApi(options.final_note)

    def decode_request(self, body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
        """Decodes POST /v1/chat/completions. Raises BadRequest with the place and what to do."""
        if not wants_final(headers):
            return _request.decode_request(body, headers, dropped, limits)
        record, extra = _request.read_body(body, limits)
        return finalize(_request.request_of_record(record, extra, dropped, limits, strays=True), self._final_note,
                        dropped)

    def response_encoder(self, request: Request, message_id: str, prompt_estimate: Callable[[],
                                                                                            int]) -> ResponseEncoder:
        """A stream or one completion, as the request asks; `model` is the client's name for it."""
        encoder = ChunkEncoder if request.stream else CompletionEncoder
        return encoder(request, message_id, prompt_estimate)

    def error(self, failure: Failure, request_id: str | None = None) -> HttpError:
        """The error response in this API's shape."""
        return http_error(failure, request_id)


API = OpenAIApi()
