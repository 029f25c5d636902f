"""A request body on its way in: chunks -> one bounded body, decoded, and what routing needs to know of it.

Called by both exchanges for every request. Reads the model's name and nothing else: whether the rest makes sense is
the translation's affair. Every function is linear in the body's size and runs in C.
"""

from __future__ import annotations

import zlib

import brotli
import msgspec
import zstandard

from extproc.errors import BadRequest
from extproc.limits import Limits


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What routing reads of a request body."""

    model: str
    stream: bool = False


_BLOCK = 1024 * 1024
_ASKED = msgspec.json.Decoder(Asked)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURE = bytes(byte for byte in range(256) if byte not in b'"[]{}')


class Body:
    """Collects a request's chunks, bounded by `limits.body`. Raises BadRequest (413) past it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.chunks: list[bytes] = []
        self.size = 0

    def expect(self, content_length: str | None) -> None:
        """Refuses what the headers announce to be too large, before it is sent."""
        if content_length is not None and content_length.isdecimal() and int(content_length) > self._limits.body:
            raise too_large(self._limits.body)

    def add(self, data: bytes) -> None:
        if not data:
            return
        self.size += len(data)
        if self.size > self._limits.body:
            self.chunks.clear()
            raise too_large(self._limits.body)
        self.chunks.append(data)

    def raw(self) -> bytes:
        """The bytes as they came."""
        if len(self.chunks) > 1:
            self.chunks = [b"".join(self.chunks)]
        return self.chunks[0] if self.chunks else b""

    def decoded(self, content_encoding: str | None) -> bytes:
        """The body without its content encodings, at most `limits.body` bytes."""
        data = self.raw()
        for coding in reversed((content_encoding or "").lower().split(",")):
            data = _decode(data, coding.strip(), self._limits.body)
        return data


def too_large(limit: int) -> BadRequest:
    return BadRequest(f"The request body is larger than this gateway's limit of {limit} bytes (limits.body).",
                      kind="too_large", status=413)


def read_asked(body: bytes, limits: Limits, *, check_depth: bool = True) -> Asked:
    """The model that a JSON body asks for. Raises BadRequest with the place of the error. `check_depth` False: an
    earlier hop has checked the nesting."""
    if not body:
        raise BadRequest("The request body is empty; a JSON object is expected.")
    try:
        asked = _ASKED.decode(body)
    except RecursionError:
        raise _too_deep(limits.json_depth) from None
    except msgspec.ValidationError as error:
        raise BadRequest(_in_words(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(f"The request body is not valid JSON: {error}.") from None
    if not asked.model:
        raise BadRequest("model: the name of a model is required.")
    if check_depth and is_deeper(body, limits.json_depth):
        raise _too_deep(limits.json_depth)
    return asked


def _in_words(error: str) -> str:
    if "missing required field `model`" in error:
        return "model: Field required."
    message, _, place = error.partition(" - at ")
    return f"{place.strip('`$.') or 'The request body'}: {message}."


def _too_deep(depth: int) -> BadRequest:
    return BadRequest(f"The request body is nested deeper than {depth} levels (limits.json_depth).")


def is_deeper(body: bytes, depth: int) -> bool:
    """Whether valid JSON nests more than `depth` levels. Takes the strings out, then peels the innermost brackets off
    once per level, so that even a hostile body costs few passes in C and no recursion."""
    if body.count(b"[") + body.count(b"{") <= depth:
        return False
    structure = body.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_BRACKETS, _NOT_STRUCTURE)
    structure = b"".join(structure.split(b'"')[::2])
    for _ in range(depth):
        if not structure:
            return False
        structure = structure.replace(b"[]", b"")
    return bool(structure)


def _decode(data: bytes, coding: str, limit: int) -> bytes:
    """Undoes one content coding. Raises BadRequest: 415 for an unknown one, 413 past `limit`, 400 for broken data."""
    if coding in ("", "identity"):
        return data
    try:
        if coding in ("gzip", "x-gzip"):
            return _inflate(data, 16 + zlib.MAX_WBITS, limit)
        if coding == "deflate":
            zlib_wrapped = len(data) >= 2 and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            return _inflate(data, zlib.MAX_WBITS if zlib_wrapped else -zlib.MAX_WBITS, limit)
        if coding == "br":
            return _brotli(data, limit)
        if coding == "zstd":
            return _zstd(data, limit)
    except (zlib.error, brotli.error, zstandard.ZstdError, EOFError) as error:
        raise BadRequest(f"The request body is not valid {coding}: {error}") from None
    raise BadRequest(f'content-encoding "{coding[:40]}" is not supported; use gzip, br, zstd, deflate or none.',
                     status=415)


def _inflate(data: bytes, window: int, limit: int) -> bytes:
    decoder = zlib.decompressobj(window)
    out = decoder.decompress(data, limit + 1)
    if len(out) > limit:
        raise too_large(limit)
    if not decoder.eof:
        raise EOFError("it ends early")
    return out


def _brotli(data: bytes, limit: int) -> bytes:
    decoder = brotli.Decompressor()
    out = decoder.process(data, output_buffer_limit=limit + 1)
    pieces = [out]
    size = len(out)
    while not decoder.can_accept_more_data() and not decoder.is_finished():
        if size > limit:
            raise too_large(limit)
        pieces.append(decoder.process(b"", output_buffer_limit=limit + 1))
        size += len(pieces[-1])
    if size > limit:
        raise too_large(limit)
    if not decoder.is_finished():
        raise EOFError("it ends early")
    return b"".join(pieces)


def _zstd(data: bytes, limit: int) -> bytes:
    pieces, size = [], 0
    reader = zstandard.ZstdDecompressor(max_window_size=2 ** 27).stream_reader(data, read_across_frames=True)
    while piece := reader.read(_BLOCK):
        size += len(piece)
        if size > limit:
            raise too_large(limit)
        pieces.append(piece)
    return b"".join(pieces)

