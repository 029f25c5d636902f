"""Content codings: compressed bytes in any cut -> plain bytes, within a bound.

Used for request bodies (some clients compress them) and for providers that compress although they were asked not to.
The bound is checked during decompression, because a few kilobytes can expand to gigabytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import brotli
import zstandard

from extproc.errors import BadRequest

_STEP = 1 << 20
"""Bytes of output of one step."""
_SLICE = 4096
"""Bytes of input of one step, for data of many parts: the rest after each part is copied."""
_PARTS = 10_000
"""Most members (gzip) or frames (zstd) of one body. Each costs time, even an empty one of 20 bytes; real encoders write
parts of 64 KB and more."""
_CODINGS = 5
"""Most codings of one body."""


class EncodingError(Exception):
    """`status`: 400 if the bytes do not have the coding that content-encoding names, 415 for an unknown coding, 413 if
    the result exceeds the bound."""

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
        """The body is complete. An empty body is allowed: some servers send a content-encoding without a body."""
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
                # Each step is bounded: a long intermediate result may shrink to nothing in the next.
                self._sizes[at] += len(piece)
                if self._sizes[at] > self._limit:
                    raise EncodingError(f"more than {self._limit} bytes after decompression", 413)
                yield from self._through(piece, at + 1)
        except (zlib.error, brotli.error, zstandard.ZstdError) as problem:
            raise EncodingError(f"the data is not valid {name} ({problem})") from None


def decompress(data: bytes, codings: str, limit: int) -> bytes:
    """Decompresses a whole body. Raises EncodingError."""
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


def plain_request_body(body: bytes, headers: Mapping[str, str], limit: int) -> bytes:
    """The client's body without content codings. Raises BadRequest if it is damaged or larger than `limit` bytes."""
    coding = headers.get("content-encoding")
    if coding:
        try:
            body = decompress(body, coding, limit)
        except EncodingError as problem:
            raise refused_encoding(problem, limit) from None
    if len(body) > limit:
        raise BadRequest(f"The request body has {len(body)} bytes; this gateway takes at most {limit}.",
                         kind="too_large", status=413)
    return body


def plain_error_body(body: bytes, inflate: Decompressor | None, headers: Mapping[str, str]) -> bytes:
    """A provider's error body without its coding. Some proxies send an error of their own with the provider's headers;
    it is plain text, whatever they say. An unreadable body is replaced by an empty one."""
    if inflate is not None:
        try:
            return inflate.feed(body)
        except EncodingError:
            pass
    elif "content-encoding" not in headers:
        return body
    return body if body.lstrip()[:1] in (b"{", b"[", b"<") or body.isascii() else b""
