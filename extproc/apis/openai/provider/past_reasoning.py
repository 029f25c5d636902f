"""Puts the reasoning of earlier turns back into an assistant message where the endpoint wants it.

Five places are in use: two text fields, OpenRouter's items, `<think>` tags, and parts of type `thinking` inside the
content. Signed and encrypted reasoning goes back only to its issuer, byte for byte; signatures are never forged. Called
by the message encoder for each assistant turn.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extproc.apis.openai.provider.signatures import ANTHROPIC, anthropic_signature, signature_of_call, unpack_item
from extproc.apis.openai.wire_messages import AssistantMessage, Call, GoogleContent, TextPart, ThinkingPart
from extproc.apis.openai.wire_response import GOOGLE_MEMBERS
from extproc.conversation.model import Thinking
from extproc.conversation.signatures import extract_from_text
from extproc.conversation.tool_results import Exchange, Turn
from extproc.conversation.unsupported import Dropped
from extproc.profiles.target import Target

_items_of: msgspec.json.Decoder[list[dict[str, object]]] = msgspec.json.Decoder(list[dict[str, object]])


def put_reasoning_back(message: AssistantMessage, turn: Turn, target: Target, dropped: Dropped) -> None:
    """`message` already holds the text of the turn and its calls."""
    calls = turn.exchanges
    _sign_calls(message, calls, target)
    thoughts = [block for block in turn.content if type(block) is Thinking]
    profile = target.profile
    if profile.client_reasoning_fields and turn.extras:
        message.reasoning_details = _client_items(turn, target, dropped)
        if message.reasoning_details:
            return
    if profile.reasoning_history == "drop" or (profile.reasoning_history == "with_tool_calls" and not calls):
        if thoughts:
            dropped.hint("messages.thinking")
        return
    if profile.reasoning_field == "reasoning_details":
        for thought in thoughts:
            items = _items(thought, target)
            if not items:
                dropped.hint("messages.thinking")
            _add_items(message, items)
        return
    text = "\n\n".join(thought.text for thought in thoughts if thought.text)
    if profile.reasoning_field in ("think_tags", "thinking_parts"):
        if text:
            _into_content(message, text, tags=profile.reasoning_field == "think_tags")
        return
    value = text or (profile.reasoning_placeholder if calls else None)
    if value is None:
        return
    if profile.reasoning_field == "reasoning":
        message.reasoning = value
    else:
        message.reasoning_content = value


def _into_content(message: AssistantMessage, thinking: str, *, tags: bool) -> None:
    text = message.content if isinstance(message.content, str) else ""
    if tags:
        message.content = f"<think>\n{thinking}\n</think>\n\n{text}"
    else:
        message.content = [ThinkingPart([TextPart(thinking)]), *([TextPart(text)] if text else [])]


# -------------------------------------------------------------------------------------------------------------- items


def _items(thought: Thinking, target: Target) -> list[dict[str, object]]:
    """The items of a block; none for reasoning that this endpoint did not issue and would refuse."""
    wanted = target.profile.details_format
    own = unpack_item(thought.signature or thought.redacted, target)
    if own is not None:
        if own.get("type") == "reasoning.text":
            return [{**own, "text": thought.text}]
        summary = {"type": "reasoning.summary", "summary": thought.text, "format": own.get("format", wanted)}
        return [*([summary] if thought.text else []), own]
    if wanted == ANTHROPIC:
        if data := anthropic_signature(thought.redacted):
            return [{"type": "reasoning.encrypted", "data": data, "format": ANTHROPIC}]
        if signature := anthropic_signature(thought.signature):
            return [{"type": "reasoning.text", "text": thought.text, "signature": signature, "format": ANTHROPIC}]
        return []
    if wanted == "unknown" and thought.text:
        return [{"type": "reasoning.text", "text": thought.text, "format": wanted}]
    return []


def _client_items(turn: Turn, target: Target, dropped: Dropped) -> list[dict[str, object]]:
    """The items of the client's own messages, unchanged. Data that this gateway packed is unpacked for its issuer and
    left out elsewhere."""
    kept: list[dict[str, object]] = []
    for extra in turn.extras:
        try:
            items = _items_of.decode(extra.get("reasoning_details", b"[]"))
        except msgspec.ValidationError:
            continue
        dropped.remove("messages.reasoning_details")
        for item in items:
            opaque = item.get("signature") or item.get("data")
            if not isinstance(opaque, str) or extract_from_text(opaque) is None:
                kept.append(item)
                continue
            if unpack_item(opaque, target) is None:
                dropped.hint("messages.thinking")
                continue
            text = item.get("text") or item.get("summary")
            kept += _items(Thinking(text if isinstance(text, str) else "", signature=opaque), target)
    return kept


def _add_items(message: AssistantMessage, items: Sequence[dict[str, object]]) -> None:
    at = len(message.reasoning_details)
    message.reasoning_details += [{**item, "index": at + number} for number, item in enumerate(items)]


def _sign_calls(message: AssistantMessage, calls: Sequence[Exchange], target: Target) -> None:
    """Adds the signatures of calls, and the placeholder for the first call's where it is missing."""
    profile = target.profile
    for at, exchange in enumerate(calls):
        member, signature = signature_of_call(exchange.call, target) or (GOOGLE_MEMBERS[0], None)
        if signature is None and at == 0:
            signature = profile.call_signature_placeholder
        if signature is None:
            continue
        sent = message.tool_calls[at]
        if profile.call_signatures == "details":
            _add_items(message, [{"type": "reasoning.encrypted", "data": signature, "id": sent.id,
                                  "format": profile.details_format}])
        elif isinstance(sent, Call):
            sent.extra_content = {member: GoogleContent(signature)}
