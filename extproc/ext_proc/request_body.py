"""A request body on its way in: chunks -> one bounded body, decoded, and what routing needs to know of it.

Called by both exchanges for every request. Reads the model's name and nothing else: whether the rest makes sense is
the translation's affair. Every function is linear in the body's size and runs in C.
"""

from __future__ import annotations

import msgspec

from extproc.apis.shared.json_text import malformed, position, without_half_pairs
from extproc.bounds import Limits
from extproc.errors import BadRequest
from extproc.translation.encoding import EncodingError, decompress, refused_encoding


class RoutingFields(msgspec.Struct, frozen=True, gc=False):
    """What routing reads of a request body."""

    model: str
    stream: bool | None = False
    prompt_cache_key: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()

    @property
    def conversation_key(self) -> bytes:
        """What the request itself says of the user or conversation it belongs to: OpenAI's `prompt_cache_key`,
        Anthropic's `metadata.user_id`, in which Claude Code names its session. Empty where it says nothing."""
        for said in (bytes(self.prompt_cache_key), _user_id(self.metadata)):
            if said not in _EMPTY_VALUES:
                return said
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
"""Bytes. A larger body takes long enough to hold up other streams. A shorter task than the 5 ms after which the
interpreter switches threads would hold them up from a thread as well, and the way there costs more."""
_SMALL_BODY = 64 * 1024
"""Bytes. A smaller body takes at most 10 ms, whatever it holds."""
_SAMPLE_STEP, _MANY_QUOTES = 251, 16_000
"""Every so many bytes one is sampled; quotes in 10 ms of the tiniest messages. A session of 400 KB has 3000 quotes, one
of 550 short messages has as many as this; a sample takes less than a hundredth of the translation."""
_ROUTING_FIELDS = msgspec.json.Decoder(RoutingFields)
_METADATA = msgspec.json.Decoder(_Metadata)


class RequestBodyBuffer:
    """Collects a request's chunks, bounded by `limits.body`. Raises BadRequest (413) past it."""

    __slots__ = ("_limits", "chunks", "size")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.chunks: list[bytes] = []
        self.size = 0

    def check_announced_size(self, content_length: str | None) -> None:
        """Refuses what the headers announce to be too large, before it is sent."""
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
        """True if the work on the body, with `last` as its final bytes, should leave the event loop: for a large body,
        and for one of many small values, such as thousands of tiny messages. A sample of every 251st byte estimates
        their number: quotes without backslash begin or end a string; brackets count less, since texts hold them too."""
        size = self.size + len(last)
        if size <= _SMALL_BODY or size > LARGE_BODY:
            return size > LARGE_BODY
        sample = b"".join([chunk[::_SAMPLE_STEP] for chunk in (*self.chunks, last)])
        quotes = sample.count(b'"') - sample.count(b"\\")
        brackets = sample.count(b"{") + sample.count(b"[")
        return (max(quotes, 0) + brackets // 4) * _SAMPLE_STEP > _MANY_QUOTES

    def raw(self) -> bytes:
        """The bytes as they came."""
        if len(self.chunks) > 1:
            self.chunks = [b"".join(self.chunks)]
        return self.chunks[0] if self.chunks else b""

    def decode(self, content_encoding: str | None) -> bytes:
        """The body without its content encodings, at most `limits.body` bytes. Raises BadRequest: 415 for an unknown
        one, 413 past the limit, 400 for broken data."""
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
    """The model that a JSON body asks for. Raises BadRequest with the place of the error. How deep the rest is nested
    is for whoever decodes it (`extproc.apis.shared.body`); here nothing recurses."""
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
    """The translation puts half surrogate pairs right; here they must only not stand in the way."""
    try:
        return _ROUTING_FIELDS.decode(body)
    except msgspec.DecodeError as error:
        fixed = body if isinstance(error, msgspec.ValidationError) else without_half_pairs(body)
        if fixed is body:
            raise
        return _ROUTING_FIELDS.decode(fixed)


def _find_invalid_utf8(body: bytes) -> int:
    """Where it begins. (The decoder counts from the beginning of a string.)"""
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
