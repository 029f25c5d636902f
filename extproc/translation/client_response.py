"""The answer as the client gets it: conversation events -> the response head and bytes of the client's API.

Base of `Translation`, which has the provider's bytes read. Here stands when the head goes out (it may be withheld until
the first content, so that an error before it becomes a status), what waits behind it, and whether a failure is a status
with a body or an error event. An answer begins with its start, and nothing follows its end. It reads no byte of a
provider and knows no wire format.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extproc.apis.base import ClientApi, ResponseDecoder, ResponseEncoder
from extproc.conversation.model import (
    ArgumentsDelta,
    Event,
    Finish,
    RawEvent,
    RedactedThinking,
    Request,
    Start,
    TextDelta,
    ThinkingDelta,
    ToolCallStart,
)
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure, RequestError
from extproc.translation.head import Head, advised, completed, response_head
from extproc.translation.scrubbing import Scrubber

_PIECES = frozenset((TextDelta, ThinkingDelta, ArgumentsDelta))
_CONTENT = _PIECES | {RedactedThinking, ToolCallStart}
"""Events that commit a withheld answer: after them an error can no longer become a status."""


class ResponseCodec(msgspec.Struct, frozen=True):
    """What a 2xx answer needs."""

    decoder: ResponseDecoder
    encoder: ResponseEncoder


class ClientResponse:
    """The state of one answer. client: the API that the client speaks. scrubber: takes keys out of errors and headers.
    request_id: the gateway's own, for head and errors. withhold: see `Translation`."""

    # More fields than the dictionary of an instance shares with others of its class: it would be built up for each.
    __slots__ = ("_answer", "_began", "_client", "_error_body", "_held", "_request_id", "_response_headers",
                 "_scrubber", "_withhold", "content_began", "conversation", "done", "dropped", "failure",
                 "finish_reason", "head", "tool_calls")

    def __init__(self, client: ClientApi, scrubber: Scrubber, request_id: str | None, *, withhold: bool) -> None:
        self._client = client
        self._scrubber = scrubber
        self._request_id = request_id
        self._withhold = withhold
        self.conversation: Request | None = None
        """Of the decoded request, once `request` returned, what its answer needs to know: without the messages, which
        would take their memory as long as the answer streams."""
        self.head: Head | None = None
        """The response head for the client; None while it is withheld."""
        self.dropped = Dropped()
        self.failure: Failure | None = None
        self.finish_reason: str | None = None
        self.done = False
        """Nothing more will come out: a finish or a failure went out, or waits in `feed`'s next result."""
        self.tool_calls = 0
        self.content_began = False
        """The first content (text, reasoning or a call) went out or waits to."""
        self._answer: ResponseCodec | None = None
        self._response_headers: Mapping[str, str] = {}
        """The provider's, by names in lower case."""
        self._error_body: bytearray | None = None
        """What came so far of the body behind a status that is no 2xx."""
        self._held: list[bytes] = []
        self._began = False

    @property
    def client_stream(self) -> bool:
        """Whether the client asked for a stream."""
        return self.conversation is not None and self.conversation.stream

    def commit(self) -> None:
        """Ends withholding: from now on an error is an error event. Bytes that were held come with the next call."""
        self._withhold = False
        if (self.head is None and not self.done and self._answer is not None and self.conversation is not None
                and self.conversation.stream):
            self._set_head()

    # ------------------------------------------------------------------------------------------------- events, bytes

    def _events(self, events: list[Event]) -> bytes:
        assert self._answer is not None
        if self.content_began and self.head is not None and len(events) == 1:
            only = events[0]
            if type(only) is RawEvent:  # the usual case where bytes pass
                self.tool_calls += only.calls
                return only.data
            if type(only) in _PIECES and not self._held:  # the usual case where they do not
                return self._answer.encoder.events(events)
        last = events[-1] if events else None
        if type(last) is Failure:
            return self._write(events[:-1]) + self._fail(last)
        if type(last) is Finish:
            self.done = True
            self.finish_reason = last.reason
        return self._write(events)

    def _write(self, events: list[Event]) -> bytes:
        """Encodes events; opens the head when they hold content or the end."""
        if not events:
            return b""
        assert self._answer is not None
        if self._began:
            if type(events[0]) is Start:
                events = events[1:]
        else:
            self._began = True
            if type(events[0]) is not Start:
                events = [Start(), *events]
        data = self._answer.encoder.events(events)
        for event in events:
            kind = type(event)
            if kind in _CONTENT:
                self.content_began = True
                if kind is ToolCallStart:
                    self.tool_calls += 1
            elif type(event) is RawEvent:
                self.content_began = self.content_began or event.content
                self.tool_calls += event.calls
        if self.head is None:
            if data:
                self._held.append(data)
            if not (self.done or (self.client_stream and self.content_began)):
                return b""
            self._set_head()
            data = b""
        return self._released() + data if self._held else data

    def _begin(self) -> bytes:
        """Nothing may precede the start of an answer: before a first ping it is written without the provider."""
        return b"" if self._began else self._write([Start()])

    def _keep(self, data: bytes) -> None:
        if data:
            self._held.append(data)

    def _released(self) -> bytes:
        """What was held, once the head is out."""
        if not self._held or self.head is None:
            return b""
        held, self._held = b"".join(self._held), []
        return held

    # --------------------------------------------------------------------------------------------- heads and errors

    def _set_head(self) -> None:
        assert self._answer is not None
        self._show(response_head(self._answer.encoder.content_type, stream=self.client_stream))

    def _show(self, head: Head) -> None:
        self.head = completed(head, self._response_headers, self._scrubber, self._request_id, self.dropped,
                              self._client)

    def _fail(self, failure: Failure) -> bytes:
        """A status and an error body while no head went out, else an error event; nothing follows."""
        failure = self._scrubbed(failure)
        self.failure = failure
        self.done = True
        if self.head is not None and self._answer is not None:
            return self._released() + self._begin() + self._answer.encoder.events([failure])
        self._held.clear()
        error = self._client.error(failure, self._request_id)
        by_provider = self._error_body is not None
        self._show(Head(error.status, advised(error.headers, failure, by_provider=by_provider)))
        return error.body

    def _refusal(self, failure: Failure) -> RequestError:
        error = self._client.error(self._scrubbed(failure), self._request_id)
        return RequestError(error.status, error.headers, error.body, failure)

    def _scrubbed(self, failure: Failure) -> Failure:
        scrub = self._scrubber.text
        return msgspec.structs.replace(
            failure, message=scrub(failure.message), code=None if failure.code is None else scrub(failure.code),
            retry_after=None if failure.retry_after is None else scrub(failure.retry_after))
