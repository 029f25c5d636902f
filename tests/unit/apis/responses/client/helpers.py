"""Shorthand for Responses requests and responses, with the official SDK as reader."""

from __future__ import annotations

import json
from typing import Any

from openai.types.responses import Response

from extproc.apis.responses.client import API
from extproc.apis.responses.client.request import ResponsesRequest
from extproc.bounds import Limits
from extproc.conversation.model import (
    ArgumentsDelta,
    Block,
    BlockStop,
    Event,
    Finish,
    FinishReason,
    SignatureDelta,
    Start,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallStart,
    Usage,
)
from extproc.conversation.unsupported import Dropped
from tests.unit.apis.responses.client.grammar import check_stream

HI = {"role": "user", "content": "hi"}
ID = "msg_0123"


def decode(*items: dict[str, Any], dropped: Dropped | None = None, **fields: Any) -> ResponsesRequest:
    """A request with these items ("hi" if there are none)."""
    body = json.dumps({"model": "m", "input": list(items) or [HI], **fields}).encode()
    request = API.decode_request(body, {}, Dropped() if dropped is None else dropped, Limits())
    assert isinstance(request, ResponsesRequest)
    return request


def blocks(request: ResponsesRequest) -> list[tuple[str, list[Block]]]:
    return [(message.role, message.content) for message in request.messages]


def stream(*events: Event, request: ResponsesRequest | None = None, **fields: Any) -> list[dict[str, Any]]:
    """The events of the response in a stream, checked against the grammar."""
    wanted = request or decode(stream=True, **fields)
    wanted.stream = True
    return check_stream(API.make_response_encoder(wanted, ID, lambda: 7).encode_events([Start(), *events]))


def whole(*events: Event, request: ResponsesRequest | None = None, **fields: Any) -> dict[str, Any]:
    """The response object, which the SDK reads too."""
    wanted = request or decode(**fields)
    wanted.stream = False
    body = API.make_response_encoder(wanted, ID, lambda: 7).encode_events([Start(), *events])
    Response.model_validate_json(body)
    read: dict[str, Any] = json.loads(body)
    return read


def items(*events: Event, request: ResponsesRequest | None = None, **fields: Any) -> list[dict[str, Any]]:
    """The output items: the same in a stream and whole."""
    wanted = request or decode(**fields)
    streamed = stream(*events, request=wanted)[-1]["response"]
    assert whole(*events, request=wanted) == streamed
    found: list[dict[str, Any]] = streamed["output"]
    return found


def text(*pieces: str) -> list[Event]:
    return [TextStart(), *map(TextDelta, pieces), BlockStop()]


def thinking(*pieces: str, signature: str | None = None) -> list[Event]:
    signed = [] if signature is None else [SignatureDelta(signature)]
    return [ThinkingStart(), *map(ThinkingDelta, pieces), *signed, BlockStop()]


def call(name: str, *pieces: str, id: str = "call_1", ended: bool = True) -> list[Event]:
    return [ToolCallStart(id, name), *map(ArgumentsDelta, pieces), *([BlockStop()] if ended else [])]


def finish(reason: FinishReason = "stop", **usage: int) -> Finish:
    return Finish(reason, Usage(**usage) if usage else Usage(input=10, output=5))


def function(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}, "strict": False,
            **fields}


def custom(name: str) -> dict[str, Any]:
    return {"type": "custom", "name": name, "description": "free text"}


def namespace(name: str, *tools: dict[str, Any]) -> dict[str, Any]:
    return {"type": "namespace", "name": name, "description": "d", "tools": list(tools)}
