"""Application events as a client API: `POST /v1/events` takes the body of a chat completion and always answers with a
stream of plain events (`event_stream`).

`finalize: true` in the body (or the header of chat completions) asks for the final answer of a conversation
(`finalizing`). What the configuration says of
tools and of the final note is handed in; this module knows no configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from extproc.apis.base import ClientOptions, HttpError, ResponseEncoder
from extproc.apis.openai.client.errors import http_error
from extproc.apis.openai.client.event_stream import EventStreamEncoder, ToolLabel
from extproc.apis.openai.client.finalizing import finalized, wants_final
from extproc.apis.openai.client.request import of_wire, read_body
from extproc.apis.shared.wire import refused
from extproc.bounds import Limits
from extproc.conversation.model import Request
from extproc.conversation.notes import FINAL_NOTE
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure
from extproc.globs import matches

__all__ = ["EventsApi", "ToolLabel"]

_DEFAULT = ToolLabel()


class EventsApi:
    """`labels`: names of tools, or patterns with `*`, the first that matches counts. `final_note`: the system note of
    `finalize`, "" for none."""

    name = "events"
    call_prefix = "call_"

    def __init__(self, labels: Mapping[str, ToolLabel] | None = None, final_note: str = FINAL_NOTE) -> None:
        self._labels = dict(labels or {})
        self._final_note = final_note

    def with_options(self, options: ClientOptions) -> EventsApi:
        """The same API with the labels and the final note of a configuration."""
        labels = {pattern: ToolLabel(category, visibility)
                  for pattern, (category, visibility) in options.tool_labels.items()}
        return EventsApi(labels, options.final_note)

    def label(self, name: str) -> ToolLabel:
        """What the table says of a tool."""
        return next((label for pattern, label in self._labels.items() if matches(pattern, name)), _DEFAULT)

    def decode_request(self, body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
        """POST /v1/events. Raises BadRequest (the place and what to do)."""
        wired, extra = read_body(body, limits)
        final = bytes(extra.pop("finalize", msgspec.Raw(b"false")))
        if final not in (b"true", b"false"):
            raise refused("finalize", "expected true or false")
        if wired.n is not None and wired.n > 1:
            raise refused("n", "application events carry one answer: expected 1")
        is_final = final == b"true" or wants_final(headers)
        request = of_wire(wired, extra, dropped, limits, strays=is_final)
        request.stream = request.want_usage = True
        request.legacy_functions = request.cites = False
        request.dropped = dropped
        return finalized(request, self._final_note, dropped) if is_final else request

    def response_encoder(self, request: Request, message_id: str, prompt_estimate: Callable[[],
                                                                                            int]) -> ResponseEncoder:
        """Always a stream."""
        return EventStreamEncoder(request, self.label, prompt_estimate)

    def error(self, failure: Failure, request_id: str | None = None) -> HttpError:
        """The error response in the OpenAI API's shape."""
        return http_error(failure, request_id)
