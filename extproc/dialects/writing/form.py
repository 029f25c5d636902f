"""What a written form is, and the pieces that several of them share.

A `PromptForm` turns the offered tools, the calls of one assistant turn and their results into text, each of them
alone; where that text goes is `turns`' affair. Forms hold no state, so the same request gives the same text. Names
are the provider's (`[a-zA-Z0-9_-]`, see `extproc.conversation.tool_names`), arguments always the text of a JSON object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Protocol

import msgspec

from extproc.conversation.notes import ERROR_PREFIX


class OfferedTool(msgspec.Struct, frozen=True):
    """A tool as it is told to the model. `parameters` is a schema of type object with properties."""

    name: str
    description: str
    parameters: dict[str, object]


class PastCall(msgspec.Struct, frozen=True):
    """A call of the history. `ordinal` counts the calls of the conversation from 0, `number` those of its message
    from 1. `schema` is the client's own schema of a tool that is still offered, `{}` of any other."""

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
    def spoken(self) -> str:
        """The text, with an error told in words."""
        return ERROR_PREFIX + self.text if self.is_error else self.text


class PromptForm(Protocol):
    """One way of writing tools, calls and results. `gap` stands between an assistant's own text and its calls;
    `closers` are the form's own marks, kept out of JSON strings (see `json_text`)."""

    gap: str

    def tools(self, tools: list[OfferedTool]) -> str:
        """The part of the system text that offers the tools and says how to call them."""

    def calls(self, calls: list[PastCall]) -> str:
        """All calls of one assistant turn."""

    def results(self, results: list[PastResult]) -> str:
        """All results of that turn, for the user turn that follows."""


def signature(tool: OfferedTool, *, wrapped: bool = True) -> dict[str, object]:
    """A tool as the JSON object that models are trained on."""
    function: dict[str, object] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = tool.parameters
    return {"type": "function", "function": function} if wrapped else function


def json_text(value: object, marks: Iterable[str] = ()) -> str:
    """JSON with the spaces that chat templates write. A mark of the form inside a string has its first character
    spelt as an escape: the JSON value is the same, but the text cannot end the section around it."""
    return guarded(json.dumps(value, ensure_ascii=False), marks)


def guarded(text: str, marks: Iterable[str]) -> str:
    """JSON text without `marks`, which must begin with a character that JSON has in strings only, or be no JSON
    outside strings."""
    for mark in marks:
        if mark in text:
            text = text.replace(mark, f"\\u{ord(mark[0]):04x}{mark[1:]}")
    return text


def signatures(tools: list[OfferedTool], marks: Iterable[str] = (), *, wrapped: bool = True) -> str:
    """One tool a line."""
    return "\n".join(json_text(signature(tool, wrapped=wrapped), marks) for tool in tools)


def members(arguments: str) -> dict[str, str | msgspec.Raw]:
    """The parameters of a call in order: strings decoded, everything else as the JSON text that the client sent."""
    found = _OBJECT.decode(arguments)
    return {key: _STRING.decode(raw) if bytes(raw).startswith(b'"') else raw for key, raw in found.items()}


def value_text(value: object, marks: Iterable[str] = ()) -> str:
    """A string as it is, everything else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, msgspec.Raw):
        return guarded(bytes(value).decode(), marks)
    return json_text(value, marks)


_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_STRING = msgspec.json.Decoder(str)
