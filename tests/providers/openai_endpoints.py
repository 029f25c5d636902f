"""OpenAI's paths beside Chat Completions: `/embeddings` and `/responses`, strict and scripted like the rest.

What the gateway hands on untranslated is checked here field by field: a model that is the provider's, its key, no
header of another API. Embeddings are answered without a script (`vectors_of`), responses by the script (`response`,
`response_events`).
"""

from __future__ import annotations

import base64
import json as jsonlib
import struct
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, Literal

from tests.providers.http import Exchange, Reply
from tests.providers.openai import Answer, OpenAIProvider, Seen, cut, json, openai_error, sse, status
from tests.providers.scripted import decoded

EMBEDDING_FIELDS = {"model", "input", "encoding_format", "dimensions", "user"}
RESPONSE_FIELDS = {"model", "input", "instructions", "stream", "tools", "tool_choice", "reasoning", "store", "include",
                   "max_output_tokens", "temperature", "metadata", "text", "previous_response_id"}
REQUEST_ID = {"x-request-id": "req_scripted_openai"}


class OpenAIEndpoints(OpenAIProvider):
    """An `OpenAIProvider` that serves these paths as well. `models`: the names that it knows there."""

    def __init__(self, *, models: Sequence[str], key: str) -> None:
        super().__init__()
        self._models = models
        self._key = key

    def judge(self, exchange: Exchange) -> tuple[Seen, Reply | None]:
        path = exchange.path.partition("?")[0]
        fields = {"/v1/embeddings": EMBEDDING_FIELDS, "/v1/responses": RESPONSE_FIELDS}.get(path)
        if fields is None or exchange.method != "POST":
            return super().judge(exchange)
        seen = Seen(exchange, decoded(exchange.raw))
        seen.violation = self._violation(seen, fields)
        if seen.violation is not None:
            return seen, status(400, openai_error(seen.violation))
        return seen, embeddings(seen.body) if path == "/v1/embeddings" and not self._script else None

    def _violation(self, seen: Seen, fields: set[str]) -> str | None:
        body = seen.body
        if not isinstance(body, dict) or "input" not in body:
            return "Missing required parameter: 'input'."
        if unknown := set(body) - fields:
            return f"Unknown parameter: '{min(unknown)}'."
        if body.get("model") not in self._models:
            return f"The model '{body.get('model')}' does not exist or you do not have access to it."
        if seen.headers.get("authorization") != f"Bearer {self._key}":
            return "Incorrect API key provided."
        if held := [name for name in ("x-api-key", "anthropic-version", "cookie") if name in seen.headers]:
            return f"a header that does not belong here: {held[0]}"
        return None


# --------------------------------------------------------------------------------------------------------- embeddings
def vectors_of(text: str) -> list[float]:
    """Three numbers that any reader can check."""
    return [byte / 256 for byte in blake2b(text.encode(), digest_size=3).digest()]


def embeddings(body: dict[str, Any]) -> Reply:
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    found: list[Any] = [vectors_of(text) for text in texts]
    if body.get("encoding_format") == "base64":
        found = [base64.b64encode(struct.pack(f"<{len(one)}f", *one)).decode() for one in found]
    return json({"object": "list", "model": body["model"], "usage": {"prompt_tokens": 9, "total_tokens": 9}, "data": [
        {"object": "embedding", "index": index, "embedding": one} for index, one in enumerate(found)]},
        headers=REQUEST_ID)


# ---------------------------------------------------------------------------------------------------------- responses
def response(text: str, *, state: str = "completed") -> dict[str, Any]:
    """A whole response of one message."""
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": state, "content": [
        {"type": "output_text", "text": text, "annotations": []}]}
    return {"id": "resp_1", "object": "response", "created_at": 1_700_000_000, "model": "scripted", "status": state,
            "output": [message] if text else [], "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
            "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "temperature": 1.0,
            "top_p": 1.0,
            "usage": {"input_tokens": 21, "input_tokens_details": {"cached_tokens": 8}, "output_tokens": 7,
                      "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 28}}


def response_events(text: str) -> list[dict[str, Any]]:
    """The events of the same response as a stream."""
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    whole = response(text)
    empty = response("", state="in_progress")
    item = whole["output"][0]
    part = {"type": "output_text", "text": "", "annotations": []}
    return list(_numbered([
        {"type": "response.created", "response": empty},
        {"type": "response.in_progress", "response": empty},
        {"type": "response.output_item.added", "output_index": 0,
         "item": {**item, "status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []} for piece in cut(text, 4)),
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": {**part, "text": text}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]))


def _numbered(events: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return ({**event, "sequence_number": number} for number, event in enumerate(events))


def responds(text: str, *, upto: int | None = None, end: Literal["end", "cut"] = "end") -> Answer:
    """Answers as the request asks. `upto`: the stream ends after so many events."""
    def answer(seen: Seen) -> Reply:
        if not seen.body.get("stream"):
            return json(response(text), headers=REQUEST_ID)
        events = response_events(text)[:upto]
        lines = [f"event: {event['type']}\ndata: {jsonlib.dumps(event)}\n\n" for event in events]
        return sse(lines, done=False, end=end, headers=REQUEST_ID)
    return answer

