"""Thought signatures of Gemini: their origin, the signature of a call, and the substitute for a missing one.

Shared by the request encoder and the response decoder, so that an origin means the same in both directions. A signature
is opaque: it is not decoded, and goes back byte for byte or not at all.

Sources: Google, "Thought signatures" (the first function call of each step carries one, parallel calls behind it none;
Gemini 3 responds with 400 if it is missing); ai.google.dev/gemini-api/docs/thought-signatures, FAQ (the value for calls
that this model did not make).
"""

from __future__ import annotations

from extproc.conversation.model import Thinking, ToolCall
from extproc.conversation.signatures import extract_from_text, origin_of
from extproc.profiles.target import Target

BYPASS = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""`skip_thought_signature_validator` in base64, because `thoughtSignature` is a bytes field. Sent if a signature is
required and there is none of this model (a call of another model, an id that a client damaged)."""


def origin(target: Target, *, thought: bool = False) -> str:
    """The origin of this target's signatures: any other endpoint or model refuses them. Signatures of thoughts are
    embedded in the same place as those of texts, so they have an origin of their own: a signature stays with its kind
    of part."""
    return origin_of("gemini", target.endpoint, target.base_path, target.model, *(["thought"] if thought else []))


def signature_of_call(call: ToolCall, target: Target) -> str | None:
    """The signature that came with this call; None unless it is this target's own."""
    signature = call.signature
    return signature.value if signature is not None and signature.origin == origin(target) else None


def signature_of_text(thinking: Thinking, target: Target) -> str | None:
    """The signature of a text, embedded in the thinking before it; None unless it is this target's own."""
    return _embedded_signature(thinking, origin(target))


def signature_of_thought(thinking: Thinking, target: Target) -> str | None:
    """The signature of the thought itself; None unless it is this target's own."""
    return _embedded_signature(thinking, origin(target, thought=True))


def _embedded_signature(thinking: Thinking, own: str) -> str | None:
    signature = None if thinking.signature is None else extract_from_text(thinking.signature)
    return signature.value if signature is not None and signature.origin == own else None
