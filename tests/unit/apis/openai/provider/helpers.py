"""Shorthand for requests and the strict pairing rule that providers check."""

from __future__ import annotations

import json
from typing import Any

from extproc.apis.openai.provider.request import encode_request
from extproc.conversation.model import Message, Request, Text, Tool, ToolCall, ToolResult
from extproc.conversation.unsupported import Dropped
from extproc.profiles import find_profile
from extproc.profiles.profile import Profile
from extproc.profiles.target import Target

GENERIC = find_profile(None, None, "some-model")


def user(*content: Any) -> Message:
    return Message("user", [Text(block) if isinstance(block, str) else block for block in content])


def assistant(*content: Any) -> Message:
    return Message("assistant", [Text(block) if isinstance(block, str) else block for block in content])


def system(text: str) -> Message:
    return Message("system", [Text(text)])


def call(call_id: str, name: str = "read", arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def result(call_id: str, *content: Any, is_error: bool = False) -> ToolResult:
    return ToolResult(call_id, [Text(block) if isinstance(block, str) else block for block in content], is_error)


def tool(name: str, schema: dict[str, object] | None = None) -> Tool:
    return Tool(name, "does it", {"type": "object", "properties": {}} if schema is None else schema)


def target(profile: Profile = GENERIC, **settings: Any) -> Target:
    return Target(model="some-model", profile=profile, **settings)


def encode(*messages: Message, profile: Profile = GENERIC, settings: dict[str, Any] | None = None,
           dropped: Dropped | None = None, **fields: Any) -> dict[str, Any]:
    """The decoded body of a request with these messages ("hi" if there are none)."""
    request = Request(model="client-model", messages=list(messages) or [user("hi")], **fields)
    sent = encode_request(request, target(profile, **(settings or {})), Dropped() if dropped is None else dropped)
    body: dict[str, Any] = json.loads(sent.request.body)
    return body


def assert_strictly_paired(messages: list[dict[str, Any]]) -> None:
    """Asserts: directly after each assistant message with tool_calls comes one tool message per call, in call order; no
    tool message is anywhere else; ids are unique in the conversation; no message is empty."""
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            assert waiting, f"a tool message without a call: {message}"
            assert message["tool_call_id"] == waiting.pop(0)
            assert isinstance(message["content"], str)
            assert message["content"]
            continue
        assert not waiting, f"calls without a result: {waiting}"
        waiting = [entry["id"] for entry in message.get("tool_calls", [])]
        assert message["content"] or waiting
        assert seen.isdisjoint(waiting)
        seen.update(waiting)
    assert not waiting
