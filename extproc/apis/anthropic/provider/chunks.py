"""The events and bodies of a Messages response as records: JSON bytes -> typed fields, whatever a server left out.

Called by the response decoder and the pass-through. Lenient where servers differ: unknown fields are skipped, a field
of a wrong type counts as missing, an event of a wrong shape is read field by field. Stateless, except for `Figures`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard, TypeVar

import msgspec

from extproc.apis.shared.json_text import HalfPair, ends_in_half, without_half_pairs
from extproc.conversation.model import Refusal, Usage

Raw = msgspec.Raw
T = TypeVar("T", bound=msgspec.Struct)


class AnthropicDelta(msgspec.Struct):
    """The delta of a block, or of the message at its end."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Raw = Raw()


class AnthropicBlock(msgspec.Struct):
    """A block at its start, or a whole block. `input` is the JSON of a call's arguments."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw()
    citations: Raw = Raw()


class AnthropicMessage(msgspec.Struct):
    """A whole message, or the head of one."""

    id: str | None = None
    model: str | None = None
    content: list[AnthropicBlock] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: Raw = Raw()
    usage: Raw = Raw()


class AnthropicChunk(msgspec.Struct):
    """One event of a stream."""

    type: str | None = None
    index: int | None = None
    delta: AnthropicDelta | None = None
    content_block: AnthropicBlock | None = None
    message: AnthropicMessage | None = None
    usage: Raw = Raw()
    error: Raw = Raw()


class Damaged(Exception):  # noqa: N818 - the state of the bytes
    """The bytes are not a JSON object."""


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of the fast decoder for bytes that the lenient one may still read: other types, no UTF-8, half a surrogate
pair."""

_chunk = msgspec.json.Decoder(AnthropicChunk)
_message = msgspec.json.Decoder(AnthropicMessage)


def decode_chunk(payload: bytes, *, alone: bool = False) -> AnthropicChunk:
    """Raises Damaged, and HalfPair where the next event may continue this one (`alone`: there is no next event)."""
    try:
        return _chunk.decode(payload)
    except _UNREADABLE:
        if not alone and ends_in_half(payload):
            raise HalfPair from None
        value = object_of(payload)
    return AnthropicChunk(type=_text(value.get("type")), index=_index(value.get("index")),
                 delta=_fields(AnthropicDelta, value.get("delta")), content_block=_fields(AnthropicBlock,
                                                                                          value.get("content_block")),
                 message=_odd_message(value["message"]) if isinstance(value.get("message"), dict) else None,
                 usage=_raw(value.get("usage")), error=_raw(value.get("error")))


def decode_message(body: bytes) -> AnthropicMessage:
    """Raises Damaged."""
    try:
        return _message.decode(body)
    except _UNREADABLE:
        return _odd_message(object_of(body))


def object_of(payload: bytes) -> dict[str, Any]:
    """Any JSON object, also one with invalid UTF-8 and half surrogate pairs. Raises Damaged."""
    try:
        value = json.loads(without_half_pairs(payload).decode("utf-8", "replace"))
    except (ValueError, RecursionError) as problem:
        raise Damaged(str(problem)) from None
    if isinstance(value, list):
        value = value[0] if value else None
    if not isinstance(value, dict):
        raise Damaged("it is not a JSON object")
    return value


def arguments_of(value: Raw) -> str:
    """The arguments in a block's `input`: "" for an empty object or none, the text inside for JSON in a string."""
    text = bytes(value).decode("utf-8", "replace").strip()
    if text in ("", "null") or "".join(text.split()) == "{}":
        return ""
    return _text(json.loads(text)) or "" if text.startswith('"') else text


def refusal_of(details: Raw) -> Refusal | None:
    """Reads `stop_details`: a category and an explanation, each of which may be null. None for any other value."""
    try:
        fields = msgspec.json.decode(details) if len(memoryview(details)) else None
    except _UNREADABLE:
        return None
    if not isinstance(fields, dict):
        return None
    words, category = fields.get("explanation"), fields.get("category")
    if not isinstance(words, str) or not words:
        words = f"The provider refused this request (category: {category})." if isinstance(category, str) else ""
    return Refusal(words, details.copy())


_PROMPT = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def _is_count(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e15


class UsageFigures:
    """Usage over one response. Figures are cumulative: a later figure replaces an earlier one."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def update(self, usage: Raw) -> Usage | None:
        """The figures so far; None before the first."""
        try:
            fields = msgspec.json.decode(usage) if len(memoryview(usage)) else None
        except _UNREADABLE:
            fields = None
        if isinstance(fields, dict):
            self._update(fields)
            details = fields.get("output_tokens_details")
            if isinstance(details, dict):
                self._update(details)
        return self._usage() if self._known else None

    def _update(self, fields: Mapping[str, object]) -> None:
        """A zero does not reset a figure: some servers repeat only the figures known by then. An event that counts the
        prompt anew, as at the end of a response whose conversation the API compacted, replaces all figures of the
        prompt. (Its `iterations` count the sampled parts; a compaction's are not included in the rest.)"""
        prompt = fields.get("input_tokens")
        former = self._known.get("input_tokens")
        recounted = bool(fields.get("iterations")) or bool(_is_count(prompt) and prompt and former and prompt != former)
        for name in ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
                     "thinking_tokens"):
            value = fields.get(name)
            if _is_count(value):
                kept = 0 if recounted and name in _PROMPT else self._known.get(name, 0)
                self._known[name] = int(value) or kept

    def _usage(self) -> Usage:
        known = self._known
        read = known.get("cache_read_input_tokens", 0)
        written = known.get("cache_creation_input_tokens", 0)
        output = known.get("output_tokens", 0)
        return Usage(input=known.get("input_tokens", 0) + read + written, output=output, cached=read,
                     cache_write=written, reasoning=min(known.get("thinking_tokens", 0), output))


# --------------------------------------------------------------------------------------------------------- odd shapes


def _odd_message(value: Mapping[str, Any]) -> AnthropicMessage:
    content = value.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks = None
    if isinstance(content, list):
        blocks = [block for item in content if (block := _fields(AnthropicBlock, item)) is not None]
    return AnthropicMessage(id=_text(value.get("id")), model=_text(value.get("model")), content=blocks,
                   stop_reason=_text(value.get("stop_reason")), stop_sequence=_text(value.get("stop_sequence")),
                   stop_details=_raw(value.get("stop_details")), usage=_raw(value.get("usage")))


def _fields(record: type[T], value: object) -> T | None:
    """A record of texts and raw JSON, without fields of another type."""
    if not isinstance(value, dict):
        return None
    found = record()
    for field in msgspec.structs.fields(record):
        given = value.get(field.name)
        if given is None:
            continue
        if field.type is Raw:
            setattr(found, field.name, _raw(given))
        elif isinstance(given, str):
            setattr(found, field.name, _text(given))
    return found


def _text(value: object) -> str | None:
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(value, str) else None


def _index(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _raw(value: object) -> Raw:
    if value is None:
        return Raw()
    return Raw(json.dumps(value, ensure_ascii=True).encode())
