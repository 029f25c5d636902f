"""Opaque reasoning of an endpoint in the OpenAI format: who issued it, and how it is packed for the way back.

Signatures of calls (Google's endpoint, Gemini behind OpenRouter) ride in tool ids, encrypted or signed reasoning of
other models in the signature of a thinking block (see `extproc.conversation.signatures`). The request encoder and the
answer decoder both ask here, so that an origin means the same on the way out and on the way back. Anthropic's
signatures are not packed: its own endpoint takes them as they are. Nothing is checked or decoded, it goes back byte for
byte or not at all.
"""

from __future__ import annotations

import msgspec

from extproc.conversation.model import Signature, ToolCall
from extproc.conversation.signatures import embed_in_text, extract_from_text, origin_of
from extproc.profiles.target import Target

ANTHROPIC = "anthropic-claude-v1"
"""The `format` of reasoning items that hold Anthropic's own signatures and encrypted blocks."""
GOOGLE_MEMBERS = ("google", "vertex")
"""The members of `extra_content` in which Google's endpoints tell the signature of a call, and want it back."""
_PACKED = ("type", "id", "format", "data", "signature")
"""The members of a reasoning item that are packed; its text is that of the thinking block."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object])


def origin(target: Target, member: str = GOOGLE_MEMBERS[0]) -> str:
    """Who issues the opaque data of this target: any other endpoint or model refuses it. `member`: where a call had
    its signature, which says where it goes back."""
    where = () if member == GOOGLE_MEMBERS[0] else (member,)
    return origin_of("openai", target.endpoint, target.base_path, target.model, *where)


def of_call(call: ToolCall, target: Target) -> tuple[str, str] | None:
    """The signature that came with this call, behind the member of `extra_content` that it stood in; None unless it is
    this target's own."""
    signature = call.signature
    if signature is None:
        return None
    return next(((member, signature.value) for member in GOOGLE_MEMBERS if signature.origin == origin(target, member)),
                None)


def packed(detail: dict[str, object], target: Target) -> str:
    """A reasoning item, without its text, as the signature of a thinking block."""
    kept = {name: detail[name] for name in _PACKED if detail.get(name) is not None}
    return embed_in_text(Signature(_encode(kept).decode(), origin(target)))


def unpacked(text: str | None, target: Target) -> dict[str, object] | None:
    """The item again; None for anything that this target did not issue."""
    signature = None if text is None else extract_from_text(text)
    if signature is None or signature.origin != origin(target):
        return None
    try:
        return _decode.decode(signature.value)
    except msgspec.DecodeError:
        return None


def anthropic(text: str | None) -> str | None:
    """A signature or encrypted data as Anthropic issued it; None where somebody else did."""
    return text if text and extract_from_text(text) is None else None
