"""A cache of decoded tool definitions, by their bytes.

A coding client sends the same tools with every request, tens of kilobytes of them. Each definition is decoded once; the
same bytes give the same object, which must not be changed (encoders copy what they rewrite). Dropped parts of it are
named every time. Bounded in bytes; it knows no API and no client.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.apis.shared.body import check_parts
from extproc.conversation.model import ServerTool, Tool
from extproc.conversation.unsupported import Dropped

LARGEST = 64 * 1024
"""Bytes of the largest definition that is cached. Decoded, it takes several times as much."""
TOTAL = 4 * 1024 * 1024
"""Bytes of all definitions. Past it the cache is cleared."""

_LEVEL = 3
"""The level of a tool in a request: below the body and its list of tools."""


class _Entry(msgspec.Struct, frozen=True):
    tool: Tool | ServerTool
    dropped: Dropped
    depth: int
    """The definition fits into a request with this limit of nesting."""


class ToolDefinitionCache:
    """`decode` decodes one definition: bytes, its place, dropped parts. Thread-safe: two threads that miss at the same
    moment both decode."""

    def __init__(self, decode: Callable[[msgspec.Raw, str, Dropped], Tool | ServerTool], largest: int = LARGEST,
                 size: int = TOTAL) -> None:
        self._decode = decode
        self._bounds = (largest, size)
        self._entries: dict[bytes, _Entry] = {}
        self._size = 0

    def read(self, raw: msgspec.Raw, path: str, dropped: Dropped, depth: int) -> Tool | ServerTool:
        """`depth`: the limit of nesting of the request. Raises BadRequest, as `decode` does; errors are not cached."""
        source = bytes(raw)
        entry = self._entries.get(source)
        if entry is None or entry.depth != depth:
            check_parts([source], _LEVEL, depth)
            tool_dropped = Dropped()
            entry = _Entry(self._decode(msgspec.Raw(source), path, tool_dropped), tool_dropped, depth)
            self._store(source, entry)
        for name in entry.dropped.losses:
            dropped.loss(name)
        for name in entry.dropped.hints:
            dropped.hint(name)
        return entry.tool

    def _store(self, source: bytes, entry: _Entry) -> None:
        largest, size = self._bounds
        if len(source) > largest:
            return
        if source in self._entries:  # with another depth
            self._entries[source] = entry
            return
        if self._size + len(source) > size:
            self._entries = {}
            self._size = 0
        self._entries[source] = entry
        self._size += len(source)
