"""What every relay shares: a reader that hands events on, an encoder that takes them as they are, the fields of a body.

A relay's answer has the client's API already. Where the provider's answer has not the form that the client asked for
(whole instead of streamed, or the other way round), the ordinary decoder and encoder take over. Nothing here knows the
fields of an API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from extproc.apis.base import AnswerDecoder, AnswerEncoder, DecodeContext, Dropped, ProviderRequest, Target
from extproc.apis.body_reader import BROKEN, BodyReader
from extproc.conversation import Event, Failure, Finish, FinishReason, Passed, Request, Start, Usage

Fields = dict[str, msgspec.Raw]
"""The members of a JSON object, each as it stands there, in their order."""

_ENCODER = msgspec.json.Encoder()
_FIELDS: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)


class Relay(Protocol):
    """An API with itself."""

    def patched(self, body: bytes, headers: Mapping[str, str], request: Request, target: Target,
                dropped: Dropped) -> ProviderRequest | None:
        """The provider's request; None when it must be written anew from the conversation."""

    def passes_answer(self, request: Request, target: Target) -> bool:
        """Whether the answer may pass as it is."""

    def reader(self, context: DecodeContext, decoder: AnswerDecoder) -> RelayReader:
        """Reads the provider's answer; `decoder` takes over where it cannot pass."""

    def encoder(self, encoder: AnswerEncoder, *, stream: bool) -> RelayEncoder:
        """Hands it on; `encoder` takes over with the decoder's events."""


class RelayReader(BodyReader):
    """Base of a relay's reader: an `AnswerDecoder` whose events are `Passed`, then a Finish or a Failure."""

    def __init__(self, context: DecodeContext, decoder: AnswerDecoder) -> None:
        super().__init__(context.limits)
        self._context = context
        self._stream = context.request.stream
        self._other = decoder
        self._translated = False
        self._usage = Usage()
        self._out: list[Event] = []
        self._ended = False
        self._content_seen = False
        self._characters = 0

    @property
    def usage(self) -> Usage:
        return self._other.usage if self._translated else self._usage

    @property
    def unoffered_calls(self) -> int:
        return self._other.unoffered_calls

    # -------------------------------------------------------------------------------------------- for the subclasses

    def _pass_event(self, name: bytes, payload: bytes) -> None:
        """An event of a stream whose client asked for one."""
        raise NotImplementedError

    def _pass_body(self, body: bytes) -> None:
        """A whole answer whose client asked for one."""
        raise NotImplementedError

    def _no_more_events(self) -> None:
        """The stream closed before its end was told."""
        self._fail(BROKEN)

    def _pass(self, data: bytes, *, content: bool = False, calls: int = 0) -> None:
        self._content_seen = self._content_seen or content
        self._out.append(Passed(data, content, calls))

    def _end(self, reason: FinishReason) -> None:
        if not self._ended:
            self._ended = True
            self._out.append(Finish(reason, self._usage))

    def _estimate_usage(self) -> None:
        self._usage = Usage(input=self._context.prompt_estimate(), output=self._characters // 4, estimated=True)

    # --------------------------------------------------------------------------------------------------- mechanics

    def _event(self, name: bytes, payload: bytes) -> None:
        if self._stream:
            self._pass_event(name, payload)
            return
        self._translated = True
        head = b"event: %b\n" % name if name else b""
        lines = b"".join(b"data: %b\n" % line for line in payload.split(b"\n"))
        self._hand_over(self._other.feed(head + lines + b"\n"))

    def _whole(self, body: bytes) -> None:
        if self._stream or body[:1] != b"{":
            self._translated = True
            self._hand_over(self._other.feed(body))
            self._hand_over(self._other.finish())
        else:
            self._pass_body(body)

    def _end_of_stream(self) -> None:
        if self._translated or not self._stream:
            self._translated = True
            self._hand_over(self._other.finish())
        else:
            self._no_more_events()

    def _hand_over(self, events: list[Event]) -> None:
        self._out += events
        self._ended = self._ended or any(isinstance(event, (Finish, Failure)) for event in events)

    def _is_closed(self) -> bool:
        return self._ended

    def _take(self) -> list[Event]:
        out, self._out = self._out, []
        return out

    def _fail(self, failure: Failure) -> None:
        if not self._ended:
            self._ended = True
            self._out.append(failure)


class RelayEncoder:
    """An `AnswerEncoder` for `Passed` events; all others go to the ordinary encoder. `ping` is the keep-alive of the
    API, which may stand before the answer's first event."""

    def __init__(self, encoder: AnswerEncoder, ping: bytes) -> None:
        self._other = encoder
        self._ping = ping
        self._start: Start | None = None
        self._passing = False
        self.content_type = encoder.content_type

    def events(self, events: Iterable[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if isinstance(event, Passed):
                self._passing = True
                out.append(event.data)
            elif isinstance(event, Start):
                self._start = event
            elif isinstance(event, Failure):
                out.append(self._other.events([event]))
            elif not self._passing:
                begun, self._start = [self._start] if self._start is not None else [], None
                out.append(self._other.events([*begun, event]))
        return b"".join(out)

    def ping(self) -> bytes:
        return self._ping


# ------------------------------------------------------------------------------------------------------------- bodies


def fields_of(body: bytes) -> Fields | None:
    """The members of a JSON object, None for anything else."""
    try:
        return _FIELDS.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def joined(fields: Fields) -> bytes:
    """The object again."""
    return _ENCODER.encode(fields)


def raw(value: object) -> msgspec.Raw:
    """A value as it goes into `Fields`."""
    return msgspec.Raw(_ENCODER.encode(value))
