"""Code fences in a model's text: what stands in one is text, whatever it looks like.

The scanner asks where marks of a fence stand, and says where text goes and whether its line was blank so far. Nothing
here is dropped, and nothing is decided about calls.
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.dialects.buffer import Marks, Steps, TextBuffer

FENCES = ("```", "~~~")
"""Marks of code fences."""
FENCE_MARKS = {fence: Marks((fence,)) for fence in FENCES}


def whole_run(buffer: TextBuffer, mark: str) -> Steps[str]:
    """The marks behind the first three, which were consumed, and those three."""
    return mark + (yield from buffer.run(lambda char: char == mark[0]))


def through_fence(buffer: TextBuffer, mark: str, info: str, on_blank_line: Callable[[], bool],
                  out: Callable[[str], None]) -> Steps[None]:
    """A code fence begins at the start of a line and ends with the next such line of at least as many marks.
    `info`: what of the line behind the marks was read already."""
    if not on_blank_line():
        out(mark + info)
        return
    width = len(mark)
    if not info:
        width = len((yield from whole_run(buffer, mark)))
    out(mark[0] * width + info)
    while True:
        found = yield from buffer.until(FENCE_MARKS[mark], out)
        if not found:
            return
        run = yield from whole_run(buffer, found)
        at_start = on_blank_line()
        out(run)
        if at_start and len(run) >= width:
            return


def opened_or_closed(fence: str, run: str) -> str:
    """The fence that is open behind a `run` of marks at the start of a line, "" for none; `fence` was open before.
    For reasoning, where a call in a fence is text, too, but where the reasoning's closing tag counts."""
    if not fence:
        return run
    return "" if run.startswith(fence) else fence
