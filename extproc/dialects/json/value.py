"""JSON values in the text of a model, read while they arrive: strings, and any value as text.

Used by the readers of JSON bodies (`body.py`) and by forms that hold single values. A mark that ends the region counts
as its end where a closing quote or bracket is missing, and as data where the string goes on behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from string import hexdigits

from extproc.dialects.buffer import Collector, Marks, Steps, TextBuffer
from extproc.dialects.call_writer import MAX_VALUE, CallWriter
from extproc.dialects.json.lenient import decode_json, read_lenient
from extproc.dialects.parse_context import NoMatch, ParseContext

_CONTROL = {**{chr(code): f"\\u{code:04x}" for code in range(0x20)}, "\n": "\\n", "\r": "\\r", "\t": "\\t"}
"""Characters that JSON forbids inside strings, and how they are written."""
_STRING_MARKS = Marks(['"', "\\", *_CONTROL])
_ESCAPES = '"\\/bfnrtu'
_VALUE_MARKS = Marks(['"', "{", "}", "[", "]", ",", "'"])


class NoString(NoMatch):
    """`raw` is what was consumed of it."""

    def __init__(self, raw: str) -> None:
        super().__init__()
        self.raw = raw


def short_string(buffer: TextBuffer, limit: int = 1024) -> Steps[str]:
    """A string from its opening quote, JSON's or Python's; raises NoMatch when it is none or longer than a name or key
    may be."""
    raw = ""
    quote = buffer.buffer[buffer.at]
    buffer.at += 1
    while True:
        char = yield from buffer.peek()
        if not char or len(raw) > limit or char in "\n\r":
            raise NoString(quote + raw)
        buffer.at += 1
        if char == quote:
            break
        raw += char
        if char == "\\":
            escaped = yield from buffer.peek()
            raw += escaped
            buffer.at += len(escaped)
    try:
        return str(decode_json(f'"{raw}"') if quote == '"' else read_lenient(f"'{raw}'").value)
    except ValueError:
        raise NoString(quote + raw + quote) from None


@lru_cache(maxsize=256)
def with_stop(marks: Marks, stop: Marks | None) -> Marks:
    """`marks`, and those of `stop` that are too long to be punctuation."""
    return marks if stop is None else Marks([*marks.options, *(mark for mark in stop.options if len(mark) > 3)])


def raw_value(io: ParseContext, stop: Marks | None = None) -> Steps[str]:
    """One JSON value as text: up to the comma, closing bracket or mark of `stop` that ends it (not consumed), or the
    end. A mark in a string ends it where the string does not go on behind it."""
    return (yield from _raw_text(io, stop, depth=0)).strip()


def raw_rest(io: ParseContext) -> Steps[str]:
    """The rest of an object whose `{` was consumed, as text, through its closing bracket."""
    return (yield from _raw_text(io, None, depth=1))


def _raw_text(io: ParseContext, stop: Marks | None, depth: int) -> Steps[str]:
    """JSON text, unchanged, until the brackets are closed; `depth` of them are open. Marks in strings are data. Raises
    TooMuch."""
    buffer = io.buffer
    raw = Collector(MAX_VALUE)
    marks = with_stop(_VALUE_MARKS, stop)
    while True:
        mark = yield from buffer.until(marks, raw.add)
        if len(mark) > 1 or (depth == 0 and mark in ("}", "]", ",")):
            buffer.push_back(mark)
            break
        if not mark:
            break
        is_first = not raw
        raw.add(mark)
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
        elif mark == '"':
            yield from _raw_string(io, raw.add, stop)
        elif mark == "'" and is_first and depth == 0:
            yield from skip_string(buffer, mark, raw.add)
        if depth == 0 and mark in '}]"':
            break
    return raw.text


_QUOTE_MARKS = {quote: Marks([quote, "\\"]) for quote in ('"', "'", '"""', "'''")}


def skip_string(buffer: TextBuffer, quote: str, out: Callable[[str], None]) -> Steps[None]:
    """Passes the rest of a string to `out` unchanged, from behind its opening quote through the closing one."""
    while (mark := (yield from buffer.until(_QUOTE_MARKS[quote], out))) == "\\":
        out(mark + (yield from buffer.peek()))
        buffer.at = min(buffer.at + 1, len(buffer.buffer))
    out(mark)


def _raw_string(io: ParseContext, out: Callable[[str], None], stop: Marks | None) -> Steps[None]:
    """As `skip_string`, for a JSON string. A mark of `stop` is data when the string goes on behind it; else the closing
    quote is missing and the mark is not consumed."""
    buffer = io.buffer
    ends = with_stop(_QUOTE_MARKS['"'], stop)
    while True:
        mark = yield from buffer.until(ends, out)
        if len(mark) > 1:
            if not (yield from _goes_on(io, stop, _AFTER_ANY)) and (buffer.finished or not buffer.ended):
                buffer.push_back(mark)
                return
            ends = _QUOTE_MARKS['"']
        out(mark)
        if mark == "\\":
            out((yield from buffer.peek()))
            buffer.at = min(buffer.at + 1, len(buffer.buffer))
        elif len(mark) < 2:
            return


def stream_string(io: ParseContext, writer: CallWriter, stop: Marks | None) -> Steps[bool]:
    """A string behind its opening quote, sent while it arrives. Raw control characters are escaped; a quote that is
    followed by neither a comma nor a closing bracket is data. A mark of `stop` is data when the string goes on behind
    it, else the closing quote is missing. False: the text ended inside."""
    buffer = io.buffer
    marks = with_stop(_STRING_MARKS, stop)
    while True:
        mark = yield from buffer.until(marks, writer.write_json_piece)
        if not mark:
            return False
        if len(mark) > 1:
            if (yield from _goes_on(io, stop)):
                marks = _STRING_MARKS
                writer.write_piece(mark)  # it may hold what JSON escapes
            elif buffer.ended and not buffer.finished:
                return False
            else:
                buffer.push_back(mark)
                writer.note_repair("missing_quote")
                return True
        elif mark in _CONTROL:
            writer.write_json_piece(_CONTROL[mark])
            writer.note_repair("control_characters")
        elif mark == "\\":
            following = yield from buffer.peek()
            if not following:
                return False
            buffer.at += 1
            if following in _ESCAPES and (following != "u" or (yield from _is_code(buffer))):
                writer.write_json_piece("\\" + following)
            elif following == "'":
                writer.write_json_piece("'")
            else:
                writer.write_json_piece("\\\\" + _CONTROL.get(following, following))
                writer.note_repair("escapes")
        elif (yield from _ends_string(buffer, stop)):
            return True
        else:
            writer.write_json_piece('\\"')
            writer.note_repair("quotes")


def _is_code(buffer: TextBuffer) -> Steps[bool]:
    """True if the four digits of an escape stand here."""
    digits = yield from buffer.peek(4)
    return len(digits) == 4 and all(char in hexdigits for char in digits)


_AFTER_VALUE, _AFTER_ANY = ",}", ",}]:"
"""What follows a string: the value of a member; any string, keys and those of lists too."""
_MEMBER = re.compile(r'\s*"[^"\\\n]{0,128}"\s*:')
_MAY_BE_MEMBER = re.compile(r'\s*(?:"[^"\\\n]{0,128}(?:"\s*)?)?\Z')


def _goes_on(io: ParseContext, stop: Marks | None, followers: str = _AFTER_VALUE) -> Steps[bool]:
    """True if the string's closing quote still comes. It does not where a further call comes first: a quote that opens
    a string, behind another mark or a brace. Nothing is consumed in the end; what is read twice is counted."""
    buffer = io.buffer
    marks = with_stop(_QUOTE_MARKS['"'], stop)
    ahead: list[str] = []
    size = 0
    last = ""
    found = another = False

    def keep(piece: str) -> None:
        nonlocal size, last
        size += len(piece)
        ahead.append(piece)
        last = piece.rstrip()[-1:] or last

    while not found:
        if size > io.look_ahead:
            found = True
            break
        mark = yield from buffer.until(marks, keep)
        if not mark:
            break
        another = another or len(mark) > 1
        calls = another or last == "{"
        keep(mark)
        if mark == "\\":
            keep((yield from buffer.peek()))
            buffer.at = min(buffer.at + 1, len(buffer.buffer))
        elif mark == '"':
            found = yield from _ends_string(buffer, stop, followers)
            if calls and not found:
                break
    io.look_ahead -= min(size, io.look_ahead)
    buffer.push_back("".join(ahead))
    return found


def _ends_string(buffer: TextBuffer, stop: Marks | None = None, followers: str = _AFTER_VALUE) -> Steps[bool]:
    """True if the quote just consumed ends the string: a comma, a closing bracket, a mark that ends the body, the end,
    or (a comma is missing) a further member follows."""
    while True:
        rest = buffer.buffer[buffer.at:buffer.at + 256]
        stripped = rest.lstrip()
        if stripped[:1] == '"':
            if _MEMBER.match(rest):
                return True
            if buffer.ended or not _MAY_BE_MEMBER.match(rest):
                return False
        elif stripped:
            begins = stop.begins(stripped) if stop is not None else False
            if begins is not None or buffer.ended:
                return bool(begins) or stripped[0] in followers
        elif buffer.ended or len(rest) == 256:
            return True
        yield
