"""Shorthand for requests to the Messages API and for its streams."""

from __future__ import annotations

import json
from typing import Any

from extproc.apis.anthropic.provider.request import encode_request
from extproc.apis.base import DecodeContext, ProviderRequest
from extproc.conversation.model import Request
from extproc.conversation.unsupported import Dropped
from extproc.profiles import find_profile
from extproc.profiles.target import Target
from tests.playbook import context as plain_context
from tests.providers.anthropic_rules import refusal
from tests.unit.apis.openai.provider.helpers import assistant, call, result, system, tool, user

__all__ = ["assistant", "call", "encode", "event", "result", "sent", "stream", "system", "target", "tool", "user"]

HAIKU_45 = "claude-haiku-4-5"


def target(model: str = HAIKU_45, **settings: Any) -> Target:
    return Target(model=model, profile=find_profile(None, None, model), **{"endpoint": "api.anthropic.com", **settings})


def sent(*messages: Any, model: str = HAIKU_45, settings: dict[str, Any] | None = None,
         dropped: Dropped | None = None, **fields: Any) -> ProviderRequest:
    """The request with these messages ("hi" if there are none)."""
    request = Request(model="client-model", messages=list(messages) or [user("hi")], **fields)
    return encode_request(request, target(model, **(settings or {})),
                          Dropped() if dropped is None else dropped).request


def encode(*messages: Any, checked: bool = True, **fields: Any) -> dict[str, Any]:
    """The decoded body. Anthropic's rules are checked unless `checked` is off (compatible endpoints)."""
    request = sent(*messages, **fields)
    body: dict[str, Any] = json.loads(request.body)
    if checked:
        assert refusal(body, request.headers) is None, refusal(body, request.headers)
    return body


def context(tools: tuple[str, ...] = ("lookup_tide", "ping"), model: str = HAIKU_45, *,
            scanner: Any = None, **settings: Any) -> DecodeContext:
    made = plain_context(tools)
    fields = {name: getattr(made, name) for name in made.__struct_fields__}
    fields["target"] = target(model, **settings)
    if scanner is not None:
        fields["scanner"] = scanner
    return DecodeContext(**fields)


def event(value: dict[str, Any], *, named: bool = True) -> bytes:
    head = f"event: {value['type']}\n" if named else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def stream(*blocks: Any, stop: str | None = "end_turn", usage: dict[str, Any] | None = None, start: bool = True,
           end: bool = True, named: bool = True, **stopped: Any) -> bytes:
    """A stream of blocks. A block is (its start, its deltas...); a string is a whole text block."""
    events: list[dict[str, Any]] = []
    if start:
        events.append({"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}})
    for index, block in enumerate(blocks):
        opening, *deltas = text(block) if isinstance(block, str) else block
        events.append({"type": "content_block_start", "index": index, "content_block": opening})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    if stop is not None:
        events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None, **stopped},
                       "usage": {"output_tokens": 20} if usage is None else usage})
    if end:
        events.append({"type": "message_stop"})
    return b"".join(event(value, named=named) for value in events)


def text(content: str, size: int = 4) -> list[dict[str, Any]]:
    pieces = [content[i:i + size] for i in range(0, len(content), size)]
    return [{"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces)]


def thinking(content: str, signature: str | None = "c2ln") -> list[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"type": "thinking_delta", "thinking": content}] if content else []
    if signature is not None:
        deltas.append({"type": "signature_delta", "signature": signature})
    return [{"type": "thinking", "thinking": "", "signature": ""}, *deltas]


def tool_use(call_id: str, name: str, *pieces: str, given: Any = None) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": call_id, "name": name, "input": {} if given is None else given},
            *({"type": "input_json_delta", "partial_json": piece} for piece in pieces)]
