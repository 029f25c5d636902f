"""Content codings: compressed bytes in any cut -> plain bytes, within a bound.

Used for request bodies (some clients compress them) and for providers that compress although they were asked not to.
What is decompressed is bounded while it grows, not afterwards: a few kilobytes can claim to be gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import brotli
import zstandard

from extproc.errors import BadRequest

_STEP = 1 << 20
"""Bytes of output that are made at a time."""
_SLICE = 4096
"""Bytes of input that are looked at a time where data may be made of many parts: what is left over behind a part is
copied."""
_PARTS = 10_000
"""Most members (gzip) or frames (zstd) of one body. Each costs time even when it is empty, which takes 20 bytes; what
writes in blocks makes parts of 64 KB and more."""
_CODINGS = 5
"""Most codings on top of one another."""


class EncodingError(Exception):
    """Raised with `status`: 400 the bytes are not what the content-encoding says, 415 the coding is not known, 413
    the result passes the bound."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


class _Coding(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]:
        """Pieces of at most about `_STEP` bytes."""

    @property
    def ended(self) -> bool:
        """The compressed data is complete."""


class _Zlib:
    """gzip (also several members) and deflate (zlib-wrapped, or raw as some servers send it)."""

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._object = zlib.decompressobj(wbits=31) if gzip else None
        self._head = b""
        self._parts = 1
        self._over = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._object is None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._object = zlib.decompressobj(wbits=15 if wrapped else -15)
        for at in range(0, len(data), _SLICE):
            yield from self._slice(data[at:at + _SLICE])

    def _slice(self, data: bytes) -> Iterator[bytes]:
        assert self._object is not None
        while data and not self._over:
            if self._object.eof:
                if not self._gzip or data[:1] == b"\0":
                    self._over = True  # what follows is padding
                    return
                self._parts = _one_more(self._parts)
                self._object = zlib.decompressobj(wbits=31)
            yield self._object.decompress(data, _STEP)
            data = self._object.unconsumed_tail or self._object.unused_data

    @property
    def ended(self) -> bool:
        return self._object is not None and self._object.eof


class _Brotli:
    def __init__(self) -> None:
        self._object = brotli.Decompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield bytes(self._object.process(data, output_buffer_limit=_STEP))
        while not self._object.can_accept_more_data() and not self._object.is_finished():
            yield bytes(self._object.process(b"", output_buffer_limit=_STEP))

    @property
    def ended(self) -> bool:
        return bool(self._object.is_finished())


class _Zstd:
    """Small input slices bound the output of one step: a block of zstd is at most 128 KB."""

    _SLICE = 64

    def __init__(self) -> None:
        self._object = _zstd_frame()
        self._parts = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), self._SLICE):
            piece = data[at:at + self._SLICE]
            while piece:
                if self._object.eof:
                    self._parts = _one_more(self._parts)
                    self._object = _zstd_frame()
                yield bytes(self._object.decompress(piece))
                piece = self._object.unused_data if self._object.eof else b""

    @property
    def ended(self) -> bool:
        return bool(self._object.eof)


def _zstd_frame() -> Any:
    return zstandard.ZstdDecompressor(max_window_size=2 ** 27).decompressobj()


def _one_more(parts: int) -> int:
    if parts >= _PARTS:
        raise EncodingError(f"the compressed data has more than {_PARTS} parts")
    return parts + 1


def _coding(name: str) -> _Coding:
    if name in ("gzip", "x-gzip"):
        return _Zlib(gzip=True)
    if name == "deflate":
        return _Zlib(gzip=False)
    if name == "br":
        return _Brotli()
    if name == "zstd":
        return _Zstd()
    raise EncodingError(f'content-encoding "{name[:40]}" is not supported; use gzip, br, zstd, deflate or none', 415)


class Decompressor:
    """One body. `codings` is the value of content-encoding ("gzip", "br, gzip"...).

    Raises EncodingError: for an unknown coding at once, from `feed` for damaged data or more than `limit` bytes, from
    `finish` for data that ends early.
    """

    def __init__(self, codings: str, limit: int) -> None:
        names = [name for part in codings.lower().split(",") if (name := part.strip()) not in ("", "identity")]
        if len(names) > _CODINGS:
            raise EncodingError(f"content-encoding names {len(names)} codings, at most {_CODINGS} are taken", 415)
        self._codings = [(name, _coding(name)) for name in reversed(names)]
        self._limit = limit
        self._sizes = [0] * len(names)
        self._fed = False

    def feed(self, data: bytes) -> bytes:
        if not self._codings:
            return data
        self._fed = self._fed or bool(data)
        return b"".join(self._through(data, 0))

    def finish(self) -> None:
        """The body is complete. An empty body passes: some servers send none with a content-encoding."""
        for name, coding in self._codings:
            if self._fed and not coding.ended:
                raise EncodingError(f"the {name} data ends early")

    def _through(self, data: bytes, at: int) -> Iterator[bytes]:
        if at == len(self._codings):
            if data:
                yield data
            return
        name, coding = self._codings[at]
        try:
            for piece in coding.feed(data):
                # Also what only a further coding reads: it may be long and come to nothing.
                self._sizes[at] += len(piece)
                if self._sizes[at] > self._limit:
                    raise EncodingError(f"more than {self._limit} bytes after decompression", 413)
                yield from self._through(piece, at + 1)
        except (zlib.error, brotli.error, zstandard.ZstdError) as problem:
            raise EncodingError(f"the data is not valid {name} ({problem})") from None


def decompress(data: bytes, codings: str, limit: int) -> bytes:
    """A whole body at once. Raises EncodingError."""
    whole = Decompressor(codings, limit)
    out = whole.feed(data)
    whole.finish()
    return out


def refused_encoding(problem: EncodingError, limit: int) -> BadRequest:
    """The refusal of a client's compressed body."""
    if problem.status == 413:
        return BadRequest(f"The request body is larger than this gateway's limit of {limit} bytes (limits.body) after "
                          "decompression.", kind="too_large", status=413)
    return BadRequest(f"The request body cannot be read: {problem}.", status=problem.status)


def plain_error_body(body: bytes, inflate: Decompressor | None, headers: Mapping[str, str]) -> bytes:
    """A provider's error without its coding. Some proxies write an error of their own under the provider's headers:
    then it is plain text whatever they say. What cannot be read is left out, the status says enough."""
    if inflate is not None:
        try:
            return inflate.feed(body)
        except EncodingError:
            pass
    elif "content-encoding" not in headers:
        return body
    return body if body.lstrip()[:1] in (b"{", b"[", b"<") or body.isascii() else b""
