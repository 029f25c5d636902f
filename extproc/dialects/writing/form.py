"""`PromptForm`: one way of writing tools, calls and results as text. Also helpers that several forms share.

A form turns the offered tools, the calls of one assistant turn and their results into text, each separately; `turns.py`
places the text. Forms have no state, so the same request gives the same text. Names are the provider's
(`[a-zA-Z0-9_-]`, see `extproc.conversation.tool_names`). Arguments are always the text of a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Protocol

import msgspec

from extproc.conversation.notes import ERROR_PREFIX


class OfferedTool(msgspec.Struct, frozen=True):
    """A tool for the prompt. `parameters`: a schema of type object with properties."""

    name: str
    description: str
    parameters: dict[str, object]


class PastCall(msgspec.Struct, frozen=True):
    """A call of the history. `ordinal` counts the calls of the conversation from 0, `number` the calls of its message
    from 1. `schema`: the client's schema if the tool is still offered, else `{}`."""

    name: str
    arguments: str
    ordinal: int
    number: int
    schema: dict[str, object]


class PastResult(msgspec.Struct, frozen=True):
    """The result of `call`; `text` is never empty."""

    call: PastCall
    text: str
    is_error: bool

    @property
    def marked_text(self) -> str:
        """The text, with a prefix for an error."""
        return ERROR_PREFIX + self.text if self.is_error else self.text


class PromptForm(Protocol):
    """One way of writing tools, calls and results. `gap`: the text between an assistant's own text and its calls."""

    gap: str

    def tools(self, tools: list[OfferedTool]) -> str:
        """The system text that offers the tools and explains how to call them."""

    def calls(self, calls: list[PastCall]) -> str:
        """All calls of one assistant turn."""

    def results(self, results: list[PastResult]) -> str:
        """All results of that turn, for the next user turn."""


def tool_signature(tool: OfferedTool, *, wrapped: bool = True) -> dict[str, object]:
    """A tool as the JSON object that models know from training."""
    function: dict[str, object] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters
    return {"type": "function", "function": function} if wrapped else function


def json_text(value: object, marks: Iterable[str] = ()) -> str:
    """JSON with the spaces of chat templates. In a mark of the form inside a string the first character is escaped: the
    JSON value is the same, but the text cannot end the section around it."""
    return escape_marks(json.dumps(value, ensure_ascii=False), marks)


def escape_marks(text: str, marks: Iterable[str]) -> str:
    """JSON text in which the first characters of `marks` are escaped. Outside strings JSON must not contain these
    marks."""
    for mark in marks:
        if mark in text:
            text = text.replace(mark, f"\\u{ord(mark[0]):04x}{mark[1:]}")
    return text


def tool_signatures(tools: list[OfferedTool], marks: Iterable[str] = (), *, wrapped: bool = True) -> str:
    """One tool per line."""
    return "\n".join(json_text(tool_signature(tool, wrapped=wrapped), marks) for tool in tools)


def decode_members(arguments: str) -> dict[str, str | msgspec.Raw]:
    """The parameters of a call in order: strings decoded, other values as the client's JSON text."""
    found = _OBJECT.decode(arguments)
    return {key: _STRING.decode(raw) if bytes(raw).startswith(b'"') else raw for key, raw in found.items()}


def value_text(value: object, marks: Iterable[str] = ()) -> str:
    """A string as it is, other values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, msgspec.Raw):
        return escape_marks(bytes(value).decode(), marks)
    return json_text(value, marks)


_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
