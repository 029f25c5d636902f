"""Requests for the final answer of a conversation: `finalize: true` in an events request, or `x-extproc-finalize: true`
with a chat completion.

A front end that ran out of rounds or time holds calls without results, or results without their calls. Calls get a
result that says they were not run. Results without a call become readable text. The tools may not be called, and a note
of the configuration asks for the answer. Other requests are not changed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from extproc.apis.openai.client.request import ChatRequest
from extproc.apis.shared.wire import refused
from extproc.conversation.model import Block, Message, Text, ToolCall, ToolChoice, ToolResult
from extproc.conversation.unsupported import Dropped
from extproc.headers import FINALIZE_HEADER

NOT_RUN = "This call was not run: the final answer is wanted now."


def wants_final(headers: Mapping[str, str]) -> bool:
    """True if the headers (names in lower case) ask for the final answer. Raises BadRequest."""
    wished = headers.get(FINALIZE_HEADER)
    if wished is None:
        return False
    word = wished.strip().lower()
    if word not in ("true", "false"):
        raise refused(FINALIZE_HEADER, f"expected true or false, got {wished[:40]!r}")
    return word == "true"


def finalize(request: ChatRequest, note: str, dropped: Dropped) -> ChatRequest:
    """The request with a result for every call, no tool to be called, and the note as the last message (none if it is
    empty)."""
    messages = _reconciled(request.messages, dropped)
    if note:
        messages.append(Message("system", [Text(note)]))
    choice = ToolChoice("none") if request.tools or request.server_tools else None
    return msgspec.structs.replace(request, messages=messages, tool_choice=choice, parallel_tool_calls=None)


def _reconciled(messages: list[Message], dropped: Dropped) -> list[Message]:
    called = {block.id for message in messages for block in message.content if isinstance(block, ToolCall)}
    answered = {block.call_id for message in messages for block in message.content if isinstance(block, ToolResult)}
    out: list[Message] = []
    missing: list[Block] = []
    for message in messages:
        content = [part for block in message.content for part in _readable(block, called, dropped)]
        if missing and message.role == "user":
            content = [*missing, *content]
        elif missing:
            out.append(Message("user", missing))
        out.append(Message(message.role, content))
        missing = [ToolResult(block.id, [Text(NOT_RUN)], name=block.name) for block in content
                   if isinstance(block, ToolCall) and block.id not in answered]
    if missing:
        out.append(Message("user", missing))
    return out


def _readable(block: Block, called: set[str], dropped: Dropped) -> list[Block]:
    """The block itself; a result without its call becomes text and media."""
    if not isinstance(block, ToolResult) or block.call_id in called:
        return [block]
    dropped.hint("tool_result.without_call")
    return [Text(f"[result of {_tool(block)}]"), *block.content]


def _tool(result: ToolResult) -> str:
    name = result.name or result.call_id
    return f"the tool {name}" if name else "a tool"
