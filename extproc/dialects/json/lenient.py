"""Almost-JSON text -> its value, with the name of each deviation from JSON.

Models write JSON with single quotes, Python's `True` and `None`, raw newlines, trailing commas. Each of these has only
one possible meaning, which is read here in one pass with linear cost. Called by `coercion.py` (values of parameters)
and `repair.py` (whole argument objects). It never guesses: a text with two possible meanings raises ValueError. It
never returns a value that JSON cannot carry (NaN, infinity, a lone surrogate).
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import msgspec

from extproc.bounds import JSON_DEPTH

MAX_TEXT = 1024 * 1024
"""Longest text, in characters, that is read leniently. Valid JSON has no such bound."""
MAX_DEPTH = 512
"""Deepest nesting of valid JSON. Python's own limit depends on the depth of the stack (about 970 here), so the encoder
might refuse a value that the decoder just accepted."""

_SPACE = re.compile(r"[ \t\r\n\u00a0\ufeff]*")
_COMMENT = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/")
_MEMBER = re.compile(r"""\s*(["'])[^"'\\]*\1\s*:""")
_HALF_QUOTED = re.compile(r"""["'](?=\s*:)""")
_NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_PLAIN = {'"': re.compile(r'[^"\\\x00-\x1f]+'), "'": re.compile(r"[^'\\\x00-\x1f]+")}
_HEX = {"u": re.compile(r"[0-9a-fA-F]{4}"), "x": re.compile(r"[0-9a-fA-F]{2}"), "U": re.compile(r"[0-9a-fA-F]{8}")}
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None,
                                  "True": True, "False": False, "None": None}
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_DECODER = msgspec.json.Decoder()


def decode_json(text: str) -> object:
    """The value of valid JSON text: integers up to 4300 digits exactly, never a number that is not finite. Raises
    ValueError, also for nesting deeper than `MAX_DEPTH`."""
    try:
        value = _DECODER.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if text.count("[") + text.count("{") > MAX_DEPTH and _is_deep(value):
        raise ValueError("nested too deeply")
    return value


def _is_deep(value: object) -> bool:
    """True if the value is nested deeper than `MAX_DEPTH`."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for node in level if isinstance(node, (dict, list))
                 for child in (node.values() if isinstance(node, dict) else node)]
        if not level:
            return False
    return any(isinstance(node, (dict, list)) for node in level)


class LenientValue(NamedTuple):
    value: object
    repairs: tuple[str, ...]
    """The deviations from JSON in order of appearance: `quotes`, `python_literals`, `trailing_comma`,
    `control_characters`, `escapes`, `numbers`, `comments`, `missing_brackets`."""
    end: int
    """The index after the value."""
    unclosed: bool
    """The text ended before the value's brackets were closed."""


def read_lenient(text: str, start: int = 0) -> LenientValue:
    """The first value of `text`. Raises ValueError if it is unreadable or ambiguous."""
    if len(text) - start > MAX_TEXT:
        raise ValueError("too long to repair")
    reader = _Reader(text, start)
    value = reader.value(0)
    return LenientValue(value, tuple(reader.repairs), reader.at, reader.unclosed)


class _Reader:
    """A cursor over the text. `repairs` is used as an ordered set."""

    __slots__ = ("at", "repairs", "text", "unclosed")

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.repairs: dict[str, None] = {}
        self.unclosed = False

    def value(self, depth: int) -> object:
        mark = self._next()
        if depth > JSON_DEPTH:
            raise ValueError("nested too deeply")
        if mark == "{":
            return self._object(depth)
        if mark in ("[", "("):
            return self._array(mark, depth)
        if mark in ('"', "'"):
            return self._string(mark, ",}])")
        word = _WORD.match(self.text, self.at)
        if word is None:
            return self._number()
        if word.group() not in _WORDS:
            raise self._wrong("an unknown word")
        if word.group()[0] in "TFN":
            self._note("python_literals")
        self.at = word.end()
        return _WORDS[word.group()]

    def _object(self, depth: int) -> dict[str, object]:
        out: dict[str, object] = {}
        self.at += 1
        if self._next() == "}":
            self.at += 1
            return out
        while True:
            key = self._key()
            if self._next() != ":":
                raise self._wrong("no colon after a key")
            self.at += 1
            out[key] = self.value(depth + 1)
            if self._ends("}", comma_before_end=True):
                return out

    def _array(self, opener: str, depth: int) -> list[object]:
        out: list[object] = []
        closer = _CLOSERS[opener]
        self.at += 1
        if opener == "(":
            self._note("python_literals")
        if self._next() == closer:
            self.at += 1
            return out
        while True:
            out.append(self.value(depth + 1))
            # Python writes a tuple of one as `(1,)`, and `(1)` is not a tuple
            if self._ends(closer, comma_before_end=opener == "["):
                return out

    def _ends(self, closer: str, comma_before_end: bool) -> bool:
        """After a member: True if the container ends; else consumes the comma."""
        mark = self._next()
        if mark == ",":
            self.at += 1
            if self._next() != closer:
                return False
            if comma_before_end:
                self._note("trailing_comma")
            self.at += 1
            return True
        if mark == closer:
            self.at += 1
            return True
        if not mark or mark in "}])":
            # the bracket of an outer container, or the end of the text
            self.unclosed = self.unclosed or not mark
            self._note("missing_brackets")
            return True
        raise self._wrong("no comma between two members")

    def _key(self) -> str:
        mark = self._next()
        if mark in ('"', "'"):
            return self._string(mark, ":")
        found = _WORD.match(self.text, self.at) or _NUMBER.match(self.text, self.at)
        if found is None:
            raise self._wrong("no key")
        self._note("quotes")
        half = _HALF_QUOTED.match(self.text, found.end())  # its first quote is missing
        self.at = found.end() + (half is not None)
        return found.group()

    def _number(self) -> int | float:
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            raise self._wrong("no value")
        digits = found.group()
        try:
            decode_json(digits)
        except ValueError:
            self._note("numbers")
        self.at = found.end()
        if digits.lstrip("+-").isdigit():
            return int(digits)
        number = float(digits)
        if not math.isfinite(number):
            raise self._wrong("a number that is not finite")
        return number

    def _string(self, quote: str, followers: str) -> str:
        """A string. A quote without one of `followers` after it is data: models forget to escape quotes."""
        if quote == "'":
            self._note("quotes")
        text, plain = self.text, _PLAIN[quote]
        pieces: list[str] = []
        self.at += 1
        while True:
            found = plain.match(text, self.at)
            if found is not None:
                pieces.append(found.group())
                self.at = found.end()
            mark = text[self.at : self.at + 1]
            if not mark:
                raise self._wrong("the text ends inside a string")
            if mark == quote and self._closes(followers):
                return self._joined(pieces)
            if mark == quote:
                self._note("quotes")
                pieces.append(quote)
            elif mark == "\\":
                pieces.append(self._escape(quote))
            else:
                self._note("control_characters")
                pieces.append(mark)
                self.at += 1

    def _escape(self, quote: str) -> str:
        """The text of one escape. An unknown escape (`\\d`, `\\ `) is literal text: models forget to double the
        backslashes of regular expressions and paths."""
        letter = self.text[self.at + 1 : self.at + 2]
        known = _ESCAPES.get(letter)
        if known is not None:
            self.at += 2
            return known
        digits = _HEX[letter].match(self.text, self.at + 2) if letter in _HEX else None
        python = quote == "'" and (digits is not None or letter == "'")
        if not python and (letter != "u" or digits is None):
            self._note("escapes")
        if letter == "'":
            self.at += 2
            return letter
        if digits is None or int(digits.group(), 16) > 0x10FFFF:
            self.at += 1
            return "\\"
        self.at = digits.end()
        return chr(int(digits.group(), 16))

    def _closes(self, followers: str) -> bool:
        """Consumes a quote. True if it ends its string."""
        self.at += 1
        found = _SPACE.match(self.text, self.at)
        behind = found.end() if found is not None else self.at
        follower = self.text[behind : behind + 1]
        if not follower or follower in followers or _COMMENT.match(self.text, behind) is not None:
            return True
        if _MEMBER.match(self.text, self.at) is not None:
            raise self._wrong("no comma, or a quote that is not escaped")
        return False

    def _joined(self, pieces: list[str]) -> str:
        """Joins surrogate pairs (two `\\u` escapes) and replaces lone surrogates."""
        whole = "".join(pieces)
        if whole.isascii():
            return whole
        try:
            return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._note("escapes")
            return whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def _next(self) -> str:
        """Skips spaces and comments. The next character; empty at the end."""
        while True:
            found = _SPACE.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
            mark = self.text[self.at : self.at + 1]
            comment = _COMMENT.match(self.text, self.at) if mark == "/" else None
            if comment is None:
                return mark
            self._note("comments")
            self.at = comment.end()

    def _note(self, repair: str) -> None:
        self.repairs[repair] = None

    def _wrong(self, reason: str) -> ValueError:
        return ValueError(f"{reason} at character {self.at}")
