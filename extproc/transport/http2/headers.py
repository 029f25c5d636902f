"""Header blocks in -> checked request heads; status and text -> header blocks out.

Blocks are read by `hpack`, with bounds. A peer such as Envoy opens all its streams with the same block, which is then
decoded once. Our own blocks hold the same few fields every time, so they are written by hand and use no HPACK table:
the peer may shrink its table, and a block costs nothing to make.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

import hpack

from extproc.transport.http2.wire import Code, ProtocolError
from extproc.transport.rpc import Status

Fields = list[tuple[bytes, bytes]]

_NAME = re.compile(rb":?[!-9;-@\[-~]+")
"""Visible ASCII without capitals; a colon only in front (RFC 9113 section 8.2.1)."""
_BAD_VALUE = re.compile(rb"[\0\r\n]|\A[ \t]|[ \t]\Z")
_PSEUDO = frozenset((b":method", b":scheme", b":path", b":authority"))
_OF_CONNECTIONS = frozenset((b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"))
"""Fields that HTTP/2 does not allow (section 8.2.2)."""
_OURS = frozenset((b"te", b"content-type"))
"""Fields of the transport that are not metadata; besides them, all of `grpc-`."""

_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}

MAX_TEXT = 1024
"""Bytes of `grpc-message`: trailers stay far below the smallest frame and below what peers accept."""


class MalformedError(ValueError):
    """A header block that HTTP/2 does not allow."""


class Head(NamedTuple):
    """The head of a request."""

    status: int
    """200, or the status of the refusal: 405 for a method other than POST, 415 for a content type other than gRPC."""
    path: str
    timeout: float | None
    """Seconds; None without one, negative for a malformed one."""
    metadata: dict[str, str]


class Headers:
    """One decoded header block. Several streams may share it."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.size = sum(len(name) + len(value) + 32 for name, value in fields)
        """Counted as SETTINGS_MAX_HEADER_LIST_SIZE counts."""
        self._head: Head | None = None

    def head(self) -> Head:
        """The head of a request. Raises MalformedError."""
        if self._head is None:
            self._head = read_request(self.fields)
        return self._head


class HeaderReader:
    """The HPACK state of the peer's blocks, for the lifetime of a connection. `largest`: bytes of a decoded block."""

    def __init__(self, largest: int) -> None:
        self._decoder = hpack.Decoder(max_header_list_size=largest)
        self._seen: dict[bytes, Headers] = {}
        """Blocks that left the table unchanged since its last change: they still mean the same."""
        self._table: tuple[object, ...] = ()

    def read(self, block: bytes) -> Headers:
        """Decodes a block. Every block must come through here, also that of an unwanted stream, because it changes the
        state. Raises ProtocolError."""
        seen = self._seen.get(block)
        if seen is not None:
            return seen
        try:
            headers = Headers([(name, value) for name, value in self._decoder.decode(block, raw=True)])
        except hpack.OversizedHeaderListError as error:
            raise ProtocolError(Code.ENHANCE_YOUR_CALM, "the header list is too large") from error
        except (hpack.HPACKError, IndexError, ValueError) as error:
            raise ProtocolError(Code.COMPRESSION_ERROR, f"HPACK: {error}") from error
        if self._has_changed():
            self._seen.clear()
        elif len(self._seen) < _SEEN and len(block) <= _SMALL:
            self._seen[block] = headers
        return headers

    def _has_changed(self) -> bool:
        """True if the table differs from that after the last block. New entries stand in front as objects of their own;
        evicted entries shorten the table."""
        table = self._decoder.header_table
        entries = table.dynamic_entries
        now = (entries[0] if entries else None, len(entries), table.maxsize)
        before, self._table = self._table, now
        return not before or now[0] is not before[0] or now[1:] != before[1:]


_SEEN, _SMALL = 32, 1024
"""Bounds of `_seen`: blocks, and bytes of one."""


def read_request(fields: Fields) -> Head:
    """Raises MalformedError. `content-length` is not compared with anything: gRPC messages carry their own lengths."""
    pseudo: dict[bytes, bytes] = {}
    plain: dict[bytes, bytes] = {}
    for name, value in fields:
        _check(name, value)
        if name[:1] == b":":
            if name not in _PSEUDO or name in pseudo or plain:
                raise MalformedError("pseudo-headers")
            pseudo[name] = value
        elif name in plain:
            plain[name] += b"," + value
        else:
            plain[name] = value
    if plain.get(b"te", b"trailers") != b"trailers":
        raise MalformedError("te")
    try:
        method, _scheme, path = pseudo[b":method"], pseudo[b":scheme"], pseudo[b":path"].decode("ascii")
    except (KeyError, UnicodeDecodeError) as error:
        raise MalformedError("pseudo-headers") from error
    if not path:
        raise MalformedError("no path")
    status = 405 if method != b"POST" else 200 if _is_grpc(plain.get(b"content-type", b"")) else 415
    return Head(status, path, _timeout(plain.get(b"grpc-timeout")), _metadata(plain))


def check_trailers(fields: Fields) -> None:
    """Raises MalformedError. Their content is ignored."""
    for name, value in fields:
        _check(name, value)
        if name[:1] == b":":
            raise MalformedError("a pseudo-header among the trailers")


def _check(name: bytes, value: bytes) -> None:
    if not _NAME.fullmatch(name) or name in _OF_CONNECTIONS or _BAD_VALUE.search(value):
        raise MalformedError("a field")


def _metadata(fields: dict[bytes, bytes]) -> dict[str, str]:
    """Metadata without binary and non-text fields, as grpcio provides it."""
    found = {}
    for name, value in fields.items():
        if name in _OURS or name.startswith(b"grpc-") or name.endswith(b"-bin"):
            continue
        try:
            found[name.decode("ascii")] = value.decode()
        except UnicodeDecodeError:
            continue
    return found


def _timeout(value: bytes | None) -> float | None:
    if value is None:
        return None
    found = _TIMEOUT.fullmatch(value)
    return int(found[1]) * _UNITS[found[2]] if found else -1.0


def _is_grpc(content_type: bytes) -> bool:
    """`application/grpc`, possibly with a subtype or parameters."""
    return content_type.startswith(b"application/grpc") and content_type[16:17] in (b"", b"+", b";")


# ------------------------------------------------------------------------------------------------------------ writing

NO_TABLE = b"\x20"
"""In front of the first block: we use no dynamic table, whatever size the peer allows (RFC 7541 section 6.3)."""

RESPONSE = b"\x88\x0f\x10\x10application/grpc"
"""`:status` 200 and the content type (static names 8 and 31, RFC 7541 appendix A)."""


@cache
def refusal(http_status: int) -> bytes:
    """The head of a response that is not gRPC."""
    return b"\x08\x03%d" % http_status


def trailers(status: Status, text: str = "") -> bytes:
    """`grpc-status` and, if there is a text, `grpc-message`."""
    code = b"%d" % status
    block = b"\x00\x0bgrpc-status" + bytes((len(code),)) + code
    if text:
        message = _percent(text)
        block += b"\x00\x0cgrpc-message" + _length(len(message)) + message
    return block


def _percent(text: str) -> bytes:
    """Percent-encoding as gRPC defines it: visible ASCII and spaces, except `%`, stay."""
    parts, size = [], 0
    for byte in text.encode(errors="replace"):
        part = b"%c" % byte if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte
        size += len(part)
        if size > MAX_TEXT:
            break
        parts.append(part)
    return b"".join(parts).strip(b" ")


def _length(number: int) -> bytes:
    """An integer with a prefix of seven bits (RFC 7541 section 5.1)."""
    if number < 127:
        return bytes((number,))
    number -= 127
    out = bytearray((127,))
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
