"""The grammar of a custom tool's text, in words, for providers whose tools are functions: they enforce no grammar, but
the model must know the form. Called by the request encoders."""

from __future__ import annotations

import msgspec

from extproc.conversation.model import Tool
from extproc.conversation.unsupported import Dropped


class _Grammar(msgspec.Struct):
    type: str = ""
    syntax: str = ""
    definition: str = ""
    grammar: _Grammar | None = None


def description_with_grammar(tool: Tool, dropped: Dropped) -> str | None:
    """The description of the tool, with the grammar of its text if it has one, which is then named as a loss."""
    if tool.format is not None and (grammar := _grammar(tool.format)) is not None:
        dropped.loss("tools.format")
        syntax, definition = grammar
        note = f"The text in `input` must follow this {syntax} grammar:\n{definition}"
        return f"{tool.description}\n\n{note}" if tool.description else note
    return tool.description or None


def _grammar(written: msgspec.Raw) -> tuple[str, str] | None:
    """(syntax, definition), in the forms of OpenAI's two APIs; None for free text."""
    try:
        found = msgspec.json.decode(written, type=_Grammar)
    except msgspec.DecodeError:
        return None
    inner = found.grammar or found
    return (inner.syntax, inner.definition) if inner.definition else None
