"""Calls whose body is made of tags with plain text between them: `<function=...><parameter=...>text</parameter>...`.

The grammar is data (`Grammar`); the forms of Qwen3-Coder, Seed-OSS, GLM and MiniMax M2 are instances of `TaggedCall`.
One JSON object may stand in place of the parameters. How one value ends is decided in `xmltext.py`. A call closes at
its own closing tag, at that of its region, where the next call begins, or at the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from extproc.dialects.buffer import Marks, Steps, Tape, TooMuch
from extproc.dialects.json.body import read_arguments
from extproc.dialects.parse_context import CallWriter, NotACall, Reading
from extproc.dialects.tags.text import WINDOW, Tags, ValueReader
from extproc.dialects.tags.value import Framing, Ignored

_OBJECT_START = re.compile(r"""(\(?\s*)\{\s*([\w"'}])""")
_OBJECT_DECIDED = re.compile(r"""(?:\(?\s*\{\s*[^\s]|\(?\s*[^\s{(])""")
_MAX_OBJECT_START = 64
"""Characters within which an object in place of the parameters must have begun."""

Header = Callable[[Tape], Steps[tuple[str | None, str]]]
"""Reads a name: (the name, or None when it is damaged; what was consumed)."""


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of one family."""

    regions: tuple[tuple[str, str], ...]
    """Tags around one or more calls."""
    lead: str = ""
    """What may stand between the opening tag of a region and `call`."""
    call: str | None = None
    """How a call begins, up to its name; None: the name follows the opening tag of the region."""
    call_end: str
    name: Header
    """Reads the name of a call, behind `call`."""
    parameter: str
    """How a parameter begins, up to its key."""
    parameter_end: str
    key: Header
    """Reads the key of a parameter, behind `parameter`."""
    framing: Framing = "verbatim"
    first_wins: bool = False
    """Of a parameter that comes twice the first value counts. Else the later one is sent as well, and readers of JSON
    take that."""


class TaggedCall:
    """Reads the calls of one grammar; a form."""

    def __init__(self, grammar: Grammar) -> None:
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

    def read(self, opener: str, io: Reading) -> Steps[None]:
        tape = io.tape
        in_region = opener in self._begins
        if in_region:  # models double the tags of a region
            yield from tape.space()
            if (yield from tape.literal(*self._begins)):
                yield from tape.space()
            if self._grammar.lead and (yield from tape.literal(self._grammar.lead)):
                yield from tape.space()
        if in_region and self._call and not (yield from tape.literal(*self._call)):
            if io.at_line_start and (tape.cut_mark(self._marks) or (at_end(tape) and not tape.clean)):
                tape.at = len(tape.buffer)
                return
            raise NotACall
        name, raw = yield from self._grammar.name(tape)
        if name is None:
            yield from self._damaged(io, raw, in_region)
            return
        if io.offered(name) is None:
            raise NotACall
        yield from tape.space()
        if (yield from self._is_json(tape, in_region)):
            yield from self._json_body(io, io.call(name), in_region)
            return
        follows = yield from tape.literal(*self._tags)
        tape.push_back(follows)
        if not follows and not (in_region and at_end(tape)) and not tape.cut_mark(self._marks):
            raise NotACall
        yield from self._parameters(io, io.call(name), in_region)
        while in_region and self._call and (yield from self._next_call(io)):
            pass

    def _next_call(self, io: Reading) -> Steps[bool]:
        """A further call of the same region. Nothing is consumed where none follows: the region may be over."""
        tape = io.tape
        tape.hold()
        yield from tape.space()
        if (yield from tape.literal(*self._call)):
            name, _ = yield from self._grammar.name(tape)
            yield from tape.space()
            follows = yield from tape.literal(*self._tags)
            if name is not None and follows and io.offered(name) is not None:
                tape.push_back(follows)
                yield from self._parameters(io, io.call(name), in_region=True)
                return True
        tape.hand_back()
        tape.release()
        return False

    def _is_json(self, tape: Tape, in_region: bool) -> Steps[bool]:
        """Whether one JSON object stands in place of the parameters, also between parentheses (which are consumed)."""
        size = 1
        while not _OBJECT_DECIDED.match(text := (yield from tape.peek(size))) and len(text) == size < _MAX_OBJECT_START:
            size += 1
        found = _OBJECT_START.match(text)
        if found is None or (found[2].isalpha() and not in_region):
            return False
        tape.at += len(found[1])
        return True

    def _json_body(self, io: Reading, writer: CallWriter, in_region: bool) -> Steps[None]:
        """The arguments as one JSON object, to the end of the call."""
        tape = io.tape
        if not (yield from read_arguments(io, writer, self._body_ends)):
            if not tape.ran_out:
                yield from self._after_call(tape)
            return
        blank = yield from tape.space()
        if not (yield from tape.literal(")")):
            tape.push_back(blank)
        yield from self._parameters(io, writer, in_region)

    def _damaged(self, io: Reading, raw: str, in_region: bool) -> Steps[None]:
        """A header that never ends is no prose when whole parameters, the end of the call or a further call follow: it
        is dropped with them, the calls and the text behind it count. So is one that a limit cut off. A parameter that
        does not end makes all of it text."""
        tape = io.tape
        if in_region and at_end(tape) and not tape.clean:
            return
        yield from tape.space()
        tag = yield from tape.literal(*self._damaged_tags)
        if not raw.strip() or not tag:
            raise NotACall
        tape.at -= len(tag)
        blank, mark = yield from self._dropped(tape)
        tape.release()
        io.left_out("dropped_call")
        if mark == self._grammar.call_end:
            yield from self._after_call(tape)
        else:
            tape.push_back(mark if mark in self.openers else blank)

    def _dropped(self, tape: Tape) -> Steps[tuple[str, str]]:
        """The parameters of a call that is dropped: (white space behind them, the tag behind that; "" where text
        follows). Raises NotACall where one does not end."""
        first = True
        while True:
            blank = yield from tape.space()
            mark = yield from tape.literal(*self._tags)
            if mark and mark != self._grammar.parameter:
                return blank, mark
            if not mark and not first:
                return blank, ""
            first = False
            end = yield from tape.until(self._value_marks, _drop)
            if not end or end in self.openers:
                raise NotACall
            if end != self._grammar.parameter_end:
                return "", end

    def _after_call(self, tape: Tape) -> Steps[None]:
        """Behind a call its closing tags mean nothing more, however many there are."""
        blank = yield from tape.skip(*self._closers)
        tape.drop_cut_mark(self._marks)
        tape.push_back(blank)

    def _parameters(self, io: Reading, writer: CallWriter, in_region: bool) -> Steps[None]:
        """Between parameters, to the end of the call."""
        tape = io.tape
        while True:
            blank = yield from tape.space()
            mark = yield from tape.literal(*self._tags)
            if not mark and not at_end(tape):
                if not in_region and not tape.cut_mark(self._marks):  # prose follows
                    tape.push_back(blank)
                    return
                try:
                    stray, mark = yield from tape.collect(self._marks, WINDOW)
                except TooMuch:  # the end of the call is missing, what follows it is prose
                    return
                if not mark:
                    self._end_of_text(io, writer, blank, stray)
                    return
                writer.repaired("stray_text")
            if mark == self._grammar.parameter and mark.endswith(">") and (yield from self._is_json(tape, in_region)):
                if not (yield from read_arguments(io, writer, self._body_ends)):
                    return
                continue
            if mark == self._grammar.parameter:
                if not (yield from self._parameter(io, writer)):
                    return
                continue
            if mark in self.openers:
                tape.push_back(mark)
            if mark or tape.clean:
                writer.close()
            if mark in self._closers:
                yield from self._after_call(tape)
            return

    def _end_of_text(self, io: Reading, writer: CallWriter, blank: str, stray: str) -> None:
        """The text ended behind the header or a whole parameter: with `stray` text, which is prose behind the call, or
        with half a tag, which is not shown."""
        half = io.tape.half_mark(self._marks)
        if any(tag.startswith(half) for tag in (*self.openers, self._grammar.parameter) if half):
            writer.break_off()  # something more had begun
        elif io.tape.finished and not half:
            io.tape.push_back(blank + stray)

    def _parameter(self, io: Reading, writer: CallWriter) -> Steps[bool]:
        """False: the text ended inside."""
        key, raw = yield from self._grammar.key(io.tape)
        if key is None:
            if io.tape.ended and not io.tape.clean:
                io.tape.at = len(io.tape.buffer)
                writer.break_off()
                return False
            key = raw.strip().strip("\"'")
            blank = yield from io.tape.space()
            follows = yield from io.tape.literal(*self._tags)
            io.tape.push_back(blank + follows)
            if follows or not writer.knows(key):
                writer.repaired("dropped_parameter")
                return True
            writer.repaired("header")
        value = Ignored(writer, key) if self._grammar.first_wins and writer.has(key) else None
        return (yield from ValueReader(self._text_tags, io, writer, key, value).read())


def at_end(tape: Tape) -> bool:
    return tape.ended and tape.at >= len(tape.buffer)


def _drop(text: str) -> None:
    """The text of a call that is dropped."""
