"""Calls in Python's syntax: `[lookup(harbor="Brest", day=2), ping()]`.

Llama 3.2 and 4, ToolACE: at the very start of the response, Llama 4 also between `<|python_start|>` and
`<|python_end|>`. OLMo 3: one call per line between `<function_calls>` tags. LFM2: a list between its own tokens, which
servers may remove. Sarashina: a list of dictionaries after a token that servers remove,
`<|tool_calls|>[{'name': 'N', 'arguments': {...}}]`. Values are Python literals and are never evaluated. Another list
([1, 2, 3], a Markdown link) is text, so nothing is sent before the first keyword or the end of the list.
"""

from __future__ import annotations

import contextlib
import re

from extproc.dialects.buffer import Collector, Marks, Steps, TextBuffer, TooMuch
from extproc.dialects.call_writer import MAX_VALUE, CallWriter, unclosed
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.tagged_json import TaggedArray
from extproc.dialects.json.body import ARGUMENT_KEYS, NAME_KEYS, read_array, read_call
from extproc.dialects.json.literals import read_literal, read_string
from extproc.dialects.json.value import skip_string
from extproc.dialects.parse_context import NoMatch, ParseContext

_NAME_MARKS = "_-.:"
_KEYWORD = re.compile(r"([^\W\d][\w-]*)\s*=(?!=)")
_KEYWORD_BEGINS = re.compile(r"[^\W\d][\w-]*\s*=?")
_VALUE_MARKS = Marks(["(", ")", "[", "]", "{", "}", ",", "'", '"', "'''", '"""'])
_QUOTES = ("'", '"', "'''", '"""')
_STRING_FOLLOWERS = ",)"
_MAX_ECHO = 4096
"""Most characters of a list of calls that is repeated after its closer."""
_LITERAL_ENDS = ("'", '"', "]", "}", ")")
"""The last characters of literals that cannot continue."""

Pending = list[tuple[str, list[str]]]
"""Whole calls that are not certain yet: (name, texts of the values)."""


class PythonList:
    """Reads a list of calls between an opener and its closer ("": none)."""

    def __init__(self, opener: str, closer: str = "") -> None:
        self.openers: tuple[str, ...] = (opener,)
        self.blocks = ((opener, closer),) if closer else ()
        self._closer = closer

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        if not self._closer:
            yield from buffer.space()
            yield from read_python_calls(io, "]")
            return
        yield from self._marked(io)
        yield from buffer.space()
        if (yield from buffer.literal(self._closer)):
            yield from self._echo(io)

    def _echo(self, io: ParseContext) -> Steps[None]:
        """Drops a copy of the list right after its closer: models repeat it without an opener, with a further
        closer."""
        buffer = io.buffer
        buffer.mark()
        yield from buffer.space()
        found = ""
        if (yield from buffer.literal("[")):
            name = yield from buffer.take_while(_is_name, 256)
            if io.find_tool(name) is not None and (yield from buffer.literal("(")):
                with contextlib.suppress(TooMuch):
                    _, found = yield from buffer.collect(Marks([self._closer]), _MAX_ECHO)
        if not found:
            buffer.rewind()
        buffer.commit()
        if found:
            io.leave_out("dropped_call")

    def _marked(self, io: ParseContext) -> Steps[None]:
        """Reads the calls between markers. Their brackets may be missing, and they may be JSON."""
        buffer = io.buffer
        stop = Marks([self._closer])
        yield from buffer.space()
        if (yield from buffer.peek()) == "{":
            yield from read_call(io, stop)
            return
        end = "]" if (yield from buffer.literal("[")) else ""
        if (yield from buffer.literal(*self.openers)):  # models double the opener
            end = "]" if (yield from buffer.literal("[")) else end
        yield from buffer.space()
        if end and (yield from buffer.peek()) == "{":
            yield from read_array(io, stop)
        else:
            yield from read_python_calls(io, end, self._closer)


def read_python_calls(io: ParseContext, end: str, closer: str = "") -> Steps[None]:
    """Reads calls up to the bracket `end` ("": none), which is consumed, or the mark `closer`, which is not. Raises
    NoMatch."""
    buffer = io.buffer
    before = io.calls
    pending: Pending = []
    while True:
        yield from buffer.space()
        mark = yield from buffer.peek()
        if mark in (",", ";"):
            buffer.at += 1
        elif not mark or not _starts_name(mark):
            break
        elif not (yield from _one_call(io, pending)):
            return
    if mark and mark == end:
        buffer.at += 1
    if io.calls == before:
        if not pending:
            raise NoMatch
        if end and not closer:
            yield from _certain_list(io, closed=mark == end)
    _write(io, pending)


def _certain_list(io: ParseContext, *, closed: bool) -> Steps[None]:
    """Raises NoMatch for a list without markers that is a Markdown link, or that does not end and is not the end of the
    response."""
    following = yield from io.buffer.peek()
    if following == "(" or (not closed and (following or not io.buffer.clean)):
        raise NoMatch


def _starts_name(char: str) -> bool:
    return char.isalpha() or char == "_"


def _is_name(char: str) -> bool:
    return char.isalnum() or char in _NAME_MARKS


def _one_call(io: ParseContext, pending: Pending) -> Steps[bool]:
    """Reads one call, from its name to its closing parenthesis. False if the text ended inside."""
    buffer = io.buffer
    certain = not buffer.marked
    if certain:
        buffer.mark()
    name = yield from buffer.take_while(_is_name, 256)
    if io.find_tool(name) is None:
        name = name.removesuffix(".call")
    if io.find_tool(name) is None or not (yield from buffer.literal("(")):
        if not certain:
            raise NoMatch
        buffer.rewind()
        buffer.commit()
        raw, _ = yield from _raw_value(buffer, whole_call=True)
        io.emit_text(raw)  # a further element that calls no tool is text
        return True
    whole = yield from _parameters(io, name, pending)
    if certain:
        _write(io, pending)
    return whole


def _parameters(io: ParseContext, name: str, pending: Pending) -> Steps[bool]:
    """Reads the parameters of a call through its closing parenthesis. The first keyword makes the call certain."""
    buffer = io.buffer
    writer: CallWriter | None = None
    positional: list[str] = []
    before = mark = ""
    while True:
        yield from buffer.space()
        before, mark = mark, (yield from buffer.peek())
        if mark in (",", "]", "}"):
            buffer.at += 1  # a stray bracket
        elif mark == ")":
            buffer.at += 1
            if writer is None:
                pending.append((name, positional))
            else:
                writer.close()
            return True
        elif not mark:
            if writer is None:
                raise NoMatch
            if before == ",":  # a further parameter was about to follow
                writer.break_off()
            return False
        elif key := (yield from _keyword(buffer)):
            if writer is None:
                _write(io, pending)
                writer = _begin(io, name, positional)
            if not (yield from _value(writer, key, buffer)):
                return False
        else:
            raw, whole = yield from _raw_value(buffer)
            if writer is not None and not whole:
                writer.break_off(unclosed(raw))
                return False
            positional.append(raw)


def _keyword(buffer: TextBuffer) -> Steps[str]:
    """Reads the name of a keyword and its `=`; "" for anything else."""
    found = _KEYWORD.match((yield from buffer.peek_while(_KEYWORD_BEGINS.fullmatch, 257)))
    if found is None:
        return ""
    buffer.at += found.end()
    return found.group(1)


def _value(writer: CallWriter, key: str, buffer: TextBuffer) -> Steps[bool]:
    """Reads the value of a keyword. Strings of string parameters are sent while they arrive. False if the text ended
    inside."""
    yield from buffer.space()
    if (yield from buffer.peek()) in ("'", '"') and writer.streams(key):
        quote = yield from buffer.literal(*_QUOTES)
        if buffer.ended and buffer.buffer[buffer.at:] == quote:  # an empty string, or half of three quotes
            buffer.at += 1
            writer.break_off()
            return False
        writer.begin_string(key)
        if not (yield from read_string(buffer, quote, writer.write_piece, _STRING_FOLLOWERS)):
            return False
        writer.end_string()
        return True
    raw, whole = yield from _raw_value(buffer)
    if not whole:
        try:
            read_literal(raw)
            ended = raw.endswith(_LITERAL_ENDS)
        except ValueError:
            ended = False
        if not ended:
            writer.break_off(unclosed(raw, key))
            return False
    _put(writer, key, raw)
    return True


def _put(writer: CallWriter, key: str, raw: str) -> None:
    try:
        value = read_literal(raw)
    except ValueError:
        writer.write_text(key, raw)
    else:
        writer.write_value(key, value)


def _begin(io: ParseContext, name: str, positional: list[str]) -> CallWriter:
    """Starts a call. Positional values belong to the tool's parameters in order; extra values are dropped."""
    writer = io.begin_call(name)
    for key, raw in zip(io.shape(writer.name).parameters, positional, strict=False):
        _put(writer, key, raw)
    return writer


def _write(io: ParseContext, pending: Pending) -> None:
    for name, positional in pending:
        _begin(io, name, positional).close()
    pending.clear()


def _raw_value(buffer: TextBuffer, *, whole_call: bool = False) -> Steps[tuple[str, bool]]:
    """Reads one value as text, up to the comma or closing bracket that ends it (not consumed). Returns (text, False if
    the text ended first). `whole_call`: a call, through its closing parenthesis."""
    raw = Collector(MAX_VALUE)
    depth = 0
    while True:
        mark = yield from buffer.until(_VALUE_MARKS, raw.add)
        if not mark:
            return raw.text.strip(), False
        if depth == 0 and mark in (",", ")", "]", "}"):
            buffer.push_back(mark)
            return raw.text.strip(), True
        raw.add(mark)
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
            if whole_call and depth == 0:
                return raw.text.strip(), True
        elif mark in _QUOTES:
            yield from skip_string(buffer, mark, raw.add)


def read_dictionary(io: ParseContext, stop: Marks | None = None) -> Steps[None]:
    """Reads a call as a Python dictionary with name and arguments. Nothing is sent before it is closed."""
    buffer = io.buffer
    if (yield from buffer.peek()) != "{":
        raise NoMatch
    raw, _ = yield from _raw_value(buffer)
    try:
        members = read_literal(raw)
    except ValueError:
        raise NoMatch from None
    if not isinstance(members, dict):
        raise NoMatch
    name = next((members[key] for key in NAME_KEYS if key in members), None)
    arguments: object = next((members[key] for key in ARGUMENT_KEYS if key in members), {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise NoMatch
    writer = io.begin_call(name)
    writer.whole = True
    for key, value in arguments.items():
        writer.write_value(key, value)
    writer.close()


PYTHON_LIST = PythonList("[")
DICTIONARIES = TaggedArray(["<|tool_calls|>"], read=read_dictionary)
BARE_DICTIONARIES = TaggedArray(["["], read=read_dictionary)

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="llama-pythonic", opening_forms=(PYTHON_LIST,), turn_ends=("<|eom_id|>", "<|eot_id|>")),
    Dialect(name="llama4-pythonic", forms=(PythonList("<|python_start|>", "<|python_end|>"),),
            opening_forms=(PYTHON_LIST,), template_tokens=("<|python_end|>",), turn_ends=("<|eom|>", "<|eot|>")),
    Dialect(name="sarashina", forms=(DICTIONARIES,), opening_forms=(BARE_DICTIONARIES,), turn_ends=("</s>", "<|eos|>")),
    Dialect(name="olmo3", forms=(PythonList("<function_calls>", "</function_calls>"),), turn_ends=("<|im_end|>",)),
    Dialect(name="lfm2", forms=(PythonList("<|tool_call_start|>", "<|tool_call_end|>"),), opening_forms=(PYTHON_LIST,),
            turn_ends=("<|im_end|>",)),
)
