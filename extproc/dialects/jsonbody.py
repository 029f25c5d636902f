"""Calls whose body is JSON: `{"name": ..., "arguments": {...}}` and bare argument objects, read while they arrive.

Used by the forms of all dialects with JSON bodies. The name must be known before anything goes out, the order of the
members is free. String values of string parameters stream; everything else waits until it is whole and is typed by the
schema. Damage (single quotes, Python literals, raw newlines, missing commas or brackets) is repaired where that is
possible without taking back what went out. Brackets and tags inside strings are data.
"""

from __future__ import annotations

import re
from functools import lru_cache
from string import hexdigits

import msgspec

from extproc.calls import JsonBalance
from extproc.dialects.reading import MAX_VALUE, CallWriter, NotACall, Reading
from extproc.dialects.tape import Marks, Steps, Tape, TooMuch

NAME_KEYS = ("name", "tool_name", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")

_CONTROL = {**{chr(code): f"\\u{code:04x}" for code in range(0x20)}, "\n": "\\n", "\r": "\\r", "\t": "\\t"}
"""Characters that JSON forbids inside strings, and how they are written."""
_STRING_MARKS = Marks(['"', "\\", *_CONTROL])
_ESCAPES = '"\\/bfnrtu'
_VALUE_MARKS = Marks(['"', "{", "}", "[", "]", ",", "'"])


class Damaged(Exception):  # noqa: N818
    """The text at hand is no clean JSON; `raw` is what was consumed of the value."""

    def __init__(self, raw: str = "") -> None:
        super().__init__(raw)
        self.raw = raw


def read_call(io: Reading, stop: Marks | None = None, *, needs_arguments: bool = False) -> Steps[CallWriter]:
    """One call object, from its `{` to its `}`. `stop`: marks that end a damaged body (they are not consumed, what
    stands before them is). Returns the writer, closed. Raises NotACall before the name of an offered tool is known, and
    at the end of an object without arguments when it `needs_arguments` (where no marker says that it is a call)."""
    tape = io.tape
    if not (yield from tape.literal("{")):
        raise NotACall
    name: str | None = None
    early: str | None = None
    writer: CallWriter | None = None
    while True:
        yield from tape.space()
        mark = yield from tape.peek()
        if mark in ("}", ","):
            tape.at += 1
            if mark == ",":
                continue
            break
        if mark != '"':
            if writer is not None:
                break
            raise NotACall
        key = yield from short_string(tape)
        yield from tape.space()
        if not (yield from tape.literal(":")):
            if writer is not None:
                break
            raise NotACall
        yield from tape.space()
        if key in NAME_KEYS and name is None:
            value = yield from _name_value(io)
            if value is None:
                continue
            name = value
            if io.offered(name) is None:
                raise NotACall
            if early is not None:
                writer = io.call(name)
                writer.arguments(early)
        elif key in ARGUMENT_KEYS and writer is None:
            if name is None:
                early = yield from raw_value(tape)
            else:
                writer = io.call(name)
                whole = yield from read_arguments(io, writer, stop)
                if not whole:
                    return writer
        else:
            yield from raw_value(tape)
    if writer is None:
        if name is None or needs_arguments:
            raise NotACall
        writer = io.call(name)
    if tape.clean or not tape.ended:
        writer.close()
    return writer


def read_array(io: Reading, stop: Marks | None = None) -> Steps[None]:
    """Call objects behind the `[` of an array, through its `]`. Raises NotACall when the first element is none; a later
    one that is none, or names no offered tool, is text."""
    tape = io.tape
    before = io.calls
    while True:
        yield from tape.space()
        mark = yield from tape.peek()
        if mark == ",":
            tape.at += 1
        elif mark == "{" and io.calls == before:
            yield from read_call(io, stop)
        elif mark == "{":
            yield from _call_or_text(io, stop)
        else:
            if mark == "]":
                tape.at += 1
            if io.calls == before:
                raise NotACall
            return


def _call_or_text(io: Reading, stop: Marks | None) -> Steps[None]:
    """A further call object; the text of it when it is none."""
    tape = io.tape
    tape.hold()
    try:
        yield from read_call(io, stop)
    except NotACall:
        tape.hand_back()
        tape.release()
        io.emit_text((yield from raw_value(tape)))
    tape.release()


def _name_value(io: Reading) -> Steps[str | None]:
    """The name, also of `"function": {"name": ..., ...}` (then None: its members are read as if they stood outside)."""
    tape = io.tape
    mark = yield from tape.peek()
    if mark == "{":
        tape.at += 1
        return None
    if mark != '"':
        raise NotACall
    return (yield from short_string(tape))


class _NoString(NotACall):
    """`raw` is what was consumed of it."""

    def __init__(self, raw: str) -> None:
        super().__init__()
        self.raw = raw


def short_string(tape: Tape, limit: int = 1024) -> Steps[str]:
    """A JSON string from its opening quote; raises NotACall when it is none or longer than a name or key may be."""
    raw = ""
    tape.at += 1
    while True:
        char = yield from tape.peek()
        if not char or len(raw) > limit or char in "\n\r":
            raise _NoString('"' + raw)
        tape.at += 1
        if char == '"':
            break
        raw += char
        if char == "\\":
            raw += yield from tape.peek()
            tape.at += 1
    try:
        return msgspec.json.decode(f'"{raw}"', type=str)
    except msgspec.DecodeError:
        raise _NoString(f'"{raw}"') from None


@lru_cache(maxsize=256)
def _with_stop(marks: Marks, stop: Marks | None) -> Marks:
    """`marks`, and those of `stop` that are too long to be punctuation."""
    return marks if stop is None else Marks([*marks.options, *(mark for mark in stop.options if len(mark) > 3)])


def raw_value(tape: Tape, stop: Marks | None = None) -> Steps[str]:
    """One JSON value as text: up to the comma, closing bracket or mark of `stop` that ends it (not consumed), or the
    end."""
    pieces: list[str] = []
    depth = 0
    marks = _with_stop(_VALUE_MARKS, stop)
    while True:
        mark = yield from tape.until(marks, pieces.append)
        if len(mark) > 1:
            tape.at -= len(mark)
            break
        if (mark in ("}", "]") and depth == 0) or (mark == "," and depth == 0):
            tape.at -= 1
            break
        if not mark:
            break
        pieces.append(mark)
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth == 0:
                break
        elif mark == '"':
            yield from _string_text(tape, pieces)
            if depth == 0:
                break
        elif mark == "'" and not pieces[-2:-1]:
            yield from _single_quoted(tape, pieces)
        if sum(map(len, pieces[-4:])) > MAX_VALUE:
            raise TooMuch
    return "".join(pieces).strip()


_QUOTE_MARKS = Marks(['"', "\\"])
_SINGLE_MARKS = Marks(["'", "\\"])


def _string_text(tape: Tape, pieces: list[str], marks: Marks = _QUOTE_MARKS) -> Steps[None]:
    """The rest of a string behind its opening quote, as it stands."""
    while True:
        mark = yield from tape.until(marks, pieces.append)
        if not mark:
            return
        pieces.append(mark)
        if mark != "\\":
            return
        pieces.append((yield from tape.peek()))
        tape.at = min(tape.at + 1, len(tape.buffer))


def _single_quoted(tape: Tape, pieces: list[str]) -> Steps[None]:
    yield from _string_text(tape, pieces, _SINGLE_MARKS)


def read_arguments(io: Reading, writer: CallWriter, stop: Marks | None = None) -> Steps[bool]:
    """The value of the arguments: an object, a string that holds one, null. True: the value is whole and what follows
    it may be read; False: the text ended or broke inside of it (the writer is closed as far as that is right)."""
    tape = io.tape
    mark = yield from tape.peek()
    if mark != "{" or io.mode == "as-is":
        return (yield from _whole_arguments(io, writer))
    tape.at += 1
    while True:
        yield from tape.space()
        mark = yield from tape.peek()
        if mark == "}":
            tape.at += 1
            return True
        if mark == ",":
            tape.at += 1
            continue
        if not mark:
            return (yield from _ended(io, writer, ""))
        if mark != '"':
            return (yield from _mend(io, writer, "", stop))
        try:
            key = yield from short_string(tape)
        except _NoString as damaged:
            rest = "" if tape.ended and tape.at >= len(tape.buffer) else damaged.raw
            return (yield from _mend(io, writer, rest, stop))
        yield from tape.space()
        if not (yield from tape.literal(":")):
            return (yield from _mend(io, writer, _quoted(key), stop))
        yield from tape.space()
        mark = yield from tape.peek()
        if mark == '"' and writer.streams(key):
            tape.at += 1
            writer.begin(key)
            if not (yield from _stream_string(io, writer, stop)):
                return False
            writer.end()
            continue
        raw = yield from raw_value(tape, stop)
        if tape.ended and tape.at >= len(tape.buffer) and (not tape.clean or _broken_off(raw)):
            return (yield from _ended(io, writer, f"{_quoted(key)}: {raw}"))
        try:
            writer.value(key, msgspec.json.decode(raw))
        except (msgspec.DecodeError, RecursionError):
            return (yield from _mend(io, writer, f"{_quoted(key)}: {raw}", stop))


def _quoted(key: str) -> str:
    return msgspec.json.encode(key).decode()


def _broken_off(raw: str) -> bool:
    balance = JsonBalance()
    balance.feed(raw)
    return not raw or balance.in_string or bool(balance.closers)


def _whole_arguments(io: Reading, writer: CallWriter) -> Steps[bool]:
    """Arguments that are no object in the open: null, a string that holds the object, or anything in as-is mode."""
    raw = yield from raw_value(io.tape)
    if raw.startswith('"'):
        try:
            text = msgspec.json.decode(raw, type=str)
        except msgspec.DecodeError:
            text = raw
        if text.strip().startswith("{"):
            writer.repaired("double_encoded")
            raw = text
    at_end = io.tape.ended and io.tape.at >= len(io.tape.buffer)
    if at_end and (not io.tape.clean or (raw.startswith("{") and _broken_off(raw))):
        return False
    writer.arguments(raw)
    return True


def _ended(io: Reading, writer: CallWriter, rest: str) -> Steps[bool]:
    """The text ended inside the arguments, `rest` is the member that was being read. After a clean finish missing
    brackets are added; a truncated call, or one that stops inside a string, is never completed."""
    if io.tape.clean:
        balance = JsonBalance()
        balance.feed(rest)
        if not balance.in_string:
            if rest:
                writer.arguments("{" + rest + "".join(reversed(balance.closers)) + "}")
            writer.repaired("missing_brackets")
            writer.close()
    return False
    yield


def _mend(io: Reading, writer: CallWriter, consumed: str, stop: Marks | None) -> Steps[bool]:
    """Damaged arguments: all that is left up to the mark that ends the region, or the end, goes to the repair."""
    tape = io.tape
    if stop is None:
        raw, mark = (yield from raw_rest(tape)), ""
    else:
        raw, mark = yield from tape.collect(stop, MAX_VALUE)
    tape.at -= len(mark)
    if mark or tape.clean or not tape.ended:
        text = "{" + consumed + raw
        trimmed = text.rstrip()
        # the brackets of the body around the arguments belong to the body
        if trimmed.endswith("}}"):
            trimmed = trimmed[:-1]
        writer.arguments(trimmed)
        writer.close()
    return False


def raw_rest(tape: Tape) -> Steps[str]:
    """The rest of an object whose `{` was consumed, as text, through its closing bracket. Strings are respected."""
    pieces: list[str] = []
    depth = 1
    while depth:
        mark = yield from tape.until(_VALUE_MARKS, pieces.append)
        if not mark:
            break
        pieces.append(mark)
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
        elif mark == '"':
            yield from _string_text(tape, pieces)
    return "".join(pieces)


def _stream_string(io: Reading, writer: CallWriter, stop: Marks | None) -> Steps[bool]:
    """A string behind its opening quote, sent while it arrives. Raw control characters are escaped; a quote that is
    followed by neither a comma nor a closing bracket is data. A mark of `stop` is data when the string goes on behind
    it, else the closing quote is missing. False: the text ended inside."""
    tape = io.tape
    marks = _with_stop(_STRING_MARKS, stop)
    while True:
        mark = yield from tape.until(marks, writer.json_piece)
        if not mark:
            return False
        if len(mark) > 1:
            if (yield from _goes_on(io, stop)):
                marks = _STRING_MARKS
                writer.json_piece(mark)
            elif tape.ended and not tape.clean:
                return False
            else:
                tape.push_back(mark)
                writer.repaired("missing_quote")
                return True
        elif mark in _CONTROL:
            writer.json_piece(_CONTROL[mark])
            writer.repaired("control_characters")
        elif mark == "\\":
            following = yield from tape.peek()
            if not following:
                return False
            tape.at += 1
            if following in _ESCAPES and (following != "u" or (yield from _is_code(tape))):
                writer.json_piece("\\" + following)
            elif following == "'":
                writer.json_piece("'")
            else:
                writer.json_piece("\\\\" + _CONTROL.get(following, following))
                writer.repaired("escapes")
        elif (yield from _ends_string(tape, stop)):
            return True
        else:
            writer.json_piece('\\"')
            writer.repaired("quotes")


def _is_code(tape: Tape) -> Steps[bool]:
    """Whether the four digits of an escape stand here."""
    digits = yield from tape.peek(4)
    return len(digits) == 4 and all(char in hexdigits for char in digits)


_MEMBER = re.compile(r'\s*"[^"\\\n]{0,128}"\s*:')
_MAY_BE_MEMBER = re.compile(r'\s*(?:"[^"\\\n]{0,128}(?:"\s*)?)?\Z')


def _goes_on(io: Reading, stop: Marks | None) -> Steps[bool]:
    """Whether the string's closing quote still comes. Nothing is consumed in the end; what is read twice is counted."""
    tape = io.tape
    ahead: list[str] = []
    size = 0
    found = False

    def keep(piece: str) -> None:
        nonlocal size
        size += len(piece)
        ahead.append(piece)

    while not found:
        if size > io.look_ahead:
            found = True
            break
        mark = yield from tape.until(_QUOTE_MARKS, keep)
        if not mark:
            break
        keep(mark)
        if mark == "\\":
            keep((yield from tape.peek()))
            tape.at = min(tape.at + 1, len(tape.buffer))
        else:
            found = yield from _ends_string(tape, stop)
    io.look_ahead -= min(size, io.look_ahead)
    tape.push_back("".join(ahead))
    return found


def _ends_string(tape: Tape, stop: Marks | None = None) -> Steps[bool]:
    """Whether the quote just consumed ends the string: a comma, a closing bracket, a mark that ends the body, the end,
    or (a comma is missing) a further member follows."""
    while True:
        rest = tape.buffer[tape.at:tape.at + 256]
        stripped = rest.lstrip()
        if stripped[:1] == '"':
            if _MEMBER.match(rest):
                return True
            if tape.ended or not _MAY_BE_MEMBER.match(rest):
                return False
        elif stripped:
            begins = stop.begins(stripped) if stop is not None else False
            if begins is not None or tape.ended:
                return bool(begins) or stripped[0] in ",}"
        elif tape.ended or len(rest) == 256:
            return True
        yield
