"""Reads the chunks of Chat Completions responses: JSON bytes -> records, reasoning, content parts and usage.

Lenient: a field of the wrong shape is repaired or left out, and never costs the rest of the response.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from extproc.apis.openai.provider.signatures import ANTHROPIC
from extproc.apis.openai.wire_response import OpenAIChunk, OpenAIDelta
from extproc.apis.shared.json_text import HalfPair, ends_in_half, without_surrogates
from extproc.conversation.model import Usage


class JsonChunk(Exception):  # noqa: N818
    """The bytes are not a chunk: not JSON, or JSON of another shape. The text says what and where."""


_decoder = msgspec.json.Decoder(OpenAIChunk)


def decode_chunk(payload: bytes, *, alone: bool = False) -> OpenAIChunk | None:
    """None for `null`, which some proxies send as a filler. Raises JsonChunk, and HalfPair where the next event may
    continue this one (`alone`: there is no next event)."""
    try:
        return _decoder.decode(payload)
    except RecursionError:
        raise JsonChunk("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:  # also raised for a wrong shape
        if not alone and ends_in_half(payload):
            raise HalfPair from None
        return _decode_oddity(payload, problem)


def _decode_oddity(payload: bytes, problem: Exception) -> OpenAIChunk | None:
    """Reads JSON that only the standard library's parser takes: NaN, lone surrogates and broken UTF-8. Lone surrogates
    become U+FFFD. Google's endpoint wraps errors in an array. Fields of a wrong shape are repaired or left out."""
    try:
        value = json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise JsonChunk(str(problem)) from None
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if value is None:
        return None
    if not isinstance(value, dict):
        raise JsonChunk("it is not a JSON object")
    if value.get("error"):  # an error, whatever the shape of the rest
        return OpenAIChunk(error=value["error"])
    try:
        return msgspec.convert(_shaped(without_surrogates(value)), OpenAIChunk)
    except (msgspec.ValidationError, RecursionError) as shape:
        raise JsonChunk(str(shape)) from None


def _shaped(chunk: object) -> object:
    """A decoded chunk with its lists and objects in the expected places."""
    if not isinstance(chunk, dict) or not isinstance(chunk.get("choices"), (list, dict)):
        return chunk
    choices = [
        {**choice, "delta": _shaped_delta(choice.get("delta")), "message": _shaped_delta(choice.get("message"))}
        for choice in _objects(chunk.get("choices"))]
    return {**chunk, "choices": choices}


def _shaped_delta(delta: object) -> object:
    if isinstance(delta, str) and delta:
        return {"content": delta}
    if not isinstance(delta, dict):
        return None
    calls = [{**call, "function": _object_or_none(call.get("function")), "custom": _object_or_none(call.get("custom"))}
             for call in _objects(delta.get("tool_calls"))]
    return {**delta, "tool_calls": calls, "reasoning_details": _objects(delta.get("reasoning_details")),
            "thinking_blocks": _objects(delta.get("thinking_blocks")),
            "function_call": _object_or_none(delta.get("function_call"))}


def _objects(value: object) -> list[dict[str, object]]:
    """The objects of a list, or a single object in place of the list."""
    found = value if isinstance(value, list) else [value]
    return [item for item in found if isinstance(item, dict)]


def _object_or_none(value: object) -> dict[str, object] | None:
    return value if isinstance(value, dict) else None


ReasoningPiece = tuple[Literal["text", "signature", "redacted"], str] | tuple[Literal["item"], dict[str, Any]]
"""A piece of reasoning: its text, Anthropic's signature of it, Anthropic's encrypted block, or an item of
`reasoning_details` that another provider signed or encrypted."""


def read_reasoning(delta: OpenAIDelta) -> Iterator[ReasoningPiece]:
    """The reasoning of a delta or message, each text once: servers repeat the same text in several fields
    (`reasoning_content`, `reasoning`, `reasoning_details`)."""
    plain = delta.reasoning_content or delta.reasoning or delta.thinking or delta.reasoning_text
    if isinstance(plain, dict):
        plain = plain.get("content") or plain.get("text")
    seen = isinstance(plain, str) and plain != ""
    if isinstance(plain, str) and plain:
        yield "text", plain
    for detail in delta.reasoning_details or ():
        if isinstance(detail, dict):
            yield from _pieces_of_item(detail, seen=seen)
    if not delta.reasoning_details:
        for block in delta.thinking_blocks or ():
            if isinstance(block, dict):
                yield from _pieces_of_block(block, seen=seen)


def _pieces_of_item(detail: dict[str, Any], *, seen: bool) -> Iterator[ReasoningPiece]:
    """`seen`: the text was in another field already."""
    text = detail.get("text") or detail.get("summary")
    if not seen and isinstance(text, str) and text:
        yield "text", text
    data, signature = detail.get("data"), detail.get("signature")
    encrypted = detail.get("type") == "reasoning.encrypted" and isinstance(data, str) and data != ""
    signed = isinstance(signature, str) and signature != ""
    if not encrypted and not signed:
        return
    if detail.get("format") != ANTHROPIC:
        yield "item", detail
    elif signed:
        yield "signature", str(signature)
    else:
        yield "redacted", str(data)


def _pieces_of_block(block: dict[str, Any], *, seen: bool) -> Iterator[ReasoningPiece]:
    text, data, signature = block.get("thinking"), block.get("data"), block.get("signature")
    if not seen and isinstance(text, str) and text:
        yield "text", text
    if isinstance(signature, str) and signature:
        yield "signature", signature
    if block.get("type") == "redacted_thinking" and isinstance(data, str) and data:
        yield "redacted", data


_REASONING_PARTS = frozenset({"reasoning", "reasoning_text", "summary_text", "thought"})


def content_parts(content: object) -> Iterator[tuple[str, str]]:
    """("text" | "thinking" | "signature", text) of a content list. Mistral sends blocks with reasoning as nested text
    blocks, proxies Anthropic's blocks or their deltas, Databricks `reasoning` with a summary. A part of any other type
    is ("other", its type)."""
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return
    for part in content:
        if isinstance(part, str) and part:
            yield "text", part
        elif isinstance(part, dict):
            inner = part.get("thinking")
            if inner is None and part.get("type") in _REASONING_PARTS:
                inner = part.get("summary") or part.get("content") or part.get("text")
            if isinstance(inner, str) and inner:
                yield "thinking", inner
            elif isinstance(inner, list):
                for kind, text in content_parts(inner):
                    yield kind if kind in ("other", "signature") else "thinking", text
            signature = part.get("signature")
            if isinstance(signature, str) and signature:
                yield "signature", signature
            if inner or signature:
                continue
            if isinstance(part.get("text"), str) and part["text"]:
                yield "text", part["text"]
            elif isinstance(part.get("refusal"), str) and part["refusal"]:
                yield "text", part["refusal"]
            elif part.get("type") not in ("text", "thinking", "refusal", *_REASONING_PARTS, None):
                yield "other", str(part["type"])


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0
    return max(0, int(value)) if value == value and abs(value) < 1e15 else 0


def usage_of(value: object, *, reasoning_uncounted: bool = False) -> Usage | None:
    """OpenAI's usage object with other servers' names for cached tokens; None if it has no figures.
    `reasoning_uncounted`: the tokens of the completion exclude reasoning."""
    if not isinstance(value, dict) or not ({"prompt_tokens", "completion_tokens", "total_tokens"} & value.keys()):
        return None
    prompt_details = value.get("prompt_tokens_details")
    output_details = value.get("completion_tokens_details")
    prompt = prompt_details if isinstance(prompt_details, dict) else {}
    output = output_details if isinstance(output_details, dict) else {}
    # DeepSeek: prompt_cache_hit_tokens; Moonshot: cached_tokens; Mistral: num_cached_tokens
    cached = next(filter(None, (_count(count) for count in (
        prompt.get("cached_tokens"), value.get("prompt_cache_hit_tokens"), value.get("cached_tokens"),
        value.get("num_cached_tokens")))), 0)
    # DashScope: cache_creation_input_tokens; LiteLLM: cache_creation_tokens
    written = next(filter(None, (_count(count) for count in (
        prompt.get("cache_write_tokens"), prompt.get("cache_creation_input_tokens"),
        prompt.get("cache_creation_tokens")))), 0)
    total_input = _count(value.get("prompt_tokens"))
    cached = min(cached, total_input)
    completion = _count(value.get("completion_tokens"))
    reasoning = _count(output.get("reasoning_tokens"))
    if reasoning_uncounted:
        # The total is the most reliable figure: some endpoints count the reasoning there and nowhere else.
        rest = max(reasoning, _count(value.get("total_tokens")) - total_input - completion)
        completion, reasoning = completion + rest, rest
    return Usage(
        input=total_input,
        output=completion,
        cached=cached,
        cache_write=min(written, total_input - cached),
        reasoning=reasoning,
    )
