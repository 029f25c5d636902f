"""Opaque reasoning of an endpoint in the OpenAI format: its issuer, and how it is packed for the way back.

Signatures of calls (Google's endpoint, Gemini behind OpenRouter) are embedded in tool ids; encrypted or signed
reasoning of other models in the signature of a thinking block (`extproc.conversation.signatures`). The request encoder
and the response decoder both use this module, so that an origin means the same in both directions. Anthropic's
signatures are not packed: Anthropic takes them unchanged. Nothing is checked or decoded; data goes back byte for byte
or not at all.
"""

from __future__ import annotations

import msgspec

from extproc.apis.openai.wire_response import GOOGLE_MEMBERS
from extproc.conversation.model import Signature, ToolCall
from extproc.conversation.signatures import embed_in_text, extract_from_text, origin_of
from extproc.profiles.target import Target

ANTHROPIC = "anthropic-claude-v1"
"""The `format` of reasoning items with Anthropic's own signatures and encrypted blocks."""
_PACKED = ("type", "id", "format", "data", "signature")
"""The members of a reasoning item that are packed. Its text is that of the thinking block."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object])


def issuer_origin(target: Target, member: str = GOOGLE_MEMBERS[0]) -> str:
    """The issuer of this target's opaque data, which any other endpoint or model refuses. `member`: the member of
    `extra_content` that held a call's signature and takes it back."""
    where = () if member == GOOGLE_MEMBERS[0] else (member,)
    return origin_of("openai", target.endpoint, target.base_path, target.model, *where)


def signature_of_call(call: ToolCall, target: Target) -> tuple[str, str] | None:
    """The member of `extra_content` and the signature of a call; None unless this target issued it."""
    signature = call.signature
    if signature is None:
        return None
    return next(((member, signature.value) for member in GOOGLE_MEMBERS
                 if signature.origin == issuer_origin(target, member)),
                None)


def pack_item(detail: dict[str, object], target: Target) -> str:
    """A reasoning item, without its text, as the signature of a thinking block."""
    kept = {name: detail[name] for name in _PACKED if detail.get(name) is not None}
    return embed_in_text(Signature(_encode(kept).decode(), issuer_origin(target)))


def unpack_item(text: str | None, target: Target) -> dict[str, object] | None:
    """The unpacked item; None for data that this target did not issue."""
    signature = None if text is None else extract_from_text(text)
    if signature is None or signature.origin != issuer_origin(target):
        return None
    try:
        return _decode.decode(signature.value)
    except msgspec.DecodeError:
        return None


def anthropic_signature(text: str | None) -> str | None:
    """A signature or encrypted data that Anthropic issued; None for another issuer's."""
    return text if text and extract_from_text(text) is None else None
