"""Rewritten schemas by content: the same tools, which a client sends with every request, are rewritten once.

A request encoder asks with the schema as it was decoded; the key is a hash of its JSON and of what it is rewritten
into, so nothing depends on names, clients or requests, and equal schemas of different clients share one entry. Bounded
in entries and bytes, the longest unused goes first. Safe to use from several threads: two that miss at the same moment
both do the work, with the same result.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock

import msgspec

_ENCODER = msgspec.json.Encoder()
_OVERHEAD = 200
"""Bytes that an entry takes besides its text."""
_MOST_KNOWN, _LARGEST_KNOWN = 2048, 16 * 1024
"""Bounds of the schemas whose keys are known without making them: objects, and bytes of one as JSON."""


class Rewritten(msgspec.Struct, frozen=True):
    """A schema in the form of a provider. `text` None: the provider is told nothing. `strict`: it meets the demands of
    OpenAI's strict mode. `faults`: the places of what cannot be sent (`schema_faults`)."""

    text: msgspec.Raw | None
    strict: bool = False
    faults: tuple[str, ...] = ()


class Figures(msgspec.Struct, frozen=True):
    """Counted since the start."""

    hits: int
    misses: int
    entries: int


class SchemaCache:
    """`entries` and `size` (bytes) bound it. `largest`: a longer result is not kept, so that one giant cannot throw
    out everybody's tools."""

    def __init__(self, entries: int = 4096, size: int = 32 * 1024 * 1024, largest: int = 1024 * 1024) -> None:
        self._bounds = (entries, size, largest)
        self._kept: OrderedDict[bytes, Rewritten] = OrderedDict()
        self._size = 0
        self._keys: dict[tuple[str, int], tuple[object, bytes]] = {}
        self._hits = 0
        self._misses = 0
        self._lock = Lock()

    def get(self, kind: str, schema: object, rewrite: Callable[[int], Rewritten]) -> Rewritten:
        """What `rewrite` makes of `schema`. `kind` names the rewriting; `rewrite` gets the bytes of the schema's JSON,
        and must depend on the schema alone."""
        key = self._key(kind, schema)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                self._hits += 1
                return found
            self._misses += 1
        made = rewrite(len(_ENCODER.encode(schema)))
        self._keep(key, made)
        return made

    def _key(self, kind: str, schema: object) -> bytes:
        """A tool that is kept (`apis.tool_definition_cache`) brings the same object again, whose key is known by its
        id. The object is held meanwhile, or its id would soon be another's."""
        known = self._keys.get((kind, id(schema)))
        if known is not None:
            return known[1]
        source = _ENCODER.encode(schema)
        digest = blake2b(source, digest_size=16)
        digest.update(kind.encode())
        key = digest.digest()
        if len(source) <= _LARGEST_KNOWN:
            if len(self._keys) >= _MOST_KNOWN:
                self._keys = {}
            self._keys[kind, id(schema)] = (schema, key)
        return key

    @property
    def figures(self) -> Figures:
        with self._lock:
            return Figures(self._hits, self._misses, len(self._kept))

    def _keep(self, key: bytes, made: Rewritten) -> None:
        entries, size, largest = self._bounds
        cost = _cost(made)
        if cost > largest:
            return
        with self._lock:
            if key not in self._kept:
                self._size += cost
            self._kept[key] = made
            while len(self._kept) > entries or self._size > size:
                _, gone = self._kept.popitem(last=False)
                self._size -= _cost(gone)


def _cost(made: Rewritten) -> int:
    return _OVERHEAD + (len(memoryview(made.text)) if made.text is not None else 0)


SHARED = SchemaCache()
"""The one of this process."""
