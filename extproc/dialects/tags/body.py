"""Calls whose body is made of tags with plain text between them: `<function=...><parameter=...>text</parameter>...`.

The grammar is data (`TagGrammar`). The parsers of Qwen3-Coder, Seed-OSS, GLM and MiniMax M2 are instances of
`TaggedCall`. One JSON object may replace the parameters. `text.py` decides where a value ends. A call closes at its own
closing tag, at the closing tag of its region, at the start of the next call, or at the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from extproc.dialects.buffer import Marks, Steps, TextBuffer, TooMuch, discard
from extproc.dialects.call_writer import CallWriter
from extproc.dialects.json.body import read_arguments
from extproc.dialects.parse_context import NoMatch, ParseContext
from extproc.dialects.tags.text import WINDOW, Tags, ValueReader
from extproc.dialects.tags.value import Framing, IgnoredText

_OBJECT_START = re.compile(r"""(\(?\s*)\{\s*([\w"'}])""")
_OBJECT_DECIDED = re.compile(r"""(?:\(?\s*\{\s*[^\s]|\(?\s*[^\s{(])""")
_MAX_OBJECT_START = 64
"""Characters within which an object in place of the parameters must have begun."""

ReadHeader = Callable[[TextBuffer], Steps[tuple[str | None, str]]]
"""Reads a name. Returns (name, or None if it is damaged; consumed text)."""


class TagGrammar(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of one family."""

    regions: tuple[tuple[str, str], ...]
    """Tags around one or more calls."""
    lead: str = ""
    """An optional text between the opening tag of a region and `call`."""
    call: str | None = None
    """The beginning of a call, up to its name; None if the name follows the opening tag of the region."""
    call_end: str
    name: ReadHeader
    """Reads the name of a call, after `call`."""
    parameter: str
    """The beginning of a parameter, up to its key."""
    parameter_end: str
    key: ReadHeader
    """Reads the key of a parameter, after `parameter`."""
    framing: Framing = "verbatim"
    first_wins: bool = False
    """The first value of a repeated parameter counts. If False, later values are sent as well, and JSON readers take
    the last one."""


class TaggedCall:
    """A tool call parser for one grammar."""

    def __init__(self, grammar: TagGrammar) -> None:
        self._grammar = grammar
        self._call = (grammar.call,) if grammar.call else ()
        self._begins = tuple(opener for opener, _ in grammar.regions)
        self._ends = tuple(closer for _, closer in grammar.regions)
        self._closers = tuple(dict.fromkeys((*self._ends, grammar.call_end)))
        self.openers: tuple[str, ...] = (*self._begins, *self._call)
        self.blocks = grammar.regions
        outer = tuple(dict.fromkeys((*self.openers, *self._ends, grammar.call_end)))
        self._tags = (*outer, grammar.parameter)
        self._marks = Marks(self._tags)
        self._value_marks = Marks([*outer, grammar.parameter_end])
        self._body_ends = Marks([*self.openers, *self._closers])
        self._damaged_tags = (grammar.parameter.rstrip("= "), grammar.call_end, *self._ends)
        self._text_tags = Tags(begins=self._begins, ends=self._ends, lead=grammar.lead, call=grammar.call,
                               call_end=grammar.call_end, outer=outer,
                               parameter=grammar.parameter, parameter_end=grammar.parameter_end,
                               marks=Marks([*self._tags, grammar.parameter_end]),
                               name=grammar.name, key=grammar.key, framing=grammar.framing)

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        in_region = opener in self._begins
        if in_region:  # models double the tags of a region
            yield from buffer.space()
            if (yield from buffer.literal(*self._begins)):
                yield from buffer.space()
            if self._grammar.lead and (yield from buffer.literal(self._grammar.lead)):
                yield from buffer.space()
        if in_region and self._call and not (yield from buffer.literal(*self._call)):
            if io.at_line_start and (buffer.truncated_mark(self._marks) or (buffer.ran_out and not buffer.clean)):
                buffer.at = len(buffer.buffer)
                return
            raise NoMatch
        name, raw = yield from self._grammar.name(buffer)
        if name is None:
            yield from self._damaged(io, raw, in_region)
            return
        if io.find_tool(name) is None:
            raise NoMatch
        yield from buffer.space()
        if (yield from self._is_json(buffer, in_region)):
            yield from self._json_body(io, io.begin_call(name), in_region)
            return
        follows = yield from buffer.literal(*self._tags)
        buffer.push_back(follows)
        if not follows and not (in_region and buffer.ran_out) and not buffer.truncated_mark(self._marks):
            raise NoMatch
        yield from self._parameters(io, io.begin_call(name), in_region)
        while in_region and self._call and (yield from self._next_call(io)):
            pass

    def _next_call(self, io: ParseContext) -> Steps[bool]:
        """Reads a further call of the same region. False, with nothing consumed, if none follows."""
        buffer = io.buffer
        buffer.mark()
        yield from buffer.space()
        if (yield from buffer.literal(*self._call)):
            name, _ = yield from self._grammar.name(buffer)
            yield from buffer.space()
            follows = yield from buffer.literal(*self._tags)
            if name is not None and follows and io.find_tool(name) is not None:
                buffer.push_back(follows)
                yield from self._parameters(io, io.begin_call(name), in_region=True)
                return True
        buffer.rewind()
        buffer.commit()
        return False

    def _is_json(self, buffer: TextBuffer, in_region: bool) -> Steps[bool]:
        """True if one JSON object replaces the parameters. A parenthesis before it is consumed."""
        found = _OBJECT_START.match((yield from buffer.peek_while(
            lambda text: not _OBJECT_DECIDED.match(text), _MAX_OBJECT_START)))
        if found is None or (found[2].isalpha() and not in_region):
            return False
        buffer.at += len(found[1])
        return True

    def _json_body(self, io: ParseContext, writer: CallWriter, in_region: bool) -> Steps[None]:
        """Reads the arguments as one JSON object, to the end of the call."""
        buffer = io.buffer
        if not (yield from read_arguments(io, writer, self._body_ends)):
            if not buffer.ran_out:
                yield from self._after_call(buffer)
            return
        blank = yield from buffer.space()
        if not (yield from buffer.literal(")")):
            buffer.push_back(blank)
        yield from self._parameters(io, writer, in_region)

    def _damaged(self, io: ParseContext, raw: str, in_region: bool) -> Steps[None]:
        """Reads a call whose header never ends. It is dropped, with its parameters, if whole parameters, the end of the
        call or a further call follow, or if a limit cut it off. If a parameter does not end, all of it is text."""
        buffer = io.buffer
        if in_region and buffer.ran_out and not buffer.clean:
            return
        yield from buffer.space()
        tag = yield from buffer.literal(*self._damaged_tags)
        if not raw.strip() or not tag:
            raise NoMatch
        buffer.push_back(tag)
        blank, mark = yield from self._dropped(buffer)
        buffer.commit()
        io.leave_out("dropped_call")
        if mark == self._grammar.call_end:
            yield from self._after_call(buffer)
        else:
            buffer.push_back(mark if mark in self.openers else blank)

    def _dropped(self, buffer: TextBuffer) -> Steps[tuple[str, str]]:
        """Skips the parameters of a call that is dropped. Returns (white space after them, the next tag or "" before
        text). Raises NoMatch if a parameter does not end."""
        first = True
        while True:
            blank = yield from buffer.space()
            mark = yield from buffer.literal(*self._tags)
            if mark and mark != self._grammar.parameter:
                return blank, mark
            if not mark and not first:
                return blank, ""
            first = False
            end = yield from buffer.until(self._value_marks, discard)
            if not end or end in self.openers:
                raise NoMatch
            if end != self._grammar.parameter_end:
                return "", end

    def _after_call(self, buffer: TextBuffer) -> Steps[None]:
        """Skips repeated closing tags after a call."""
        blank = yield from buffer.skip(*self._closers)
        buffer.drop_truncated_mark(self._marks)
        buffer.push_back(blank)

    def _parameters(self, io: ParseContext, writer: CallWriter, in_region: bool) -> Steps[None]:
        """Reads the parameters, to the end of the call."""
        buffer = io.buffer
        while True:
            blank = yield from buffer.space()
            mark = yield from buffer.literal(*self._tags)
            if not mark and not buffer.ran_out:
                if not in_region and not buffer.truncated_mark(self._marks):  # ordinary text follows
                    buffer.push_back(blank)
                    return
                try:
                    stray, mark = yield from buffer.collect(self._marks, WINDOW)
                except TooMuch:  # the end of the call is missing; ordinary text follows
                    return
                if not mark:
                    self._end_of_text(io, writer, blank, stray)
                    return
                writer.note_repair("stray_text")
            if mark == self._grammar.parameter and mark.endswith(">") and (yield from self._is_json(buffer, in_region)):
                if not (yield from read_arguments(io, writer, self._body_ends)):
                    return
                continue
            if mark == self._grammar.parameter:
                if not (yield from self._parameter(io, writer)):
                    return
                continue
            if mark in self.openers:
                buffer.push_back(mark)
            if mark or buffer.clean:
                writer.close()
            if mark in self._closers:
                yield from self._after_call(buffer)
            return

    def _end_of_text(self, io: ParseContext, writer: CallWriter, blank: str, stray: str) -> None:
        """The text ended after the header or a whole parameter: with `stray` text, which is text after the call, or
        with the beginning of a tag, which is dropped."""
        half = io.buffer.partial_mark(self._marks)
        if any(tag.startswith(half) for tag in (*self.openers, self._grammar.parameter) if half):
            writer.break_off()  # the next parameter or call had begun
        elif io.buffer.finished and not half:
            io.buffer.push_back(blank + stray)

    def _parameter(self, io: ParseContext, writer: CallWriter) -> Steps[bool]:
        """Reads one parameter after its opening tag. False if the text ended inside."""
        key, raw = yield from self._grammar.key(io.buffer)
        if key is None:
            if io.buffer.broke_off:
                io.buffer.at = len(io.buffer.buffer)
                writer.break_off()
                return False
            key = raw.strip().strip("\"'")
            blank = yield from io.buffer.space()
            follows = yield from io.buffer.literal(*self._tags)
            io.buffer.push_back(blank + follows)
            if follows or not writer.declares(key):
                writer.note_repair("dropped_parameter")
                return True
            writer.note_repair("header")
        value = IgnoredText(writer, key) if self._grammar.first_wins and writer.has(key) else None
        return (yield from ValueReader(self._text_tags, io, writer, key, value).read())
