"""The XML tools of RooCode, Cline and Kilo: `<read_file><path>src/main.rs</path></read_file>`.

The tag of a call is a tool's name, so the openers depend on the offered tools. Only declared parameters are tags.
Inside a parameter only its own closing tag counts, so markup in it is data. For `content` the last closing tag before
the tool's counts, and its white space is kept except for one newline at each end; other values are trimmed. A value may
be a CDATA section. The `<thinking>` of these prompts is visible text.

Models that are prompted for another form (`prompted`, Qwen) write these tags as well: `<read><filePath>a</filePath>
</read>`. For them a tag counts only at the start of a line and before a declared parameter. In responses of unknown
models the name of the tool or of the parameter must also contain an underscore or a capital, unlike the names of HTML.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

from extproc.dialects.buffer import Marks, Steps, TextBuffer, TooMuch
from extproc.dialects.call_writer import CallWriter
from extproc.dialects.dialect import Dialect
from extproc.dialects.parse_context import NoMatch, ParseContext, ToolCallParser
from extproc.dialects.tags.value import Framing, ParameterText

_WINDOW = 16 * 1024
"""Most characters after an ambiguous closing tag within which another one decides."""
_SHORT = 1024
"""Most characters of an element that the tool does not declare."""


Care = Literal["none", "lines", "no_html"]
"""Conditions for a tag: none; it begins a line before a parameter; the same, and the name of the tool or parameter is
no HTML element."""


class NamedTags:
    """Reads calls of the tools of one request. `framing`: of values other than `content`."""

    def __init__(self, names: Iterable[str], *, care: Care = "none", framing: Framing = "trim") -> None:
        self.openers: tuple[str, ...] = tuple(f"<{name}>" for name in names)
        self.closers = tuple(f"</{opener[1:]}" for opener in self.openers)
        self._care = care
        self._framing: Framing = framing

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        name = opener[1:-1]
        if self._care != "none" and not io.at_line_start:
            raise NoMatch
        closer = f"</{name}>"
        parameters = {f"<{key}>": key for key in io.shape(name).parameters}
        yield from buffer.space()
        mark = yield from buffer.literal(closer, *parameters)
        if not mark and parameters and (yield from _undeclared(buffer, (*parameters, *self.openers))):
            mark = yield from buffer.literal(*parameters)
        if not mark:
            buffer.drop_truncated_mark(Marks([closer, *parameters]))
            raise NoMatch
        if not self._counts(name, parameters.get(mark)):
            raise NoMatch
        writer = io.begin_call(name)
        marks = Marks([closer, *parameters, *(tag for tag in self.openers if tag not in parameters)])
        while mark in parameters:
            if not (yield from _value(io, writer, parameters[mark], closer, self._framing)):
                return
            # text between parameters is dropped; at the end of the text it is text after the call
            try:
                behind, mark = yield from buffer.collect(marks, _WINDOW)
            except TooMuch:
                mark, behind = closer, ""
            half = "" if mark or not buffer.ended else buffer.partial_mark(marks)
            if half and not closer.startswith(half):
                writer.break_off()  # the next parameter or call had begun
            elif not mark and not half and buffer.finished and behind.strip():
                buffer.push_back(behind)
        if mark and mark != closer:
            buffer.push_back(mark)
        if mark:
            writer.close()


    def _counts(self, name: str, key: str | None) -> bool:
        """True if the tag of a tool and the next tag (None: the tool's closing tag) make a call."""
        if self._care == "none" or "_" in name:
            return True
        if key is None:
            return False
        return self._care == "lines" or "_" in key or not key.islower()


_BEGINS = re.compile(r"<\w{0,64}")
_ELEMENT = re.compile(r"<(\w{1,64})>")
_LONGEST_ELEMENT = 66


def _undeclared(buffer: TextBuffer, known: Collection[str]) -> Steps[bool]:
    """Skips short elements that are not `known`. True if there were any."""
    found = False
    while True:
        name = _ELEMENT.match((yield from buffer.peek_while(_BEGINS.fullmatch, _LONGEST_ELEMENT, 2)))
        if name is None or name.group() in known:
            return found
        buffer.at += name.end()
        try:
            _, mark = yield from buffer.collect(Marks([f"</{name.group(1)}>"]), _SHORT)
        except TooMuch:
            return False
        if not mark:
            return False
        found = True
        yield from buffer.space()


class _TextBehindTag:
    """The text after an ambiguous closing tag. If it is longer than `_WINDOW`, the tag was text."""

    def __init__(self, mark: str, out: Callable[[str], None]) -> None:
        self.passed = False
        self._mark = mark
        self._out = out
        self._pieces: list[str] = []
        self._size = 0

    def put(self, text: str) -> None:
        self._size += len(text)
        if self._size > _WINDOW:
            self.passed = True
            self.flush()
            self._out(text)
        else:
            self._pieces.append(text)

    def flush(self) -> None:
        self._out(self._mark + self.text)
        self._mark = ""
        self._pieces.clear()

    @property
    def text(self) -> str:
        return "".join(self._pieces)


def _value(io: ParseContext, writer: CallWriter, key: str, closer: str, framing: Framing) -> Steps[bool]:
    """Reads one value from after its opening tag. False if the text ended inside. The tool's closing tag inside a value
    is text if the value's own closing tag comes later."""
    buffer = io.buffer
    own = f"</{key}>"
    marks = Marks([own, closer])
    # a further such parameter before the closing tag belongs to the next call
    again = Marks([own, closer] if key == "content" else [own, closer, f"<{key}>"])
    if (yield from buffer.literal(_CDATA)):
        whole = yield from _sections(buffer, ParameterText(writer, key, "verbatim"), own)
        if not whole:
            writer.break_off()
        return whole
    value = ParameterText(writer, key, "newline" if key == "content" else framing)
    yield from value.open(buffer)

    mark = yield from buffer.until(marks, value.add)
    while mark and (mark != own or key == "content"):
        later = _TextBehindTag(mark, value.add)
        found = yield from buffer.until(again, later.put)
        if found == own or later.passed:
            later.flush()
        elif found or buffer.finished:
            # the ambiguous tag counts: the text after it is read again, with a tool's closing tag
            buffer.push_back(found)
            buffer.push_back(later.text if mark == own else mark + later.text)
            value.close(closed=mark == own)
            return True
        else:
            return False
        mark = found
    if mark:
        value.close()
    else:
        writer.break_off()
    return bool(mark)


_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_SECTION_ENDS = Marks([_CDATA_END])


def _sections(buffer: TextBuffer, value: ParameterText, own: str) -> Steps[bool]:
    """Reads a value in CDATA sections from after the first opener. A closing mark without fitting text after it is
    data. False if the text ended inside."""
    yield from value.open(buffer)
    while (yield from buffer.until(_SECTION_ENDS, value.add)):
        blank = yield from buffer.space()
        following = yield from buffer.literal(own, _CDATA)
        if following == own:
            value.close()
            return True
        if not following:
            buffer.push_back(blank)
            value.add(_CDATA_END)
    return False


def make_forms(names: Sequence[str]) -> tuple[ToolCallParser, ...]:
    return (NamedTags(names),)


def make_line_forms(names: Sequence[str]) -> tuple[ToolCallParser, ...]:
    """For models that are prompted for another form. Values keep their white space."""
    return (NamedTags(names, care="lines", framing="newline"),)


def make_careful_forms(names: Sequence[str]) -> tuple[ToolCallParser, ...]:
    return (NamedTags(names, care="no_html", framing="newline"),)


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="roo-xml", factories=(make_forms,), unknown_factories=(make_careful_forms,)),
)
