"""The text of a model, in any cut -> the response that an Anthropic client gets, through a whole `Translation`."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from extproc.conversation.model import ArgumentsDelta, Event, Finish, TextDelta, ThinkingDelta, ToolCallStart
from extproc.errors import Failure
from extproc.translation.exchange import Translation
from tests.playbook import delta

STOP_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
                "refusal": "content_filter", "model_context_window_exceeded": "length"}
_COMPARED = ("content", "reasoning", "tool_calls", "finish_reason")


def tool(name: str, required: tuple[str, ...] = (), **parameters: str | dict[str, Any]) -> dict[str, Any]:
    """A tool in OpenAI's format. A parameter is given as `name="type"` or `name={schema}`."""
    properties = {key: {"type": kind} if isinstance(kind, str) else kind for key, kind in parameters.items()}
    return {"type": "function", "function": {"name": name, "parameters": {
        "type": "object", "properties": properties, **({"required": list(required)} if required else {})}}}


def request_body(tools: list[dict[str, Any]], *, stream: bool = True) -> bytes:
    """A Messages request that offers OpenAI-format `tools`."""
    declared = [{"name": tool["function"]["name"], "description": tool["function"].get("description", ""),
                 "input_schema": tool["function"].get("parameters") or {"type": "object", "properties": {}}}
                for tool in tools]
    return json.dumps({"model": "m", "max_tokens": 1000, "stream": stream, "tools": declared,
                       "messages": [{"role": "user", "content": "go"}]}).encode()


def text_chunks(pieces: list[str], finish: str = "stop", field: str = "content") -> list[dict[str, Any]]:
    """Chat Completions chunks, one for each piece, and one with the finish reason."""
    return [*(delta(**{field: piece}) for piece in pieces), delta(finish)]


def sse_bytes(chunks: list[Any]) -> bytes:
    return b"".join(f"data: {json.dumps(c, ensure_ascii=False)}\n\n".encode() for c in chunks) + b"data: [DONE]\n\n"


def cuts(raw: str, seed: int = 7) -> Iterator[list[str]]:
    """The text whole, per character, and in some random pieces."""
    yield [raw]
    yield list(raw)
    rng = random.Random(seed)
    for _ in range(4):
        at = sorted(rng.randrange(len(raw) + 1) for _ in range(6))
        yield [raw[a:b] for a, b in zip([0, *at], [*at, len(raw)], strict=True)]


def client_response(stream: bytes | list[bytes], tools: list[dict[str, Any]], *, model: str = "m",
                    streamed: bool = True, **settings: Any) -> dict[str, Any]:
    """{content, reasoning, tool_calls: [[name, argument text]], finish_reason} of the client's response, and its
    `events` if it is streamed."""
    translation = Translation("anthropic", "openai", model, **settings)
    translation.request(request_body(tools, stream=streamed))
    translation.start(200, {"content-type": "text/event-stream"})
    pieces = [stream] if isinstance(stream, bytes) else stream
    out = b"".join(translation.feed(piece) for piece in pieces) + translation.finish()
    if not streamed:
        return _whole_message(out)
    got: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": None, "events": []}
    for block in out.decode().split("\n\n"):
        if not block:
            continue
        event = json.loads(block.split("data: ", 1)[1])
        got["events"].append(event)
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            got["tool_calls"].append([event["content_block"]["name"], ""])
        elif event["type"] == "content_block_delta":
            piece = event["delta"]
            got["content"] += piece.get("text", "")
            got["reasoning"] += piece.get("thinking", "")
            if "partial_json" in piece:
                got["tool_calls"][-1][1] += piece["partial_json"]
        elif event["type"] == "message_delta":
            got["finish_reason"] = STOP_REASONS[event["delta"]["stop_reason"]]
        elif event["type"] == "error":
            got["finish_reason"] = "error"
    return got


def _whole_message(body: bytes) -> dict[str, Any]:
    message = json.loads(body)
    if message["type"] == "error":
        return {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": "error"}
    blocks = message["content"]
    return {"content": "".join(b.get("text", "") for b in blocks),
            "finish_reason": STOP_REASONS[message["stop_reason"]],
            "reasoning": "".join(b.get("thinking", "") for b in blocks),
            "tool_calls": [[b["name"], json.dumps(b["input"])] for b in blocks if b["type"] == "tool_use"]}


def send_text(text: str | list[str], tools: list[dict[str, Any]], *, finish: str = "stop", field: str = "content",
              **settings: Any) -> dict[str, Any]:
    """`client_response` for a model's text, in one piece or in these pieces."""
    pieces = [text] if isinstance(text, str) else text
    return client_response(sse_bytes(text_chunks(pieces, finish, field)), tools, **settings)


def send_every_cut(text: str, tools: list[dict[str, Any]], *, finish: str = "stop", **settings: Any) -> dict[str, Any]:
    """`send_text`, which must give the same for every cut. A response that is not streamed must say the same, unless
    it fails or is cut off."""
    found = [send_text(pieces, tools, finish=finish, **settings) for pieces in cuts(text)]
    first = {key: found[0][key] for key in _COMPARED}
    for got in found:
        assert {key: got[key] for key in _COMPARED} == first
    if first["finish_reason"] not in ("error", "length"):
        whole = send_text(text, tools, finish=finish, streamed=False, **settings)
        assert _parsed(whole) == _parsed(first)
    return first


def _parsed(got: dict[str, Any]) -> dict[str, Any]:
    calls = [(name, json.loads(arguments or "{}")) for name, arguments in got["tool_calls"]]
    return {key: got[key] for key in _COMPARED} | {"tool_calls": calls}


def response_of_events(events: list[Event]) -> dict[str, Any]:
    """As `client_response`, for the events of a provider's decoder."""
    got: dict[str, Any] = {"content": "", "reasoning": "", "tool_calls": [], "finish_reason": None}
    for event in events:
        match event:
            case TextDelta(text):
                got["content"] += text
            case ThinkingDelta(text):
                got["reasoning"] += text
            case ToolCallStart(_, name):
                got["tool_calls"].append([name, ""])
            case ArgumentsDelta(text):
                got["tool_calls"][-1][1] += text
            case Finish(reason):
                got["finish_reason"] = reason
            case Failure():
                got["finish_reason"] = "error"
    return got
