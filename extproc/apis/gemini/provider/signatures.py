"""Thought signatures of Gemini: who issued one, which one goes back with a call, and what stands in for a missing one.

The request encoder and the answer decoder both ask here, so that an origin means the same on the way out and on the way
back. Nothing is checked or decoded: a signature is opaque, and goes back byte for byte or not at all.

Sources: Google, "Thought signatures" (the first function call of each step carries one, parallel calls behind it none;
Gemini 3 answers 400 where it is missing); ai.google.dev/gemini-api/docs/thought-signatures, FAQ (the value that
stands in for the signature of a call that this model did not make).
"""

from __future__ import annotations

from extproc.conversation.model import Thinking, ToolCall
from extproc.conversation.signatures import extract_from_text, origin_of
from extproc.profiles.target import Target

BYPASS = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""`skip_thought_signature_validator` in base64, as the field `thoughtSignature` takes bytes: sent where a signature is
required and none of this model's own exists (a call of another model, an id that a client damaged)."""


def origin(target: Target, *, thought: bool = False) -> str:
    """Who issues the signatures of this target: any other endpoint or model refuses them. Those of thoughts, which ride
    in the same place as those of texts, have an origin of their own, because a signature never changes its part."""
    return origin_of("gemini", target.endpoint, target.base_path, target.model, *(["thought"] if thought else []))


def of_call(call: ToolCall, target: Target) -> str | None:
    """The signature that came with this call, None unless it is this target's own."""
    signature = call.signature
    return signature.value if signature is not None and signature.origin == origin(target) else None


def of_text(thinking: Thinking, target: Target) -> str | None:
    """The signature of a text that rode in the thinking before it, None unless it is this target's own."""
    return _riding(thinking, origin(target))


def of_thought(thinking: Thinking, target: Target) -> str | None:
    """The signature of the thought itself, None unless it is this target's own."""
    return _riding(thinking, origin(target, thought=True))


def _riding(thinking: Thinking, own: str) -> str | None:
    signature = None if thinking.signature is None else extract_from_text(thinking.signature)
    return signature.value if signature is not None and signature.origin == own else None
