"""Reasoning and summaries of a conversation inside `encrypted_content`, the one field that every client of this API
echoes byte for byte.

A reasoning item carries the thinking of the conversation model whole: its text, and the signature or the encrypted data
that its provider wants back. A compaction item carries the summary. Neither is encrypted: the client may read what it
was shown, and what it forges only concerns its own conversation. A check finds damage. Nothing is stored.

The form: PREFIX CHECK "." base64url(JSON).
"""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2b

import msgspec

from extproc.conversation.model import Thinking

_REASONING = "xr1."
_COMPACTION = "xc1."
_CHECK = 6

_encode = msgspec.json.Encoder().encode
_thinking: msgspec.json.Decoder[tuple[str, str | None, str | None]] = msgspec.json.Decoder(
    tuple[str, str | None, str | None])
_string = msgspec.json.Decoder(str)


def pack_thinking(block: Thinking) -> str:
    """The `encrypted_content` of a reasoning item."""
    return _pack(_REASONING, _encode((block.text, block.signature, block.redacted)))


def unpack_thinking(content: str) -> Thinking | None:
    """The thinking in an `encrypted_content`; None for that of another issuer, and for a damaged one."""
    data = _unpack(_REASONING, content)
    if data is None:
        return None
    try:
        return Thinking(*_thinking.decode(data))
    except msgspec.DecodeError:
        return None


def holds_thinking(content: str) -> bool:
    """True if this gateway made it."""
    return content.startswith(_REASONING)


def pack_summary(text: str) -> str:
    """The `encrypted_content` of a compaction item."""
    return _pack(_COMPACTION, _encode(text))


def unpack_summary(content: str) -> str | None:
    """The summary in an `encrypted_content`; None for that of another issuer, and for a damaged one."""
    data = _unpack(_COMPACTION, content)
    if data is None:
        return None
    try:
        return _string.decode(data)
    except msgspec.DecodeError:
        return None


def _pack(prefix: str, data: bytes) -> str:
    encoded = base64.urlsafe_b64encode(data).decode()
    return f"{prefix}{_check(encoded)}.{encoded}"


def _unpack(prefix: str, content: str) -> bytes | None:
    if not content.startswith(prefix):
        return None
    check, dot, encoded = content[len(prefix):].partition(".")
    if not dot or check != _check(encoded):
        return None
    try:
        return base64.urlsafe_b64decode(encoded)
    except (binascii.Error, ValueError):
        return None


def _check(encoded: str) -> str:
    return blake2b(encoded.encode("utf-8", "surrogatepass"), digest_size=_CHECK // 2).hexdigest()
