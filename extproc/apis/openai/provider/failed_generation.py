"""Recovers a tool call that the model's own host refused: an error body -> the response that it could have been.

Groq checks calls against the tools' schemas and answers 400 `tool_use_failed`, also inside streams, with the model's
raw text in `failed_generation`. Often that text holds a valid call: JSON with a name and arguments, or the model's own
form of calls, which the dialects read. The recovered response is an ordinary Chat Completions body for the ordinary
decoder. Called by the response decoder, and for error responses before anything was sent.
"""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any

import msgspec

CODE = "tool_use_failed"
_LONGEST = 1 << 20


def rescue_response(body: bytes, offered: Container[str]) -> bytes | None:
    """The whole response in place of this error. None for any other error, and for a text that is not only calls in
    JSON of tools in `offered`."""
    text = failed_text(body)
    if text is None:
        return None
    calls = _calls(text, offered)
    if not calls:
        return None
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return msgspec.json.encode({"object": "chat.completion",
                                "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})


def failed_text(body: bytes) -> str | None:
    """The model's text in a `tool_use_failed` error; None for any other body."""
    if CODE.encode() not in body or len(body) > _LONGEST:
        return None
    try:
        value = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict) or error.get("code") != CODE:
        return None
    text = error.get("failed_generation")
    return text if isinstance(text, str) and text.strip() else None


def _calls(text: str, offered: Container[str]) -> list[dict[str, Any]]:
    """The calls, if the whole text consists of calls of offered tools as JSON objects or a list of them."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    calls = []
    for entry in value if isinstance(value, list) else [value]:
        if not isinstance(entry, dict):
            return []
        function = entry.get("function")
        inner: dict[str, Any] = function if isinstance(function, dict) else entry
        name = inner.get("name")
        arguments = next((inner[key] for key in ("arguments", "parameters", "input") if key in inner), None)
        if not isinstance(name, str) or name not in offered or not isinstance(arguments, dict | str | None):
            return []
        calls.append({"id": None, "type": "function", "function": {"name": name, "arguments": arguments}})
    return calls
