"""The calls of a Responses response that passes: their number and sizes, and new ids for those that the conversation
has already. A client that sees an id again takes the call for the earlier one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from extproc.apis.shared.json_fields import encode_fields, encode_raw, fields_of
from extproc.conversation.model import Tool


class _Item(msgspec.Struct):
    type: Any = None
    call_id: Any = None
    name: Any = None


_item = msgspec.json.Decoder(_Item)


class PassedCalls:
    """The calls of one response by their `output_index`.

    `new_id`: (id, ordinal) -> a new id, or None if this one may pass. `count_unoffered`: called with the name of each
    call. `tools`: those that the request offers."""

    def __init__(self, new_id: Callable[[str | None, int], str | None], count_unoffered: Callable[[object], None],
                 tools: Sequence[Tool]) -> None:
        self.count = 0
        self._new_id = new_id
        self._count_unoffered = count_unoffered
        self._flat_names = {name: tool.name for tool in tools for name in (tool.member, tool.name) if name}
        self._ids: dict[int, str | None] = {}
        self._names: dict[int, str] = {}
        self._sizes: dict[int, int] = {}

    def with_new_id(self, index: int, raw: msgspec.Raw) -> msgspec.Raw:
        """The item with the id that the client gets; the same object if it needs none."""
        try:
            item = _item.decode(raw)
        except msgspec.DecodeError:
            return raw
        if not isinstance(item.type, str) or not item.type.endswith("_call"):
            return raw
        if index not in self._ids:
            self._begin(index, item)
        new = self._ids[index]
        return raw if new is None else msgspec.Raw(encode_fields({**(fields_of(raw) or {}),
                                                                  "call_id": encode_raw(new)}))

    def add_arguments(self, index: int, piece: str) -> tuple[str, int]:
        """Returns the name of the call and the characters of its arguments so far."""
        size = self._sizes[index] = self._sizes.get(index, 0) + len(piece)
        return self._names.get(index, ""), size

    def _begin(self, index: int, item: _Item) -> None:
        """Calls of tools that the provider runs have no `call_id`, and do not count."""
        if not isinstance(item.call_id, str):
            self._ids[index] = None
            return
        self._ids[index] = self._new_id(item.call_id, self.count)
        self.count += 1
        if isinstance(item.name, str):
            self._names[index] = item.name
            self._count_unoffered(self._flat_names.get(item.name, item.name))
