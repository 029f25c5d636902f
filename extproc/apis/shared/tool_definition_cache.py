"""The definition of a tool as bytes -> what it was decoded to the last time.

A coding client sends the same tools with every request, tens of kilobytes of them. A decoder of a client API reads each
definition once; for the same bytes it gives the same object again, which nobody may change (nobody does: encoders copy
what they rewrite). What was dropped of it is named every time. Bounded in bytes; it knows no API and no client.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.apis.shared.body import check_parts
from extproc.conversation.model import ServerTool, Tool
from extproc.conversation.unsupported import Dropped

LARGEST = 64 * 1024
"""Bytes of a definition that is kept; decoded it takes some times as much."""
ALL = 4 * 1024 * 1024
"""Bytes of all of them; past it everything is read anew."""

_LEVEL = 3
"""The level of a tool in a request: below the body and its list of tools."""


class _Kept(msgspec.Struct, frozen=True):
    tool: Tool | ServerTool
    dropped: Dropped
    depth: int
    """It is nested no deeper than a request with this limit may be."""


class ToolDefinitionCache:
    """`decode` reads one definition: bytes, its place, what is dropped. Safe in several threads: two that miss at the
    same moment both do the work."""

    def __init__(self, decode: Callable[[msgspec.Raw, str, Dropped], Tool | ServerTool], largest: int = LARGEST,
                 size: int = ALL) -> None:
        self._decode = decode
        self._bounds = (largest, size)
        self._kept: dict[bytes, _Kept] = {}
        self._size = 0

    def read(self, raw: msgspec.Raw, path: str, dropped: Dropped, depth: int) -> Tool | ServerTool:
        """`depth`: how deep the request may be nested. Raises BadRequest, as `decode` does; that is not kept."""
        source = bytes(raw)
        kept = self._kept.get(source)
        if kept is None or kept.depth != depth:
            check_parts([source], _LEVEL, depth)
            told = Dropped()
            kept = _Kept(self._decode(msgspec.Raw(source), path, told), told, depth)
            self._keep(source, kept)
        for name in kept.dropped.losses:
            dropped.loss(name)
        for name in kept.dropped.hints:
            dropped.hint(name)
        return kept.tool

    def _keep(self, source: bytes, kept: _Kept) -> None:
        largest, size = self._bounds
        if len(source) > largest:
            return
        if source in self._kept:  # for another depth
            self._kept[source] = kept
            return
        if self._size + len(source) > size:
            self._kept = {}
            self._size = 0
        self._kept[source] = kept
        self._size += len(source)
