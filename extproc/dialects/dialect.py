"""The record of a dialect: one family's way of writing tool calls and reasoning as text."""

from __future__ import annotations

import msgspec

from extproc.dialects.parse_context import ParserFactory, ToolCallParser


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for. See `ScanPlan` in scanner.py for the meaning of the fields."""

    name: str
    forms: tuple[ToolCallParser, ...] = ()
    loose: tuple[ToolCallParser, ...] = ()
    """Forms whose openers occur in ordinary text, too: looked for only where the dialect is known."""
    frames: tuple[ToolCallParser, ...] = ()
    """Forms that carry text and reasoning as well as calls: looked for without tools, too."""
    makers: tuple[ParserFactory, ...] = ()
    """Forms whose openers are the names of the offered tools."""
    unknown_makers: tuple[ParserFactory, ...] = ()
    """The same for answers of unknown models: only openers that cannot occur in ordinary prose."""
    first: tuple[ToolCallParser, ...] = ()
    """Forms that may only begin the answer: looked for where tools are offered."""
    opening: tuple[ToolCallParser, ...] = ()
    """The same of `frames`: headers of first messages that carry text and reasoning as well, also without tools."""
    spoken: tuple[ToolCallParser, ...] = ()
    """Forms of reasoning whose marks are words, and that may only begin the answer: looked for without tools, too, but
    only where the dialect is known."""
    think: tuple[tuple[str, str], ...] = (("<think>", "</think>"),)
    think_anywhere: bool = False
    answers: tuple[str, ...] = ()
    """Tokens that begin the visible text: dropped, and they end a reasoning that was not closed."""
    wraps: tuple[tuple[str, str], ...] = ()
    """Tags around the whole visible text: taken off where the text begins with the opening one. Only where the dialect
    is known."""
    noise: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    """Tokens that end a turn: dropped behind the text; inside of it they are text."""
    strays: tuple[str, ...] = ()
    """Tokens of calls that mean nothing by themselves: dropped where tools are offered."""
    unambiguous: bool = True
    """Its markers cannot be mistaken for anything else: they are looked for in answers of unknown models, too."""
