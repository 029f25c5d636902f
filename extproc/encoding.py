"""Content codings: compressed bytes in any cut -> plain bytes, within a bound.

Used for request bodies (some clients compress them) and for providers that compress although they were asked not to.
"""

from __future__ import annotations

import zlib
from typing import Protocol

import brotli
import zstandard


class EncodingError(Exception):
    """The bytes are not what the content-encoding says, the coding is unknown, or the result passes the bound."""

    def __init__(self, message: str, *, too_large: bool = False) -> None:
        super().__init__(message)
        self.too_large = too_large


class _Inflater(Protocol):
    def step(self, data: bytes) -> bytes: ...


class _Zlib:
    """gzip (also several members) and deflate (zlib-wrapped, or raw as some servers send it)."""

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._object = zlib.decompressobj(wbits=31 if gzip else 15)
        self._first = True

    def step(self, data: bytes) -> bytes:
        out = []
        while data:
            try:
                out.append(self._object.decompress(data))
            except zlib.error:
                if self._gzip or not self._first:
                    raise
                self._object = zlib.decompressobj(wbits=-15)
                out.append(self._object.decompress(data))
            self._first = False
            data = self._object.unused_data
            if data and self._gzip:
                self._object = zlib.decompressobj(wbits=31)
            else:
                data = b""
        return b"".join(out)


class _Brotli:
    def __init__(self) -> None:
        self._object = brotli.Decompressor()

    def step(self, data: bytes) -> bytes:
        return bytes(self._object.process(data))


class _Zstd:
    def __init__(self) -> None:
        self._object = zstandard.ZstdDecompressor().decompressobj()

    def step(self, data: bytes) -> bytes:
        return bytes(self._object.decompress(data))


class Decompressor:
    """One body. `codings` is the value of content-encoding ("gzip", "br, gzip"...).

    Raises EncodingError for an unknown coding, from `feed` for damaged data or more than `limit` bytes.
    """

    def __init__(self, codings: str, limit: int) -> None:
        self._steps: list[_Inflater] = []
        self._limit = limit
        self._size = 0
        for coding in reversed([c.strip().lower() for c in codings.split(",") if c.strip()]):
            if coding in ("gzip", "x-gzip"):
                self._steps.append(_Zlib(gzip=True))
            elif coding == "deflate":
                self._steps.append(_Zlib(gzip=False))
            elif coding == "br":
                self._steps.append(_Brotli())
            elif coding == "zstd":
                self._steps.append(_Zstd())
            elif coding != "identity":
                raise EncodingError(f"unknown content-encoding {coding!r}")

    def feed(self, data: bytes) -> bytes:
        if not self._steps:
            return data
        # In slices, so that a small bomb is noticed before it has grown.
        out = []
        for at in range(0, len(data), 65536):
            piece = data[at:at + 65536]
            try:
                for step in self._steps:
                    piece = step.step(piece)
            except (zlib.error, brotli.error, zstandard.ZstdError) as problem:
                raise EncodingError(f"the compressed data is damaged ({problem})") from None
            self._size += len(piece)
            if self._size > self._limit:
                raise EncodingError(f"more than {self._limit} bytes after decompression", too_large=True)
            out.append(piece)
        return b"".join(out)
