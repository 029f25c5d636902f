"""Helpers for Gemini's responses: chunks and parts, as streams, arrays and whole bodies."""

from __future__ import annotations

import json
from typing import Any

from extproc.apis.base import DecodeContext
from extproc.apis.gemini.provider.response import GeminiResponseDecoder
from extproc.conversation.model import Event
from tests.playbook import context, script

Json = dict[str, Any]


def chunk(*parts: object, finish: str | None = None, message: str | None = None, usage: Json | None = None,
          **more: object) -> Json:
    """A chunk with these parts. `more`: further fields of the candidate."""
    candidate: Json = {"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}
    if finish is not None:
        candidate["finishReason"] = finish
    if message is not None:
        candidate["finishMessage"] = message
    out: Json = {"candidates": [candidate], "modelVersion": "gemini-3-pro", "responseId": "r1"}
    return out if usage is None else {**out, "usageMetadata": usage}


def text(words: str, signature: str | None = None) -> Json:
    return {"text": words} if signature is None else {"text": words, "thoughtSignature": signature}


def thought(words: str, signature: str | None = None) -> Json:
    return {**text(words, signature), "thought": True}


def call(name: str | None = None, args: object = ..., signature: str | None = None, **more: object) -> Json:
    """A functionCall part; without `args` the field is absent."""
    function: Json = dict(more)
    if name is not None:
        function["name"] = name
    if args is not ...:
        function["args"] = args
    return {"functionCall": function} if signature is None else {"functionCall": function,
                                                                  "thoughtSignature": signature}


def piece(path: str, more: bool = False, **value: object) -> Json:
    """An element of partialArgs."""
    return {"jsonPath": path, **value, **({"willContinue": True} if more else {})}


def sse(*chunks: object) -> bytes:
    """Chunks as a stream; strings are data of their own."""
    lines = [part if isinstance(part, str) else json.dumps(part, ensure_ascii=False) for part in chunks]
    return "".join(f"data: {line}\r\n\r\n" for line in lines).encode()


def decode(body: bytes, ctx: DecodeContext | None = None) -> list[Event]:
    decoder = GeminiResponseDecoder(ctx or context())
    return decoder.feed(body) + decoder.finish()


def script_of(*chunks: object, ctx: DecodeContext | None = None) -> list[str]:
    """The script of a stream of these chunks."""
    return script(decode(sse(*chunks), ctx))
