"""Shorthand for chat requests and responses, with the official SDK as reader."""

from __future__ import annotations

import json
from typing import Any

from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from extproc.apis.openai.client import API
from extproc.bounds import Limits
from extproc.conversation.model import (
    ArgumentsDelta,
    Block,
    BlockStop,
    Event,
    Finish,
    FinishReason,
    Message,
    Request,
    SignatureDelta,
    Start,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCall,
    ToolCallStart,
    ToolResult,
    Usage,
)
from extproc.conversation.unsupported import Dropped

USER = {"role": "user", "content": "hi"}


def decode(*messages: dict[str, Any], dropped: Dropped | None = None, **fields: Any) -> Request:
    """A request with these messages ("hi" if there are none)."""
    body = json.dumps({"model": "m", "messages": list(messages) or [USER], **fields}).encode()
    return API.decode_request(body, {}, Dropped() if dropped is None else dropped, Limits())


def blocks(request: Request) -> list[tuple[str, list[Block]]]:
    return [(message.role, message.content) for message in request.messages]


def calls(request: Request) -> list[ToolCall]:
    return [block for message in request.messages for block in message.content if isinstance(block, ToolCall)]


def results(request: Request) -> list[ToolResult]:
    return [block for message in request.messages for block in message.content if isinstance(block, ToolResult)]


def with_calls(*calls: tuple[str | None, str], **fields: Any) -> dict[str, Any]:
    """An assistant message with these calls (id, name)."""
    listed = [{"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
              for call_id, name in calls]
    return {"role": "assistant", "content": None, "tool_calls": listed, **fields}


def text(*pieces: str) -> list[Event]:
    return [TextStart(), *map(TextDelta, pieces), BlockStop()]


def thinking(words: str, signature: str | None = None) -> list[Event]:
    signed: list[Event] = [SignatureDelta(signature)] if signature else []
    return [ThinkingStart(), ThinkingDelta(words), *signed, BlockStop()]


def call(call_id: str, name: str, *pieces: str) -> list[Event]:
    return [ToolCallStart(call_id, name), *map(ArgumentsDelta, pieces), BlockStop()]


def finished(*parts: list[Event], reason: FinishReason = "stop", usage: Usage | None = None) -> list[Event]:
    return [Start(), *(event for part in parts for event in part), Finish(reason, usage or Usage(10, 5))]


def request_with(**fields: Any) -> Request:
    return Request(model="m", messages=[Message("user", [])], **fields)


def stream(events: list[Event], request: Request | None = None) -> bytes:
    request = request or request_with(stream=True)
    return API.make_response_encoder(request, "msg_1", lambda: 7).encode_events(events)


def chunks(wire: bytes) -> list[dict[str, Any]]:
    """The chunks of a stream that ended properly."""
    *events, done, rest = wire.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]


def accumulated(wire: bytes) -> dict[str, Any]:
    """The message from the SDK's own accumulator; every chunk is strictly of the SDK's type."""
    state: ChatCompletionStreamState[Any] = ChatCompletionStreamState()
    for chunk in chunks(wire):
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk, strict=True))
    completion: dict[str, Any] = state.current_completion_snapshot.to_dict()
    choice = completion["choices"][0]
    if choice["finish_reason"] not in ("length", "content_filter"):  # the SDK raises on these
        state.get_final_completion()
    for listed in choice["message"].get("tool_calls") or []:
        listed["function"].pop("parsed_arguments", None)
    return {**choice["message"], "finish_reason": choice["finish_reason"], "usage": completion.get("usage")}


def whole(events: list[Event], request: Request | None = None) -> dict[str, Any]:
    """The message of a whole response, strictly of the SDK's type."""
    wire = API.make_response_encoder(request or request_with(), "msg_1", lambda: 7).encode_events(events)
    body: dict[str, Any] = json.loads(wire)
    ChatCompletion.model_validate(body, strict=True)
    choice = body["choices"][0]
    return {**choice["message"], "finish_reason": choice["finish_reason"], "usage": body["usage"]}
