"""A cache of rewritten schemas by content: a client sends the same tools with every request.

The key is a hash of the schema's JSON and of the kind of rewriting, so that equal schemas of different clients share
one entry. Bounded in entries and bytes; the least recently used entry goes first. Thread-safe: two threads that miss
at the same moment both do the work, with the same result.
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
_MAX_KNOWN_OBJECTS, _MAX_KNOWN_LENGTH = 2048, 16 * 1024
"""Bounds of the schema objects whose keys are kept: how many, and the length of each as JSON, in bytes."""


class Rewritten(msgspec.Struct, frozen=True):
    """A schema in the form of a provider. `text`: None if nothing is sent. `strict`: it meets the demands of the
    provider's strict mode. `faults`: the places that cannot be sent (`schema_faults`)."""

    text: msgspec.Raw | None
    strict: bool = False
    faults: tuple[str, ...] = ()


class CacheFigures(msgspec.Struct, frozen=True):
    """`hits` and `misses`: since the start of the process. `entries`: now."""

    hits: int
    misses: int
    entries: int


class SchemaCache:
    """`entries` and `size` (bytes) bound it. `largest`: a longer result, in bytes, is not kept, so that one giant
    cannot evict everybody's tools."""

    def __init__(self, entries: int = 4096, size: int = 32 * 1024 * 1024, largest: int = 1024 * 1024) -> None:
        self._bounds = (entries, size, largest)
        self._entries: OrderedDict[bytes, Rewritten] = OrderedDict()
        self._size = 0
        self._keys: dict[tuple[str, int], tuple[object, bytes]] = {}
        self._hits = 0
        self._misses = 0
        self._lock = Lock()

    def get(self, kind: str, schema: object, rewrite: Callable[[int], Rewritten]) -> Rewritten:
        """The cached result of `rewrite`. `kind` names the rewriting. `rewrite` receives the length of the schema's
        JSON in bytes; its result must depend on the schema alone."""
        key = self._key(kind, schema)
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
                self._hits += 1
                return found
            self._misses += 1
        rewritten = rewrite(len(_ENCODER.encode(schema)))
        self._add(key, rewritten)
        return rewritten

    def _key(self, kind: str, schema: object) -> bytes:
        """The hash of a schema. A cached tool definition brings the same object again, so keys are kept by `id`,
        together with the object: otherwise its id would soon belong to another one."""
        known = self._keys.get((kind, id(schema)))
        if known is not None:
            return known[1]
        source = _ENCODER.encode(schema)
        digest = blake2b(source, digest_size=16)
        digest.update(kind.encode())
        key = digest.digest()
        if len(source) <= _MAX_KNOWN_LENGTH:
            if len(self._keys) >= _MAX_KNOWN_OBJECTS:
                self._keys = {}
            self._keys[kind, id(schema)] = (schema, key)
        return key

    @property
    def figures(self) -> CacheFigures:
        with self._lock:
            return CacheFigures(self._hits, self._misses, len(self._entries))

    def _add(self, key: bytes, rewritten: Rewritten) -> None:
        entries, size, largest = self._bounds
        cost = _cost(rewritten)
        if cost > largest:
            return
        with self._lock:
            if key not in self._entries:
                self._size += cost
            self._entries[key] = rewritten
            while len(self._entries) > entries or self._size > size:
                _, removed = self._entries.popitem(last=False)
                self._size -= _cost(removed)


def _cost(rewritten: Rewritten) -> int:
    return _OVERHEAD + (len(memoryview(rewritten.text)) if rewritten.text is not None else 0)


SHARED_CACHE = SchemaCache()
"""The cache of this process."""
