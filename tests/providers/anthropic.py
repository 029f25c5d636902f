"""A strict, scripted provider of the Messages API: requests in, scripted answers out, every request recorded.

A test gives it a script (`provider.script(text("hi"), status(429), ...)`): each request takes the next answer; or a
function that chooses by the request (`provider.always`). A request that Anthropic would refuse gets Anthropic's 400 and
is kept in `provider.violations`. Answers adapt to the request (a stream when it asks for one) unless they are raw.
"""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from tests.providers.anthropic_rules import refusal
from tests.providers.http import Exchange, Gate, Reply
from tests.providers.scripted import JsonRecord, ScriptedProvider, decoded

EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "request-id": "req_scripted"}
JSON = {"content-type": "application/json", "request-id": "req_scripted"}
USAGE = {"input_tokens": 21, "output_tokens": 7}
SIGNATURE = "c2lnbmF0dXJl"
Block = dict[str, Any]


Seen = JsonRecord
Answer = Reply | Callable[[Seen], Reply]


class AnthropicProvider(ScriptedProvider[Seen]):
    """See the module's docstring."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def judge(self, exchange: Exchange) -> tuple[Seen, Reply | None]:
        seen = Seen(exchange, decoded(exchange.raw))
        path = exchange.path.partition("?")[0]
        if exchange.method == "POST" and path.endswith("/messages"):
            seen.violation = refusal(seen.body, exchange.headers)
        if exchange.method == "GET" and path.endswith("/models"):
            return seen, json({"data": [], "has_more": False, "first_id": None, "last_id": None})
        if path.endswith("/messages/count_tokens"):
            return seen, json({"input_tokens": 42})
        if not path.endswith("/messages") or exchange.method != "POST":
            return seen, status(404, anthropic_error("not_found_error", "Not found"))
        if seen.violation is not None:
            return seen, status(400, anthropic_error("invalid_request_error", seen.violation))
        return seen, None

    def out_of_script(self) -> Reply:
        return status(500, anthropic_error("api_error", "the script of this test has no further answer"))


# ------------------------------------------------------------------------------------------------------------- blocks
def text_block(content: str) -> Block:
    return {"type": "text", "text": content}


def thinking_block(content: str, signature: str = SIGNATURE) -> Block:
    return {"type": "thinking", "thinking": content, "signature": signature}


def tool_use_block(id_: str, name: str, arguments: Any) -> Block:
    """`arguments` is a value, or JSON text that a stream sends as it is."""
    return {"type": "tool_use", "id": id_, "name": name, "input": arguments}


# ------------------------------------------------------------------------------------------------------------ answers
def text(content: str, *, pieces: int = 5, usage: Mapping[str, Any] = USAGE, stop: str = "end_turn",
         thinking: str = "") -> Answer:
    """A text answer, streamed in pieces of `pieces` characters when the request asks for a stream."""
    blocks = [thinking_block(thinking)] if thinking else []
    return message([*blocks, text_block(content)], stop=stop, usage=usage, pieces=pieces)


def calls(*wanted: tuple[str, str, Any], content: str = "", thinking: str = "", pieces: int = 7,
          stop: str = "tool_use", usage: Mapping[str, Any] = USAGE) -> Answer:
    """Tool calls as (id, name, arguments); arguments are JSON text, or a value that is written as JSON."""
    blocks = [thinking_block(thinking)] if thinking else []
    blocks += [text_block(content)] if content else []
    return message([*blocks, *(tool_use_block(*call) for call in wanted)], stop=stop, usage=usage, pieces=pieces)


def message(blocks: Sequence[Block], *, stop: str | None = "end_turn", usage: Mapping[str, Any] = USAGE,
            pieces: int = 5) -> Answer:
    """A message of these blocks, whole or streamed as the request asks."""
    def answer(seen: Seen) -> Reply:
        if seen.body.get("stream"):
            return sse(events(blocks, stop=stop, usage=usage, pieces=pieces))
        content = [{**block, "input": jsonlib.loads(block["input"])} if isinstance(block.get("input"), str) else block
                   for block in blocks]
        return json({**head(usage), "content": content, "stop_reason": stop, "usage": dict(usage)})
    return answer


def head(usage: Mapping[str, Any] = USAGE) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}


def events(blocks: Sequence[Block], *, stop: str | None = "end_turn", usage: Mapping[str, Any] = USAGE,
           pieces: int = 5) -> list[dict[str, Any]]:
    """The events of a stream. Without a `stop` they break off behind the last block."""
    out: list[dict[str, Any]] = [{"type": "message_start", "message": head(usage)}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        opening, deltas = _streamed(block, pieces)
        out.append({"type": "content_block_start", "index": index, "content_block": opening})
        out += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        out.append({"type": "content_block_stop", "index": index})
    if stop is not None:
        out.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
                    "usage": {"output_tokens": usage.get("output_tokens", 0)}})
        out.append({"type": "message_stop"})
    return out


def _streamed(block: Block, pieces: int) -> tuple[Block, list[Block]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in cut(block["text"], pieces)]
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in cut(block["thinking"], pieces)]
        return ({**block, "thinking": "", "signature": ""},
                [*deltas, {"type": "signature_delta", "signature": block["signature"]}])
    if block["type"] == "tool_use":
        given = block["input"]
        whole = given if isinstance(given, str) else jsonlib.dumps(given)
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece}
                                        for piece in ["", *cut(whole, pieces)]]
    return block, []


def sse(items: Sequence[Mapping[str, Any] | str | Gate], *, end: Literal["end", "cut", "reset", "hang"] = "end",
        headers: Mapping[str, str] | None = None, newline: str = "\n", named: bool = True) -> Reply:
    """Events as written: a mapping is an event, a string is raw text of the stream."""
    body: list[bytes | Gate] = []
    for item in items:
        if isinstance(item, Gate):
            body.append(item)
        elif isinstance(item, str):
            body.append(item.encode())
        else:
            name = f"event: {item['type']}{newline}" if named else ""
            data = jsonlib.dumps(item, ensure_ascii=False, separators=(",", ":"))
            body.append(f"{name}data: {data}{newline}{newline}".encode())
    return Reply(200, {**EVENT_STREAM, **(headers or {})}, body, end=end)


def error_event(kind: str, why: str) -> dict[str, Any]:
    """An error that takes the place of the rest of a stream."""
    return anthropic_error(kind, why)


def json(value: Any, *, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(200, {**JSON, **(headers or {})}, [jsonlib.dumps(value).encode()], framing="length")


def status(code: int, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
    """An error answer. `body`: bytes or text go out as they are, anything else as JSON, None is an empty body."""
    if body is None:
        data = b""
    elif isinstance(body, bytes):
        data = body
    else:
        data = body.encode() if isinstance(body, str) else jsonlib.dumps(body).encode()
    return Reply(code, {**JSON, **(headers or {})}, [data], framing="length")


def anthropic_error(kind: str, why: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": why}, "request_id": "req_scripted"}


def cut(whole: str, size: int) -> Iterator[str]:
    return (whole[i:i + size] for i in range(0, len(whole), size))
