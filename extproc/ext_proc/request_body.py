"""The body of a request: chunks -> one bounded, decompressed body, and the fields that routing needs.

Called by both exchanges for every request. Only the fields for routing are read; the translation checks the rest. Every
function is linear in the body's size and runs in C.
"""

from __future__ import annotations

import msgspec

from extproc.apis.shared.json_text import malformed, position, without_half_pairs
from extproc.bounds import Limits
from extproc.errors import BadRequest
from extproc.translation.encoding import EncodingError, decompress, refused_encoding


class RoutingFields(msgspec.Struct, frozen=True, gc=False):
    """The fields of a request body that routing reads."""

    model: str
    stream: bool | None = False
    prompt_cache_key: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()

    @property
    def conversation_key(self) -> bytes:
        """The request's own key for its user or conversation: OpenAI's `prompt_cache_key`, or Anthropic's
        `metadata.user_id`, which contains Claude Code's session. b"" if it has none."""
        for key in (bytes(self.prompt_cache_key), _user_id(self.metadata)):
            if key not in _EMPTY_VALUES:
                return key
        return b""


class _Metadata(msgspec.Struct):
    user_id: msgspec.Raw = msgspec.Raw()


def _user_id(metadata: msgspec.Raw) -> bytes:
    try:
        return bytes(_METADATA.decode(metadata).user_id) if metadata else b""
    except (msgspec.DecodeError, RecursionError):
        return b""


_EMPTY_VALUES = (b"", b"null", b'""')


LARGE_BODY = 512 * 1024
"""Bytes. A larger body takes long enough to delay other streams. A task shorter than 5 ms, the interval at which the
interpreter switches threads, would also delay them from a thread, and the hand-over costs more."""
_SMALL_BODY = 64 * 1024
"""Bytes. A smaller body takes at most 10 ms, whatever it holds."""
_SAMPLE_STEP, _MANY_QUOTES = 251, 16_000
"""The distance of sampled bytes; and the number of quotes in messages that take 10 ms, if they are tiny. A session of
400 KB has 3000 quotes, one of 550 short messages has 16,000. Sampling takes less than a hundredth of the
translation."""
_ROUTING_FIELDS = msgspec.json.Decoder(RoutingFields)
_METADATA = msgspec.json.Decoder(_Metadata)


class RequestBodyBuffer:
    """Collects a request's chunks. Raises BadRequest (413) for more than `limits.body` bytes."""

    __slots__ = ("_limits", "chunks", "size")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.chunks: list[bytes] = []
        self.size = 0

    def check_announced_size(self, content_length: str | None) -> None:
        """Refuses a body by its announced size, before it is sent. Raises BadRequest (413)."""
        if content_length is not None and content_length.isdecimal() and int(content_length) > self._limits.body:
            raise too_large(self._limits.body)

    def append(self, data: bytes) -> None:
        if not data:
            return
        self.size += len(data)
        if self.size > self._limits.body:
            self.chunks.clear()
            raise too_large(self._limits.body)
        self.chunks.append(data)

    def should_offload(self, last: bytes) -> bool:
        """True if a thread should process the body, with `last` as its final bytes: a large body, or one of many small
        values, such as thousands of tiny messages. A sample of every 251st byte estimates their number: quotes without
        a backslash begin or end a string; brackets have less weight, since texts contain them too."""
        size = self.size + len(last)
        if size <= _SMALL_BODY or size > LARGE_BODY:
            return size > LARGE_BODY
        sample = b"".join([chunk[::_SAMPLE_STEP] for chunk in (*self.chunks, last)])
        quotes = sample.count(b'"') - sample.count(b"\\")
        brackets = sample.count(b"{") + sample.count(b"[")
        return (max(quotes, 0) + brackets // 4) * _SAMPLE_STEP > _MANY_QUOTES

    def raw(self) -> bytes:
        """The received bytes."""
        if len(self.chunks) > 1:
            self.chunks = [b"".join(self.chunks)]
        return self.chunks[0] if self.chunks else b""

    def decode(self, content_encoding: str | None) -> bytes:
        """The body without its content encodings, at most `limits.body` bytes. Raises BadRequest: 415 for an unknown
        encoding, 413 past the limit, 400 for damaged data."""
        if not content_encoding:
            return self.raw()
        try:
            return decompress(self.raw(), content_encoding, self._limits.body)
        except EncodingError as problem:
            raise refused_encoding(problem, self._limits.body) from None


def too_large(limit: int) -> BadRequest:
    return BadRequest(f"The request body is larger than this gateway's limit of {limit} bytes (limits.body).",
                      kind="too_large", status=413)


def peek_routing_fields(body: bytes, limits: Limits) -> RoutingFields:
    """The routing fields of a JSON body. Raises BadRequest with the place of the error. The nesting of the rest is
    checked when it is decoded (`extproc.apis.shared.body`); nothing recurses here."""
    if not body.strip():
        raise BadRequest("the body is empty: expected a JSON object")
    try:
        routing_fields = _decode_routing_fields(body)
    except RecursionError:
        raise _nesting_error(limits.json_depth) from None
    except msgspec.ValidationError as error:
        raise BadRequest(_describe_error(str(error))) from None
    except UnicodeDecodeError:
        raise BadRequest(f"the body is not valid UTF-8: {position(body, _find_invalid_utf8(body))}") from None
    except msgspec.DecodeError as error:
        raise BadRequest(malformed(body, str(error))) from None
    if not routing_fields.model:
        raise BadRequest("model: the name of a model is required.")
    return routing_fields


def _decode_routing_fields(body: bytes) -> RoutingFields:
    """Tolerates halves of surrogate pairs, which the translation repairs."""
    try:
        return _ROUTING_FIELDS.decode(body)
    except msgspec.DecodeError as error:
        fixed = body if isinstance(error, msgspec.ValidationError) else without_half_pairs(body)
        if fixed is body:
            raise
        return _ROUTING_FIELDS.decode(fixed)


def _find_invalid_utf8(body: bytes) -> int:
    """The offset of the first invalid byte. (The JSON decoder reports an offset inside a string.)"""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return 0


def _describe_error(error: str) -> str:
    if "missing required field `model`" in error:
        return "model: Field required."
    message, _, place = error.partition(" - at ")
    return f"{place.strip('`$.') or 'The request body'}: {message}."


def _nesting_error(depth: int) -> BadRequest:
    return BadRequest(f"The request body is nested deeper than {depth} levels (limits.json_depth).")
