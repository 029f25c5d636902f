"""Marks of a call that a server left in the text when it took the call out: is one of them alone on its line?

Some servers tell a call by their API and take its body out of the text, but not the tag before it or behind it. Beside
native calls such a line is dropped by the scanner; in prose, in code and without native calls it is text. Shows nothing
itself.
"""

from __future__ import annotations

from extproc.dialects.buffer import Steps, TextBuffer

OPENER, CLOSER = "<tool_call>", "</tool_call>"

_MAX_INDENT = 3
"""More makes a line code."""


def alone_on_line(buffer: TextBuffer, mark: str, line: str, limit: int) -> Steps[tuple[str, bool]]:
    """`mark` was consumed, `line` stands before it: (the mark and the closers behind it, whether nothing else stands on
    their lines). White space behind them stays on the tape. `limit`: characters that wait."""
    if line.strip() or len(line.expandtabs(4)) > _MAX_INDENT:
        return mark, False
    text = mark
    while True:
        blank = yield from buffer.space(limit)
        if len(text) > limit or not (yield from buffer.literal(CLOSER)):
            break
        text += blank + CLOSER
    alone = "\n" in blank or not (yield from buffer.peek())
    buffer.push_back(blank)
    return text, alone
