"""Exchanges whose client and provider have one API, through the public API of `Translation`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from extproc import Translation
from extproc.apis.base import ProviderRequest
from tests.providers.anthropic_rules import refusal

CLAUDE = "claude-sonnet-4-5"
URLS = {"anthropic": "https://api.anthropic.com/v1", "openai": "https://api.openai.com/v1"}
MODELS = {"anthropic": CLAUDE, "openai": "gpt-4o"}
DEEPSEEK: dict[str, Any] = {"url": "https://api.deepseek.com/anthropic", "model": "deepseek-chat"}
STREAM = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
BASE: dict[str, dict[str, Any]] = {
    "anthropic": {"model": CLAUDE, "max_tokens": 1000},
    "openai": {"model": "gpt-4o"},
}
HI = [{"role": "user", "content": "hi"}]
READ: dict[str, Any] = {"name": "read", "description": "reads", "input_schema": {"type": "object", "properties": {}}}
LOOK: dict[str, Any] = {
    "type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}


def new_translation(api: str, **settings: Any) -> Translation:
    return Translation(api, api, **{"model": MODELS[api], "url": URLS[api], **settings})


def body_of(api: str, **fields: Any) -> bytes:
    """A request; fields that are None are left out."""
    body = {**BASE[api], "messages": HI, **fields}
    return json.dumps({name: value for name, value in body.items() if value is not None}).encode()


def send_request(api: str, headers: dict[str, str] | None = None, settings: dict[str, Any] | None = None,
                 **fields: Any) -> tuple[ProviderRequest, Translation]:
    """The provider's request for these fields."""
    talk = new_translation(api, **(settings or {}))
    return talk.request(body_of(api, **fields), headers), talk


def sent_body(settings: dict[str, Any] | None = None, *, checked: bool = True, **fields: Any) -> dict[str, Any]:
    """The body for Anthropic, checked against its rules."""
    request, _ = send_request("anthropic", None, settings, **fields)
    body: dict[str, Any] = json.loads(request.body)
    if checked:
        assert refusal(body, request.headers) is None, refusal(body, request.headers)
    return body


def receive(api: str, provider: bytes | Iterable[bytes], *, stream: bool = True, whole: bool | None = None,
            settings: dict[str, Any] | None = None, status: int = 200,
            **fields: Any) -> tuple[bytes, Translation]:
    """The client's bytes for this response. `whole`: the provider's response is one body."""
    _, talk = send_request(api, None, settings, stream=stream, **fields)
    talk.start(status, JSON if (not stream if whole is None else whole) else STREAM)
    pieces = [provider] if isinstance(provider, bytes) else provider
    out = b"".join(talk.feed(piece) for piece in pieces)
    return out + talk.finish(), talk


def event_data(out: bytes) -> list[Any]:
    """The decoded data of all events."""
    found = [line[6:] for line in out.split(b"\n") if line.startswith(b"data: ")]
    return [None if data == b"[DONE]" else json.loads(data) for data in found]


def event_names(out: bytes) -> list[str]:
    return [line[7:].decode() for line in out.split(b"\n") if line.startswith(b"event: ")]


def chunk(*choices: Any, model: str = "gpt-4o-2024-08-06", **more: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 5, "model": model,
            "choices": list(choices), **more}


def choice(finish: str | None = None, *, at: int = 0, **delta: Any) -> dict[str, Any]:
    return {"index": at, "delta": delta, "logprobs": None, "finish_reason": finish}


def sse(*chunks: Any, done: bool = True, spaced: bool = False) -> bytes:
    """Chunks as OpenAI writes them; bytes are used unchanged."""
    separators = (", ", ": ") if spaced else (",", ":")
    parts = [one if isinstance(one, bytes) else b"data: %b\n\n" % json.dumps(one, separators=separators).encode()
             for one in chunks]
    return b"".join([*parts, b"data: [DONE]\n\n" if done else b""])
