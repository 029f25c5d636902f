"""Calls with a JSON body: `{"name": ..., "arguments": {...}}` and bare argument objects, read while they arrive.

Used by all parsers of dialects with JSON bodies. Members may come in any order; nothing is sent before the name is
known. String values of string parameters stream. Other values wait until they are whole, and the schema gives their
types. Damage (single quotes, Python literals, raw newlines, missing commas or brackets) is repaired if nothing that was
sent has to be taken back. Brackets and tags inside strings are data.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.conversation.pending_call import closing_bracket
from extproc.dialects.buffer import Marks, Steps, TextBuffer
from extproc.dialects.call_writer import MAX_VALUE, CallWriter, is_closed
from extproc.dialects.json.lenient import decode_json
from extproc.dialects.json.repair import read_object
from extproc.dialects.json.value import NoString, raw_rest, raw_value, short_string, stream_string
from extproc.dialects.parse_context import NoMatch, ParseContext

NAME_KEYS = ("name", "tool_name", "function")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input")
_ENVELOPE = frozenset({"id", "type", "index", "call_id", "tool_call_id", *NAME_KEYS})
"""Members of a call object that are no parameters."""
_QUOTES = ("\"", "'")
"""Quotes of JSON, and of models that write a Python dict."""


def read_call(io: ParseContext, stop: Marks | None = None, *, needs_arguments: bool = False,
              opened: bool = False) -> Steps[CallWriter]:
    """Reads one call object through its `}` and returns its closed writer. `opened`: its `{` was consumed. `stop`:
    marks that end a damaged body; they are not consumed. `needs_arguments`: an object without arguments is no call (for
    objects without an opener). Raises NoMatch unless the call has begun."""
    buffer = io.buffer
    if not opened and not (yield from buffer.literal("{")):
        raise NoMatch
    name: str | None = None
    early: str | None = None
    others: dict[str, str] = {}
    writer: CallWriter | None = None
    while True:
        if (yield from buffer.skip_commas()) == "}":
            buffer.at += 1
            break
        try:
            key = yield from _key(buffer)
        except NoMatch:
            if writer is not None:  # damage after the arguments
                break
            raise
        if key in NAME_KEYS and name is None:
            value = yield from _name_value(io)
            if value is None:
                continue
            name = value
            if io.find_tool(name) is None:
                raise NoMatch
            if early is not None:
                writer = io.begin_call(name)
                writer.write_arguments(early)
        elif key in ARGUMENT_KEYS and writer is None:
            if name is None:
                early = yield from raw_value(io)
            else:
                writer = io.begin_call(name)
                whole = yield from read_arguments(io, writer, stop)
                if not whole:
                    return writer
        else:
            others[key] = yield from raw_value(io)
    if writer is None:
        if name is None or needs_arguments:
            raise NoMatch
        misplaced = _find_misplaced_arguments(io, name, others)
        writer = io.begin_call(name)
        if misplaced is not None:
            writer.note_repair("misplaced_arguments")
            writer.write_arguments(misplaced)
    if not buffer.broke_off:
        writer.close()
    return writer


def _find_misplaced_arguments(io: ParseContext, name: str, others: dict[str, str]) -> str | None:
    """The arguments of a call object without a member for them, if its other members can only be arguments: an object
    of parameters under a misspelt key, or all required parameters beside the name and nothing else."""
    known = io.find_tool(name)
    members = {key: raw for key, raw in others.items() if key not in _ENVELOPE}
    if io.mode == "as-is" or known is None or not members:
        return None
    shape = io.shape(known)
    for raw in members.values():
        found = read_object(raw) if raw.startswith("{") else None
        if found is not None and found.value and all(key in shape.parameters for key in found.value):
            return raw
    if all(key in shape.parameters for key in members) and members.keys() >= set(shape.required):
        return f"{{{', '.join(f'{_quoted(key)}: {raw}' for key, raw in members.items())}}}"
    return None


def read_keyed_call(io: ParseContext, stop: Marks | None = None) -> Steps[None]:
    """As `read_call`, for an object whose keys are the names: `{"NAME": {...}}`. Each member is a call."""
    buffer = io.buffer
    before = io.calls
    if not (yield from buffer.literal("{")):
        raise NoMatch
    while True:
        if (yield from buffer.skip_commas()) == "}":
            buffer.at += 1
            break
        try:
            name = yield from _key(buffer)
        except NoMatch:
            break
        if io.find_tool(name) is None and io.calls > before:
            yield from raw_value(io, stop)
            io.leave_out("skipped_call")
            continue
        writer = io.begin_call(name)
        if not (yield from read_arguments(io, writer, stop)):
            return
        if not buffer.broke_off:
            writer.close()
    if io.calls == before:
        raise NoMatch


def _key(buffer: TextBuffer) -> Steps[str]:
    """Reads the key of a member and its colon. Raises NoMatch."""
    if (yield from buffer.peek()) not in _QUOTES:
        raise NoMatch
    key = yield from short_string(buffer)
    yield from buffer.space()
    if not (yield from buffer.literal(":")):
        raise NoMatch
    yield from buffer.space()
    return key


ReadCall = Callable[[ParseContext, Marks | None], Steps[object]]
"""Reads one call object from its `{`. Raises NoMatch."""


def read_array(io: ParseContext, stop: Marks | None = None, read: ReadCall = read_call) -> Steps[None]:
    """Reads the call objects of an array, from after its `[` through its `]`. Raises NoMatch if the first element is no
    call of an offered tool; a later one is then text. `read`: reads one element."""
    buffer = io.buffer
    before = io.calls
    while True:
        mark = yield from buffer.skip_commas()
        if mark == "{" and io.calls == before:
            yield from read(io, stop)
        elif mark == "{":
            yield from _call_or_text(io, stop, read)
        else:
            if mark == "]":
                buffer.at += 1
            if io.calls == before:
                raise NoMatch
            return


def _call_or_text(io: ParseContext, stop: Marks | None, read: ReadCall) -> Steps[None]:
    """Reads a further element: a call, or text."""
    buffer = io.buffer
    buffer.mark()
    try:
        yield from read(io, stop)
    except NoMatch:
        buffer.rewind()
        buffer.commit()
        io.emit_text((yield from raw_value(io)))
    buffer.commit()


def _name_value(io: ParseContext) -> Steps[str | None]:
    """Reads the name. None for `"function": {"name": ..., ...}`, whose members are then read like outer ones."""
    buffer = io.buffer
    mark = yield from buffer.peek()
    if mark == "{":
        buffer.at += 1
        return None
    if mark not in _QUOTES:
        raise NoMatch
    return (yield from short_string(buffer))


def read_arguments(io: ParseContext, writer: CallWriter, stop: Marks | None = None) -> Steps[bool]:
    """Reads the arguments: an object, a string with an object, or null. True if they are whole and the parser may read
    what follows; False if the text ended or is damaged inside them. In that case the writer is closed if that is
    right."""
    buffer = io.buffer
    mark = yield from buffer.peek()
    if mark != "{" or io.mode == "as-is":
        return (yield from _whole_arguments(io, writer))
    buffer.at += 1
    while True:
        mark = yield from buffer.skip_commas()
        if mark == "}":
            buffer.at += 1
            writer.whole = True
            return True
        if not mark:
            if buffer.comma:  # a further member was about to follow
                writer.break_off()
            writer.note_text_end()
            return False
        if mark != '"':
            return (yield from _repair_arguments(io, writer, "", stop))
        try:
            key = yield from short_string(buffer)
        except NoString as damaged:
            if not buffer.ran_out:
                return (yield from _repair_arguments(io, writer, damaged.raw, stop))
            if buffer.finished and stop is not None and stop.search(damaged.raw, 0) is not None:
                buffer.push_back(damaged.raw[1:])  # the closing bracket became a quote
            return (yield from _repair_arguments(io, writer, "", stop))
        yield from buffer.space()
        if not (yield from buffer.literal(":")):
            return (yield from _repair_arguments(io, writer, _quoted(key), stop))
        yield from buffer.space()
        mark = yield from buffer.peek()
        if mark == '"' and writer.streams(key):
            buffer.at += 1
            writer.begin_string(key)
            if not (yield from stream_string(io, writer, stop)):
                return False
            writer.end_string()
            continue
        raw = yield from raw_value(io, stop)
        if buffer.ran_out and not is_closed(raw):
            writer.break_off(f"{{{_quoted(key)}: {raw}")
            return False
        try:
            writer.write_value(key, decode_json(raw))
        except ValueError:
            return (yield from _repair_arguments(io, writer, f"{_quoted(key)}: {raw}", stop))


def _quoted(key: str) -> str:
    return msgspec.json.encode(key).decode()


def _whole_arguments(io: ParseContext, writer: CallWriter) -> Steps[bool]:
    """Reads arguments that are no plain object: null, a string with an object, or anything in as-is mode."""
    raw = yield from raw_value(io)
    if raw.startswith('"'):
        try:
            text = str(decode_json(raw))
        except ValueError:
            text = raw
        if text.strip().startswith("{"):
            writer.note_repair("double_encoded")
            raw = text
    if io.buffer.ran_out and not is_closed(raw):
        writer.break_off(raw)
        return False
    writer.write_arguments(raw)
    return True


def _repair_arguments(io: ParseContext, writer: CallWriter, consumed: str, stop: Marks | None) -> Steps[bool]:
    """Repairs damaged arguments. `consumed`: their text so far without the `{`. They end at their closing bracket if
    they are readable up to it (True: the parser may read what follows), else at the mark that ends the region or at the
    end of the text."""
    buffer = io.buffer
    if stop is None:
        raw, mark = (yield from raw_rest(io)), ""
    else:
        raw, mark = yield from buffer.collect(stop, MAX_VALUE)
    buffer.push_back(mark)
    if buffer.ended and not mark and not buffer.finished:
        return False
    text = "{" + consumed + raw
    end = closing_bracket(text)
    if end and (read_object(text[:end]) is not None or (not mark and text[end:].strip())):
        buffer.push_back(text[end:])
        writer.write_arguments(text[:end])
        writer.whole = True
        return True
    if buffer.ended and not mark and not end:
        writer.break_off(text)
        return False
    trimmed = text.rstrip()
    # the brackets of the body around the arguments belong to the body
    if trimmed.endswith("}}"):
        trimmed = trimmed[:-1]
    writer.write_arguments(trimmed)
    writer.close()
    return False
