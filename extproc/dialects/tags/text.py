"""Where the value of a parameter ends, in tag dialects whose values carry no escapes.

Agents write files that hold the very tags they are written in. So a closing tag ends a value only when something
follows that can follow a value; a complete call inside a value is text; a key that the tool does not declare is text.
Where a tag fits a damaged call and a value alike (a call begins, the end of the call is followed by prose) the text
is read on until a closing tag or the end of the text decides; after `WINDOW` characters it was text. Used by
`body.py`; never makes a call itself.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.dialects.buffer import Marks, Steps, TextBuffer
from extproc.dialects.call_writer import CallWriter
from extproc.dialects.parse_context import ParseContext
from extproc.dialects.tags.value import Framing, ParameterText

WINDOW = 16 * 1024
"""Characters behind a doubtful tag within which a closing tag decides."""
_SCALARS = frozenset({"integer", "number", "boolean", "null"})


class Tags(msgspec.Struct, frozen=True, kw_only=True):
    """The tags that matter inside a value; see `Grammar` in `body.py`."""

    begins: tuple[str, ...]
    ends: tuple[str, ...]
    lead: str = ""
    call: str | None
    call_end: str
    outer: tuple[str, ...]
    """All that can follow a whole parameter, but for the next one."""
    parameter: str
    parameter_end: str
    marks: Marks
    name: Callable[[TextBuffer], Steps[tuple[str | None, str]]]
    key: Callable[[TextBuffer], Steps[tuple[str | None, str]]]
    framing: Framing


class ValueReader:
    """The value of one parameter, from behind its opening tag."""

    def __init__(self, tags: Tags, io: ParseContext, writer: CallWriter, key: str,
                 value: ParameterText | None = None) -> None:
        self._tags = tags
        self._io = io
        self._buffer = io.buffer
        self._writer = writer
        self._key = key
        self._value = value or ParameterText(writer, key, tags.framing)
        self._scalar = writer.parameter(key).types <= _SCALARS
        self._any_key = self._scalar or _open_ended(io, writer)
        self._nesting: list[str] = []
        """Calls and regions that stand open inside the value."""
        self._doubt: str | None = None
        """The doubtful tag; it and what follows it is kept in `_later`."""
        self._later: list[str] = []
        self._size = 0

    def read(self) -> Steps[bool]:
        """True: the value is done, what follows it stands on the tape. False: the text ended in the value."""
        yield from self._value.open(self._buffer)
        while True:
            mark = yield from self._buffer.until(self._tags.marks, self._put)
            if not mark:
                return self._end_of_text()
            if (yield from self._ends(mark)):
                self._value.close(closed=mark == self._tags.parameter_end)
                return True

    # ------------------------------------------------------------------------------------------------------- doubt

    def _put(self, text: str) -> None:
        if self._doubt is None:
            self._value.text(text)
        elif self._size + len(text) <= WINDOW:
            self._keep(text)
        else:
            self._was_text()
            self._value.text(text)

    def _keep(self, text: str) -> None:
        self._size += len(text)
        self._later.append(text)

    def _tag(self, text: str) -> None:
        """A tag that is text for the time being."""
        if self._doubt is None:
            self._value.text(text)
        else:
            self._keep(text)

    def _doubtful(self, mark: str) -> bool:
        """Keeps what follows. False: too much was read twice already, the tag is text then."""
        if self._doubt is None and self._io.look_ahead <= 0:
            self._value.text(mark)
            return False
        if self._doubt is None:
            self._doubt = mark
        self._keep(mark)
        return True

    def _was_text(self) -> None:
        """The doubtful tag was text."""
        if self._doubt is not None:
            self._doubt = None
            self._value.text(self._take_later())

    def _ended_before(self) -> None:
        """The doubtful tag ended the value: it and what followed it is read again."""
        later = self._take_later()
        self._io.look_ahead -= len(later)
        self._doubt = None
        self._buffer.push_back(later)
        self._value.close(closed=False)

    def _take_later(self) -> str:
        later = "".join(self._later)
        self._later.clear()
        self._size = 0
        return later

    def _end_of_text(self) -> bool:
        """The text ended in the value: the call was cut off, unless a doubtful tag ended it."""
        if self._doubt is None or not self._buffer.finished:
            self._writer.break_off()
            return False
        self._ended_before()
        return True

    # -------------------------------------------------------------------------------------------------------- tags

    def _ends(self, mark: str) -> Steps[bool]:
        """True if the value ends with this tag; then what follows the value is on the tape."""
        tags = self._tags
        if mark in tags.begins or mark == tags.call:
            yield from self._opener(mark)
            return False
        if self._nesting:
            self._tag(mark)
            self._pop(mark)
            return False
        if mark == tags.parameter_end:
            return (yield from self._own_end(mark))
        if mark == tags.parameter:
            return (yield from self._next_parameter(mark))
        return (yield from self._outer_end(mark))

    def _own_end(self, mark: str) -> Steps[bool]:
        """The value's closing tag counts when a declared parameter, the end of the call or of the text follows."""
        buffer = self._buffer
        if self._scalar:
            self._was_text()
            return True
        blank = yield from buffer.space()
        follows = yield from buffer.literal(*self._tags.outer, self._tags.parameter)
        ends = bool(follows) or buffer.ran_out
        raw = ""
        if follows == self._tags.parameter:
            key, raw = yield from self._tags.key(buffer)
            ends = self._cut_off if key is None else self._any_key or self._writer.declares(key)
        elif buffer.truncated_mark(self._tags.marks):
            ends = True
        if ends:
            buffer.push_back(follows + raw)
            self._was_text()
        else:
            buffer.push_back(raw)
            self._tag(mark + blank + follows)
        return ends

    def _next_parameter(self, mark: str) -> Steps[bool]:
        """A parameter begins though this one was not closed. One that the call has already is text."""
        key, raw = yield from self._tags.key(self._buffer)
        cut_off = self._cut_off
        self._buffer.push_back(raw)
        if key is None and cut_off:
            self._buffer.push_back(mark)
            return True
        if key is not None and key != self._key and self._writer.declares(key) and not self._writer.has(key):
            self._was_text()
            self._buffer.push_back(mark)
            return True
        self._tag(mark)
        return False

    @property
    def _cut_off(self) -> bool:
        """A limit ended the text here."""
        return self._buffer.broke_off and self._buffer.ran_out

    def _opener(self, mark: str) -> Steps[None]:
        """A call inside the value: text when it is complete and the value goes on behind it, else the next call."""
        buffer, tags = self._buffer, self._tags
        blank = call = ""
        if mark in tags.begins and tags.call is not None:
            blank = yield from buffer.space()
            if tags.lead and (lead := (yield from buffer.literal(tags.lead))):
                blank += lead + (yield from buffer.space())
            call = yield from buffer.literal(tags.call)
            if not call:
                buffer.push_back(blank)
                self._tag(mark)
                return
        name, raw = yield from tags.name(buffer)
        gap = yield from buffer.space()
        follows = yield from buffer.literal(*tags.outer, tags.parameter)
        buffer.push_back(blank + call + raw + gap + follows)
        if name is None or not follows:
            self._tag(mark)
        elif self._io.find_tool(name) is None:
            self._tag(mark)
            self._nesting.append(mark)
        elif self._doubtful(mark):
            self._nesting.append(mark)

    def _pop(self, mark: str) -> None:
        """A closing tag closes the last opening one of its kind and all that stand open inside."""
        tags = self._tags
        openers = {begin for begin, end in zip(tags.begins, tags.ends, strict=True) if end == mark}
        if mark == tags.call_end:
            openers.add(tags.call or "")
        for at in range(len(self._nesting) - 1, -1, -1):
            if self._nesting[at] in openers:
                del self._nesting[at:]
                return

    def _outer_end(self, mark: str) -> Steps[bool]:
        """The call or the region ends though the value was not closed: certain when further tags or the end follow."""
        buffer, tags = self._buffer, self._tags
        blank = yield from buffer.space()
        follows = yield from buffer.literal(*tags.outer)
        buffer.push_back(follows)
        if follows or self._scalar or (buffer.ran_out and buffer.finished):
            buffer.push_back(mark + blank)
            if mark in tags.ends and self._doubt is not None and self._doubt not in tags.begins:
                # the doubtful tag ended the call, or began the next call of this region
                self._ended_before()
            else:
                self._was_text()
            return True
        self._doubtful(mark)
        self._tag(blank)
        return False


def _open_ended(io: ParseContext, writer: CallWriter) -> bool:
    """The tool takes parameters that it does not declare."""
    schema = io.tools[writer.name].schema
    return any(map(schema.get, ("additionalProperties", "patternProperties"))) or not schema.get("properties")
