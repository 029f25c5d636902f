"""A token that ends a turn, in the text of an answer -> whether it ends it.

Servers that do not take the token off leave it behind the text, sometimes more than once. The same token in the middle
of a text is what somebody asked about, so it is shown. Called by the scanner; shows nothing itself.
"""

from __future__ import annotations

from collections.abc import Collection

from extproc.dialects.buffer import Steps, TextBuffer


def end_of_turn(buffer: TextBuffer, token: str, ends: Collection[str], behind: Collection[str],
                limit: int) -> Steps[str]:
    """`token` was consumed: "" where it, and further `ends`, are the end of the text or stand before one of `behind`
    (a call); else the text that they are. White space behind them stays on the tape. `limit`: characters that wait."""
    text = token
    while True:
        blank = yield from buffer.space(limit)
        following = yield from buffer.literal(*ends, *behind)
        if following not in ends or len(text) > limit:
            break
        text += blank + following
    goes_on = not following and bool((yield from buffer.peek()))
    buffer.push_back(blank + following)
    return text if goes_on else ""
