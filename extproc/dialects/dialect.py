"""The record of a dialect: how one family of models writes tool calls and reasoning as text."""

from __future__ import annotations

import msgspec

from extproc.dialects.parse_context import ParserFactory, ToolCallParser


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """The forms and tokens of one dialect. `registry` combines the dialects of a model into a `ScanPlan`."""

    name: str
    forms: tuple[ToolCallParser, ...] = ()
    """Parsers that are used if tools are offered."""
    loose: tuple[ToolCallParser, ...] = ()
    """Parsers whose openers also occur in ordinary text. Used only if the model's dialect is known."""
    frames: tuple[ToolCallParser, ...] = ()
    """Parsers of messages that hold text and reasoning as well as calls. Used also without tools."""
    factories: tuple[ParserFactory, ...] = ()
    """Factories of parsers whose openers are the names of the offered tools."""
    unknown_factories: tuple[ParserFactory, ...] = ()
    """The same for unknown models: only openers that cannot occur in ordinary text."""
    opening_forms: tuple[ToolCallParser, ...] = ()
    """Parsers for the very start of a response. Used if tools are offered."""
    opening_frames: tuple[ToolCallParser, ...] = ()
    """As `opening_forms`, for the headers of first messages (see `frames`). Used also without tools."""
    opening_reasoning: tuple[ToolCallParser, ...] = ()
    """As `opening_forms`, for reasoning whose marks are ordinary words. Used also without tools, but only if the
    model's dialect is known."""
    think: tuple[tuple[str, str], ...] = (("<think>", "</think>"),)
    """Tags around reasoning."""
    think_anywhere: bool = False
    """Reasoning may begin anywhere, not only at the very start."""
    text_openers: tuple[str, ...] = ()
    """Tokens that begin the visible text. They are dropped, and they end reasoning that was not closed."""
    text_tags: tuple[tuple[str, str], ...] = ()
    """Tags around the whole visible text. They are dropped if the text begins with the opening one, and only if the
    model's dialect is known."""
    template_tokens: tuple[str, ...] = ()
    """Tokens of the template that are dropped everywhere."""
    turn_ends: tuple[str, ...] = ()
    """Tokens that end a turn. They are dropped at the end of the text; before more text they are text."""
    strays: tuple[str, ...] = ()
    """Tokens of calls that mean nothing on their own. They are dropped if tools are offered."""
    unambiguous: bool = True
    """The marks occur in no ordinary text, so responses of unknown models are scanned for them."""
