"""The wire records of generateContent answers, read leniently: JSON bytes -> typed chunks.

One record serves the chunks of a stream, the elements of the array form and whole answers: they are the same object.
Leaf fields are untyped on purpose: a field of an odd type must not cost the whole answer. What only passes through (the
arguments of calls) or is seldom there (grounding) stays JSON text. Unknown fields are skipped, since Google adds some
every month; `strange_parts` finds the names of those that stood where content should be.

Source: the GenerateContentResponse reference of AI Studio (v1beta) and of Vertex AI (v1).
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from extproc.apis.shared.json_text import HalfPair, ends_in_half, without_half_pairs
from extproc.conversation.model import Usage

_NOTHING = msgspec.Raw(b"")


class JsonChunk(Exception):  # noqa: N818
    """The bytes are no chunk: not JSON, or JSON of another shape. The text says what and where."""


class PartialArg(msgspec.Struct, rename="camel", gc=False):
    """A piece of streamed arguments (Vertex): one value at `json_path`, or the next piece of a string there."""

    json_path: Any = None
    string_value: Any = None
    number_value: msgspec.Raw = _NOTHING
    bool_value: msgspec.Raw = _NOTHING
    null_value: msgspec.Raw = _NOTHING
    struct_value: msgspec.Raw = _NOTHING
    list_value: msgspec.Raw = _NOTHING
    will_continue: Any = None


class FunctionCall(msgspec.Struct, rename="camel", gc=False):
    id: Any = None
    name: Any = None
    args: msgspec.Raw = _NOTHING
    partial_args: list[PartialArg | None] | None = None
    will_continue: Any = None

    @property
    def name_text(self) -> str:
        return self.name if isinstance(self.name, str) else ""

    @property
    def id_text(self) -> str | None:
        return self.id if isinstance(self.id, str) and self.id else None

    @property
    def arguments(self) -> str:
        """The JSON text of the arguments as it came, "" for none. Whole answers come indented: that goes, as the text
        is read again by the model in every later turn."""
        raw = bytes(self.args)
        if raw in (b"", b"null"):
            return ""
        if raw[:1] == b'"':  # some proxies encode the object a second time
            text = msgspec.json.decode(raw)
            assert isinstance(text, str)
            return text if text.strip()[:1] in ("{", "") else raw.decode("utf-8", "replace")
        if b"\n" in raw:
            raw = msgspec.json.format(raw, indent=-1)
        return raw.decode("utf-8", "replace")


class Part(msgspec.Struct, rename="camel", gc=False):
    text: Any = None
    thought: Any = None
    thought_signature: Any = None
    function_call: FunctionCall | None = None
    inline_data: Any = None
    file_data: Any = None
    executable_code: Any = None
    code_execution_result: Any = None
    tool_call: Any = None
    tool_response: Any = None
    function_response: Any = None

    @property
    def signature(self) -> str | None:
        value = self.thought_signature
        return value if isinstance(value, str) and value else None


_PART_FIELDS = frozenset({
    "text", "thought", "thoughtSignature", "functionCall", "inlineData", "fileData", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse", "functionResponse",
    "videoMetadata", "partMetadata", "mediaResolution",  # say something about other fields
})


class Content(msgspec.Struct, gc=False):
    parts: list[Part | None] | None = None


class Candidate(msgspec.Struct, rename="camel", gc=False):
    index: Any = None
    content: Content | None = None
    finish_reason: Any = None
    finish_message: Any = None
    grounding_metadata: msgspec.Raw = _NOTHING
    url_context_metadata: msgspec.Raw = _NOTHING
    citation_metadata: msgspec.Raw = _NOTHING


class PromptFeedback(msgspec.Struct, rename="camel", gc=False):
    block_reason: Any = None
    block_reason_message: Any = None
    """Vertex only."""


class UsageMetadata(msgspec.Struct, rename="camel", gc=False):
    prompt_token_count: Any = None
    tool_use_prompt_token_count: Any = None
    cached_content_token_count: Any = None
    candidates_token_count: Any = None
    thoughts_token_count: Any = None
    total_token_count: Any = None


class Chunk(msgspec.Struct, rename="camel", gc=False):
    candidates: list[Candidate | None] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: UsageMetadata | None = None
    model_version: Any = None
    response_id: Any = None
    error: Any = None


_one = msgspec.json.Decoder(Chunk)
_many = msgspec.json.Decoder(list[Chunk | None])


def decode_chunks(payload: bytes, *, alone: bool = False) -> list[Chunk]:
    """The chunks in one event or one body: an object, or an array of them. None at all for `null`. Raises JsonChunk,
    and HalfPair where the next event may go on with this one (it does not stand `alone`)."""
    try:
        return _decode(payload)
    except RecursionError:
        raise JsonChunk("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:  # a wrong shape is a DecodeError, too
        if not alone and ends_in_half(payload):
            raise HalfPair from None
        return _decode_oddity(payload, problem)


def _decode(payload: bytes) -> list[Chunk]:
    if payload.lstrip()[:1] == b"[":
        return [chunk for chunk in _many.decode(payload) if chunk is not None]
    return [_one.decode(payload)]


def _decode_oddity(payload: bytes, problem: Exception) -> list[Chunk]:
    """Broken UTF-8 and lone halves of surrogate pairs become U+FFFD. The standard library's parser also takes NaN.
    Fields of a wrong shape are put right or left out: they must not cost the rest (arguments are written anew then)."""
    text = payload.decode("utf-8", "replace")
    try:
        return _decode(without_half_pairs(text.encode()))
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        value = json.loads(without_half_pairs(text.encode()))
        objects = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(item, dict) for item in objects):
            raise JsonChunk("it is no JSON object")
        return [_one.decode(msgspec.json.encode(_shaped(item))) for item in objects]
    except (ValueError, RecursionError):  # the decoders' errors are ValueErrors
        raise JsonChunk(str(problem)) from None


def _shaped(chunk: dict[str, Any]) -> dict[str, Any]:
    """A decoded chunk with its lists and objects where they belong."""
    candidates = [{**candidate, "content": _shaped_content(candidate.get("content"))}
                  for candidate in _objects(chunk.get("candidates"))]
    return {**chunk, "candidates": candidates, "promptFeedback": _object_or_none(chunk.get("promptFeedback")),
            "usageMetadata": _object_or_none(chunk.get("usageMetadata"))}


def _shaped_content(content: object) -> object:
    if isinstance(content, str):
        return {"parts": [{"text": content}]}
    if isinstance(content, list):
        content = {"parts": content}
    if not isinstance(content, dict):
        return None
    parts = content.get("parts")
    listed = parts if isinstance(parts, list) else [parts]
    return {"parts": [_shaped_part({"text": part} if isinstance(part, str) else part)
                      for part in listed if isinstance(part, (str, dict))]}


def _shaped_part(part: dict[str, Any]) -> dict[str, Any]:
    call = _object_or_none(part.get("functionCall"))
    if call is not None:
        call = {**call, "partialArgs": _objects(call.get("partialArgs"))}
    return {**part, "functionCall": call}


def _objects(value: object) -> list[dict[str, Any]]:
    """The objects of a list, or the one that stands there without a list."""
    found = value if isinstance(value, list) else [value]
    return [item for item in found if isinstance(item, dict)]


def _object_or_none(value: object) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def strange_parts(payload: bytes) -> list[str]:
    """Names of fields in parts that hold content of a kind nobody knows. Called only where a part came out empty."""
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return list(dict.fromkeys(
        name for chunk in _objects(value) for candidate in _objects(chunk.get("candidates"))
        for part in _objects((_object_or_none(candidate.get("content")) or {}).get("parts"))
        for name in part if name not in _PART_FIELDS))


def _count(value: object) -> int:
    """A count of tokens; int64 fields come as text in Google's JSON."""
    if type(value) is int:
        return value if 0 < value < 1 << 50 else 0
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return int(value) if isinstance(value, float) and 0 < value < 1e15 else 0


def usage_of(usage: UsageMetadata) -> Usage | None:
    """Counts of the conversation model; None when there are no figures. Google counts cached tokens within the prompt,
    and neither thoughts nor the prompts of tools it ran itself within what one would expect: both are added."""
    prompt = _count(usage.prompt_token_count) + _count(usage.tool_use_prompt_token_count)
    thoughts = _count(usage.thoughts_token_count)
    output = _count(usage.candidates_token_count) + thoughts
    total = _count(usage.total_token_count)
    if usage.candidates_token_count is None and total > prompt:  # a first chunk, or a model without the field
        output = max(output, total - prompt)
    if not prompt and not output and not total:
        return None
    return Usage(input=prompt, output=output, cached=min(_count(usage.cached_content_token_count), prompt),
                 reasoning=thoughts)
