"""The text of one parameter of a tag dialect -> the call: streamed if the schema allows it, without framing.

Decides nothing about tags.
"""

from __future__ import annotations

from typing import Literal

from extproc.dialects.buffer import Collector, Steps, TextBuffer
from extproc.dialects.call_writer import MAX_VALUE, CallWriter
from extproc.dialects.json.lenient import decode_json

Framing = Literal["verbatim", "newline", "newlines", "unclosed_newline", "trim"]
"""White space around a value that belongs to the template: none; one newline at each end; one newline at each end, but
at the end only if there was one at the beginning; one newline at the end of a value without a closing tag; all white
space at the ends."""


class ParameterText:
    """Call `open`, `add` any number of times, `close`. A string of a string parameter is sent while it arrives, except
    for an end that may be framing. Any other value is sent when it is whole. Raises TooMuch."""

    def __init__(self, writer: CallWriter, key: str, framing: Framing) -> None:
        self._writer = writer
        self._key = key
        self._framing = framing
        self.streams = writer.streams(key)
        self._pieces = Collector(MAX_VALUE)
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
        if self.streams:
            self._writer.begin_string(self._key)

    def add(self, text: str) -> None:
        if not text:
            return
        kept = _framing_length(text, self._framing)
        if kept < len(text):
            body, text = text[:len(text) - kept], text[len(text) - kept:]
            self._send("".join(self._tail) + body)
            self._tail.clear()
        elif self._framing != "trim" and not (self._tail == ["\r"] and text == "\n"):
            self._flush_tail()
        if text:
            self._tail.append(text)

    def close(self, *, closed: bool = True) -> None:
        """`closed`: by its own closing tag. A blank value without one is left out."""
        if self._closed:
            return
        self._closed = True
        tail = "".join(self._tail)
        if tail and (closed if self._framing == "unclosed_newline"
                     else self._framing == "newline" and tail not in ("\n", "\r\n")):
            self._send(tail)
        text = self._pieces.text
        if self.streams:
            self._writer.end_string(closed=closed)
        elif closed or text.strip():
            self.write_whole(text)
        else:
            self._writer.note_repair("dropped_parameter")

    def write_whole(self, text: str) -> None:
        """Writes a value that was not streamed."""
        self._writer.write_text(self._key, text)

    def _flush_tail(self) -> None:
        if self._tail:
            self._send("".join(self._tail))
            self._tail.clear()

    def _send(self, text: str) -> None:
        if self.streams:
            self._writer.write_piece(text)
        else:
            self._pieces.add(text)


class IgnoredText(ParameterText):
    """A repeated parameter, which is dropped."""

    def __init__(self, writer: CallWriter, key: str) -> None:
        super().__init__(writer, key, "verbatim")
        writer.note_repair("repeated_parameter")

    def write_whole(self, text: str) -> None:
        """Drops the value."""


class MarkedText(ParameterText):
    """A value whose tag says whether it is a string or JSON. `spaced`: one space at each end is framing. `waits`: a
    whole value is not sent before `send` or `send_members`."""

    def __init__(self, writer: CallWriter, key: str, *, is_string: bool, streams: bool, spaced: bool,
                 waits: bool) -> None:
        super().__init__(writer, key, "unclosed_newline")
        self.streams = self.streams and streams
        self._is_string = is_string
        self._spaced = spaced
        self._waits = waits
        self.waiting: str | None = None
        """The whole value while it waits."""

    def write_whole(self, text: str) -> None:
        self.waiting = text.removeprefix(" ").removesuffix(" ") if self._spaced else text
        if not self._waits:
            self.send()

    def send(self) -> None:
        """Sends the value. A string stays a string if the schema allows one, except `null`. Other values are JSON, or
        text if they are not valid. The schema decides in the end."""
        text, writer, key = self.waiting or "", self._writer, self._key
        declared = writer.parameter(key)
        if self._is_string:
            if "string" in declared.types and declared.choices is None and text.strip().lower() != "null":
                writer.write_value(key, text)
            else:
                writer.write_text(key, text)
            return
        try:
            value = decode_json(text.strip())
        except ValueError:
            writer.write_text(key, text)
            return
        if not declared.typed:
            writer.write_value(key, value)
        else:
            writer.write_text(key, value if isinstance(value, str) else text)

    def send_members(self) -> None:
        """If the value is an object and the tool declares all its members, sends these; else the value."""
        try:
            members = decode_json(self.waiting or "")
        except ValueError:
            members = None
        if not isinstance(members, dict) or not all(map(self._writer.declares, members)):
            self.send()
            return
        self._writer.note_repair("wrapped_arguments")
        for key, value in members.items():
            self._writer.write_value(key, value)


def _framing_length(text: str, framing: Framing) -> int:
    """The number of characters at the end of `text` that may be framing."""
    if framing in ("newline", "unclosed_newline"):
        return 2 if text.endswith("\r\n") else 1 if text.endswith(("\n", "\r")) else 0
    return len(text) - len(text.rstrip()) if framing == "trim" else 0


def skip_newline(buffer: TextBuffer) -> Steps[str]:
    """Consumes one newline; returns it."""
    first = yield from buffer.peek()
    if first == "\r" and (yield from buffer.peek(2)) == "\r\n":
        return buffer.take(2)
    return buffer.take(1) if first == "\n" else ""
