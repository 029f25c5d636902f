"""Requests that OpenAI's own API refuses are refused by the demo."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.demo.checks import DemoError, check_request
from tests.unit.demo.requests import ask, call, tool


@pytest.mark.parametrize(("request_", "param", "status"), [
    ([], None, 400),
    ({"messages": [{"role": "user", "content": "x"}]}, "model", 400),
    (ask("x") | {"model": "gpt-5"}, "model", 404),
    (ask("x", top_k=5), "top_k", 400),
    (ask("x", tool_choice="auto"), "tool_choice", 400),
    (ask("x", stream_options={"include_usage": True}), "stream_options", 400),
    (ask("x") | {"messages": []}, "messages", 400),
    (ask("x") | {"messages": [{"role": "model", "content": "x"}]}, "messages[0].role", 400),
    (ask("x") | {"messages": [{"role": "user", "content": None}]}, "messages[0].content", 400),
    (ask("x") | {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].type", 400),
    (ask("x") | {"messages": [{"role": "tool", "content": "x", "tool_call_id": "c"}]}, "messages[0].role", 400),
    (ask("x") | {"messages": [{"role": "assistant", "content": None, "tool_calls": [call("f")]}]},
     "messages[1].role", 400),
    (ask("x") | {"messages": [{"role": "assistant", "content": None, "tool_calls": [call("mcp.dotted")]}]},
     "messages[0].tool_calls[0].function.name", 400),
    (ask("x", tool("a" * 65)), "tools[0].function.name", 400),
    (ask("x") | {"tools": []}, "tools", 400),
    (ask("x", *[tool("a")] * 129), "tools", 400),
    (ask("x", {"type": "function", "function": {"name": "a", "parameters": {"type": "array"}}}),
     "tools[0].function.parameters", 400),
])
def test_a_mistake_is_refused_with_its_place(request_: Any, param: str | None, status: int) -> None:
    with pytest.raises(DemoError) as caught:
        check_request(request_)
    assert (caught.value.param, caught.value.status) == (param, status)
