"""What the turns of other providers left in an Anthropic client's history -> a history that this endpoint takes.

Ids that carry a signature become short. Thinking that the endpoint did not sign goes, or loses its signature where the
endpoint checks none; a signature of its own that was marked as such is unwrapped. A tool loop that lost its thinking
cannot go on with a thinking budget: then thinking is off for this request. Everything else stays as it is; called only
for bodies that may hold such things.
"""

from __future__ import annotations

from typing import Any

import msgspec

from extproc.apis.anthropic_provider.messages import origin_at
from extproc.apis.base import Dropped, Target
from extproc.carrying import MARK, unloaded_id, unloaded_text
from extproc.profiles.anthropic import AnthropicEndpoint, anthropic_endpoint
from extproc.relays.base import Fields, raw

FOREIGN = (MARK.encode(), b'"thinking"')
"""Bodies without these hold nothing of another provider."""


def clean_history(fields: Fields, target: Target, dropped: Dropped) -> None:
    """Rewrites `messages`, and `thinking` where a loop lost its own. Untouched when nothing must change."""
    try:
        messages = msgspec.json.decode(fields["messages"], type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError, KeyError):
        return  # the provider will say what is wrong with it
    cleaning = _Cleaning(anthropic_endpoint(target.endpoint, target.provider, target.model),
                         origin_at(target.endpoint))
    for message in messages:
        cleaning.message(message)
    if not cleaning.changed:
        return
    fields["messages"] = raw([message for message in messages if message.get("content") != []])
    if cleaning.lost_thinking:
        dropped.hint("messages.thinking.unsigned")
    if cleaning.loop_lost and _has_budget(fields):
        del fields["thinking"]
        fields.pop("context_management", None)  # its edits of thinking are refused without thinking
        dropped.hint("thinking")


def _has_budget(fields: Fields) -> bool:
    """Only thinking with a budget demands the thinking of the loop: adaptive thinking does without."""
    thinking = msgspec.json.decode(fields["thinking"]) if "thinking" in fields else None
    return isinstance(thinking, dict) and thinking.get("type") == "enabled"


class _Cleaning:
    def __init__(self, endpoint: AnthropicEndpoint, origin: str) -> None:
        self._endpoint = endpoint
        self._origin = origin
        self.changed = False
        self.lost_thinking = False
        self.loop_lost = False
        """The tool loop that is open has a turn with calls whose thinking went."""

    def message(self, message: dict[str, Any]) -> None:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        if message.get("role") == "user" and not any(_type(block) == "tool_result" for block in blocks):
            self.loop_lost = False  # a new turn of the user: thinking before it is not asked for
        kept = [block for block in blocks if self._stays(block)]
        for block in kept:
            self.changed = _with_short_ids(block) or self.changed
        if len(kept) < len(blocks):
            self.changed = self.lost_thinking = True
            message["content"] = kept
            self.loop_lost = self.loop_lost or any(_type(block) == "tool_use" for block in kept)

    def _stays(self, block: object) -> bool:
        """Whether the endpoint takes the block; its signature is put right."""
        if not isinstance(block, dict) or block.get("type") != "thinking":
            return True
        signature = block.get("signature")
        carried = unloaded_text(signature) if isinstance(signature, str) else None
        if carried is not None and carried.origin == self._origin:
            block["signature"] = carried.value
            self.changed = True
            return True
        if self._endpoint.signed:
            return isinstance(signature, str) and bool(signature) and carried is None
        if carried is not None:
            block["signature"] = ""
            self.changed = True
        return True


def _type(block: object) -> object:
    return block.get("type") if isinstance(block, dict) else None


def _with_short_ids(block: object) -> bool:
    """Takes the loads off a block's ids; whether there was one."""
    if not isinstance(block, dict):
        return False
    found = False
    for key in ("id", "tool_use_id"):
        value = block.get(key)
        if isinstance(value, str) and MARK in value:
            block[key] = unloaded_id(value)[0]
            found = True
    return found
