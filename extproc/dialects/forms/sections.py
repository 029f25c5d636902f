"""Calls between special tokens: [section [call HEADER separator JSON end]... end]. Kimi K2 and DeepSeek V3, R1 and V3.1
share this grammar; their modules define the tokens and the meaning of a header.

White space may surround every token. The section's tokens may be missing; the end of a call may be missing before the
next token or at the end of the text. A header before a further call is dropped. A call whose header names no tool is
skipped. A section that only calls tools which are not offered is text as a whole. Text inside or after a section is
content. No token of a region with a call is ever sent as text.
"""

from __future__ import annotations

import re

import msgspec

from extproc.dialects.buffer import Collector, Marks, Steps, TextBuffer, TooMuch, discard
from extproc.dialects.call_writer import MAX_VALUE, CallWriter
from extproc.dialects.json.body import read_arguments
from extproc.dialects.json.value import skip_string
from extproc.dialects.parse_context import NoMatch, ParseContext, PlainText

_MAX_NOISE = 256
"""Most characters between a section's opener and its first call; a longer text is ordinary text."""
_MAX_HEADER = 512
_NAME = re.compile(r"[\w.:/-]*[\w:/-]")
"""The beginning of a call's header. At the end of the text, anything else after an opener is ordinary text."""
_MAX_REPEATED = 8
"""Most openers in a row without a call; more are ordinary text. Each of them reads all the following ones again."""


class SectionTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of one family, in all spellings."""

    sections: tuple[str, ...]
    section_ends: tuple[str, ...]
    calls: tuple[str, ...]
    separators: tuple[str, ...]
    call_ends: tuple[str, ...]

    @property
    def structure(self) -> tuple[str, ...]:
        return (*self.sections, *self.section_ends, *self.calls, *self.call_ends)

    @property
    def strays(self) -> tuple[str, ...]:
        """SectionTokens that mean nothing outside of a section and are never shown."""
        return (*self.section_ends, *self.separators, *self.call_ends)


class _Region:
    """The state of the region between an opener and its end."""

    def __init__(self, io: ParseContext) -> None:
        self._io = io
        self._before = io.calls
        self.unoffered = False
        """A well-formed call of a tool that is not offered was found."""
        self.noise = False
        """The first call does not come right after a section's opener."""

    @property
    def committed(self) -> bool:
        return self._io.calls > self._before


class TokenSections:
    """A tool call parser. Subclasses define the meaning of a header (`title`, `resolve`, `infer`)."""

    def __init__(self, tokens: SectionTokens) -> None:
        self.openers: tuple[str, ...] = (*tokens.sections, *tokens.calls)
        self.blocks = (*((opener, closer) for opener in tokens.sections for closer in tokens.section_ends),
                       *((opener, closer) for opener in tokens.calls for closer in tokens.call_ends))
        self.tokens = tokens
        ends = [fence + end for fence in ("\n```", "```", "\n```\n") for end in tokens.call_ends]
        self.structure = Marks(tokens.structure)
        self._stop = Marks([*tokens.structure, *ends])
        self._stop_or_string = Marks([*tokens.structure, *ends, '"'])
        self._before_call = Marks([*tokens.sections, *tokens.section_ends, *tokens.calls])
        self._header_ends = Marks([*tokens.structure, *tokens.separators, "{"])

    # ------------------------------------------------------------------------------------------------ the header

    def title(self, io: ParseContext, header: str) -> Steps[str]:
        """Returns the whole header after the separator was read, and consumes the text up to the arguments."""
        return header
        yield

    def resolve(self, io: ParseContext, header: str) -> str | None:
        """The offered tool that a header names."""
        return io.find_tool(header)

    def names_a_tool(self, header: str) -> bool:
        """True if the header has the shape of a call, offered or not."""
        return True

    def infer(self, io: ParseContext, header: str, raw: str) -> str | None:
        """The tool of a header without a name, by its arguments."""
        return None

    # ------------------------------------------------------------------------------------------------ the region

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        region = _Region(io)
        if opener not in self.tokens.sections:
            region.noise = True
        elif not (yield from self._first(io.buffer, region)):
            return
        while (yield from self._call(io, region)) and (yield from self._another(io, region)):
            pass
        if region.unoffered and not region.committed:
            raise PlainText

    def _first(self, buffer: TextBuffer, region: _Region) -> Steps[bool]:
        """Reads up to the first call. False if the section is empty or the text ended."""
        for _ in range(_MAX_REPEATED):
            try:
                noise, mark = yield from buffer.collect(self._before_call, _MAX_NOISE)
            except TooMuch:
                raise NoMatch from None
            region.noise = region.noise or bool(noise.strip())
            if mark in self.tokens.calls:
                return True
            if mark in self.tokens.section_ends:
                raise PlainText  # nothing but noise, or an empty block
            if noise.strip():
                raise NoMatch
            if mark not in self.tokens.sections:
                return False
        raise NoMatch

    def _call(self, io: ParseContext, region: _Region) -> Steps[bool]:
        """Reads one call from after its opening token. False if the region ends here."""
        buffer, tokens = io.buffer, self.tokens
        header, mark = yield from self._header(io, region)
        prose = _is_prose(header)
        if not mark and not prose:
            if header and buffer.clean and not self._without_arguments(io, header, closed=False) \
                    and not region.committed \
                    and (region.noise or not _NAME.fullmatch(header)):
                raise NoMatch
            return False
        if mark not in tokens.separators and mark != "{":
            return self._bare_header(io, region, "" if prose else header, mark)
        if prose and not region.committed:
            raise NoMatch
        if mark == "{":
            buffer.push_back(mark)
        header = yield from self.title(io, header)
        name = self.resolve(io, header)
        if name is None:
            yield from self._unnamed(io, region, header)
        else:
            yield from self._known(io, io.begin_call(name))
        return True

    def _header(self, io: ParseContext, region: _Region) -> Steps[tuple[str, str]]:
        """Reads (header, the mark after it). A header before another call is dropped."""
        for _ in range(_MAX_REPEATED):
            try:
                header, mark = yield from io.buffer.collect(self._header_ends, _MAX_HEADER)
            except TooMuch:
                if not region.committed:
                    raise NoMatch from None
                return "", self.tokens.call_ends[0]
            header = header.strip()
            if mark not in self.tokens.calls or not header or _is_prose(header):
                return header, mark
            io.note_repair("orphan_header")
        if not region.committed:
            raise NoMatch
        return header, mark

    def _bare_header(self, io: ParseContext, region: _Region, header: str, mark: str) -> bool:
        """Handles a header without arguments, ended by `mark`."""
        if mark not in self.tokens.call_ends:
            io.buffer.push_back(mark)
        called = bool(header) and self._without_arguments(io, header, closed=True)
        if not called and not region.committed:
            raise PlainText
        return True

    def _another(self, io: ParseContext, region: _Region) -> Steps[bool]:
        """True if a further call follows. Text is content."""
        buffer, tokens = io.buffer, self.tokens
        while True:
            blank = yield from buffer.space()
            mark = yield from buffer.literal(*tokens.structure)
            if mark in tokens.calls:
                return True
            if mark not in tokens.call_ends:
                break
        if mark in tokens.sections:
            buffer.push_back(mark)
        if not mark and blank and region.committed:
            io.emit_text(blank)
        return False

    # --------------------------------------------------------------------------------------------- the arguments

    def _known(self, io: ParseContext, writer: CallWriter) -> Steps[None]:
        buffer = io.buffer
        yield from buffer.space()
        first = yield from buffer.peek()
        if first in ("{", '"') and io.mode != "as-is":
            whole = yield from read_arguments(io, writer, self._stop)
            if not whole and not buffer.ended:
                yield from self._rest(buffer)
        else:
            writer.write_arguments((yield from self._raw(buffer)))
        yield from self._call_end(buffer)
        if not buffer.broke_off:
            writer.close()

    def _unnamed(self, io: ParseContext, region: _Region, header: str) -> Steps[None]:
        """Reads a call whose header names no offered tool. Its arguments may show the tool; else it is skipped."""
        raw = yield from self._raw(io.buffer)
        if raw[:1] not in ("", "{",
                           '"') and io.buffer.ran_out and io.buffer.clean:  # no arguments, and nothing ends them
            if not region.committed:
                raise NoMatch
            io.emit_text(raw)
            return
        yield from self._call_end(io.buffer)
        name = self.infer(io, header, raw)
        if name is None:
            region.unoffered = region.unoffered or self.names_a_tool(header)
            io.leave_out("skipped_call")
            return
        writer = io.begin_call(name)
        writer.note_repair("inferred_name")
        writer.write_arguments(raw)
        if not io.buffer.broke_off:
            writer.close()

    def _without_arguments(self, io: ParseContext, header: str, *, closed: bool) -> bool:
        """A header without arguments is a call if the tool requires none. `closed`: a token follows; else the text
        ended."""
        name = self.resolve(io, header)
        if name is None or io.shape(name).required:
            return False
        writer = io.begin_call(name)
        if closed:
            writer.close()
        return True

    def _raw(self, buffer: TextBuffer) -> Steps[str]:
        """Reads the arguments as text, up to the token that ends them (not consumed). Tokens in strings are data."""
        raw = Collector(MAX_VALUE)
        while (mark := (yield from buffer.until(self._stop_or_string, raw.add))) == '"':
            raw.add(mark)
            yield from skip_string(buffer, mark, raw.add)
        buffer.push_back(mark)
        return raw.text.strip()

    def _rest(self, buffer: TextBuffer) -> Steps[None]:
        """Skips the rest of a damaged call, up to the token that ends it."""
        mark = yield from buffer.until(self._stop, discard)
        buffer.push_back(mark)

    def _call_end(self, buffer: TextBuffer) -> Steps[None]:
        """Reads the end of a call, also after extra brackets and a closing fence."""
        while True:
            mark = yield from buffer.peek()
            if mark not in ("}", "]", "`") and not mark.isspace():
                break
            if mark.isspace():
                following = yield from _after_space(buffer)
                if following not in ("}", "]", "`", "<"):
                    return
                yield from buffer.space()
            elif mark == "`":
                fence = yield from buffer.literal("```", "``", "`")
                if fence != "```" and not buffer.ran_out:
                    buffer.push_back(fence)
                    return
            else:
                buffer.at += 1
        yield from buffer.literal(*self.tokens.call_ends)


def _is_prose(header: str) -> bool:
    return any(char.isspace() for char in header)


def _after_space(buffer: TextBuffer) -> Steps[str]:
    """The first character after the white space that comes next; "" if it is far. Consumes nothing."""
    text = yield from buffer.peek_while(lambda text: not text.strip(), 63, 2)
    return text.strip()[:1]
