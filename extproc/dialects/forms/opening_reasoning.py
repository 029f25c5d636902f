"""Reasoning at the very start of an answer whose marks are words: nothing but their place tells them from prose.

Granite 3.2 writes `Here is my thought process: ... Here is my response: ...`; Gemma 4 may lose the token that opens its
reasoning, so that the answer begins with the line `thought`. A call ends such reasoning. Where its end is missing the
text is shown as well, since it may be the answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from extproc.dialects.buffer import Marks, Steps
from extproc.dialects.parse_context import ParseContext


class OpeningReasoning:
    """Reasoning between one of `openers` and one of `closers`, or one of `calls`, which stays on the tape."""

    def __init__(self, openers: Iterable[str], closers: Iterable[str], calls: Iterable[str]) -> None:
        self.openers: tuple[str, ...] = tuple(openers)
        self._closers = frozenset(closers)
        self._ends = Marks([*self._closers, *calls])

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        buffer.commit()
        io.begin_thinking()
        pieces = [opener]

        def say(piece: str) -> None:
            pieces.append(piece)
            io.emit_thinking(piece)

        mark = yield from buffer.until(self._ends, say)
        if mark in self._closers:
            yield from buffer.space()
        elif mark:
            buffer.push_back(mark)
        elif buffer.clean:
            io.emit_text("".join(pieces))
