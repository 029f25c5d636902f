"""The response as the client gets it: conversation events -> the response head and bytes of the client's API.

Base of `Translation`, which decodes the provider's bytes. It decides when the head is sent (it may be withheld until
the first content, so that an error before it becomes a status), what is held back until then, and whether a failure
becomes a status with a body or an error event. A response begins with a Start, and nothing follows its end. Knows no
wire format.
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
from extproc.translation.head import Head, complete_head, response_head, with_retry_advice
from extproc.translation.scrubbing import Scrubber

_DELTAS = frozenset((TextDelta, ThinkingDelta, ArgumentsDelta))
_CONTENT = _DELTAS | {RedactedThinking, ToolCallStart}
"""Events that end withholding: after them an error can no longer become a status."""


class ResponseCodec(msgspec.Struct, frozen=True):
    """The two halves of translating a 2xx response."""

    decoder: ResponseDecoder
    encoder: ResponseEncoder


class ClientResponse:
    """The state of one response. client: the client's API. scrubber: removes keys from errors and headers. request_id:
    the gateway's own, for head and errors. withhold: see `Settings`."""

    # Slots, because instances with this many fields do not share the keys of their dictionaries.
    __slots__ = (
        "_client",
        "_codec",
        "_error_body",
        "_held",
        "_request_id",
        "_response_headers",
        "_scrubber",
        "_started",
        "_withhold",
        "content_began",
        "conversation",
        "done",
        "dropped",
        "failure",
        "finish_reason",
        "head",
        "tool_calls",
    )

    def __init__(self, client: ClientApi, scrubber: Scrubber, request_id: str | None, *, withhold: bool) -> None:
        self._client = client
        self._scrubber = scrubber
        self._request_id = request_id
        self._withhold = withhold
        self.conversation: Request | None = None
        """The decoded request, once `request` has returned, without its messages: they would take memory as long as the
        response streams."""
        self.head: Head | None = None
        """The response head for the client; None while it is withheld."""
        self.dropped = Dropped()
        self.failure: Failure | None = None
        self.finish_reason: str | None = None
        self.done = False
        """A finish or a failure was sent, or will be returned by the next `feed`."""
        self.tool_calls = 0
        self.content_began = False
        """The first content (text, reasoning or a call) was sent or is held back."""
        self._codec: ResponseCodec | None = None
        self._response_headers: Mapping[str, str] = {}
        """The provider's headers, with names in lower case."""
        self._error_body: bytearray | None = None
        """The body of a status other than 2xx, as far as it came."""
        self._held: list[bytes] = []
        self._started = False

    @property
    def client_stream(self) -> bool:
        """True if the client asked for a stream."""
        return self.conversation is not None and self.conversation.stream

    def commit(self) -> None:
        """Ends withholding: from now on an error is an error event. Held bytes are returned by the next call."""
        self._withhold = False
        if (self.head is None and not self.done and self._codec is not None and self.conversation is not None
                and self.conversation.stream):
            self._set_head()

    # ------------------------------------------------------------------------------------------------- events, bytes

    def _encode_events(self, events: list[Event]) -> bytes:
        assert self._codec is not None
        if self.content_began and self.head is not None and len(events) == 1:
            only = events[0]
            if type(only) is RawEvent:  # the usual case with pass-through
                self.tool_calls += only.calls
                return only.data
            if type(only) in _DELTAS and not self._held:  # the usual case with translation
                return self._codec.encoder.encode_events(events)
        last = events[-1] if events else None
        if type(last) is Failure:
            return self._write(events[:-1]) + self._fail(last)
        if type(last) is Finish:
            self.done = True
            self.finish_reason = last.reason
        return self._write(events)

    def _write(self, events: list[Event]) -> bytes:
        """Encodes events. Sets the head if they contain content or the end."""
        if not events:
            return b""
        assert self._codec is not None
        if self._started:
            if type(events[0]) is Start:
                events = events[1:]
        else:
            self._started = True
            if type(events[0]) is not Start:
                events = [Start(), *events]
        data = self._codec.encoder.encode_events(events)
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
        return self._release_held() + data if self._held else data

    def _start_response(self) -> bytes:
        """The bytes of the Start, if none was sent: a keep-alive must not precede it."""
        return b"" if self._started else self._write([Start()])

    def _hold(self, data: bytes) -> None:
        if data:
            self._held.append(data)

    def _release_held(self) -> bytes:
        """Returns held bytes once the head is set."""
        if not self._held or self.head is None:
            return b""
        held, self._held = b"".join(self._held), []
        return held

    # --------------------------------------------------------------------------------------------- heads and errors

    def _set_head(self) -> None:
        assert self._codec is not None
        self._complete_head(response_head(self._codec.encoder.content_type, stream=self.client_stream))

    def _complete_head(self, head: Head) -> None:
        self.head = complete_head(head, self._response_headers, self._scrubber, self._request_id, self.dropped,
                              self._client)

    def _fail(self, failure: Failure) -> bytes:
        """A status and an error body while no head is set, else an error event. Ends the response."""
        failure = self._scrubbed(failure)
        self.failure = failure
        self.done = True
        if self.head is not None and self._codec is not None:
            return self._release_held() + self._start_response() + self._codec.encoder.encode_events([failure])
        self._held.clear()
        error = self._client.encode_error(failure, self._request_id)
        by_provider = self._error_body is not None
        self._complete_head(Head(error.status, with_retry_advice(error.headers, failure, by_provider=by_provider)))
        return error.body

    def _refusal(self, failure: Failure) -> RequestError:
        error = self._client.encode_error(self._scrubbed(failure), self._request_id)
        return RequestError(error.status, error.headers, error.body, failure)

    def _scrubbed(self, failure: Failure) -> Failure:
        scrub = self._scrubber.text
        return msgspec.structs.replace(
            failure, message=scrub(failure.message), code=None if failure.code is None else scrub(failure.code),
            retry_after=None if failure.retry_after is None else scrub(failure.retry_after))
