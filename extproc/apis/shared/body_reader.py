"""A provider's response body in any cut -> the events of a stream, or one whole body.

The first byte decides which of the two it is, not the request or the content type. The base of all decoders of
responses; a subclass interprets events, whole bodies and the end of a stream. Knows no API.
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.apis.shared.endings import EMPTY
from extproc.apis.shared.sse import SseReader
from extproc.bounds import Limits
from extproc.conversation.model import Event
from extproc.errors import Failure

_BOM = b"\xef\xbb\xbf"


class BodyReader:
    """`feed` takes the body in any cut, `finish` is called once. Both return events."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._sse = SseReader(limits.sse_line)
        self._body: list[bytes] | None = None  # pieces of a whole body, once it is known to be one
        self._body_size = 0
        self._undecided = b""
        self._streaming = False
        self._out: list[Event] = []
        self._ended = False
        self._deliver: Callable[[bytes, bytes], None] = self._event
        """Handles the next event of a stream."""

    # -------------------------------------------------------------------------------------------- for the subclasses

    def _event(self, name: bytes, payload: bytes) -> None:
        """One event of a stream."""
        raise NotImplementedError

    def _whole(self, body: bytes) -> None:
        """A whole body, which begins with `{`, `[` or `<`. It ends the response."""
        raise NotImplementedError

    def _end_of_stream(self) -> None:
        """The provider closed its stream, and the response has not ended yet: ends it, or fails."""
        raise NotImplementedError

    def _on_last_event(self) -> None:
        """No event follows. An event that waited for the next one is handled now."""

    def _is_closed(self) -> bool:
        """True if the response has ended. Nothing more is read."""
        return self._ended

    def _take_events(self) -> list[Event]:
        """Returns the events so far, and forgets them."""
        out, self._out = self._out, []
        return out

    def _fail(self, failure: Failure) -> None:
        if not self._ended:
            self._ended = True
            self._out.append(failure)

    # ---------------------------------------------------------------------------------------------- ResponseDecoder

    def feed(self, data: bytes) -> list[Event]:
        if not self._streaming:
            if self._body is not None:
                if not self._is_closed():
                    self._collect(data)
                return self._take_events()
            opening = self._decide(data)
            if opening is None:
                return self._take_events()
            data = opening
        for name, payload in self._sse.feed(data):
            if self._is_closed():
                return self._take_events()
            self._deliver(name, payload)
        if self._sse.too_long and not self._is_closed():
            self._fail(Failure("server", f"The provider sent a line of more than {self._limits.sse_line} bytes in its "
                                         "event stream."))
        return self._take_events()

    def finish(self) -> list[Event]:
        if self._is_closed():
            return self._take_events()
        if self._body is not None:
            self._whole(b"".join(self._body))
        elif not self._streaming:
            self._fail(EMPTY)
        else:
            for name, payload in self._sse.finish():
                if not self._is_closed():
                    self._deliver(name, payload)
            self._on_last_event()
            if not self._is_closed():
                self._end_of_stream()
        return self._take_events()

    def close(self) -> None:
        # Reference cycles would keep the whole response until the next garbage collection.
        vars(self).clear()

    # ------------------------------------------------------------------------------------------- stream or whole body

    def _decide(self, data: bytes) -> bytes | None:
        """Decides by the first byte that is not white space: a JSON body (or an HTML page), or an event stream. Returns
        the bytes for the stream reader; None while it is undecided or if it is a whole body. White space may arrive
        for minutes: some servers keep the connection open with it until their whole body is ready."""
        if not self._undecided and data.startswith((b"data:", b"event:")):
            self._streaming = True
            return data
        data = (self._undecided + data).lstrip()
        if len(data) < 3 and _BOM.startswith(data):
            self._undecided = data
            return None
        data = data.removeprefix(_BOM).lstrip()
        self._undecided = b"" if data else _BOM
        if not data:
            return None
        if data[:1] in (b"{", b"[", b"<"):
            self._body = []
            self._collect(data)
            return None
        self._streaming = True
        return data

    def _collect(self, data: bytes) -> None:
        assert self._body is not None
        self._body.append(data)
        self._body_size += len(data)
        if self._body_size > self._limits.body:
            self._fail(Failure("server", f"The provider's response is larger than {self._limits.body} bytes."))
