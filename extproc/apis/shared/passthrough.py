"""The base of all pass-throughs: a decoder that forwards events, and an encoder that sends them unchanged.

The forwarded response has the client's API already. The ordinary decoder and encoder take over where the provider's
response does not have the form that the client asked for (whole instead of streamed, or the reverse), or no form of its
API. Nothing here depends on the fields of an API.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extproc.apis.base import DecodeContext, ResponseDecoder, ResponseEncoder
from extproc.apis.shared.body_reader import BodyReader
from extproc.apis.shared.endings import BROKEN, client_finish_reason
from extproc.apis.shared.json_fields import Fields, keep_elements
from extproc.apis.shared.sse import LF
from extproc.conversation.model import Event, Finish, FinishReason, RawEvent, Start, Usage
from extproc.conversation.sequencer import too_long_call
from extproc.conversation.unsupported import Dropped
from extproc.errors import Failure
from extproc.profiles.target import Target

COMMENT = b": keepalive\n\n"
"""Keeps a stream alive anywhere: every reader of events skips comments."""


class PassThroughDecoder(BodyReader):
    """Base of a pass-through's `ResponseDecoder`: its events are `RawEvent`, then a Finish or a Failure."""

    def __init__(self, context: DecodeContext, decoder: ResponseDecoder) -> None:
        super().__init__(context.limits)
        self._context = context
        self._stream = context.request.stream
        self._ordinary = decoder
        self._translated = not self._stream
        """True if the ordinary decoder reads the stream. (For a whole body this is decided when it is complete.)"""
        self._usage = Usage()
        self._unoffered = 0
        self._content_seen = False

    @property
    def usage(self) -> Usage:
        return self._ordinary.usage if self._translated else self._usage

    @property
    def unoffered_calls(self) -> int:
        return self._unoffered + self._ordinary.unoffered_calls

    @property
    def received_output(self) -> bool:
        return self._content_seen or self._ordinary.received_output

    def close(self) -> None:
        self._ordinary.close()
        super().close()

    # -------------------------------------------------------------------------------------------- for the subclasses

    def _pass_event(self, name: bytes, payload: bytes) -> None:
        """Forwards an event of a stream whose client asked for one."""
        raise NotImplementedError

    def _pass_body(self, body: bytes) -> bool:
        """Forwards a whole response whose client asked for one. False: nothing was forwarded, and the ordinary decoder
        must read it."""
        raise NotImplementedError

    def _no_more_events(self) -> None:
        """The stream closed without the API's last event."""
        self._fail(BROKEN)

    def _pass(self, data: bytes, *, content: bool = False, calls: int = 0) -> None:
        if content:
            self._content_seen = True
        self._out.append(RawEvent(data, content, calls))

    def _end(self, reason: FinishReason, *, calls: bool) -> None:
        """The response is complete. A reason `tool_calls` stands even without calls: the client has read it."""
        if not self._ended:
            self._ended = True
            reason = client_finish_reason(reason, calls=calls or reason == "tool_calls")
            self._out.append(Finish(reason, self._usage))

    def _estimate_usage(self, output: int) -> None:
        """Used where the provider sent no usage. `output`: the estimated output tokens."""
        self._usage = Usage(input=self._context.prompt_estimate(), output=output, estimated=True)

    def _count_unoffered(self, name: object) -> None:
        """Counts a call of this tool that begins, if the tool was not offered."""
        if not isinstance(name, str) or name not in self._context.names.to_client:
            self._unoffered += 1
            self._context.tally.note_bad(name if isinstance(name, str) else None, "unoffered")

    def _check_length(self, name: object, size: int) -> None:
        """Fails if a call of this tool has too many characters of arguments. `size`: the characters so far."""
        most = self._context.limits.tool_arguments
        if size > most:
            self._fail(too_long_call(name if isinstance(name, str) else "", most))

    def _new_id(self, given: str | None, ordinal: int) -> str | None:
        """None if the call's id is new in the conversation and may pass; else a new id."""
        return None if given and self._context.accept_id(given) else self._context.mint_id(ordinal)

    def _translate(self, name: bytes, payload: bytes) -> None:
        """From here on the ordinary decoder reads: the stream does not have the form of its API."""
        self._translated = True
        head = b"event: %b\n" % name if name else b""
        lines = b"".join(b"data: %b\n" % line for line in payload.split(b"\n"))
        self._forward(self._ordinary.feed(head + lines + b"\n"))

    # --------------------------------------------------------------------------------------------------- mechanics

    def _event(self, name: bytes, payload: bytes) -> None:
        if self._translated:
            self._translate(name, payload)
        else:
            self._pass_event(name, payload)

    def _whole(self, body: bytes) -> None:
        self._translated = self._stream or body[:1] != b"{" or not self._pass_body(body)
        if self._translated:
            self._forward(self._ordinary.feed(body))
            if not self._ended:
                self._forward(self._ordinary.finish())

    def _end_of_stream(self) -> None:
        if self._translated:
            self._forward(self._ordinary.finish())
        else:
            self._no_more_events()

    def _forward(self, events: list[Event]) -> None:
        self._out += events
        self._ended = self._ended or any(isinstance(event, (Finish, Failure)) for event in events)


class PassThroughEncoder:
    """A `ResponseEncoder` for `RawEvent` events; all others go to the ordinary encoder. `ping`: the API's keep-alive
    while a response passes. Before its first event, which is the provider's, only a comment is allowed."""

    def __init__(self, encoder: ResponseEncoder, ping: bytes, *, stream: bool) -> None:
        self._ordinary = encoder
        self._ping = ping
        self._stream = stream
        self._start: Start | None = None
        self._passing = False
        self._translating = False
        self.content_type = encoder.content_type

    def encode_events(self, events: Iterable[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if type(event) is RawEvent:
                self._passing = True
                out.append(event.data)
            elif isinstance(event, Start) and not self._translating:
                self._start = event  # it is the other encoder's, should that one be asked
            elif isinstance(event, Failure):
                out.append(self._ordinary.encode_events([event]))
            elif not self._passing:
                begun = [] if self._translating or self._start is None else [self._start]
                self._translating = True
                out.append(self._ordinary.encode_events([*begun, event]))
        return b"".join(out)

    def ping(self) -> bytes:
        if not self._stream:
            return b""
        if self._translating:
            return self._ordinary.ping()
        return self._ping if self._passing else COMMENT


def without_line_ends(payload: bytes) -> bytes:
    """Joins JSON of several data lines: between values a line end becomes a space, and strings contain none."""
    return payload.replace(b"\n", b" ") if LF in payload else payload


def valid_utf8(payload: bytes) -> bytes:
    """The bytes as valid UTF-8, with U+FFFD for invalid bytes."""
    if payload.isascii():
        return payload
    try:
        payload.decode()
    except UnicodeDecodeError:
        return payload.decode("utf-8", "replace").encode()
    return payload


def restrict_tools(fields: Fields, tools: Sequence[tuple[str, ...]], chosen: str | None, target: Target,
                   dropped: Dropped) -> list[bool] | None:
    """Removes the tools that the configuration does not permit from the request `fields`, and names them.

    `tools`: the names of each tool in order, any of which may be permitted. `chosen`: the tool that the client chose.
    Returns for each tool whether it stays. None: nothing was removed and the request must be re-encoded, because no
    tool is left or the chosen one is not permitted."""
    kept = [any(map(target.permits_tool, names)) for names in tools]
    if all(kept):
        return kept
    if not any(kept) or (chosen is not None and not target.permits_tool(chosen)):
        return None
    keep_elements(fields, "tools", kept)
    for names, keep in zip(tools, kept, strict=True):
        if not keep:
            dropped.loss(f"tools.{names[0]}")
    return kept
