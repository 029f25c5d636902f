"""A tool's definition is decoded once: the same bytes give the same tool, with all that was to be said of it."""

from __future__ import annotations

import json

import msgspec
import pytest

from extproc.apis.anthropic.client import request as anthropic
from extproc.apis.openai.client import request as openai
from extproc.apis.shared.tool_definition_cache import ToolDefinitionCache
from extproc.bounds import Limits
from extproc.conversation.model import Tool
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest

TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}, "odd": 1, "input_examples": [{}]}


def ask(*tools: dict[str, object]) -> bytes:
    return json.dumps({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hi"}],
                       "tools": tools}).encode()


def test_what_is_dropped_of_a_tool_is_named_every_time() -> None:
    seen = []
    for _ in range(2):
        dropped = Dropped()
        [tool] = anthropic.decode_request(ask(TOOL), {}, dropped, Limits()).tools
        seen.append((tool, dropped.losses, dropped.hints))
    assert seen[0] == seen[1]
    assert seen[0][1:] == (["tools.input_examples"], ["tools.odd"])
    assert seen[0][0] is seen[1][0]


def test_two_tools_of_one_name_are_refused_with_the_place_of_this_request() -> None:
    for tools in ([TOOL, {**TOOL, "description": "Other."}], [{**TOOL, "name": "a"}, TOOL, TOOL]):
        with pytest.raises(BadRequest, match=rf"tools\[{len(tools) - 1}\].name: tool names must be unique, 'look'"):
            anthropic.decode_request(ask(*tools), {}, Dropped(), Limits())


def test_a_tool_that_an_openai_client_sends_twice_counts_once() -> None:
    function = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    for _ in range(2):
        dropped = Dropped()
        request = openai.decode_request(ask(function, function), {}, dropped, Limits())
        assert [tool.name for tool in request.tools] == ["look"]
        assert dropped.hints == ["tools.repeated"]


def test_a_refusal_is_not_kept() -> None:
    for place in (0, 1):
        with pytest.raises(BadRequest, match=rf"tools\[{place}\].name"):
            anthropic.decode_request(ask(*[TOOL] * place, {"description": "no name"}), {}, Dropped(), Limits())


def test_rule_7_what_is_kept_is_bounded_in_bytes() -> None:
    decoded: list[bytes] = []

    def decode(raw: msgspec.Raw, path: str, dropped: Dropped) -> Tool:
        decoded.append(bytes(raw))
        return Tool(path, None, {})

    kept = ToolDefinitionCache(decode, largest=10, size=25)
    for source in (b"1" * 10, b"1" * 10, b"2" * 10, b"3" * 11, b"3" * 11, b"1" * 10, b"4" * 10, b"1" * 10):
        kept.read(msgspec.Raw(source), "p", Dropped(), 128)
    kept.read(msgspec.Raw(b"1" * 10), "p", Dropped(), 64)
    kept.read(msgspec.Raw(b"4" * 10), "p", Dropped(), 128)
    # Of 3 there is too much to keep it at all; 4 does not fit beside 1 and 2, so all begins anew. Read again for
    # another depth, 1 takes no more room than before: 4 is still there.
    assert [source[:1] for source in decoded] == [b"1", b"2", b"3", b"3", b"4", b"1", b"1"]
