"""The text of an answer while it arrives: what readers look at, consume, and hand back when it was no call after all.

Every reader of a dialect is a generator over a `TextBuffer`: a bare `yield` means "I need more text" and is answered
when more has come or the text has ended. So a reader is written down like the grammar it reads and any cut of the text
gives the same result. No primitive looks at a character twice: the cost is linear in the text.

A reader that is not sure yet works under a *hold*: what it consumes is kept and can be handed back.
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
"""A reader's run: yields when it needs more text, returns its result."""


class Channel(Enum):
    """Where the provider put the text: its content, or its reasoning field."""

    CONTENT = auto()
    REASONING = auto()


_MAX_GAP = 1024
"""White space between two tags that belong together."""


class TooMuch(Exception):  # noqa: N818
    """More text than may be collected."""


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
    """Takes text that nobody needs; the `out` of `TextBuffer.until`."""


class Marks:
    """A set of literal marks to look for. Where several match at one place the longest counts."""

    __slots__ = ("_find", "_firsts", "_options", "_sorted", "longest", "nested")

    def __init__(self, options: Iterable[str]) -> None:
        self._options = tuple(sorted(set(options), key=lambda mark: (-len(mark), mark)))
        self.longest = len(self._options[0]) if self._options else 0
        self._find = re.compile("|".join(map(re.escape, self._options)) or r"(?!)")
        self._firsts = re.compile("[" + re.escape("".join({mark[0] for mark in self._options})) + "]") \
            if self._options else re.compile(r"(?!)")
        self._sorted = sorted(self._options)
        self.nested = any(self._find.search(mark, 1, len(mark) - 1) for mark in self._options)
        """A mark stands inside a longer one: where the inner one is found, the outer one may not have come whole."""

    @property
    def options(self) -> tuple[str, ...]:
        return self._options

    def begins(self, text: str) -> bool | None:
        """Whether `text` begins with a mark; None: it may once there is more of it."""
        if self._find.match(text):
            return True
        return None if self.may_grow(text) else False

    def absent(self, text: str) -> bool:
        """No mark begins anywhere in `text`: it may pass without a closer look."""
        return self._firsts.search(text) is None

    def search(self, text: str, start: int) -> re.Match[str] | None:
        return self._find.search(text, start)

    def may_grow(self, text: str) -> bool:
        """Whether `text` is the beginning of a mark that is longer."""
        if not text:
            return False
        after = bisect(self._sorted, text)  # a mark that begins with it comes right behind it
        return after < len(self._sorted) and self._sorted[after].startswith(text)

    def partial(self, text: str, start: int) -> int:
        """How many characters at the end of `text[start:]` may be the beginning of a mark."""
        found = self._firsts.search(text, max(start, len(text) - self.longest + 1))
        while found is not None:
            if self.may_grow(text[found.start():]):
                return len(text) - found.start()
            found = self._firsts.search(text, found.end())
        return 0


class TextBuffer:
    """`finished` is meaningful once `ended`: the answer finished of its own accord (not by a limit or a failure)."""

    __slots__ = ("_held", "at", "buffer", "comma", "ended", "finished", "in_call")

    def __init__(self) -> None:
        self.buffer = ""
        self.at = 0
        self.ended = False
        self.finished = True
        self.in_call = False
        """A call has begun for certain and is not closed."""
        self.comma = False
        """`skip_commas` consumed a comma when it was called last."""
        self._held: int | None = None

    def feed(self, text: str) -> None:
        start = self.at if self._held is None else self._held
        self.buffer = self.buffer[start:] + text if start < len(self.buffer) else text
        self.at -= start
        if self._held is not None:
            self._held = 0

    def end(self, clean: bool) -> None:
        self.ended = True
        self.finished = clean

    @property
    def clean(self) -> bool:
        """Meaningful once `ended`: the text is whole. False where it ends inside of a call, whatever the provider says
        of its end: a reader then does as it does where a limit cut the text off, and never closes the call."""
        return self.finished and not self.in_call

    @property
    def broke_off(self) -> bool:
        """True once the text has ended without being whole."""
        return self.ended and not self.clean

    # ----------------------------------------------------------------------------------------------------- the hold

    def mark(self) -> None:
        """From here on what is consumed is kept."""
        self._held = self.at

    def commit(self) -> None:
        """What was consumed is gone for good."""
        self._held = None

    def rewind(self) -> None:
        """Everything since `mark` stands on the tape again; the hold goes on."""
        assert self._held is not None
        self.at = self._held

    def truncated_mark(self, marks: Marks) -> int:
        """How many characters at the end of a text that was cut off are the beginning of a mark."""
        return marks.partial(self.buffer, self.at) if self.broke_off else 0

    def partial_mark(self, marks: Marks) -> str:
        """The beginning of a mark that the text ended with, consumed or not."""
        return self.buffer[len(self.buffer) - marks.partial(self.buffer, 0):]

    def drop_truncated_mark(self, marks: Marks) -> None:
        """Consumes what is left when it is nothing but the beginning of a mark in a text that was cut off."""
        if self.truncated_mark(marks) == len(self.buffer) - self.at:
            self.at = len(self.buffer)

    def push_back(self, text: str) -> None:
        """Text that was consumed last stands on the tape again; not under a hold that began behind it."""
        if self.buffer.endswith(text, 0, self.at):
            self.at -= len(text)
            return
        assert self._held is None
        self.buffer = text + self.buffer[self.at:]
        self.at = 0

    @property
    def holding(self) -> bool:
        return self._held is not None

    @property
    def ran_out(self) -> bool:
        """The text is over, to its last character."""
        return self.ended and self.at >= len(self.buffer)

    @property
    def only_space_held(self) -> bool:
        """Nothing but white space came since the hold began."""
        return self._held is not None and not self.buffer[self._held:].strip()

    @property
    def consumed(self) -> int:
        """Characters that were consumed under the hold."""
        return 0 if self._held is None else self.at - self._held

    def take(self, count: int) -> str:
        """Consumes `count` characters that are known to stand here."""
        text = self.buffer[self.at:self.at + count]
        self.at += len(text)
        return text

    @property
    def held(self) -> int:
        """Characters that are kept back by the hold."""
        return 0 if self._held is None else len(self.buffer) - self._held

    # --------------------------------------------------------------------------------------------------- primitives

    def peek(self, count: int = 1) -> Steps[str]:
        """The next `count` characters (fewer at the end), not consumed."""
        while len(self.buffer) - self.at < count and not self.ended:
            yield
        return self.buffer[self.at:self.at + count]

    def peek_while(self, undecided: Callable[[str], object], limit: int, size: int = 1) -> Steps[str]:
        """The next characters, not consumed: `size` of them, and more while `undecided` is true of what stands here, up
        to `limit`."""
        while undecided(text := (yield from self.peek(size))) and len(text) == size < limit:
            size += 1
        return text

    def space(self, limit: int = sys.maxsize) -> Steps[str]:
        """Consumes white space, at most `limit` characters of it; returns it."""
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
        """Consumes the longest of `options` that stands here; "" when none does."""
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
        """Consumes white space and commas; returns the character that stands there then, "" at the end of the text."""
        self.comma = False
        while True:
            yield from self.space()
            char = yield from self.peek()
            if char != ",":
                return char
            self.comma = True
            self.at += 1

    def skip(self, *options: str) -> Steps[str]:
        """Consumes `options`, however many stand here with white space before them; returns the white space that
        follows (a part of it where there is much)."""
        blank = yield from self.space(_MAX_GAP)
        while (yield from self.literal(*options)):
            blank = yield from self.space(_MAX_GAP)
        return blank

    def until(self, marks: Marks, out: Callable[[str], None]) -> Steps[str]:
        """Passes text to `out` up to the first mark, which is consumed and returned; "" at the end of the text. A tail
        that may be the beginning of a mark waits; where the text ends with it inside of a call it is dropped."""
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
        """(text before the first mark, the mark or "" at the end); the mark is consumed. Raises TooMuch, with nothing
        consumed."""
        before = Collector(limit)
        try:
            mark = yield from self.until(marks, before.add)
        except TooMuch:  # what came in earlier pieces, or it would be lost at some cuts
            self.push_back(before.text)
            raise
        return before.text, mark

    def take_while(self, allowed: Callable[[str], bool], limit: int = 512) -> Steps[str]:
        """Consumes characters while `allowed`; at most `limit` of them."""
        out = ""
        while len(out) < limit:
            char = yield from self.peek()
            if not char or not allowed(char):
                break
            self.at += 1
            out += char
        return out
