"""The text of a response while it arrives: `TextBuffer`, over which all parsers of dialects work.

A parser is a generator in the order of the grammar it reads. A bare `yield` means "I need more text"; the generator is
resumed when more text came or the text has ended. So any cut of the text gives the same result. No method looks at a
character twice: the cost is linear in the text.

A parser that may fail works after `mark`: consumed text is kept and `rewind` restores it.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect
from collections.abc import Callable, Generator, Iterable
from enum import Enum, auto
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A generator that yields when it needs more text, and returns its result."""


class Channel(Enum):
    """The field in which the provider sent a text."""

    CONTENT = auto()
    REASONING = auto()


_MAX_GAP = 1024
"""Most white space between two tags that belong together."""


class TooMuch(Exception):  # noqa: N818
    """The text is longer than the limit of a `Collector`."""


class Collector:
    """Collects pieces of text, at most `limit` characters. `add` raises TooMuch."""

    __slots__ = ("_left", "_pieces")

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._pieces: list[str] = []

    def add(self, piece: str) -> None:
        self._left -= len(piece)
        if self._left < 0:
            raise TooMuch
        self._pieces.append(piece)

    def __bool__(self) -> bool:
        """True once there is any text."""
        return bool(self._pieces)

    @property
    def text(self) -> str:
        return "".join(self._pieces)


def discard(text: str) -> None:
    """Drops text. For the parameter `out` of `TextBuffer.until`."""


class Marks:
    """A set of literal marks. If several match at one place, the longest counts."""

    __slots__ = ("_find", "_firsts", "_options", "_sorted", "longest", "nested")

    def __init__(self, options: Iterable[str]) -> None:
        self._options = tuple(sorted(set(options), key=lambda mark: (-len(mark), mark)))
        self.longest = len(self._options[0]) if self._options else 0
        self._find = re.compile("|".join(map(re.escape, self._options)) or r"(?!)")
        self._firsts = re.compile("[" + re.escape("".join({mark[0] for mark in self._options})) + "]") \
            if self._options else re.compile(r"(?!)")
        self._sorted = sorted(self._options)
        self.nested = any(self._find.search(mark, 1, len(mark) - 1) for mark in self._options)
        """True if a mark is part of a longer one, which may be incomplete when the inner one is found."""

    @property
    def options(self) -> tuple[str, ...]:
        return self._options

    def begins(self, text: str) -> bool | None:
        """True if `text` begins with a mark; None if more text is needed to tell."""
        if self._find.match(text):
            return True
        return None if self.may_grow(text) else False

    def absent(self, text: str) -> bool:
        """True if no mark can begin anywhere in `text`."""
        return self._firsts.search(text) is None

    def search(self, text: str, start: int) -> re.Match[str] | None:
        return self._find.search(text, start)

    def may_grow(self, text: str) -> bool:
        """True if a longer mark begins with `text`."""
        if not text:
            return False
        after = bisect(self._sorted, text)  # a mark that begins with it sorts right after it
        return after < len(self._sorted) and self._sorted[after].startswith(text)

    def partial(self, text: str, start: int) -> int:
        """The number of characters at the end of `text[start:]` that may be the beginning of a mark."""
        found = self._firsts.search(text, max(start, len(text) - self.longest + 1))
        while found is not None:
            if self.may_grow(text[found.start():]):
                return len(text) - found.start()
            found = self._firsts.search(text, found.end())
        return 0


class TextBuffer:
    """The text that is not consumed yet is `buffer[at:]`. `finished` is meaningful once `ended`: True if the model
    finished, False after a limit or a failure."""

    __slots__ = ("_marked_at", "at", "buffer", "comma", "ended", "finished", "in_call")

    def __init__(self) -> None:
        self.buffer = ""
        self.at = 0
        self.ended = False
        self.finished = True
        self.in_call = False
        """A call has begun and is not closed."""
        self.comma = False
        """The last `skip_commas` consumed a comma."""
        self._marked_at: int | None = None

    def feed(self, text: str) -> None:
        start = self.at if self._marked_at is None else self._marked_at
        self.buffer = self.buffer[start:] + text if start < len(self.buffer) else text
        self.at -= start
        if self._marked_at is not None:
            self._marked_at = 0

    def end(self, clean: bool) -> None:
        self.ended = True
        self.finished = clean

    @property
    def clean(self) -> bool:
        """Meaningful once `ended`: True if the text is whole. False if it ends inside a call, whatever finish reason
        the provider sent: a parser then never closes the call, as if a limit had cut the text off."""
        return self.finished and not self.in_call

    @property
    def broke_off(self) -> bool:
        """True if the text has ended without being whole."""
        return self.ended and not self.clean

    # ------------------------------------------------------------------------------------------- mark, commit, rewind

    def mark(self) -> None:
        """From here on consumed text is kept for `rewind`. Replaces an earlier mark."""
        self._marked_at = self.at

    def commit(self) -> None:
        """Removes the mark: consumed text is not kept any longer."""
        self._marked_at = None

    def rewind(self) -> None:
        """Restores all text consumed since `mark`. The mark stays."""
        assert self._marked_at is not None
        self.at = self._marked_at

    def truncated_mark(self, marks: Marks) -> int:
        """For a text that was cut off: the number of characters at its end that are the beginning of a mark."""
        return marks.partial(self.buffer, self.at) if self.broke_off else 0

    def partial_mark(self, marks: Marks) -> str:
        """The beginning of a mark at the end of the text, consumed or not."""
        return self.buffer[len(self.buffer) - marks.partial(self.buffer, 0):]

    def drop_truncated_mark(self, marks: Marks) -> None:
        """Consumes the rest of a text that was cut off if it is only the beginning of a mark."""
        if self.truncated_mark(marks) == len(self.buffer) - self.at:
            self.at = len(self.buffer)

    def push_back(self, text: str) -> None:
        """Restores `text`, which was the last consumed text. After `mark`, only text consumed since then."""
        if self.buffer.endswith(text, 0, self.at):
            self.at -= len(text)
            return
        assert self._marked_at is None
        self.buffer = text + self.buffer[self.at:]
        self.at = 0

    @property
    def marked(self) -> bool:
        return self._marked_at is not None

    @property
    def ran_out(self) -> bool:
        """True if the text has ended and all of it is consumed."""
        return self.ended and self.at >= len(self.buffer)

    @property
    def only_space_since_mark(self) -> bool:
        """True if only white space came since `mark`."""
        return self._marked_at is not None and not self.buffer[self._marked_at:].strip()

    @property
    def consumed(self) -> int:
        """Characters consumed since `mark`; 0 without a mark."""
        return 0 if self._marked_at is None else self.at - self._marked_at

    def take(self, count: int) -> str:
        """Consumes and returns `count` characters, which must have arrived."""
        text = self.buffer[self.at:self.at + count]
        self.at += len(text)
        return text

    @property
    def kept(self) -> int:
        """Characters kept since `mark`; 0 without a mark."""
        return 0 if self._marked_at is None else len(self.buffer) - self._marked_at

    # ---------------------------------------------------------------------------------------------------- generators

    def peek(self, count: int = 1) -> Steps[str]:
        """Returns the next `count` characters (fewer at the end) without consuming them."""
        while len(self.buffer) - self.at < count and not self.ended:
            yield
        return self.buffer[self.at:self.at + count]

    def peek_while(self, undecided: Callable[[str], object], limit: int, size: int = 1) -> Steps[str]:
        """As `peek`: `size` characters, and one more as long as `undecided` is true of them, up to `limit`."""
        while undecided(text := (yield from self.peek(size))) and len(text) == size < limit:
            size += 1
        return text

    def space(self, limit: int = sys.maxsize) -> Steps[str]:
        """Consumes and returns white space, at most `limit` characters."""
        out = ""
        while True:
            at, text = self.at, self.buffer
            end = min(len(text), at + limit - len(out))
            while at < end and text[at].isspace():
                at += 1
            out += text[self.at:at]
            self.at = at
            if at < len(text) or self.ended or len(out) >= limit:
                return out
            yield

    def literal(self, *options: str) -> Steps[str]:
        """Consumes and returns the longest of `options` that comes next; "" if none does."""
        longest = max(map(len, options))
        while True:
            rest = self.buffer[self.at:self.at + longest]
            found = max((o for o in options if rest.startswith(o)), key=len, default="")
            if self.ended or not any(len(o) > len(found) and o.startswith(rest) and len(rest) < len(o)
                                     for o in options):
                self.at += len(found)
                return found
            yield

    def skip_commas(self) -> Steps[str]:
        """Consumes white space and commas. Returns the next character, which is not consumed; "" at the end."""
        self.comma = False
        while True:
            yield from self.space()
            char = yield from self.peek()
            if char != ",":
                return char
            self.comma = True
            self.at += 1

    def skip(self, *options: str) -> Steps[str]:
        """Consumes any number of `options` with white space before each. Returns the white space after them, at most
        `_MAX_GAP` characters of it."""
        blank = yield from self.space(_MAX_GAP)
        while (yield from self.literal(*options)):
            blank = yield from self.space(_MAX_GAP)
        return blank

    def until(self, marks: Marks, out: Callable[[str], None]) -> Steps[str]:
        """Passes text to `out` up to the first mark, which it consumes and returns; "" at the end of the text. The
        beginning of a mark at the end of the arrived text waits; if the text ends with it inside a call, it is
        dropped."""
        while True:
            text = self.buffer
            found = marks.search(text, self.at)
            if found is not None and marks.nested and not self.ended \
                    and marks.partial(text, self.at) > len(text) - found.start():
                found = None
            if found is not None:
                if found.start() > self.at:
                    out(text[self.at:found.start()])
                self.at = found.start()
                if self.ended or not marks.may_grow(text[self.at:self.at + marks.longest]):
                    self.at = found.end()
                    return found.group()
            else:
                waits = not self.ended or self.in_call
                end = len(text) - marks.partial(text, self.at) if waits else len(text)
                if end > self.at:
                    out(text[self.at:end])
                    self.at = end
                if self.ended:
                    self.at = len(text)
                    return ""
            yield

    def collect(self, marks: Marks, limit: int) -> Steps[tuple[str, str]]:
        """As `until`, but returns (text before the mark, mark). Raises TooMuch, with nothing consumed, if the text is
        longer than `limit`."""
        before = Collector(limit)
        try:
            mark = yield from self.until(marks, before.add)
        except TooMuch:  # earlier pieces would be lost
            self.push_back(before.text)
            raise
        return before.text, mark

    def take_while(self, allowed: Callable[[str], bool], limit: int = 512) -> Steps[str]:
        """Consumes and returns characters while `allowed`, at most `limit`."""
        out = ""
        while len(out) < limit:
            char = yield from self.peek()
            if not char or not allowed(char):
                break
            self.at += 1
            out += char
        return out
