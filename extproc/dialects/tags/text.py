"""The end of a parameter's value in tag dialects without escapes.

Agents write files that contain the tags of their own dialect. So a closing tag ends a value only before text that can
follow a value. A complete call inside a value is text, and so is a key that the tool does not declare. Some tags are
ambiguous: they fit a damaged call as well as a value (a call begins; ordinary text follows the end of the call). Then
the text after the tag is kept until a closing tag or the end of the text decides. After `WINDOW` characters the tag was
text. Used by `body.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.dialects.buffer import Marks, Steps, TextBuffer
from extproc.dialects.call_writer import CallWriter
from extproc.dialects.parse_context import ParseContext
from extproc.dialects.tags.value import Framing, ParameterText

WINDOW = 16 * 1024
"""Most characters after an ambiguous tag within which a closing tag decides."""
_SCALARS = frozenset({"integer", "number", "boolean", "null"})


class Tags(msgspec.Struct, frozen=True, kw_only=True):
    """The tags that count inside a value; see `TagGrammar` in `body.py`."""

    begins: tuple[str, ...]
    ends: tuple[str, ...]
    lead: str = ""
    call: str | None
    call_end: str
    outer: tuple[str, ...]
    """All tags that can follow a whole parameter, except the next parameter."""
    parameter: str
    parameter_end: str
    marks: Marks
    name: Callable[[TextBuffer], Steps[tuple[str | None, str]]]
    key: Callable[[TextBuffer], Steps[tuple[str | None, str]]]
    framing: Framing


class ValueReader:
    """Reads the value of one parameter from after its opening tag."""

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
        """Open calls and regions inside the value."""
        self._ambiguous: str | None = None
        """The ambiguous tag. It and the text after it are kept in `_later`."""
        self._later: list[str] = []
        self._size = 0

    def read(self) -> Steps[bool]:
        """True after the end of the value; the text after it is not consumed. False if the text ended in the value."""
        yield from self._value.open(self._buffer)
        while True:
            mark = yield from self._buffer.until(self._tags.marks, self._add_text)
            if not mark:
                return self._end_of_text()
            if (yield from self._ends(mark)):
                self._value.close(closed=mark == self._tags.parameter_end)
                return True

    # --------------------------------------------------------------------------------------------------- ambiguity

    def _add_text(self, text: str) -> None:
        if self._ambiguous is None:
            self._value.add(text)
        elif self._size + len(text) <= WINDOW:
            self._keep(text)
        else:
            self._accept_as_text()
            self._value.add(text)

    def _keep(self, text: str) -> None:
        self._size += len(text)
        self._later.append(text)

    def _add_tag(self, text: str) -> None:
        """Adds a tag to the value, or to the text after an ambiguous tag."""
        if self._ambiguous is None:
            self._value.add(text)
        else:
            self._keep(text)

    def _keep_ambiguous(self, mark: str) -> bool:
        """Starts or extends the kept text. False if too much text was read twice already: the tag is text then."""
        if self._ambiguous is None and self._io.look_ahead <= 0:
            self._value.add(mark)
            return False
        if self._ambiguous is None:
            self._ambiguous = mark
        self._keep(mark)
        return True

    def _accept_as_text(self) -> None:
        """The ambiguous tag was text."""
        if self._ambiguous is not None:
            self._ambiguous = None
            self._value.add(self._take_later())

    def _end_at_ambiguous(self) -> None:
        """The ambiguous tag ended the value: it and the text after it are read again."""
        later = self._take_later()
        self._io.look_ahead -= len(later)
        self._ambiguous = None
        self._buffer.push_back(later)
        self._value.close(closed=False)

    def _take_later(self) -> str:
        later = "".join(self._later)
        self._later.clear()
        self._size = 0
        return later

    def _end_of_text(self) -> bool:
        """The text ended in the value: the call is cut off unless an ambiguous tag ended the value."""
        if self._ambiguous is None or not self._buffer.finished:
            self._writer.break_off()
            return False
        self._end_at_ambiguous()
        return True

    # -------------------------------------------------------------------------------------------------------- tags

    def _ends(self, mark: str) -> Steps[bool]:
        """True if the value ends with this tag. The text after the value is then not consumed."""
        tags = self._tags
        if mark in tags.begins or mark == tags.call:
            yield from self._opener(mark)
            return False
        if self._nesting:
            self._add_tag(mark)
            self._pop(mark)
            return False
        if mark == tags.parameter_end:
            return (yield from self._own_end(mark))
        if mark == tags.parameter:
            return (yield from self._next_parameter(mark))
        return (yield from self._outer_end(mark))

    def _own_end(self, mark: str) -> Steps[bool]:
        """A closing tag counts before a declared parameter, the end of the call or the end of the text."""
        buffer = self._buffer
        if self._scalar:
            self._accept_as_text()
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
            self._accept_as_text()
        else:
            buffer.push_back(raw)
            self._add_tag(mark + blank + follows)
        return ends

    def _next_parameter(self, mark: str) -> Steps[bool]:
        """A parameter begins although this one was not closed. One that the call already has is text."""
        key, raw = yield from self._tags.key(self._buffer)
        cut_off = self._cut_off
        self._buffer.push_back(raw)
        if key is None and cut_off:
            self._buffer.push_back(mark)
            return True
        if key is not None and key != self._key and self._writer.declares(key) and not self._writer.has(key):
            self._accept_as_text()
            self._buffer.push_back(mark)
            return True
        self._add_tag(mark)
        return False

    @property
    def _cut_off(self) -> bool:
        """True if a limit ended the text here."""
        return self._buffer.broke_off and self._buffer.ran_out

    def _opener(self, mark: str) -> Steps[None]:
        """A call begins: text if it is complete and the value continues after it, else the next call."""
        buffer, tags = self._buffer, self._tags
        blank = call = ""
        if mark in tags.begins and tags.call is not None:
            blank = yield from buffer.space()
            if tags.lead and (lead := (yield from buffer.literal(tags.lead))):
                blank += lead + (yield from buffer.space())
            call = yield from buffer.literal(tags.call)
            if not call:
                buffer.push_back(blank)
                self._add_tag(mark)
                return
        name, raw = yield from tags.name(buffer)
        gap = yield from buffer.space()
        follows = yield from buffer.literal(*tags.outer, tags.parameter)
        buffer.push_back(blank + call + raw + gap + follows)
        if name is None or not follows:
            self._add_tag(mark)
        elif self._io.find_tool(name) is None:
            self._add_tag(mark)
            self._nesting.append(mark)
        elif self._keep_ambiguous(mark):
            self._nesting.append(mark)

    def _pop(self, mark: str) -> None:
        """A closing tag closes the last opening tag of its kind and all tags that are open inside it."""
        tags = self._tags
        openers = {begin for begin, end in zip(tags.begins, tags.ends, strict=True) if end == mark}
        if mark == tags.call_end:
            openers.add(tags.call or "")
        for at in range(len(self._nesting) - 1, -1, -1):
            if self._nesting[at] in openers:
                del self._nesting[at:]
                return

    def _outer_end(self, mark: str) -> Steps[bool]:
        """The call or region ends although the value was not closed. Certain before further tags or the end."""
        buffer, tags = self._buffer, self._tags
        blank = yield from buffer.space()
        follows = yield from buffer.literal(*tags.outer)
        buffer.push_back(follows)
        if follows or self._scalar or (buffer.ran_out and buffer.finished):
            buffer.push_back(mark + blank)
            if mark in tags.ends and self._ambiguous is not None and self._ambiguous not in tags.begins:
                # the ambiguous tag ended the call, or began the next call of this region
                self._end_at_ambiguous()
            else:
                self._accept_as_text()
            return True
        self._keep_ambiguous(mark)
        self._add_tag(blank)
        return False


def _open_ended(io: ParseContext, writer: CallWriter) -> bool:
    """True if the tool takes parameters that it does not declare."""
    schema = io.tools[writer.name].schema
    return any(map(schema.get, ("additionalProperties", "patternProperties"))) or not schema.get("properties")
