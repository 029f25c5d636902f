"""The OpenAI Chat Completions API, client side: `API` implements `ClientApi`. `EventsApi` is the same API with
application events as its response (`POST /v1/events`).

`parts`, `reasoning`, `messages`, `tools`, `parameters` and `request` read requests. `response` (streams),
`completion` (whole bodies) and `errors` write responses; `signatures` embeds signatures in the ids of calls. `events`
writes application events, `finalizing` prepares a request for a final answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extproc.apis.base import ClientOptions, ResponseEncoder
from extproc.apis.openai.client import request as _request
from extproc.apis.openai.client.completion import CompletionEncoder
from extproc.apis.openai.client.errors import OpenAIConventions
from extproc.apis.openai.client.events import EventsApi, ToolLabel
from extproc.apis.openai.client.finalizing import finalize, wants_final
from extproc.apis.openai.client.response import ChunkEncoder
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.conversation.notes import FINAL_NOTE
from extproc.conversation.unsupported import Dropped

__all__ = ["API", "EventsApi", "OpenAIApi", "ToolLabel"]


class OpenAIApi(OpenAIConventions):
    """`final_note`: the system note of a request for a final answer (`x-extproc-finalize`); "" for none."""

    name = "openai"

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

    def make_response_encoder(self, request: Request, message_id: str,
                              prompt_estimate: Callable[[], int]) -> ResponseEncoder:
        """A stream or one completion, as the request asks; `model` is the client's name for it."""
        encoder = ChunkEncoder if request.stream else CompletionEncoder
        return encoder(request, message_id, prompt_estimate)


API = OpenAIApi()
