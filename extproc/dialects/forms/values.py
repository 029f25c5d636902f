"""Values of parameters that came as text with a mark of their own (a string, or JSON): collected, given to the call.

Called by the readers of element dialects, once per parameter. A value keeps its white space; only the line end before a
tag that is not its own is framing. Nothing here knows how tags look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from extproc.dialects.buffer import Steps, TextBuffer, TooMuch
from extproc.dialects.parse_context import MAX_VALUE, CallWriter

End = Literal["closed", "unclosed", "cut"]
"""How a value ended: with its own closing tag, at another tag, with the text."""


class LinesOf:
    """Passes a value on but for the line end at its end: without a closing tag that is framing."""

    def __init__(self, out: Callable[[str], None]) -> None:
        self._out = out
        self._line_end = ""

    def add(self, piece: str) -> None:
        text = self._line_end + piece
        self._line_end = ""
        if text[-1] in "\r\n":
            kept = len(text.removesuffix("\n").removesuffix("\r"))
            text, self._line_end = text[:kept], text[kept:]
        if text:
            self._out(text)

    def end(self, end: End) -> None:
        if self._line_end and end != "unclosed":
            self._out(self._line_end)


class Kept:
    """Collects a value."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: str) -> None:
        self._size += len(piece)
        if self._size > MAX_VALUE:
            raise TooMuch
        self._pieces.append(piece)

    @property
    def text(self) -> str:
        return "".join(self._pieces)


def say_value(writer: CallWriter, key: str, text: str, is_string: bool) -> None:
    """A whole value with its dialect's own mark. A string stays one where the schema allows strings (`null` excepted);
    what is no string is JSON, or else text; the schema has the last word."""
    declared = writer.parameter(key)
    if is_string:
        if "string" in declared.types and declared.choices is None and text.strip().lower() != "null":
            writer.value(key, text)
        else:
            writer.text(key, text)
        return
    try:
        value = msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, RecursionError):
        writer.text(key, text)
        return
    if not declared.typed:
        writer.value(key, value)
    else:
        writer.text(key, value if isinstance(value, str) else text)


def is_bare(buffer: TextBuffer) -> Steps[bool]:
    """Whether the value that begins here is text for a string parameter whatever follows: it opens no JSON string."""
    first = yield from buffer.peek()
    return bool(first) and first != '"' and not first.isspace()
