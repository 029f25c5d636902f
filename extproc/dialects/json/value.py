"""JSON values in the text of a model, read while they arrive: strings, and any value as text.

Used by `body.py` and by parsers that hold single values. A mark that ends the region ends a value whose closing quote
or bracket is missing. If the string continues after the mark, the mark is data.
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
    """No string, or one that is too long or does not end. `raw`: the consumed text."""

    def __init__(self, raw: str) -> None:
        super().__init__()
        self.raw = raw


def short_string(buffer: TextBuffer, limit: int = 1024) -> Steps[str]:
    """Reads a string of JSON or Python from its opening quote. Raises NoString if it is longer than a name or key may
    be, or if it does not end on its line."""
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
    """`marks`, and the marks of `stop` that are longer than punctuation."""
    return marks if stop is None else Marks([*marks.options, *(mark for mark in stop.options if len(mark) > 3)])


def raw_value(io: ParseContext, stop: Marks | None = None) -> Steps[str]:
    """Reads one JSON value as text, up to the comma, closing bracket or mark of `stop` that ends it (not consumed), or
    the end of the text. A mark inside a string ends the value unless the string continues after it."""
    return (yield from _raw_text(io, stop, depth=0)).strip()


def raw_rest(io: ParseContext) -> Steps[str]:
    """Reads the rest of an object after its `{` as text, through its closing bracket."""
    return (yield from _raw_text(io, None, depth=1))


def _raw_text(io: ParseContext, stop: Marks | None, depth: int) -> Steps[str]:
    """Reads JSON text unchanged until its brackets are closed. `depth`: brackets that are open. Raises TooMuch."""
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
    """Passes a string to `out` unchanged, from after its opening quote through the closing one."""
    while (mark := (yield from buffer.until(_QUOTE_MARKS[quote], out))) == "\\":
        out(mark + (yield from buffer.peek()))
        buffer.at = min(buffer.at + 1, len(buffer.buffer))
    out(mark)


def _raw_string(io: ParseContext, out: Callable[[str], None], stop: Marks | None) -> Steps[None]:
    """As `skip_string`, for a JSON string. A mark of `stop` is data if the string continues after it; else the closing
    quote is missing, and the mark is not consumed."""
    buffer = io.buffer
    ends = with_stop(_QUOTE_MARKS['"'], stop)
    while True:
        mark = yield from buffer.until(ends, out)
        if len(mark) > 1:
            if not (yield from _continues(io, stop, _AFTER_ANY)) and (buffer.finished or not buffer.ended):
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
    """Sends a string from after its opening quote while it arrives. Raw control characters are escaped. A quote without
    a comma or closing bracket after it is data. A mark of `stop` is data if the string continues after it; else the
    closing quote is missing. False if the text ended inside."""
    buffer = io.buffer
    marks = with_stop(_STRING_MARKS, stop)
    while True:
        mark = yield from buffer.until(marks, writer.write_json_piece)
        if not mark:
            return False
        if len(mark) > 1:
            if (yield from _continues(io, stop)):
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
    """True if the four digits of an escape come next."""
    digits = yield from buffer.peek(4)
    return len(digits) == 4 and all(char in hexdigits for char in digits)


_AFTER_VALUE, _AFTER_ANY = ",}", ",}]:"
"""Characters after a string: after the value of a member; after any string, also keys and members of lists."""
_MEMBER = re.compile(r'\s*"[^"\\\n]{0,128}"\s*:')
_MAY_BE_MEMBER = re.compile(r'\s*(?:"[^"\\\n]{0,128}(?:"\s*)?)?\Z')


def _continues(io: ParseContext, stop: Marks | None, followers: str = _AFTER_VALUE) -> Steps[bool]:
    """True if the string's closing quote still comes, before a further call begins (a quote that opens a string, after
    another mark or a brace). Consumes nothing. Text that is read twice counts against `look_ahead`."""
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
    """True if the last consumed quote ends the string: a comma, a closing bracket, a mark that ends the body, the end
    of the text or (a comma is missing) a further member follows."""
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
