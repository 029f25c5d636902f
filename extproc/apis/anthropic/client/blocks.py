"""Content blocks of the Messages API -> blocks of the conversation model.

Called by `request` for every message and for the system prompt. Each block type has one reader in the table `_READERS`;
a type without one becomes `Opaque`, keeps its bytes, and gets a text where its content can be rendered faithfully, so
that another provider's model still sees the result of a server tool. A block is either a typed record already, or raw
JSON from a message with an unknown part. Fields that a reader cannot carry are named in `dropped`. The provider side
checks that calls and results pair up, for every client API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from extproc.apis.anthropic.wire import (
    Citations,
    ClientDocumentBlock,
    ClientImageBlock,
    ClientSource,
    ClientTextBlock,
    ClientThinkingBlock,
    ClientToolResultBlock,
    ClientToolUseBlock,
    KnownBlock,
    RedactedThinkingBlock,
    SearchResultBlock,
    ToolReferenceBlock,
)
from extproc.apis.shared.cache_marks import read_mark
from extproc.apis.shared.wire import Shape, given, is_string, refused, type_of
from extproc.conversation.model import Block, CacheMark, Media, Opaque, Text, Thinking, ToolCall, ToolResult
from extproc.conversation.signatures import extract_from_id
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest

Role = Literal["system", "user", "assistant"]
Where = str | int
"""The path of a list of blocks, or the number of the message with this content."""

_string = msgspec.json.Decoder(str)
_decode = msgspec.json.Decoder().decode
_source = Shape(ClientSource)
_citations = Shape(Citations)
_SHAPES: dict[str, Shape[Any]] = {
    "text": Shape(ClientTextBlock),
    "image": Shape(ClientImageBlock),
    "document": Shape(ClientDocumentBlock),
    "search_result": Shape(SearchResultBlock),
    "tool_use": Shape(ClientToolUseBlock),
    "tool_result": Shape(ClientToolResultBlock[msgspec.Raw]),
    "tool_reference": Shape(ToolReferenceBlock),
    "thinking": Shape(ClientThinkingBlock),
    "redacted_thinking": Shape(RedactedThinkingBlock),
}


def read_content(content: str | Sequence[msgspec.Raw | KnownBlock] | None, role: Role, where: Where,
                 dropped: Dropped) -> list[Block]:
    """The blocks of one message. Empty text is left out: it has no meaning in any API, and many refuse it."""
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    blocks: list[Block] = []
    for at, block in enumerate(content):
        if type(block) is msgspec.Raw:
            blocks += _read_raw(block, role, where, at, dropped)
            continue
        reader, kind, home = _READERS[type(block)]
        if home is not None and home != role:
            raise _misplaced(kind, role, _path(where, at))
        blocks += reader(block, where, at, dropped)
    return blocks


def _path(where: Where, at: int) -> str:
    """The path of a block. Built only when needed, since most blocks are valid."""
    path = where if isinstance(where, str) else f"messages[{where}].content"
    return f"{path}[{at}]"


def _read_raw(raw: msgspec.Raw, role: Role, where: Where, at: int, dropped: Dropped) -> Sequence[Block]:
    """Reads a block of a message with an unknown part."""
    place = _path(where, at)
    kind = type_of(raw, place)
    shape = _SHAPES.get(kind)
    if shape is None:
        return [_opaque(kind, raw)]
    reader, _, home = _READERS[shape.record]
    if home is not None and home != role:
        raise _misplaced(kind, role, place)
    block, unknown = shape.read(raw, place)
    for field in unknown:
        dropped.hint(f"{kind}.{field}")
    return reader(block, where, at, dropped)


def _misplaced(kind: str, role: Role, place: str) -> BadRequest:
    return refused(place, f"a {kind} block is not allowed in a message of the role {role}")


def _read_text(block: ClientTextBlock, where: Where, at: int, dropped: Dropped) -> list[Text]:
    return [Text(block.text, cache=read_mark(block.cache_control))] if block.text else []


def _read_image(block: ClientImageBlock, where: Where, at: int, dropped: Dropped) -> list[Media | Text]:
    place = _path(where, at)
    return [_media("image", _read_source(block.source, place, dropped), place, cache=read_mark(block.cache_control))]


def _read_document(block: ClientDocumentBlock, where: Where, at: int, dropped: Dropped) -> list[Media | Text]:
    place = _path(where, at)
    _note_citations(block.citations, place, dropped)
    source, cache = _read_source(block.source, place, dropped), read_mark(block.cache_control)
    if source.type != "content":
        return [_media("document", source, place, title=block.title, context=block.context, cache=cache)]
    parts = [part for part in read_content(source.content, "user", f"{place}.source.content", dropped)
             if isinstance(part, Text | Media)]
    text = "\n".join(part.text for part in parts if isinstance(part, Text))
    media: list[Media | Text] = [part for part in parts if isinstance(part, Media)]
    if not text and media:
        return media
    return [Media("document", media_type="text/plain", text=text, title=block.title, context=block.context,
                  cache=cache), *media]


def _read_source(raw: msgspec.Raw, path: str, dropped: Dropped) -> ClientSource:
    source, unknown = _source.read(raw, f"{path}.source")
    for field in unknown:
        dropped.hint(f"source.{field}")
    return source


def _media(kind: Literal["image", "document"], source: ClientSource, path: str, *, title: str | None = None,
           context: str | None = None, cache: CacheMark = False) -> Media:
    place = f"{path}.source"
    if source.type == "base64":
        return Media(kind, media_type=_required(source.media_type, place, "media_type"),
                     data=_required(source.data, place, "data"), title=title, context=context, cache=cache)
    if source.type == "url":
        return Media(kind, url=_required(source.url, place, "url"), title=title, context=context, cache=cache)
    if source.type == "file":
        return Media(kind, file_id=_required(source.file_id, place, "file_id"), title=title, context=context,
                     cache=cache)
    if source.type == "text" and kind == "document":
        return Media(kind, media_type=source.media_type or "text/plain", text=_required(source.data, place, "data"),
                     title=title, context=context, cache=cache)
    raise refused(f"{place}.type", f"unknown source type {source.type!r} of a block of the type {kind}")


def _required(value: str | None, place: str, field: str) -> str:
    if value is None:
        raise refused(f"{place}.{field}", "this field is required")
    return value


def _note_citations(raw: msgspec.Raw, path: str, dropped: Dropped) -> None:
    """Citations are requested per document; another provider's model cannot give them."""
    if given(raw) and _citations.read(raw, f"{path}.citations")[0].enabled:
        dropped.loss("citations")


def _read_search_result(block: SearchResultBlock, where: Where, at: int, dropped: Dropped) -> list[Text]:
    place = _path(where, at)
    _note_citations(block.citations, place, dropped)
    texts = [part.text for part in read_content(block.content, "user", f"{place}.content", dropped)
             if isinstance(part, Text)]
    return [Text("\n".join([block.title, block.source, *texts]), cache=read_mark(block.cache_control))]


def _read_tool_use(block: ClientToolUseBlock, where: Where, at: int, dropped: Dropped) -> list[ToolCall]:
    """The arguments stay the client's own bytes, so that prompt caches and models see the same text again."""
    arguments = bytes(block.input).decode()
    if arguments == "null":
        arguments = ""
    if arguments and arguments[0] != "{":
        raise refused(f"{_path(where, at)}.input", "expected an object")
    call_id, signature = extract_from_id(block.id)
    return [ToolCall(call_id, block.name, arguments, cache=read_mark(block.cache_control), signature=signature)]


def _read_tool_result(block: ClientToolResultBlock[Any], where: Where, at: int, dropped: Dropped) -> list[ToolResult]:
    content: list[Text | Media]
    if isinstance(block.content, str):
        content = [Text(block.content)] if block.content else []
    else:
        content = _result_parts(block.content, _path(where, at), dropped)
    name = _string.decode(block.name) if block.name and is_string(block.name) else None
    return [ToolResult(extract_from_id(block.tool_use_id)[0], content, is_error=bool(block.is_error), name=name or None,
                       cache=read_mark(block.cache_control))]


def _result_parts(parts: Sequence[msgspec.Raw | KnownBlock] | None, path: str,
                  dropped: Dropped) -> list[Text | Media]:
    content: list[Text | Media] = []
    for part in read_content(parts, "user", f"{path}.content", dropped):
        if isinstance(part, Text | Media):
            content.append(part)
        elif isinstance(part, Opaque) and part.text:
            content.append(Text(part.text))
        else:
            dropped.loss(f"tool_result.{part.type if isinstance(part, Opaque) else 'tool_result'}")
    return content


def _read_tool_reference(block: ToolReferenceBlock, where: Where, at: int, dropped: Dropped) -> list[Text]:
    """The client's tool search found a tool. Its definition arrives in `tools`; the model must learn its name."""
    return [Text(loaded_tool(block.tool_name), cache=read_mark(block.cache_control))]


def loaded_tool(name: str) -> str:
    """The text from which a model learns that a tool was found."""
    return f"loaded tool: {name}"


def _read_thinking(block: ClientThinkingBlock, where: Where, at: int, dropped: Dropped) -> list[Thinking]:
    return [Thinking(block.thinking, signature=block.signature or None)]


def _read_redacted(block: RedactedThinkingBlock, where: Where, at: int, dropped: Dropped) -> list[Thinking]:
    return [Thinking("", redacted=block.data)]


def _opaque(kind: str, raw: msgspec.Raw) -> Opaque:
    data = bytes(raw)
    return Opaque("anthropic", kind, data, text=_rendered(data))


_READERS: dict[type, tuple[Callable[[Any, Where, int, Dropped], Sequence[Block]], str, Role | None]] = {
    ClientTextBlock: (_read_text, "text", None),
    ClientImageBlock: (_read_image, "image", None),
    ClientDocumentBlock: (_read_document, "document", None),
    SearchResultBlock: (_read_search_result, "search_result", None),
    ClientToolUseBlock: (_read_tool_use, "tool_use", "assistant"),
    ClientToolResultBlock: (_read_tool_result, "tool_result", "user"),
    ToolReferenceBlock: (_read_tool_reference, "tool_reference", None),
    ClientThinkingBlock: (_read_thinking, "thinking", "assistant"),
    RedactedThinkingBlock: (_read_redacted, "redacted_thinking", "assistant"),
}
"""For each record: its reader (called with the block, its list and its position), its type, and the only role that may
have it. In another role it would fail obscurely at the provider."""


# ------------------------------------------------------------------------------------------ blocks of server tools


def _rendered(raw: bytes) -> str | None:
    """The text of a block of Anthropic's servers; None where there is no faithful rendering."""
    block = _decode(raw)
    if not isinstance(block, dict):
        return None
    kind = block.get("type")
    if kind == "server_tool_use":
        return _render_call(block)
    if kind == "compaction":
        return _text_or_none(block.get("content"))
    if isinstance(kind, str) and kind.endswith("_tool_result"):
        return _render_result(kind.removesuffix("_tool_result"), block.get("content"))
    return _text_or_none(block.get("text"))


def _render_call(block: Mapping[str, object]) -> str | None:
    arguments = block.get("input")
    if not isinstance(arguments, dict):
        return None
    if block.get("name") == "web_search" and (query := _text_or_none(arguments.get("query"))):
        return f"Web search: {query}"
    if block.get("name") == "web_fetch" and (url := _text_or_none(arguments.get("url"))):
        return f"Web fetch: {url}"
    return None


def _render_result(tool: str, content: object) -> str | None:
    if isinstance(content, dict):
        return _render_single_result(tool, content)
    if not isinstance(content, list):
        return _text_or_none(content)
    if tool == "web_search":
        lines = [_render_hit(item) for item in content if isinstance(item, dict)]
        return "\n".join(["Web search results:", *lines]) if lines else "Web search: no results"
    texts = [item["text"] for item in content if isinstance(item, dict) and isinstance(item.get("text"), str)]
    return "\n".join(texts) or None


def _render_hit(item: Mapping[str, object]) -> str:
    title, url = _text_or_none(item.get("title")), _text_or_none(item.get("url"))
    return f"- {title}: {url}" if title and url else f"- {title or url or ''}"


def _render_single_result(tool: str, content: Mapping[str, object]) -> str | None:
    if code := _text_or_none(content.get("error_code")):
        return f"{tool.replace('_', ' ')} failed: {code}"
    if tool == "web_fetch":
        return _render_page(content)
    if "stdout" in content or "stderr" in content:
        parts = [_text_or_none(content.get("stdout")), _text_or_none(content.get("stderr"))]
        return "\n".join([*(part for part in parts if part), f"exit code {content.get('return_code', 0)}"])
    return None


def _render_page(content: Mapping[str, object]) -> str | None:
    url, document = _text_or_none(content.get("url")), content.get("content")
    source = document.get("source") if isinstance(document, dict) else None
    text = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    if not isinstance(text, str):
        return None
    return f"{url}\n{text}" if url else text


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
