"""JSON bytes of a generateContent response -> typed chunks.

Reading is lenient: damaged text and fields of a wrong shape are repaired or left out. `unknown_part_fields` finds the
names of unknown fields in parts. Called by the response decoder. The records are in `wire.py`.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from extproc.apis.gemini.wire import ResponseChunk, UsageMetadata
from extproc.apis.shared.json_text import HalfPair, ends_in_half, without_half_pairs
from extproc.conversation.model import Usage

_PART_FIELDS = frozenset({
    "text", "thought", "thoughtSignature", "functionCall", "inlineData", "fileData", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse", "functionResponse",
    "videoMetadata", "partMetadata", "mediaResolution",  # describe other fields
})


class InvalidChunk(Exception):  # noqa: N818
    """The bytes are not a chunk: not JSON, or JSON of another shape. The text says what and where."""


_object_decoder = msgspec.json.Decoder(ResponseChunk)
_array_decoder = msgspec.json.Decoder(list[ResponseChunk | None])


def decode_chunks(payload: bytes, *, alone: bool = False) -> list[ResponseChunk]:
    """The chunks in one event or body: an object, or an array of objects; empty for `null`. `alone`: no event can
    follow. Raises InvalidChunk, and HalfPair if the next event may complete a surrogate pair of this one."""
    try:
        return _decode(payload)
    except RecursionError:
        raise InvalidChunk("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:  # DecodeError: also a wrong shape
        if not alone and ends_in_half(payload):
            raise HalfPair from None
        return _decode_damaged(payload, problem)


def _decode(payload: bytes) -> list[ResponseChunk]:
    if payload.lstrip()[:1] == b"[":
        return [chunk for chunk in _array_decoder.decode(payload) if chunk is not None]
    return [_object_decoder.decode(payload)]


def _decode_damaged(payload: bytes, problem: Exception) -> list[ResponseChunk]:
    """Broken UTF-8 and lone halves of surrogate pairs become U+FFFD. The standard library's parser also takes NaN.
    Fields of a wrong shape are corrected or left out, so that the rest survives; arguments are re-encoded."""
    text = payload.decode("utf-8", "replace")
    try:
        return _decode(without_half_pairs(text.encode()))
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        value = json.loads(without_half_pairs(text.encode()))
        objects = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, dict) for item in objects):
            raise InvalidChunk("it is not a JSON object")
        return [_object_decoder.decode(msgspec.json.encode(_reshaped(item))) for item in objects]
    except (ValueError, RecursionError):  # the decoders' errors are ValueErrors
        raise InvalidChunk(str(problem)) from None


def _reshaped(chunk: dict[str, Any]) -> dict[str, Any]:
    """A decoded chunk with lists and objects where the records expect them."""
    candidates = [{**candidate, "content": _reshaped_content(candidate.get("content"))}
                  for candidate in _objects(chunk.get("candidates"))]
    return {**chunk, "candidates": candidates, "promptFeedback": _object_or_none(chunk.get("promptFeedback")),
            "usageMetadata": _object_or_none(chunk.get("usageMetadata"))}


def _reshaped_content(content: object) -> object:
    if isinstance(content, str):
        return {"parts": [{"text": content}]}
    if isinstance(content, list):
        content = {"parts": content}
    if not isinstance(content, dict):
        return None
    parts = content.get("parts")
    listed = parts if isinstance(parts, list) else [parts]
    return {"parts": [_reshaped_part({"text": part} if isinstance(part, str) else part)
                      for part in listed if isinstance(part, (str, dict))]}


def _reshaped_part(part: dict[str, Any]) -> dict[str, Any]:
    call = _object_or_none(part.get("functionCall"))
    if call is not None:
        call = {**call, "partialArgs": _objects(call.get("partialArgs"))}
    return {**part, "functionCall": call}


def _objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list, or a single object that stands there without a list."""
    found = value if isinstance(value, list) else [value]
    return [item for item in found if isinstance(item, dict)]


def _object_or_none(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def unknown_part_fields(payload: bytes) -> list[str]:
    """Names of unknown fields in parts, each once. Called only if a part came out empty."""
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return list(dict.fromkeys(
        name for chunk in _objects(value) for candidate in _objects(chunk.get("candidates"))
        for part in _objects((_object_or_none(candidate.get("content")) or {}).get("parts"))
        for name in part if name not in _PART_FIELDS))


def _token_count(value: object) -> int:
    """A number of tokens. Google's JSON writes int64 fields as strings."""
    if type(value) is int:
        return value if 0 < value < 1 << 50 else 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return int(value) if isinstance(value, float) and 0 < value < 1e15 else 0


def usage_of(usage: UsageMetadata) -> Usage | None:
    """Token usage; None if there are no figures. Google counts cached tokens within the prompt, but thoughts and the
    prompts of tools that it runs apart: both are added."""
    prompt = _token_count(usage.prompt_token_count) + _token_count(usage.tool_use_prompt_token_count)
    thoughts = _token_count(usage.thoughts_token_count)
    output = _token_count(usage.candidates_token_count) + thoughts
    total = _token_count(usage.total_token_count)
    if usage.candidates_token_count is None and total > prompt:  # a first chunk, or a model without this field
        output = max(output, total - prompt)
    if not prompt and not output and not total:
        return None
    return Usage(input=prompt, output=output, cached=min(_token_count(usage.cached_content_token_count), prompt),
                 reasoning=thoughts)
