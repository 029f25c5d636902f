"""What generateContent sends, byte for byte: responses, event streams, JSON arrays, errors. No rules, no sockets.

`gemini` builds its scripted answers from these; tests that look at the wire use them directly.
"""

from __future__ import annotations

import json as jsonlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tests.providers.http import Gate, Reply

End = Literal["end", "cut", "reset", "hang"]
Part = dict[str, Any]

EVENT_STREAM = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json; charset=UTF-8"}
USAGE = {"promptTokenCount": 21, "cachedContentTokenCount": 8, "candidatesTokenCount": 7, "thoughtsTokenCount": 5,
         "totalTokenCount": 33}
FINISH_REASONS = (
    "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
    "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_OTHER", "NO_IMAGE",
    "IMAGE_RECITATION", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
    "MALFORMED_RESPONSE", "ESCALATION", "PUP_LIMITED_DISABLED", "CONTINUATION", "MODEL_ARMOR",
    "FINISH_REASON_UNSPECIFIED")
BLOCK_REASONS = ("SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK")
STATUSES = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
            429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}


def response(content: Sequence[Part] | None = (), *, finish: str | None = None, message: str | None = None,
             usage: Mapping[str, Any] | None = None, model: str = "scripted", **candidate: Any) -> dict[str, Any]:
    """One GenerateContentResponse; an empty content has no parts, None leaves it out."""
    one: dict[str, Any] = {}
    if content is not None:
        one["content"] = {"parts": list(content), "role": "model"} if content else {"role": "model"}
    if finish is not None:
        one["finishReason"] = finish
    if message is not None:
        one["finishMessage"] = message
    found: dict[str, Any] = {"candidates": [{**one, "index": 0, **candidate}]}
    if usage is not None:
        found["usageMetadata"] = dict(usage)
    return {**found, "modelVersion": model, "responseId": "scripted-response-1"}


def sse(items: Sequence[Mapping[str, Any] | str | Gate], *, split: int = 0, newline: str = "\r\n",
        end: End = "end") -> Reply:
    """Events as written: a mapping is a `data:` line of JSON, a string is raw text of the stream. There is no end
    mark."""
    body: list[bytes | Gate] = []
    for item in items:
        if isinstance(item, Mapping):
            body.append(f"data: {jsonlib.dumps(item, ensure_ascii=False)}{newline}{newline}".encode())
        else:
            body.append(item if isinstance(item, Gate) else item.encode())
    return Reply(200, dict(EVENT_STREAM), in_pieces(body, split), end=end)


def array(items: Sequence[Mapping[str, Any] | str | Gate], *, split: int = 0, newline: str = "\r\n",
          end: End = "end") -> Reply:
    """A stream without `alt=sse`: one growing JSON array."""
    body: list[bytes | Gate] = [b"["]
    for item in items:
        if isinstance(item, Gate):
            body.append(item)
            continue
        if sum(isinstance(one, bytes) for one in body) > 1:
            body.append(f",{newline}".encode())
        body.append((item if isinstance(item, str) else jsonlib.dumps(item, indent=1, ensure_ascii=False)).encode())
    if end == "end":
        body.append(b"]")
    return Reply(200, dict(JSON), in_pieces(body, split), end=end)


def in_pieces(body: Iterable[bytes | Gate], size: int) -> list[bytes | Gate]:
    """Every piece cut into pieces of `size` bytes; 0 leaves them whole."""
    found: list[bytes | Gate] = []
    for one in body:
        if isinstance(one, Gate) or not size:
            found.append(one)
        else:
            found += [one[i:i + size] for i in range(0, len(one), size)]
    return found


# ------------------------------------------------------------------------------------------------------------- errors
def error_body(code: int, message: str, details: Sequence[Any] = (), *, name: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"code": code, "message": message, "status": name or STATUSES.get(code, "UNKNOWN")}
    return {"error": {**found, "details": list(details)} if details else found}


def error(code: int, message: str, details: Sequence[Any] = (), *, in_array: bool = False) -> Reply:
    """An error in Google's shape; streams without `alt=sse` have it in an array."""
    body = error_body(code, message, details)
    return status(code, [body] if in_array else body)


def error_info(reason: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"}}


def retry_info(delay: str) -> dict[str, Any]:
    """`delay` such as "34s" or "1.5s"."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def invalid_key() -> Reply:
    return error(400, "API key not valid. Please pass a valid API key.", [error_info("API_KEY_INVALID")])


def quota(delay: str | None = "34s") -> Reply:
    return error(429, "You exceeded your current quota, please check your plan and billing details.",
                 [] if delay is None else [
                     {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [
                         {"quotaMetric": "generate_content_free_tier_requests"}]}, retry_info(delay)])


def overloaded() -> Reply:
    return error(503, "The model is overloaded. Please try again later.")


def status(code: int, body: Any = None, headers: Mapping[str, str] | None = None) -> Reply:
    data = body if isinstance(body, bytes) else jsonlib.dumps(body).encode()
    return Reply(code, {**JSON, **(headers or {})}, [data], framing="length")


def json(value: Any) -> Reply:
    return status(200, value)


def cut(content: str, size: int) -> list[str]:
    return [content[i:i + size] for i in range(0, len(content), size)]
