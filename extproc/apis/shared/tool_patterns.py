"""Rewrites regular expressions in the tools of a request that passes into the syntax that its provider compiles.

Only schemas with an affected expression are re-encoded. Used by the pass-throughs, which say where the schema of a tool
is.
"""

from __future__ import annotations

import msgspec

from extproc.apis.shared.json_fields import elements_of, encode_fields, encode_raw, fields_of, member_of
from extproc.bounds import BoundedCache
from extproc.schemas.openai import PortablePatterns

_LARGEST_KNOWN = 64 * 1024
_decode = msgspec.json.Decoder().decode
_VISITOR = PortablePatterns()


class PatternRewriter:
    """`path`: the members of a tool that lead to its schema. Results are cached by the bytes of a definition, since a
    client sends the same tools with every request."""

    def __init__(self, *path: str) -> None:
        self._path = path
        self._known: BoundedCache[bytes, bytes] = BoundedCache(self._rewritten, entries=512, longest=_LARGEST_KNOWN)

    def rewritten(self, tools: msgspec.Raw) -> msgspec.Raw:
        """The tools of a request; the same object if nothing must change."""
        if b'"pattern' not in bytes(tools):
            return tools
        elements = elements_of(tools) or []
        before = [bytes(element) for element in elements]
        after = [self._known[element] for element in before]
        return tools if after == before else encode_raw([msgspec.Raw(element) for element in after])

    def _rewritten(self, tool: bytes) -> bytes:
        if b'"pattern' not in tool:
            return tool
        parents = [fields_of(tool)]
        for name in self._path[:-1]:
            parents.append(member_of(parents[-1], name) if parents[-1] is not None else None)
        holder = parents[-1]
        if holder is None or self._path[-1] not in holder:
            return tool
        schema = _decode(holder[self._path[-1]])
        found = _VISITOR.visit(schema)
        if found is schema:
            return tool
        changed = encode_raw(found)
        for name, fields in zip(reversed(self._path), reversed(parents), strict=True):
            if fields is not None:
                fields[name] = changed
                changed = msgspec.Raw(encode_fields(fields))
        return bytes(changed)
