"""Strings of Gemma's calls, whose quotes are special tokens. One of the quotes may be missing.

Strings may contain anything, also the tokens of the format, and they stream. A quote closes a string only before text
that can follow a value. Without its closing quote a string ends before a parameter that the tool declares (and the call
does not have yet) or before the end of the call. Text after a possible end waits until a quote, the end of the call or
the end of the text decides; after `_WINDOW` characters it belongs to the string. If the text ends first, or a quote
fits nowhere, the call is not whole: `CutOff`, `AmbiguousText`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from extproc.dialects.buffer import Collector, Marks, Steps
from extproc.dialects.call_writer import MAX_VALUE, CallWriter
from extproc.dialects.parse_context import ParseContext

_WINDOW = 16 * 1024
"""Most characters that wait after a possible end of a string."""
_MAX_KEY = 256
_KEY = re.compile(r"""\s*["']?([\w.-]+)["']?\s*[:=]""")
_MAY_BE_KEY = re.compile(r"""\s*["']?[\w.-]*["']?\s*""")
_NEXT_CALL = re.compile(r"[\s,;]*call\s*:\s*[\w.:/-]+\s*\{")
_MAY_BE_CALL = re.compile(r"[\s,;]*(?:c|ca|cal|call\s*(?::\s*[\w.:/-]*\s*)?)?")


class CutOff(Exception):  # noqa: N818
    """The text ended inside a value."""


class AmbiguousText(Exception):  # noqa: N818
    """A quote is missing, and nothing shows where."""


class BareKeyTokens(msgspec.Struct, frozen=True):
    """The tokens of one family."""

    opener: str
    closer: str
    quote: str


class TextReader:
    """One string value."""

    def __init__(self, tokens: BareKeyTokens, io: ParseContext, writer: CallWriter, key: str) -> None:
        self._buffer = io.buffer
        self._writer = writer
        self._key = key
        self._quote = tokens.quote
        self._tags = (tokens.closer, tokens.opener)
        self._tag_marks = Marks(self._tags)
        self._marks = _marks(tokens)
        self._pieces = Collector(MAX_VALUE)
        self._out: Callable[[str], None] = self._pieces.add
        self._later: list[str] = []
        """The text after a possible end of the string."""
        self._later_size = 0
        self._at_key = False
        """Only white space follows the last key in `_later`."""
        self._region_ended = False
        """`_later` contains a tag that ends the region."""

    # ---------------------------------------------------------------------------------------------- between quotes

    def quoted(self) -> Steps[None]:
        """Reads the string from after its opening quote through its closing one. Raises CutOff, AmbiguousText."""
        streams = self._writer.streams(self._key)
        if streams:
            self._writer.begin_string(self._key)
            self._out = self._writer.write_piece
        yield from self._to_end()
        if streams:
            self._writer.end_string()
        else:
            self._writer.write_value(self._key, self._pieces.text)

    def _to_end(self) -> Steps[None]:
        buffer = self._buffer
        while True:
            mark = yield from buffer.until(self._marks, self._put)
            if not mark:
                if not buffer.finished or not self._region_ended:
                    raise CutOff
                return self._missing_quote("")
            if mark == self._quote:
                if (yield from self._ends_value()):
                    self._out("".join(self._later))
                    return
                if not self._at_key and not self._region_ended:
                    raise AmbiguousText
                return self._missing_quote(mark)
            if mark == ",":
                self._doubt(mark, (yield from self._known_key()))
            elif mark == "}":
                self._doubt(mark, (yield from self._ends_call()))
            else:
                self._doubt(mark, "")
                self._region_ended = self._region_ended or bool(self._later)

    def _put(self, text: str) -> None:
        if self._later:
            self._doubt(text, "")
        else:
            self._out(text)

    def _doubt(self, text: str, following: str | None) -> None:
        """Keeps `text` and `following` if the string may have ended before them (`following` is not None)."""
        buffer = self._buffer
        if following is None and not self._later:
            self._out(text)
            return
        text += buffer.take(len(following or ""))
        self._at_key = bool(following) or (self._at_key and not text.strip())
        self._later.append(text)
        self._later_size += len(text)
        if self._later_size > _WINDOW:
            self._out("".join(self._later))
            self._later.clear()
            self._later_size, self._region_ended, self._at_key = 0, False, False

    def _missing_quote(self, mark: str) -> None:
        """The string ended at its first possible end: the text after it is read again."""
        self._buffer.push_back("".join(self._later) + mark)
        self._writer.note_repair("missing_quote")

    # -------------------------------------------------------------------------------------------- without quotes

    def bare(self, blank: str) -> Steps[None]:
        """Reads a string without its opening quote, up to a parameter that the tool declares or to the end of the call.
        Single quotes around it, a closing quote of the dialect, and white space around a string of one line are
        removed. `blank`: white space that was consumed before it."""
        buffer = self._buffer
        self._pieces.add(blank)
        closed = False
        while True:
            mark = yield from buffer.until(self._marks, self._pieces.add)
            if not mark:
                raise CutOff
            if mark == self._quote:
                if not (yield from self._ends_value()):
                    raise AmbiguousText
                closed = True
                break
            if mark in self._tags or (mark == "," and (yield from self._known_key()) is not None) \
                    or (mark == "}" and (yield from self._ends_call()) is not None):
                buffer.push_back(mark)
                break
            self._pieces.add(mark)
        text = self._pieces.text
        bare = text.strip()
        quoted = len(bare) > 1 and bare[0] == bare[-1] == "'"
        if closed or quoted or "\n" in text:
            self._writer.note_repair("missing_quote")
        if quoted:
            text = bare[1:-1]
        elif "\n" not in text and not closed:
            text = bare
        self._writer.write_text(self._key, text)

    # ------------------------------------------------------------------------------------------------- what follows

    def _ends_value(self) -> Steps[bool]:
        """True if the last consumed quote closes a value: a comma, a closing bracket, a tag, a declared parameter or
        the end follows. Further quotes before these are dropped."""
        buffer = self._buffer
        passed = ""
        while True:
            blank = yield from buffer.space(_MAX_KEY)
            found = yield from buffer.literal(self._quote)
            passed += blank + found
            if not found or len(passed) > _MAX_KEY:
                break
        following = yield from buffer.peek()
        ends = following in (",", "}", "]", "") or (yield from self._at_tag()) \
            or (yield from self._known_key()) is not None
        if not ends:
            buffer.push_back(passed)
        return ends

    def _at_tag(self) -> Steps[bool]:
        marks = self._tag_marks
        text = yield from self._buffer.peek_while(lambda text: marks.begins(text) is None, marks.longest)
        return bool(marks.begins(text))

    def _known_key(self) -> Steps[str | None]:
        """The next key with its colon, if it is a declared parameter that the call does not have yet. Consumes
        nothing."""
        found = _KEY.match((yield from self._buffer.peek_while(_MAY_BE_KEY.fullmatch, _MAX_KEY + 1)))
        if found is None:
            return None
        key = found[1]
        return found[0] if self._writer.declares(key) and not self._writer.has(key) and key != self._key else None

    def _ends_call(self) -> Steps[str | None]:
        """"" if the last consumed brace ends the call, since a tag or a further call follows; else None. Before the end
        of the text the brace may belong to the string."""
        buffer = self._buffer
        blank = yield from buffer.space(_MAX_KEY)
        at_tag = yield from self._at_tag()
        buffer.push_back(blank)
        if at_tag:
            return ""
        text = yield from buffer.peek_while(_MAY_BE_CALL.fullmatch, _MAX_KEY + 1)
        return "" if _NEXT_CALL.match(text) else None


def _marks(tokens: BareKeyTokens) -> Marks:
    found = _MARKS.get(tokens)
    if found is None:
        found = _MARKS[tokens] = Marks([tokens.quote, tokens.closer, tokens.opener, ",", "}"])
    return found


_MARKS: dict[BareKeyTokens, Marks] = {}
"""The marks of each family, a fixed number of entries."""
