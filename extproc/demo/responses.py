"""The script's output -> the bodies and stream chunks of OpenAI Chat Completions.

Ids are hashes of the request, and the time is fixed: the same request gets the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from extproc.demo.script import ScriptOutput

CREATED = 1_750_000_000
_WORDS = re.compile(r"\S+\s*|\s+")
_ARGUMENT_PIECE = 7
"""Characters of a call's arguments in one chunk."""


class DemoResponse:
    """One response, whole or as a stream."""

    def __init__(self, request: dict[str, Any], body: bytes, output: ScriptOutput) -> None:
        digest = hashlib.sha256(body).hexdigest()
        self._id, self._call_id = f"chatcmpl-{digest[:24]}", f"call_{digest[24:48]}"
        self._output = output
        self._model = request["model"]
        self._with_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        self._pieces, self._finish = _split_output(output, request)
        prompt = max(1, len(body) // 4)
        self._usage = {"prompt_tokens": prompt, "completion_tokens": max(1, len(self._pieces)),
                       "total_tokens": prompt + max(1, len(self._pieces)),
                       "prompt_tokens_details": {"cached_tokens": 0}}

    def body(self) -> bytes:
        """The body of a response without streaming."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self._pieces), "refusal": None}
        if self._output.tool is not None:
            call = {"id": self._call_id, "type": "function",
                    "function": {"name": self._output.tool, "arguments": "".join(self._pieces)}}
            message |= {"content": None, "tool_calls": [call]}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish}
        return _encode_json({"id": self._id, "object": "chat.completion", "created": CREATED, "model": self._model,
                      "choices": [choice], "usage": self._usage})

    def events(self) -> Iterator[bytes]:
        """The server-sent events of a streamed response."""
        if self._output.tool is None:
            yield self._chunk({"role": "assistant", "content": "", "refusal": None})
            for piece in self._pieces:
                yield self._chunk({"content": piece})
        else:
            head = {"index": 0, "id": self._call_id, "type": "function",
                    "function": {"name": self._output.tool, "arguments": ""}}
            yield self._chunk({"role": "assistant", "content": None, "tool_calls": [head]})
            for piece in self._pieces:
                yield self._chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        yield self._chunk({}, self._finish)
        if self._with_usage:
            yield self._event({"choices": [], "usage": self._usage})
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        chunk: dict[str, Any] = {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
        return self._event(chunk | {"usage": None} if self._with_usage else chunk)

    def _event(self, fields: dict[str, Any]) -> bytes:
        head = {"id": self._id, "object": "chat.completion.chunk", "created": CREATED, "model": self._model}
        return b"data: " + _encode_json(head | fields) + b"\n\n"


def _split_output(output: ScriptOutput, request: dict[str, Any]) -> tuple[list[str], str]:
    """(the pieces to stream, the finish reason), after the request's stop sequences and token limit. A piece counts as
    a token."""
    text, finish = output.text, "stop"
    if output.tool is not None:
        steps = range(0, len(output.arguments), _ARGUMENT_PIECE)
        pieces, finish = [output.arguments[at:at + _ARGUMENT_PIECE] for at in steps], "tool_calls"
    else:
        stops = request.get("stop") or []
        for stop in [stops] if isinstance(stops, str) else stops:
            text = text.split(stop, 1)[0] if stop else text
        pieces = _WORDS.findall(text)
    limit = request.get("max_completion_tokens") or request.get("max_tokens")
    return (pieces[:limit], "length") if isinstance(limit, int) and len(pieces) > limit else (pieces, finish)


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
