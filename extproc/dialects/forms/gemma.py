"""Gemma 4 and FunctionGemma: `call:NAME{key:value,...}` with bare keys and strings between special tokens.

Gemma 4: `<|tool_call>call:N{k:<|"|>text<|"|>,n:4,l:[...],o:{...}}<tool_call|>`. `:N{` without `call` occurs, and
several calls in one block. Its reasoning is between `<|channel>thought` and `<channel|>`. FunctionGemma has the same
grammar with other tokens. The format has types (strings are quoted, the template writes null as `None`), so a bare
value is JSON unless the tool's schema says string. The closer may be missing.

`gemma_text.py` reads strings with missing quotes (real outputs: ollama issue 15315). Damage with several possible
meanings breaks the call off: a call with a cut value is never complete.
"""

from __future__ import annotations

import re

from extproc.dialects.buffer import Marks, Steps, TextBuffer, discard
from extproc.dialects.call_writer import MAX_VALUE, CallWriter, unclosed
from extproc.dialects.coercion import json_or_text
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.gemma_text import AmbiguousText, BareKeyTokens, CutOff, TextReader
from extproc.dialects.forms.opening_reasoning import OpeningReasoning
from extproc.dialects.json.literals import read_string
from extproc.dialects.parse_context import NoMatch, ParseContext
from extproc.dialects.shapes import STRING

_MAX_DEPTH = 64
_LITERALS = {"none": None, "nil": None, "null": None, "true": True, "false": False}
_LITERAL = re.compile(r"\s*(?:-?\d[\d.eE+-]*|true|false|null|none|nil)\s*(?:[,}\]<]|\Z)", re.I)
_MAY_BE_LITERAL = re.compile(r"\s*[\w.+-]*\s*")
_MAX_LITERAL = 64


class _Unclosed(Exception):  # noqa: N818
    """The text ended, and only the closing brace is missing."""


class BareKeys:
    """Calls between an opener and a closer, with strings between special tokens."""

    def __init__(self, tokens: BareKeyTokens) -> None:
        opener, closer, quote = tokens.opener, tokens.closer, tokens.quote
        self.openers: tuple[str, ...] = (opener,)
        self.blocks = ((opener, closer),)
        self._tokens = tokens
        self._closer = closer
        self._quote = quote
        self._quotes = Marks([quote])
        self._tags = Marks([closer, opener])
        self._key_ends = Marks([":", "=", ",", "}", closer, opener])
        self._scalar_ends = Marks([",", "}", "]", closer, opener])
        self._longest_tag = max(len(closer), len(opener))

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        yield from buffer.space()
        if (yield from buffer.literal(opener)):  # models double the opener
            yield from buffer.space()
        name = yield from self._header(buffer)
        if io.find_tool(name) is None:
            raise NoMatch
        while True:
            known = io.find_tool(name)
            if known is None:
                yield from self._skipped(io)
            elif not (yield from self._call(io, io.begin_call(known))):
                return
            following = yield from self._next_header(buffer)
            if following is None:
                break
            name = following
        yield from self._end(buffer)

    def _header(self, buffer: TextBuffer) -> Steps[str]:
        """Reads `call:NAME` and the brace. Raises NoMatch."""
        yield from buffer.literal("call")
        yield from buffer.space()
        if not (yield from buffer.literal(":")):
            raise NoMatch
        yield from buffer.space()
        name = yield from buffer.take_while(lambda char: char.isalnum() or char in "_-.:/", 256)
        yield from buffer.space()
        if not name or not (yield from buffer.literal("{")):
            raise NoMatch
        return name

    def _next_header(self, buffer: TextBuffer) -> Steps[str | None]:
        """Reads the header of a further call in the same block; None, with nothing consumed, if none follows."""
        buffer.mark()
        try:
            yield from buffer.skip_commas()
            name: str | None = yield from self._header(buffer)
        except NoMatch:
            name = None
            buffer.rewind()
        buffer.commit()
        return name

    def _call(self, io: ParseContext, writer: CallWriter) -> Steps[bool]:
        """Reads one call from after its brace. False if it is not whole."""
        buffer = io.buffer
        try:
            yield from self._members(io, writer)
        except CutOff:
            writer.break_off(unclosed(""))
            return False
        except _Unclosed:
            return False
        except AmbiguousText:
            yield from buffer.until(self._tags, discard)
            writer.break_off(unclosed(""))
            return False
        writer.close()
        return True

    def _skipped(self, io: ParseContext) -> Steps[None]:
        """Skips a further call in a block, of a tool that is not offered."""
        io.buffer.push_back("{")
        try:
            yield from self._value(io.buffer, 0)
        except (CutOff, AmbiguousText):
            yield from io.buffer.until(self._tags, discard)
        io.leave_out("skipped_call")

    def _end(self, buffer: TextBuffer) -> Steps[None]:
        """Reads the closer, also after extra brackets. Other text is content."""
        blank = yield from buffer.space()
        while (yield from buffer.literal("}", "]")):
            blank = yield from buffer.space()
        if not (yield from buffer.literal(self._closer)):
            buffer.push_back(blank)

    # ------------------------------------------------------------------------------------------------- the members

    def _members(self, io: ParseContext, writer: CallWriter) -> Steps[None]:
        """Reads the arguments through the closing brace. Without it they end with the region."""
        buffer = io.buffer
        key: str | None = None
        while True:
            key = yield from self._key(buffer, complete=key != "")
            if key is None:
                return
            if not key:
                continue
            blank = yield from buffer.space()
            text = TextReader(self._tokens, io, writer, key)
            if (yield from self._is_quote(buffer)):
                yield from text.quoted()
                continue
            mark = yield from buffer.peek()
            if mark in ("[", "{"):
                writer.write_value(key, (yield from self._value(buffer, 0)))
            elif mark == '"':
                writer.write_value(key, (yield from self._scalar(buffer)))
            elif (yield from self._is_text(io, writer, key)):
                yield from text.bare(blank)
            else:
                yield from self._bare_value(writer, key, buffer)

    def _is_text(self, io: ParseContext, writer: CallWriter, key: str) -> Steps[bool]:
        """True if a bare value is a string without its quotes: the schema says string, or has no type and the value is
        no JSON literal. Not for a tool without declared parameters, since nothing would show the end of the text."""
        declared = writer.parameter(key)
        if declared.typed and declared.types == STRING:
            return True
        if (declared.typed and "string" not in declared.types) or not io.shape(writer.name).parameters:
            return False
        return _LITERAL.match((yield from io.buffer.peek_while(_MAY_BE_LITERAL.fullmatch, _MAX_LITERAL))) is None

    def _bare_value(self, writer: CallWriter, key: str, buffer: TextBuffer) -> Steps[None]:
        """Reads a number, a boolean, null, or a text that the schema types."""
        text = yield from self._scalar(buffer)
        if writer.parameter(key).typed:
            writer.write_text(key, text)
        else:
            writer.write_value(key, _literal(text))

    def _is_quote(self, buffer: TextBuffer) -> Steps[bool]:
        return bool((yield from buffer.literal(self._quote)))

    def _key(self, buffer: TextBuffer, *, complete: bool = False) -> Steps[str | None]:
        """Reads a key and its colon; "" if there is none, None at the end of the object (its brace is consumed).
        `complete`: for the arguments of a call, without a comma before, so that the call may end here. Raises
        AmbiguousText for anything but a key."""
        yield from buffer.space()
        if (yield from self._is_quote(buffer)):
            text, mark = yield from buffer.collect(self._quotes, MAX_VALUE)
            if not mark:
                raise CutOff
            yield from buffer.space()
            if not (yield from buffer.literal(":", "=")):
                raise AmbiguousText
            return text
        raw, mark = yield from buffer.collect(self._key_ends, MAX_VALUE)
        if mark in (":", "="):
            return raw.strip().strip("\"'")
        if not mark and not buffer.clean:
            raise _Unclosed if complete and not raw.strip() and not buffer.partial_mark(self._key_ends) else CutOff
        if raw.strip("] \t\r\n"):
            raise AmbiguousText if mark else CutOff
        if mark == ",":
            return ""
        if mark != "}":
            buffer.push_back(mark)
        return None

    def _value(self, buffer: TextBuffer, depth: int) -> Steps[object]:
        """Reads a value inside a list or an object."""
        yield from buffer.space()
        if (yield from self._is_quote(buffer)):
            return (yield from self._string(buffer))
        mark = yield from buffer.peek()
        if depth > _MAX_DEPTH or mark not in ("[", "{"):
            text = yield from self._scalar(buffer)
            return text if mark == '"' else _literal(text)
        buffer.at += 1
        if mark == "[":
            return (yield from self._list(buffer, depth))
        found: dict[str, object] = {}
        while (key := (yield from self._key(buffer))) is not None:
            if key:
                found[key] = yield from self._value(buffer, depth + 1)
        return found

    def _list(self, buffer: TextBuffer, depth: int) -> Steps[object]:
        items: list[object] = []
        while True:
            mark = yield from buffer.skip_commas()
            if mark == "]":
                buffer.at += 1
                return items
            if mark == "}" or (yield from self._at_tag(buffer)):
                return items
            elif not mark:
                raise CutOff
            else:
                items.append((yield from self._value(buffer, depth + 1)))

    def _at_tag(self, buffer: TextBuffer) -> Steps[bool]:
        """True if the region ends here, inside a value."""
        if (yield from buffer.peek()) != self._closer[0]:
            return False
        text = yield from buffer.peek(self._longest_tag)
        return text.startswith((self._closer, *self.openers))

    def _string(self, buffer: TextBuffer) -> Steps[str]:
        """Reads a string in a list or an object. Raises AmbiguousText if something follows that cannot follow a value:
        a quote is missing."""
        text, mark = yield from buffer.collect(self._quotes, MAX_VALUE)
        if not mark:
            raise CutOff
        yield from buffer.space()
        following = yield from buffer.peek()
        if following not in (",", "}", "]", "") and not (yield from self._at_tag(buffer)):
            raise AmbiguousText
        return text

    def _scalar(self, buffer: TextBuffer) -> Steps[str]:
        """Reads a value without the dialect's quotes, up to its end (not consumed). JSON strings are read as well."""
        if (yield from buffer.literal('"')):
            pieces: list[str] = []
            if not (yield from read_string(buffer, '"', pieces.append, ",}]")):
                raise CutOff
            return "".join(pieces)
        text, mark = yield from buffer.collect(self._scalar_ends, MAX_VALUE)
        if not mark and not buffer.clean:
            raise CutOff
        buffer.push_back(mark)
        return text.strip()


def _literal(text: str) -> object:
    """The value of a bare text. The template writes null as Python does."""
    return _LITERALS[text.lower()] if text.lower() in _LITERALS else json_or_text(text)


_THINK_END = "<channel|>"

DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="gemma-4", forms=(BareKeys(BareKeyTokens("<|tool_call>", "<tool_call|>", '<|"|>')),),
            opening_reasoning=(OpeningReasoning(["thought\n"], [_THINK_END], ["<|tool_call>"]),),
            template_tokens=("<|channel>",),
            think=(("<|channel>thought", _THINK_END), ("<think>", "</think>")), think_anywhere=True,
            turn_ends=("<|tool_response>", "<turn|>")),
    Dialect(name="functiongemma",
            forms=(BareKeys(BareKeyTokens("<start_function_call>", "<end_function_call>", "<escape>")),),
            turn_ends=("<end_of_turn>", "<start_function_response>")),
)
