"""What all decoders of provider answers share: bytes in any cut -> events of a stream, or one whole body.

Whether the body is an event stream or JSON is decided by its first byte, not by what was asked or what the content type
claims. A subclass says what an event, a whole body and the end of a stream mean; the text of the model goes to the
dialects' scanner where one is on. This module knows no API's fields.
"""

from __future__ import annotations

from extproc.apis.base import DecodeContext
from extproc.blocks import BlockSequencer
from extproc.conversation import Event, Failure, Usage
from extproc.sse import SseReader

BROKEN = Failure("server", "The provider's stream ended before the answer was complete.")
EMPTY = Failure("server", "The provider closed the connection without an answer.")


class AnswerReader:
    """Base of an `AnswerDecoder` (see apis/base.py). `_content` and `_reasoned` take the model's text and reasoning."""

    def __init__(self, context: DecodeContext) -> None:
        self.usage = Usage()
        self._context = context
        self._seq = BlockSequencer(self._call_id, context.names.client, context.names.to_client,
                                   context.limits.held_back)
        self._seq.heal = context.heal
        self._scanner = context.scanner(self._seq)
        self._content = self._seq.text if self._scanner is None else self._scanner.content
        self._reasoned = self._seq.thinking if self._scanner is None else self._scanner.reasoning
        self._sse = SseReader(context.limits.sse_line)
        self._body: list[bytes] | None = None  # pieces of a whole JSON answer, once it is known to be one
        self._body_size = 0
        self._undecided = b""
        self._streaming = False
        self._got_usage = False

    # -------------------------------------------------------------------------------------------- for the subclasses

    def _event(self, name: bytes, payload: bytes) -> None:
        """One event of a stream."""
        raise NotImplementedError

    def _whole(self, body: bytes) -> None:
        """A whole body, which begins with `{`, `[` or `<`. It ends the answer."""
        raise NotImplementedError

    def _end_of_stream(self) -> None:
        """The provider closed its stream and the answer has no end yet: it gets one, or fails."""
        raise NotImplementedError

    def _set_usage(self, usage: Usage | None) -> None:
        if usage is not None:  # figures are cumulative: the last ones win, they are never added
            self.usage = usage
            self._got_usage = True

    def _settle_usage(self) -> None:
        """At the end of an answer: an estimate, where the provider sent no figures."""
        if not self._got_usage:
            self.usage = Usage(input=self._context.prompt_estimate(), output=self._seq.characters // 4,
                               estimated=True)

    def _call_id(self, ordinal: int, provider_id: str | None) -> str:
        if provider_id and self._context.accept_id(provider_id):
            return provider_id
        return self._context.mint(ordinal)

    # ------------------------------------------------------------------------------------------------ the contract

    def feed(self, data: bytes) -> list[Event]:
        seq = self._seq
        if seq.closed:
            return []
        if not self._streaming:
            if self._body is not None:
                self._collect(data)
                return seq.take()
            opening = self._decide(data)
            if opening is None:
                return seq.take()
            data = opening
        for name, payload in self._sse.feed(data):
            self._event(name, payload)
            if seq.closed:
                return seq.take()
        if self._sse.too_long:
            seq.fail(Failure("server", f"The provider sent a line of more than {self._context.limits.sse_line} "
                                       "bytes in its event stream."))
        return seq.take()

    def finish(self) -> list[Event]:
        seq = self._seq
        if seq.closed:
            return seq.take()
        if self._body is not None:
            self._whole(b"".join(self._body))
        elif not self._streaming:
            seq.fail(EMPTY)
        else:
            for name, payload in self._sse.finish():
                if not seq.closed:
                    self._event(name, payload)
            if not seq.closed:
                self._end_of_stream()
        return seq.take()

    @property
    def unoffered_calls(self) -> int:
        return self._seq.unoffered

    # ------------------------------------------------------------------------------------- stream or whole, by look

    def _decide(self, data: bytes) -> bytes | None:
        """The first byte that is not white space tells a JSON body (or a page of HTML) from an event stream. Returns
        the bytes that the stream reader gets, None while undecided or when it is a whole body. White space may come
        for minutes: some servers keep the connection of a whole answer open with it."""
        data = (self._undecided + data).lstrip()
        if len(data) < 3 and b"\xef\xbb\xbf".startswith(data):
            self._undecided = data
            return None
        data = data.removeprefix(b"\xef\xbb\xbf").lstrip()
        self._undecided = b"" if data else b"\xef\xbb\xbf"
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
        if self._body_size > self._context.limits.body:
            self._seq.fail(Failure("server", f"The provider's answer is larger than {self._context.limits.body} "
                                             "bytes."))
