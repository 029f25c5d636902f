"""Encrypted reasoning of the Responses API: its issuer, and how it is packed for the way back.

A reasoning item becomes one thinking block, with `encrypted_content` embedded in its signature
(`extproc.conversation.signatures`). Clients echo the block, so nothing is stored. The request encoder and the response
decoder both use this module: an origin means the same in both directions. Encrypted content goes back byte for byte to
the endpoint and model family that issued it. Any other endpoint answers 400 (`invalid_encrypted_content`), so
everything else is left out.

What remains: a provider that rotates its keys, or a key of another organisation at the same endpoint, refuses content
of the right origin. The client then gets that 400 (in the Messages API as an invalid signature, after which Claude Code
sends the request again without thinking).
"""

from __future__ import annotations

import re

from extproc.conversation.model import Signature, Thinking
from extproc.conversation.signatures import embed_in_text, extract_from_text, origin_of
from extproc.profiles.target import Target

_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def issuer_origin(target: Target) -> str:
    """The origin of this target's encrypted reasoning. Dated versions of a model are one family."""
    return origin_of("responses", target.endpoint, target.base_path, _DATE.sub("", target.model.lower()))


def pack_reasoning(encrypted: str, target: Target) -> str:
    """The signature of a thinking block."""
    return embed_in_text(Signature(encrypted, issuer_origin(target)))


def own_reasoning(thinking: Thinking, target: Target) -> str | None:
    """The encrypted content of a block; None unless this target issued it."""
    text = thinking.signature or thinking.redacted
    signature = None if text is None else extract_from_text(text)
    return signature.value if signature is not None and signature.origin == issuer_origin(target) else None
