"""Code spans in a model's text: whether what stands here is quoted between backticks, `like this`.

The scanner notes the text that it shows and asks where an opener stands. Only a span that begins right before the
opener and ends on the same line quotes it: a stray backtick must not swallow a call, nor must one in its arguments.
Nothing here is shown or dropped.
"""

from __future__ import annotations

import re

from extproc.dialects.buffer import Marks, Steps, TextBuffer, TooMuch
from extproc.dialects.parse_context import PlainText

_RUN = re.compile("`+")
_ENDS = Marks(("`", "\n"))
_QUOTES = re.compile(r'\\.|"')


class CodeSpan:
    """`opens`: the text so far ends with backticks that begin a span."""

    __slots__ = ("_odd", "_ticks", "opens")

    def __init__(self) -> None:
        self._odd = False
        """An odd number of runs of backticks stands on this line."""
        self._ticks = False
        """The text so far ends with a backtick."""
        self.opens = False

    def note(self, text: str) -> None:
        """More of the text. Spans of earlier lines are over."""
        if "\n" in text:
            self._odd = False
            text = text[text.rfind("\n"):]
        if "`" in text:
            runs = len(_RUN.findall(text)) - (self._ticks and text[0] == "`")
            self._odd ^= runs % 2 == 1
        if text:
            self._ticks = text[-1] == "`"
            self.opens = self._odd and self._ticks


def rest_of_span(buffer: TextBuffer, limit: int) -> Steps[str]:
    """Consumes what is left of a span that has begun, through its backtick; "" when it does not end on this line. A
    backtick in a JSON string of what is quoted is not its end."""
    buffer.mark()
    text, in_string, ends = "", False, False
    try:
        while True:
            piece, end = yield from buffer.collect(_ENDS, limit - len(text))
            text += piece + end
            in_string ^= _QUOTES.findall(piece).count('"') % 2 == 1
            if end != "`" or not in_string:
                ends = end == "`"
                break
    except (TooMuch, PlainText):
        pass
    if not ends:
        buffer.rewind()
    buffer.commit()
    return text if ends else ""
