"""The text of one parameter on its way to the call: streamed where the schema allows, framing removed at both ends.

Used by the readers of tag dialects. It decides nothing about tags.
"""

from __future__ import annotations

from typing import Literal

from extproc.dialects.buffer import Steps, TextBuffer, TooMuch
from extproc.dialects.parse_context import MAX_VALUE, CallWriter

Framing = Literal["verbatim", "newline", "newlines", "trim"]
"""What belongs to the template and not to the value: nothing; one newline at each end; one newline at the beginning
and, only if there was one, one at the end; all white space at the ends."""


class Value:
    """`open`, `text` any number of times, `close`. A string of a string parameter goes out as it arrives, but for the
    end that may turn out to be framing; every other value goes out when it is whole. Raises TooMuch."""

    def __init__(self, writer: CallWriter, key: str, framing: Framing) -> None:
        self._writer = writer
        self._key = key
        self._framing = framing
        self._streams = writer.streams(key)
        self._pieces: list[str] = []
        self._size = 0
        self._tail: list[str] = []
        self._closed = False

    def open(self, buffer: TextBuffer) -> Steps[None]:
        """Consumes the framing at the beginning."""
        if self._framing == "newline":
            yield from skip_newline(buffer)
        elif self._framing == "newlines":
            framed = yield from skip_newline(buffer)
            self._framing = "newline" if framed else "verbatim"
        elif self._framing == "trim":
            yield from buffer.space()
        if self._streams:
            self._writer.begin(self._key)

    def text(self, text: str) -> None:
        if not text:
            return
        kept = _framing_length(text, self._framing)
        if kept < len(text):
            self._flush_tail()
            body, text = text[:len(text) - kept], text[len(text) - kept:]
            self._send(body)
        elif self._framing == "newline" and not (self._tail == ["\r"] and text == "\n"):
            self._flush_tail()
        if text:
            self._tail.append(text)

    def close(self, *, closed: bool = True) -> None:
        """`closed`: by its own closing tag. A blank value without one was never written: it is left out."""
        if self._closed:
            return
        self._closed = True
        tail = "".join(self._tail)
        if tail and self._framing == "newline" and tail not in ("\n", "\r\n"):
            self._send(tail)
        text = "".join(self._pieces)
        if self._streams:
            self._writer.end(closed=closed)
        elif closed or text.strip():
            self.say(text)
        else:
            self._writer.repaired("dropped_parameter")

    def say(self, text: str) -> None:
        """A whole value that was not streamed."""
        self._writer.text(self._key, text)

    def _flush_tail(self) -> None:
        if self._tail:
            self._send("".join(self._tail))
            self._tail.clear()

    def _send(self, text: str) -> None:
        if self._streams:
            self._writer.piece(text)
            return
        self._size += len(text)
        if self._size > MAX_VALUE:
            raise TooMuch
        self._pieces.append(text)


class Ignored(Value):
    """A value that does not count."""

    def __init__(self, writer: CallWriter, key: str) -> None:
        super().__init__(writer, key, "verbatim")
        writer.repaired("repeated_parameter")

    def say(self, text: str) -> None:
        """It goes nowhere."""


def _framing_length(text: str, framing: Framing) -> int:
    """How many characters at the end of `text` may be framing."""
    if framing == "newline":
        return 2 if text.endswith("\r\n") else 1 if text.endswith(("\n", "\r")) else 0
    return len(text) - len(text.rstrip()) if framing == "trim" else 0


def skip_newline(buffer: TextBuffer) -> Steps[str]:
    """Consumes one newline; returns it."""
    first = yield from buffer.peek()
    if first == "\r" and (yield from buffer.peek(2)) == "\r\n":
        return buffer.take(2)
    return buffer.take(1) if first == "\n" else ""
