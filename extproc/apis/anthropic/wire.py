"""The Messages request as it stands on the wire: raw JSON in, typed records out, every complaint with its place.

Called by `request` and `blocks` only. Lenient where the API grows: an unknown field is handed back as a name, never an
error. Strict where a wrong type would fail obscurely further down. Nothing here knows the conversation model, and
what only passes through (tool arguments, server tools) stays the client's own bytes as `msgspec.Raw`.
"""

from __future__ import annotations

import re
from typing import Generic, TypeVar

import msgspec

from extproc.errors import BadRequest

Raw = msgspec.Raw

# ------------------------------------------------------------------------------------------------------- the records
# `forbid_unknown_fields` makes the common case one pass: only a body that has an unknown field is read twice (Shape).


class RequestBody(msgspec.Struct, forbid_unknown_fields=True):
    """POST /v1/messages and /v1/messages/count_tokens."""

    model: str
    messages: list[Raw]
    max_tokens: int | None = None
    system: str | list[Raw] | None = None
    tools: list[Raw] | None = None
    tool_choice: Raw = Raw()
    metadata: Raw = Raw()
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    thinking: Raw = Raw()
    output_config: Raw = Raw()
    output_format: Raw = Raw()
    mcp_servers: Raw = Raw()
    context_management: Raw = Raw()
    service_tier: Raw = Raw()
    container: Raw = Raw()


class Turn(msgspec.Struct, forbid_unknown_fields=True):
    role: str
    content: str | list[Raw] | None


class Head(msgspec.Struct):
    """What every typed object has."""

    type: str


class TextBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    text: str
    cache_control: Raw = Raw()


class ImageBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    source: Raw
    cache_control: Raw = Raw()


class DocumentBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    source: Raw
    title: str | None = None
    context: str | None = None
    citations: Raw = Raw()
    cache_control: Raw = Raw()


class Source(msgspec.Struct, forbid_unknown_fields=True):
    """Where an image or a document comes from. `content` belongs to the type "content"."""

    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: str | list[Raw] | None = None


class Citations(msgspec.Struct, forbid_unknown_fields=True):
    enabled: bool | None = None


class SearchResultBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    source: str
    title: str
    content: list[Raw]
    citations: Raw = Raw()
    cache_control: Raw = Raw()


class ToolUseBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    id: str
    name: str
    input: Raw = Raw()
    cache_control: Raw = Raw()


class ToolResultBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    tool_use_id: str
    content: str | list[Raw] | None = None
    is_error: bool | None = None
    cache_control: Raw = Raw()


class ToolReferenceBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    tool_name: str
    cache_control: Raw = Raw()


class ThinkingBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    thinking: str = ""
    signature: str | None = None
    cache_control: Raw = Raw()


class RedactedThinkingBlock(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    data: str
    cache_control: Raw = Raw()


class ToolHead(msgspec.Struct):
    type: str | None = None
    name: str | None = None


class ToolDefinition(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    type: str | None = None
    description: str | None = None
    input_schema: Raw = Raw()
    input_examples: Raw = Raw()
    strict: bool | None = None
    defer_loading: bool | None = None
    cache_control: Raw = Raw()


class ToolChoiceBody(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class ThinkingBody(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    budget_tokens: int | None = None
    display: Raw = Raw()


class OutputConfig(msgspec.Struct, forbid_unknown_fields=True):
    effort: str | None = None
    format: Raw = Raw()


class FormatBody(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    schema: dict[str, object] | None = None
    name: str | None = None


class Metadata(msgspec.Struct, forbid_unknown_fields=True):
    user_id: str | None = None


# ----------------------------------------------------------------------------------------------------------- reading

T = TypeVar("T", bound=msgspec.Struct)

_fields: msgspec.json.Decoder[dict[str, Raw]] = msgspec.json.Decoder(dict[str, Raw])
_encode = msgspec.json.Encoder().encode


class Shape(Generic[T]):
    """Reads one record. `read` returns it with the names of the fields it does not know."""

    def __init__(self, record: type[T]) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(record)
        self._known = {field.encode_name for field in msgspec.structs.fields(record)}

    def read(self, raw: Raw | bytes, path: str) -> tuple[T, list[str]]:
        """Raises BadRequest with the place below `path` ("" is the body itself)."""
        try:
            return self._decoder.decode(raw), []
        except msgspec.ValidationError as error:
            unknown = self._unknown(raw) if "unknown field" in str(error) else []
            if not unknown:
                raise misplaced(error, path) from None
        known = {name: value for name, value in _fields.decode(raw).items() if name in self._known}
        try:
            return self._decoder.decode(_encode(known)), unknown
        except msgspec.ValidationError as error:
            raise misplaced(error, path) from None

    def _unknown(self, raw: Raw | bytes) -> list[str]:
        return [name for name in _fields.decode(raw) if name not in self._known]


_head: msgspec.json.Decoder[Head] = msgspec.json.Decoder(Head)


def type_of(raw: Raw, path: str) -> str:
    """The `type` of a block."""
    try:
        return _head.decode(raw).type
    except msgspec.ValidationError as error:
        raise misplaced(error, path) from None


def given(raw: Raw) -> bool:
    """Whether an optional raw field holds something (absent and null are the same here)."""
    view = memoryview(raw)
    return len(view) > 0 and (len(view) != 4 or bytes(view) != b"null")


# -------------------------------------------------------------------------------------------------- where it is wrong

_MISSING = re.compile(r"Object missing required field `([^`]*)`")
_PLACE = re.compile(r"^(.*?)(?: - at `(.*)`)?$", re.DOTALL)
_EXPECTED = re.compile(r"`([a-z |0-9]+)`")
_WORDS = {"str": "a string", "int": "an integer", "float": "a number", "bool": "true or false", "array": "a list",
          "object": "an object", "null": "null"}


def misplaced(error: msgspec.ValidationError, path: str) -> BadRequest:
    """A type error in the client's terms, e.g. `messages[0].content[1].text: expected a string, got an integer`."""
    match = _PLACE.match(str(error))
    text, below = (match.group(1), match.group(2) or "") if match else (str(error), "")
    place = path + below.removeprefix("$")
    if missing := _MISSING.match(text):
        place, text = f"{place}.{missing.group(1)}", "this field is required"
    else:
        text = _EXPECTED.sub(lambda m: " or ".join(_WORDS.get(w, w) for w in m.group(1).split(" | ")), text)
        text = text[:1].lower() + text[1:]
    return refused(place.lstrip(".") or "the body", text)


def refused(place: str, text: str) -> BadRequest:
    """A 400 that names the place."""
    return BadRequest(f"{place}: {text}")
