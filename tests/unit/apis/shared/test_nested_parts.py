"""Rule 7: a request may be nested so deep and no deeper, wherever in it that is. Most of a request is read in one pass
that does not look into what only passes; those parts are asked for their depth, and for numbers nobody can hold."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from extproc.apis import CLIENT_APIS
from extproc.apis.openai import wire_messages
from extproc.bounds import Limits
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest

HOLE = "@@"
USER = {"role": "user", "content": "hi"}


def message(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "messages": [USER, {"role": "assistant", "content": "x", **fields}]}


def anthropic(block: dict[str, Any]) -> dict[str, Any]:
    return message(content=[{"type": "tool_use", "id": "a", "name": "b", "input": {}, **block}])


def with_tool(**fields: Any) -> dict[str, Any]:
    return {**message(), "tools": [{"name": "t", "description": "d", **fields}]}


PLACES: dict[str, tuple[str, dict[str, Any], int]] = {
    "input": ("anthropic", anthropic({"input": {"a": HOLE}}), 7),
    "cache_control": ("anthropic", anthropic({"cache_control": {"a": HOLE}}), 7),
    "input_schema": ("anthropic", with_tool(input_schema={"a": HOLE}), 5),
    "input_examples": ("anthropic", with_tool(input_examples=[HOLE]), 5),
    "metadata": ("anthropic", {**message(), "metadata": {"a": HOLE}}, 3),
    "context_management": ("anthropic", {**message(), "context_management": HOLE}, 2),
    "system": ("anthropic", {**message(), "system": [{"type": "text", "text": "t", "cache_control": HOLE}]}, 4),
    "parameters": ("openai", {**message(), "tools": [{"type": "function", "function": {
        "name": "t", "parameters": {"a": HOLE}}}]}, 6),
    "an extra field": ("openai", {**message(), "extra": HOLE}, 2),
    "response_format": ("openai", {**message(), "response_format": {"type": "text", "a": HOLE}}, 3),
    **{f"a message's {field.name}": ("openai", message(**{field.name: HOLE}), 4)
       for field in msgspec.structs.fields(wire_messages.ClientMessage)
       if field.type is wire_messages.Raw},
}
"""Where a value stands: the API, a request, and the level of the value: 1 is the body itself."""


def decode(api: str, request: dict[str, Any], value: str) -> None:
    body = json.dumps(request).replace(json.dumps(HOLE), value).encode()
    CLIENT_APIS[api].decode_request(body, {}, Dropped(), Limits(json_depth=100))


def refusal(api: str, request: dict[str, Any], value: str) -> str:
    try:
        decode(api, request, value)
    except BadRequest as error:
        return str(error)
    return ""


@pytest.mark.parametrize("place", PLACES)
def test_a_value_may_be_nested_up_to_the_limit(place: str) -> None:
    api, request, level = PLACES[place]
    fits = 100 - level + 1
    assert "nested deeper" not in refusal(api, request, "[" * fits + "]" * fits)
    for deeper in (fits + 1, 500, 5000):
        assert "nested deeper than 100 levels" in refusal(api, request, "[" * deeper + "]" * deeper)


@pytest.mark.parametrize("place", PLACES)
def test_a_number_that_nobody_can_hold_is_refused(place: str) -> None:
    api, request, _ = PLACES[place]
    assert "out of range" in refusal(api, request, "1e999")


def test_brackets_in_texts_are_no_levels() -> None:
    decode("anthropic", PLACES["input"][1], json.dumps("[{" * 500))
