"""Reasoning at the very start of a response, marked by ordinary words.

Granite 3.2 writes `Here is my thought process: ... Here is my response: ...`. Gemma 4 may lose the token that opens its
reasoning, so that the response begins with the line `thought`. A call ends such reasoning. If its end is missing, the
text is also sent as visible text, since it may be the response itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from extproc.dialects.buffer import Marks, Steps
from extproc.dialects.parse_context import ParseContext


class OpeningReasoning:
    """Reads reasoning between one of `openers` and one of `closers` or `calls`; the latter is not consumed."""

    def __init__(self, openers: Iterable[str], closers: Iterable[str], calls: Iterable[str]) -> None:
        self.openers: tuple[str, ...] = tuple(openers)
        self._closers = frozenset(closers)
        self._ends = Marks([*self._closers, *calls])

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        buffer.commit()
        io.begin_thinking()
        pieces = [opener]

        def write(piece: str) -> None:
            pieces.append(piece)
            io.emit_thinking(piece)

        mark = yield from buffer.until(self._ends, write)
        if mark in self._closers:
            yield from buffer.space()
        elif mark:
            buffer.push_back(mark)
        elif buffer.clean:
            io.emit_text("".join(pieces))
