"""Content blocks of the Messages API -> blocks of the conversation model.

Called by `request` for every message and for the system prompt. Each block type has one reader in the table at the
end; a type without one becomes `Opaque` and keeps its bytes. What a reader cannot carry it names in `dropped`. Pairing
of calls and results is not looked at: the provider side does that for every client API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from extproc.apis.anthropic import server_blocks, wire
from extproc.apis.base import Dropped
from extproc.apis.wire import Shape, given, refused, type_of
from extproc.carrying import unloaded_id
from extproc.conversation import Block, Media, Opaque, Text, Thinking, ToolCall, ToolResult

Role = Literal["system", "user", "assistant"]
Reader = Callable[[msgspec.Raw, str, Dropped], Sequence[Block]]

_text = Shape(wire.TextBlock)
_image = Shape(wire.ImageBlock)
_document = Shape(wire.DocumentBlock)
_source = Shape(wire.Source)
_citations = Shape(wire.Citations)
_search_result = Shape(wire.SearchResultBlock)
_tool_use = Shape(wire.ToolUseBlock)
_tool_result = Shape(wire.ToolResultBlock)
_tool_reference = Shape(wire.ToolReferenceBlock)
_thinking = Shape(wire.ThinkingBlock)
_redacted = Shape(wire.RedactedThinkingBlock)

_HOME: dict[str, tuple[Role, ...]] = {"tool_use": ("assistant",), "tool_result": ("user",),
                                      "thinking": ("assistant",), "redacted_thinking": ("assistant",)}
"""Blocks that belong to one role; elsewhere they would fail obscurely at the provider."""


def read_content(content: str | list[msgspec.Raw] | None, role: Role, path: str, dropped: Dropped) -> list[Block]:
    """The blocks of one message. Empty text is left out: no API has a meaning for it and many refuse it."""
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    blocks: list[Block] = []
    for position, raw in enumerate(content):
        place = f"{path}[{position}]"
        kind = type_of(raw, place)
        if role not in _HOME.get(kind, (role,)):
            raise refused(place, f"a {kind} block is not allowed in a message of the role {role}")
        reader = _READERS.get(kind)
        blocks.extend(reader(raw, place, dropped) if reader else [_opaque(kind, raw)])
    return blocks


def _read_text(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Text]:
    block, unknown = _text.read(raw, path)
    _name(dropped, "text", unknown)
    return [Text(block.text, cache=given(block.cache_control))] if block.text else []


def _read_image(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Media | Text]:
    block, unknown = _image.read(raw, path)
    _name(dropped, "image", unknown)
    return [_media("image", _read_source(block.source, path, dropped), path, cache=given(block.cache_control))]


def _read_document(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Media | Text]:
    block, unknown = _document.read(raw, path)
    _name(dropped, "document", unknown)
    _note_citations(block.citations, path, dropped)
    source, cache = _read_source(block.source, path, dropped), given(block.cache_control)
    if source.type != "content":
        return [_media("document", source, path, title=block.title, context=block.context, cache=cache)]
    parts = [part for part in read_content(source.content, "user", f"{path}.source.content", dropped)
             if isinstance(part, Text | Media)]
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    media: list[Media | Text] = [part for part in parts if isinstance(part, Media)]
    if not text and media:
        return media
    return [Media("document", media_type="text/plain", text=text, title=block.title, context=block.context,
                  cache=cache), *media]


def _read_source(raw: msgspec.Raw, path: str, dropped: Dropped) -> wire.Source:
    source, unknown = _source.read(raw, f"{path}.source")
    _name(dropped, "source", unknown)
    return source


def _media(kind: Literal["image", "document"], source: wire.Source, path: str, *, title: str | None = None,
           context: str | None = None, cache: bool = False) -> Media:
    place = f"{path}.source"
    if source.type == "base64":
        return Media(kind, media_type=_need(source.media_type, place, "media_type"),
                     data=_need(source.data, place, "data"), title=title, context=context, cache=cache)
    if source.type == "url":
        return Media(kind, url=_need(source.url, place, "url"), title=title, context=context, cache=cache)
    if source.type == "file":
        return Media(kind, file_id=_need(source.file_id, place, "file_id"), title=title, context=context, cache=cache)
    if source.type == "text" and kind == "document":
        return Media(kind, media_type=source.media_type or "text/plain", text=_need(source.data, place, "data"),
                     title=title, context=context, cache=cache)
    raise refused(f"{place}.type", f"unknown source type {source.type!r} of a block of the type {kind}")


def _need(value: str | None, place: str, field: str) -> str:
    if value is None:
        raise refused(f"{place}.{field}", "this field is required")
    return value


def _note_citations(raw: msgspec.Raw, path: str, dropped: Dropped) -> None:
    """Citations are asked for per document; another provider's model cannot give them."""
    if given(raw) and _citations.read(raw, f"{path}.citations")[0].enabled:
        dropped.loss("citations")


def _read_search_result(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Text]:
    block, unknown = _search_result.read(raw, path)
    _name(dropped, "search_result", unknown)
    _note_citations(block.citations, path, dropped)
    texts = [part.text for part in read_content(block.content, "user", f"{path}.content", dropped)
             if isinstance(part, Text)]
    return [Text("\n".join([block.title, block.source, *texts]), cache=given(block.cache_control))]


def _read_tool_use(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[ToolCall]:
    """The arguments stay the client's own bytes: prompt caches and models see what they saw before."""
    block, unknown = _tool_use.read(raw, path)
    _name(dropped, "tool_use", unknown)
    arguments = bytes(block.input).decode()
    if arguments == "null":
        arguments = ""
    if arguments and not arguments.startswith("{"):
        raise refused(f"{path}.input", "expected an object")
    call_id, signature = unloaded_id(block.id)
    return [ToolCall(call_id, block.name, arguments, cache=given(block.cache_control), signature=signature)]


def _read_tool_result(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[ToolResult]:
    block, unknown = _tool_result.read(raw, path)
    _name(dropped, "tool_result", unknown)
    content: list[Text | Media] = []
    for part in read_content(block.content, "user", f"{path}.content", dropped):
        if isinstance(part, Text | Media):
            content.append(part)
        elif isinstance(part, Opaque) and part.text:
            content.append(Text(part.text))
        else:
            dropped.loss(f"tool_result.{part.type if isinstance(part, Opaque) else 'tool_result'}")
    return [ToolResult(unloaded_id(block.tool_use_id)[0], content, is_error=bool(block.is_error),
                       cache=given(block.cache_control))]


def _read_tool_reference(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Text]:
    """The client's tool search found a tool; its definition arrives in `tools`, the model must learn the name."""
    block, unknown = _tool_reference.read(raw, path)
    _name(dropped, "tool_reference", unknown)
    return [Text(f"loaded tool: {block.tool_name}", cache=given(block.cache_control))]


def _read_thinking(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Thinking]:
    block, unknown = _thinking.read(raw, path)
    _name(dropped, "thinking", unknown)
    return [Thinking(block.thinking, signature=block.signature or None)]


def _read_redacted(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Thinking]:
    block, unknown = _redacted.read(raw, path)
    _name(dropped, "redacted_thinking", unknown)
    return [Thinking("", redacted=block.data)]


def _opaque(kind: str, raw: msgspec.Raw) -> Opaque:
    data = bytes(raw)
    return Opaque("anthropic", kind, data, text=server_blocks.text_of(data))


def _name(dropped: Dropped, kind: str, unknown: Sequence[str]) -> None:
    for field in unknown:
        dropped.hint(f"{kind}.{field}")


_READERS: dict[str, Reader] = {
    "text": _read_text,
    "image": _read_image,
    "document": _read_document,
    "search_result": _read_search_result,
    "tool_use": _read_tool_use,
    "tool_result": _read_tool_result,
    "tool_reference": _read_tool_reference,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
}
