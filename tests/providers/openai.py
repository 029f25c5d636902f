"""A strict, scripted Chat Completions provider: requests in, scripted answers out, every request recorded.

A test gives it a script (`provider.script(text("hi"), status(429), ...)`): each request takes the next answer; or a
function that chooses by the request (`provider.always`). A request that OpenAI (or another `endpoint`) would refuse
gets a 400 in its words and is kept in `provider.violations`. Answers adapt to the request (a stream when it asks for
one) unless they are raw.
"""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from tests.providers.http import Exchange, Gate, Reply
from tests.providers.openai_rules import refusal
from tests.providers.scripted import JsonRecord, ScriptedProvider, decoded

EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}
USAGE = {"prompt_tokens": 21, "completion_tokens": 7, "total_tokens": 28}
CREATED = 1700000000


Seen = JsonRecord
Answer = Reply | Callable[[Seen], Reply]


class OpenAIProvider(ScriptedProvider[Seen]):
    """See the module's docstring. `endpoint` says whose rules hold (a name in `openai_strictness.STRICTNESS`)."""

    def __init__(self, *, strict: bool = True, endpoint: str = "openai") -> None:
        super().__init__(strict=strict)
        self.endpoint = endpoint

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def judge(self, exchange: Exchange) -> tuple[Seen, Reply | None]:
        seen = Seen(exchange, decoded(exchange.raw))
        refused = refusal(seen.body, self.endpoint) if exchange.method == "POST" else None
        if exchange.method == "POST":
            seen.violation = refused.message if refused else _misaddressed(exchange)
        if exchange.method == "GET" and exchange.path.endswith("/models"):
            return seen, json({"object": "list", "data": []})
        if not exchange.path.partition("?")[0].endswith("/chat/completions") or exchange.method != "POST":
            return seen, status(404, openai_error(f"Invalid URL ({exchange.method} {exchange.path})"))
        if seen.violation is not None:
            return seen, status(400, refused.body() if refused else openai_error(seen.violation))
        return seen, None

    def out_of_script(self) -> Reply:
        return status(500, openai_error("the script of this test has no further answer"))


def _misaddressed(exchange: Exchange) -> str | None:
    if "application/json" not in exchange.headers.get("content-type", ""):
        return "the content type is not application/json"
    if "x-api-key" in exchange.headers or "anthropic-version" in exchange.headers:
        return "a header of another API"
    return None


# ------------------------------------------------------------------------------------------------------------ answers
def text(content: str, *, pieces: int = 5, usage: Mapping[str, Any] | None = USAGE, finish: str = "stop",
         reasoning: str = "") -> Answer:
    """A text answer, streamed in pieces of `pieces` characters when the request asks for a stream."""
    def answer(seen: Seen) -> Reply:
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if reasoning:
            message["reasoning_content"] = reasoning
        if not seen.body.get("stream"):
            return completion(message, finish=finish, usage=usage)
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": piece} for piece in cut(reasoning, pieces)]
        deltas += [{"content": piece} for piece in cut(content, pieces)]
        return stream(deltas, finish=finish, usage=usage)
    return answer


def calls(*wanted: tuple[str, str, Any], content: str = "", pieces: int = 7, finish: str = "tool_calls",
          usage: Mapping[str, Any] | None = USAGE) -> Answer:
    """Tool calls as (id, name, arguments); arguments are JSON text, or a value that is written as JSON."""
    texts = [(id_, name, a if isinstance(a, str) else jsonlib.dumps(a)) for id_, name, a in wanted]

    def answer(seen: Seen) -> Reply:
        if not seen.body.get("stream"):
            found = [{"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
                     for id_, name, arguments in texts]
            return completion({"role": "assistant", "content": content or None, "tool_calls": found}, finish=finish,
                              usage=usage)
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": content or None}]
        for index, (id_, name, arguments) in enumerate(texts):
            deltas.append(call_start(index, id_, name))
            deltas += [call_arguments(index, piece) for piece in cut(arguments, pieces)]
        return stream(deltas, finish=finish, usage=usage)
    return answer


def call_start(index: int | None, id_: str | None, name: str | None, arguments: Any = "") -> dict[str, Any]:
    """The delta that opens a call; None leaves a field out."""
    call: dict[str, Any] = {"type": "function", "function": {"arguments": arguments}}
    if index is not None:
        call["index"] = index
    if id_ is not None:
        call["id"] = id_
    if name is not None:
        call["function"]["name"] = name
    return {"tool_calls": [call]}


def call_arguments(index: int, piece: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def chunk(delta: Mapping[str, Any] | None = None, *, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    """One `chat.completion.chunk`; without a delta and a finish it has no choice."""
    choices = [] if delta is None and finish is None else [
        {"index": 0, "delta": dict(delta or {}), "logprobs": None, "finish_reason": finish}]
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": CREATED, "model": "scripted",
            "choices": choices, **extra}


def stream(deltas: Sequence[Mapping[str, Any] | Gate], *, finish: str | None = "stop",
           usage: Mapping[str, Any] | None = USAGE, done: bool = True) -> Reply:
    """Deltas as an event stream, then the finish chunk, the usage chunk and [DONE]. Gates may stand between."""
    items: list[Mapping[str, Any] | Gate] = [d if isinstance(d, Gate) else chunk(d) for d in deltas]
    if finish is not None:
        items.append(chunk({}, finish=finish))
    if usage is not None:
        items.append(chunk(usage=usage))
    return sse(items, done=done)


def sse(items: Sequence[Mapping[str, Any] | str | Gate], *, done: bool = True,
        end: Literal["end", "cut", "reset", "hang"] = "end", headers: Mapping[str, str] | None = None,
        newline: str = "\n") -> Reply:
    """Events as written: a mapping is a `data:` line of JSON, a string is raw text of the stream."""
    body: list[bytes | Gate] = []
    for item in items:
        if isinstance(item, Gate):
            body.append(item)
        elif isinstance(item, str):
            body.append(item.encode())
        else:
            data = jsonlib.dumps(item, ensure_ascii=False, separators=(",", ":"))
            body.append(f"data: {data}{newline}{newline}".encode())
    if done:
        body.append(f"data: [DONE]{newline}{newline}".encode())
    return Reply(200, {**EVENT_STREAM, **(headers or {})}, body, end=end)


def raw(pieces: Sequence[bytes | Gate], *, end: Literal["end", "cut", "reset", "hang"] = "end",
        headers: Mapping[str, str] = EVENT_STREAM, code: int = 200,
        framing: Literal["chunked", "length", "close"] = "chunked") -> Reply:
    return Reply(code, dict(headers), list(pieces), end=end, framing=framing)


def json(value: Any, *, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply(200, {**JSON, **(headers or {})}, [jsonlib.dumps(value).encode()], framing="length")


def completion(message: Mapping[str, Any], *, finish: str | None = "stop", usage: Mapping[str, Any] | None = USAGE,
               **extra: Any) -> Reply:
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": CREATED, "model": "scripted",
            "choices": [{"index": 0, "message": dict(message), "logprobs": None, "finish_reason": finish}], **extra}
    if usage is not None:
        body["usage"] = dict(usage)
    return json(body)


def status(code: int, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
    """An error answer. `body`: bytes or text go out as they are, anything else as JSON, None is an empty body."""
    if body is None:
        data = b""
    elif isinstance(body, bytes):
        data = body
    else:
        data = body.encode() if isinstance(body, str) else jsonlib.dumps(body).encode()
    return Reply(code, {**JSON, **(headers or {})}, [data], framing="length")


def stall(gate: Gate, then: Answer) -> Answer:
    """Holds the whole answer, its head included, until the gate is opened."""
    def answer(seen: Seen) -> Reply:
        reply = then if isinstance(then, Reply) else then(seen)
        return Reply(reply.status, reply.headers, reply.body, reply.end, reply.framing, hold=gate)
    return answer


def openai_error(message: str, *, kind: str = "invalid_request_error", code: Any = None) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def cut(whole: str, size: int) -> Iterator[str]:
    return (whole[i:i + size] for i in range(0, len(whole), size))
