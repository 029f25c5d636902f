"""Readable text for blocks that only Anthropic's own servers produce, so that another provider's model still sees
what a server tool found.

Called by `blocks` for every block type that it does not know itself. Renders only what is really in the block;
None where there is no faithful text (the block is then dropped by its type and named).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_decode = msgspec.json.Decoder().decode


def text_of(raw: bytes) -> str | None:
    """A rendering of the block, None where there is none."""
    block = _decode(raw)
    if not isinstance(block, dict):
        return None
    kind = block.get("type")
    if kind == "server_tool_use":
        return _call(block)
    if kind == "compaction":
        return _string(block.get("content"))
    if isinstance(kind, str) and kind.endswith("_tool_result"):
        return _result(kind.removesuffix("_tool_result"), block.get("content"))
    return _string(block.get("text"))


def _call(block: Mapping[str, object]) -> str | None:
    arguments = block.get("input")
    if not isinstance(arguments, dict):
        return None
    if block.get("name") == "web_search" and (query := _string(arguments.get("query"))):
        return f"Web search: {query}"
    if block.get("name") == "web_fetch" and (url := _string(arguments.get("url"))):
        return f"Web fetch: {url}"
    return None


def _result(tool: str, content: object) -> str | None:
    if isinstance(content, dict):
        return _single(tool, content)
    if not isinstance(content, list):
        return _string(content)
    if tool == "web_search":
        lines = [_hit(item) for item in content if isinstance(item, dict)]
        return "\n".join(["Web search results:", *lines]) if lines else "Web search: no results"
    texts = [item["text"] for item in content if isinstance(item, dict) and isinstance(item.get("text"), str)]
    return "\n".join(texts) or None


def _hit(item: Mapping[str, object]) -> str:
    title, url = _string(item.get("title")), _string(item.get("url"))
    return f"- {title}: {url}" if title and url else f"- {title or url or ''}"


def _single(tool: str, content: Mapping[str, object]) -> str | None:
    if code := _string(content.get("error_code")):
        return f"{tool.replace('_', ' ')} failed: {code}"
    if tool == "web_fetch":
        return _page(content)
    if "stdout" in content or "stderr" in content:
        parts = [_string(content.get("stdout")), _string(content.get("stderr"))]
        return "\n".join([*(part for part in parts if part), f"exit code {content.get('return_code', 0)}"])
    return None


def _page(content: Mapping[str, object]) -> str | None:
    url, document = _string(content.get("url")), content.get("content")
    source = document.get("source") if isinstance(document, dict) else None
    text = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    if not isinstance(text, str):
        return None
    return f"{url}\n{text}" if url else text


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
