"""Calls as elements with attributes: [wrapper [call name=... [parameter name=... string=...]value[/parameter]...
[/call]]...[/wrapper]]. DeepSeek's DSML and Kimi K3 share this grammar; their modules define the tags and their names.

Values are raw text. An attribute says whether a value is a string or JSON; the schema gives its type. The wrapper and
closing tags may be missing, a call may close itself, an object may replace the parameters, and one undeclared parameter
may wrap all arguments. Markup in a value is data unless the grammar allows it there: a closing tag ends a value only
before the next parameter, the end of the call or the end of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from extproc.dialects.buffer import Marks, Steps, TextBuffer, TooMuch, discard
from extproc.dialects.call_writer import CallWriter
from extproc.dialects.json.body import read_arguments
from extproc.dialects.parse_context import EmptyBlock, NoMatch, ParseContext, PlainText
from extproc.dialects.tags.value import MarkedText

_MAX_TAG = 1024
_MAX_NOISE = 256
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'/>]+))""")
_NAME = re.compile(r"\s*([A-Za-z_]\w*)")
_WRAPPED = ("arguments", "input")
"""Undeclared parameters in which models wrap all arguments."""

End = Literal["closed", "unclosed", "cut"]
"""How a value ended: with its own closing tag, at another tag, at the end of the text."""


class ElementGrammar(msgspec.Struct, frozen=True, kw_only=True):
    """The tags of one family."""

    open: tuple[str, ...]
    close: tuple[str, ...]
    tag_end: str
    wrappers: frozenset[str]
    call: str
    call_name: str
    parameter: str
    parameter_name: str
    marks_string: tuple[str, str]
    """The attribute of a parameter, and its value, that mark a string."""
    framing: frozenset[str] = frozenset()
    """Elements around visible text, whose tags are dropped."""
    spaced: bool = False
    """A detokeniser may put a space on both sides of every token."""
    escaped: bool = False
    """Attribute values escape `&` and `"`."""


class Tag(msgspec.Struct, frozen=True):
    """One tag. `name` is "" if the text is no tag."""

    closes: bool
    name: str
    raw: str
    attributes: dict[str, str] = {}
    empty: bool = False
    whole: bool = True
    """False if the end of the tag is missing."""


class _ElementCall:
    """The current call. `writer` is None for a call that is skipped."""

    def __init__(self, writer: CallWriter | None) -> None:
        self.writer = writer
        self.keys: set[str] = set()
        self.closed = False
        """The call's own closing tag was read."""
        self.wrapping: MarkedText | None = None
        """A value that may hold all arguments. Known when the call ends."""


def _opens_no_string(buffer: TextBuffer) -> Steps[bool]:
    """True if the value is text for a string parameter, whatever follows: it does not start with a JSON string."""
    first = yield from buffer.peek()
    return bool(first) and first != '"' and not first.isspace()


class ElementCalls:
    """A tool call parser for one grammar."""

    def __init__(self, grammar: ElementGrammar) -> None:
        self.openers: tuple[str, ...] = (*grammar.open, *(grammar.close if grammar.framing else ()))
        self._grammar = grammar
        # a tag may have a space on either side of its name, as DeepSeek V4.1 and detokenisers write it
        self.closers = tuple(closer + name + grammar.tag_end for closer in grammar.close
                             for wrapper in sorted(grammar.wrappers)
                             for name in (wrapper, f" {wrapper}", f" {wrapper} "))
        tags = (*grammar.open, *grammar.close)
        self._tags = Marks(tags)
        self._names = {*grammar.wrappers, *grammar.framing, grammar.call, grammar.parameter}
        self._in_tag = Marks([grammar.tag_end, *tags])

    # ------------------------------------------------------------------------------------------------ the region

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        grammar = self._grammar
        before = io.calls
        tag: Tag | None = yield from self._tag(io.buffer, opener)
        assert tag is not None
        if tag.name in grammar.framing and tag.whole:
            return
        if tag.closes or (tag.name != grammar.call and tag.name not in grammar.wrappers) \
                or (tag.name != grammar.call and tag.attributes):
            raise NoMatch
        unoffered = False
        wrapped = tag.name != grammar.call
        if wrapped:
            if not tag.whole:
                raise NoMatch
            tag = yield from self._first(io.buffer)
        while tag is not None and not tag.closes and tag.name == grammar.call:
            tag, called = yield from self._call(io, tag)
            unoffered = unoffered or not called
            if tag is None:
                tag = yield from self._another(io, wrapped, before)
        if unoffered and io.calls == before:
            raise PlainText
        if tag is not None and not tag.closes:
            io.buffer.push_back(tag.raw)  # something else begins, another wrapper for one

    def _first(self, buffer: TextBuffer) -> Steps[Tag | None]:
        """Reads the first tag in a wrapper: of a call, or of the wrapper's end; None at the end of the text."""
        noise = yield from self._noise(buffer)
        tag = yield from self._next_tag(buffer)
        if tag is None:
            if noise:
                raise NoMatch
            return None
        if tag.closes and tag.name in self._grammar.wrappers:
            raise PlainText if noise else EmptyBlock
        if tag.closes or tag.name != self._grammar.call:
            raise NoMatch
        return tag

    def _noise(self, buffer: TextBuffer) -> Steps[str]:
        try:
            noise, mark = yield from buffer.collect(self._tags, _MAX_NOISE)
        except TooMuch:
            raise NoMatch from None
        buffer.push_back(mark)
        return noise.strip()

    def _another(self, io: ParseContext, wrapped: bool, before: int) -> Steps[Tag | None]:
        """Reads the tag after a call: of the next call, or of the wrapper's end; None if text follows."""
        grammar = self._grammar
        while True:
            blank = yield from io.buffer.space()
            tag = yield from self._next_tag(io.buffer)
            if tag is None:
                if blank and not io.buffer.ended and io.calls > before:
                    io.emit_text(blank)
                return None
            if not tag.closes or tag.name in grammar.wrappers:
                return tag
            if tag.name not in (grammar.call, grammar.parameter):
                io.buffer.push_back(tag.raw)
                return None

    # -------------------------------------------------------------------------------------------------- the tags

    def _next_tag(self, buffer: TextBuffer) -> Steps[Tag | None]:
        """Reads the next tag; None if no tag comes next."""
        mark = yield from buffer.literal(*self._grammar.open, *self._grammar.close)
        return (yield from self._tag(buffer, mark)) if mark else None

    def _tag(self, buffer: TextBuffer, mark: str) -> Steps[Tag]:
        """Reads a tag from after its mark. A tag that is interrupted by the next tag is not whole."""
        grammar = self._grammar
        closes = mark in grammar.close
        try:
            text, end = yield from buffer.collect(self._in_tag, _MAX_TAG)
        except TooMuch:
            return Tag(closes, "", mark, whole=False)
        whole = end == grammar.tag_end
        if not whole:
            buffer.push_back(end)
        raw = mark + text + (end if whole else "")
        name = _NAME.match(text)
        if name is None:
            return Tag(closes, "", raw, whole=whole)
        rest = text[name.end():]
        attributes = {found[0]: self._attribute(found[1] or found[2] or found[3])
                      for found in _ATTRIBUTE.findall(rest)}
        if rest.strip() and rest.strip() != "/" and not attributes:
            return Tag(closes, "", raw, whole=whole)
        return Tag(closes, name.group(1), raw, attributes, rest.rstrip().endswith("/"), whole)

    def _attribute(self, text: str) -> str:
        return text.replace("&quot;", '"').replace("&amp;", "&") if self._grammar.escaped else text

    # -------------------------------------------------------------------------------------------------- the calls

    def _call(self, io: ParseContext, tag: Tag) -> Steps[tuple[Tag | None, bool]]:
        """Reads one call from after its opening tag. Returns (the tag after it if that was consumed, True for a
        call)."""
        name = tag.attributes.get(self._grammar.call_name, "")
        known = io.find_tool(name)
        call = _ElementCall(io.begin_call(known) if known is not None else None)
        following: Tag | None = None
        if not tag.empty:
            following = yield from self._members(io, call)
        if call.writer is None:
            io.leave_out("skipped_call")
            return following, False
        if call.wrapping is not None:
            call.wrapping.send_members()
        if tag.empty or call.closed or following is not None:
            call.writer.close()
        return following, True

    def _members(self, io: ParseContext, call: _ElementCall) -> Steps[Tag | None]:
        """Reads the parameters, through the end of the call. Returns the tag after it if that was consumed."""
        grammar = self._grammar
        tag: Tag | None = None
        while True:
            if tag is None:
                yield from self._between(io, call)
                tag = yield from self._next_tag(io.buffer)
            if tag is None:
                return None
            if tag.closes and tag.name == grammar.call:
                call.closed = True
                return None
            if not tag.whole and io.buffer.ran_out and call.writer is not None:
                if not tag.closes:
                    call.writer.break_off()  # the next parameter had begun
                return None
            if tag.name == grammar.parameter and not tag.closes and grammar.parameter_name in tag.attributes:
                tag = yield from self._parameter(io, call, tag)
            elif tag.name == grammar.call or tag.name in grammar.wrappers:
                return tag
            else:
                tag = None  # a stray tag

    def _between(self, io: ParseContext, call: _ElementCall) -> Steps[None]:
        """Skips the text between parameters, except the arguments as one object."""
        buffer = io.buffer
        yield from buffer.space()
        first = yield from buffer.peek()
        if first == "{" and call.writer is not None and not call.keys:
            yield from read_arguments(io, call.writer, self._tags)
            yield from buffer.space()
        mark = yield from buffer.until(self._tags, discard)
        buffer.push_back(mark)
        half = "" if mark else buffer.partial_mark(self._tags)
        if call.writer is not None and any(tag.startswith(half) for tag in self._grammar.open if half):
            call.writer.break_off()  # the next parameter had begun

    def _parameter(self, io: ParseContext, call: _ElementCall, tag: Tag) -> Steps[Tag | None]:
        """Reads one parameter from after its opening tag. Returns the tag after it if that was consumed."""
        grammar, writer = self._grammar, call.writer
        key = tag.attributes[grammar.parameter_name]
        attribute, string = grammar.marks_string
        is_string = tag.attributes.get(attribute) == string
        if call.wrapping is not None:
            call.wrapping.send()
            call.wrapping = None
        if writer is None:
            following, _ = yield from self._value(io.buffer, call, tag, discard)
            return following
        spaced = grammar.spaced and tag.raw[len(grammar.open[0]):][:1].isspace()
        may_wrap = not call.keys and key in _WRAPPED and not writer.declares(key)
        streams = not may_wrap and not spaced and \
            (is_string or (writer.parameter(key).typed and not tag.empty and (yield from _opens_no_string(io.buffer))))
        value = MarkedText(writer, key, is_string=is_string, streams=streams, spaced=spaced, waits=may_wrap)
        yield from value.open(io.buffer)
        call.keys.add(key)
        following, end = yield from self._value(io.buffer, call, tag, value.add)
        if end != "cut":
            value.close(closed=end == "closed")
            call.wrapping = value if may_wrap and value.waiting is not None else None
        elif not value.streams:
            writer.break_off()
        return following

    # ------------------------------------------------------------------------------------------------- the values

    def _value(self, buffer: TextBuffer, call: _ElementCall, parameter: Tag, out: Callable[[str], None],
               ) -> Steps[tuple[Tag | None, End]]:
        """Reads a value through its closing tag. Returns (the tag after it if that was consumed, how it ended)."""
        if parameter.empty:
            return None, "closed"
        grammar = self._grammar
        inside = 0
        """Open elements in the value, which are data."""
        while True:
            mark = yield from buffer.until(self._tags, out)
            if not mark:
                return None, "cut"
            tag = yield from self._tag(buffer, mark)
            if not tag.whole and buffer.ran_out:
                return None, "cut"
            if inside:
                inside += self._step(tag)
            elif tag.closes:
                if tag.name == grammar.parameter:
                    ended, following = yield from self._ends(buffer, tag, out)
                    if ended:
                        return following, "closed"
                    inside += self._step(following) if following is not None else 0
                    continue
                if (tag.name == grammar.call or tag.name in grammar.wrappers) and (yield from self._counts(buffer)):
                    return tag, "unclosed"
            elif self._begins_next(call, tag):
                return tag, "unclosed"
            elif tag.name in (grammar.parameter, grammar.call) or tag.name in grammar.wrappers:
                inside += self._step(tag)
            out(tag.raw)

    def _counts(self, buffer: TextBuffer) -> Steps[bool]:
        """True if a closing tag of the call or wrapper inside a value counts, so that the value's own closing tag is
        missing. It counts before a tag that may follow it and before the end of the text; else it is data."""
        grammar = self._grammar
        blank = yield from buffer.space()
        tag = yield from self._next_tag(buffer)
        if tag is None:
            counts = not (yield from buffer.peek())
        else:
            counts = tag.name in grammar.wrappers or tag.name in grammar.framing or (
                tag.name == grammar.call and not tag.closes)
            buffer.push_back(tag.raw)
        buffer.push_back(blank)
        return counts

    def _step(self, tag: Tag) -> int:
        """The change of depth by a tag that is data."""
        if tag.name not in self._names or tag.empty or not tag.whole:
            return 0
        return -1 if tag.closes else 1

    def _begins_next(self, call: _ElementCall, tag: Tag) -> bool:
        """True if an opening tag in a value is the next parameter: the closing tag of the value is missing."""
        key = tag.attributes.get(self._grammar.parameter_name, "")
        return (tag.name == self._grammar.parameter and call.writer is not None and call.writer.declares(key)
                and key not in call.keys)

    def _ends(self, buffer: TextBuffer, closer: Tag, out: Callable[[str], None],
              ) -> Steps[tuple[bool, Tag | None]]:
        """(True, the next tag if it was consumed) if a parameter's closing tag ends its value, else (False, a further
        tag that is data)."""
        grammar = self._grammar
        while True:
            blank = yield from buffer.space()
            tag = yield from self._next_tag(buffer)
            if tag is None:
                following = yield from buffer.peek()
                if not following or buffer.truncated_mark(self._tags):
                    return True, None
                out(closer.raw + blank)
                return False, None
            if tag.closes and tag.name == grammar.parameter:
                out(closer.raw + blank)
                closer = tag
                continue
            if tag.name in (grammar.call, grammar.parameter) or (tag.closes and tag.name in grammar.wrappers) \
                    or (not tag.whole and buffer.ran_out):
                return True, tag
            out(closer.raw + blank + tag.raw)
            return False, tag
