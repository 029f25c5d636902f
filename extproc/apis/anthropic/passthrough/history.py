"""Removes the traces of other providers from an Anthropic client's history, for an endpoint that would refuse them.

Ids with an embedded signature become short. Thinking that the endpoint did not sign is removed; where the endpoint
checks no signature, only its mark is. A signature of the endpoint itself is unwrapped. Where every turn with calls must
contain thinking, one space stands for thinking that was not kept. Only the affected blocks are re-encoded; all others
keep their bytes, so that prompt caches hit. Re-encoding the whole request instead would lose betas, unknown fields and
unknown blocks.
"""

from __future__ import annotations

import re

import msgspec

from extproc.apis.anthropic.wire import BlockSummary, MessageSummary, ThinkingBlock
from extproc.apis.shared.json_fields import elements_of, encode_fields, encode_raw, fields_of, member_of
from extproc.conversation.signatures import MARK, extract_from_id, extract_from_text
from extproc.profiles.anthropic import AnthropicEndpoint

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THINKING = ("thinking", "redacted_thinking")
_PLACEHOLDER = encode_raw(ThinkingBlock(" ", ""))

Changes = dict[str, str] | None
"""Members of a block with their new values; None removes the block."""


class History:
    """The messages of one request. `origin`: the issuer of the endpoint's signatures. `thinks`: the model may think."""

    def __init__(self, turns: list[MessageSummary], endpoint: AnthropicEndpoint, origin: str, *, thinks: bool) -> None:
        self._messages = turns
        self._endpoint = endpoint
        self._origin = origin
        self._changes: dict[int, dict[int, Changes]] = {}
        self.ids: set[str] = set()
        """The ids of all calls and results, without embedded signatures."""
        self._calls: set[str] = set()
        """Ids of the calls so far."""
        self.is_sound = True
        """True if every call has a new and legal id, and every result has its call."""
        self.lost_thinking = False
        for at, turn in enumerate(turns):
            for place, block in enumerate(turn.blocks):
                self._inspect_block(at, place, block)
        self._without_thinking = [at for at, turn in enumerate(turns) if self._misses_thinking(at, turn)] if (
            thinks and endpoint.thinking_required) else []

    @property
    def changed(self) -> bool:
        return bool(self._changes or self._without_thinking)

    @property
    def loop_lost(self) -> bool:
        """True if the open tool loop, which is one assistant turn to the API, does not begin with thinking that the
        endpoint takes back."""
        waiting = False  # for the first assistant turn of the open loop
        lost = False
        has_results = False  # of the last message
        role_before = ""
        for at, turn in enumerate(self._messages):
            kept = self._kept_blocks(at)
            if turn.role == "assistant":
                if turn.blocks and not kept:
                    continue  # removed; its neighbours become one message
                if waiting:
                    lost = next((block.type for block in kept), "") not in _THINKING
                    waiting = False
            elif turn.role == "user":
                results = turn.has_block("tool_result") or (has_results and role_before == "user")
                waiting, has_results = waiting or not results, results
            role_before = turn.role
        return lost and has_results and role_before != "assistant"

    def _kept_blocks(self, at: int) -> list[BlockSummary]:
        changes = self._changes.get(at, {})
        return [block for place, block in enumerate(self._messages[at].blocks) if changes.get(place, {}) is not None]

    def _misses_thinking(self, at: int, turn: MessageSummary) -> bool:
        return turn.role == "assistant" and turn.has_block("tool_use") and not any(
            block.type in _THINKING for block in self._kept_blocks(at))

    # ------------------------------------------------------------------------------------------------------- looking

    def _inspect_block(self, at: int, place: int, block: BlockSummary) -> None:
        kind = block.type
        if kind == "tool_use":
            self._inspect_call(at, place, block)
        elif kind == "tool_result" and isinstance(block.tool_use_id, str):
            plain = self._plain_id(at, place, "tool_use_id", block.tool_use_id)
            self.is_sound = self.is_sound and plain in self._calls
            self.ids.add(plain)
        elif kind == "thinking":
            self._inspect_thinking(at, place, block.signature if isinstance(block.signature, str) else "")
        elif kind == "redacted_thinking" and (
                not self._endpoint.signed or (isinstance(block.data, str)
                                              and extract_from_text(block.data) is not None)):
            self._record_change(at, place, None)  # encrypted by another issuer
            self.lost_thinking = True

    def _inspect_call(self, at: int, place: int, block: BlockSummary) -> None:
        if not isinstance(block.id, str):
            return  # the provider reports it
        plain = self._plain_id(at, place, "id", block.id)
        self.is_sound = self.is_sound and plain not in self.ids and _LEGAL_ID.fullmatch(plain) is not None
        self.ids.add(plain)
        self._calls.add(plain)

    def _plain_id(self, at: int, place: int, member: str, value: str) -> str:
        if MARK not in value:
            return value
        plain = extract_from_id(value)[0]
        self._record_change(at, place, {member: plain})
        return plain

    def _inspect_thinking(self, at: int, place: int, signature: str) -> None:
        carried = extract_from_text(signature) if signature else None
        if carried is not None and carried.origin == self._origin:
            self._record_change(at, place, {"signature": carried.value})
        elif self._endpoint.signed and (carried is not None or not signature):
            self._record_change(at, place, None)
            self.lost_thinking = True
        elif carried is not None:
            self._record_change(at, place, {"signature": ""})

    def _record_change(self, at: int, place: int, changes: Changes) -> None:
        self._changes.setdefault(at, {})[place] = changes

    # ------------------------------------------------------------------------------------------------------- changing

    def cleaned(self, messages: msgspec.Raw) -> msgspec.Raw:
        """The messages with all changes; the same object if there are none."""
        if not self.changed:
            return messages
        out: list[msgspec.Raw] = []
        role = ""
        gap = False
        for at, given in enumerate(elements_of(messages) or ()):
            changes = at in self._changes or at in self._without_thinking
            message = self._changed_message(at, given) if changes else given
            if message is None:  # only another issuer's thinking
                gap = True
                continue
            if gap and out and role == self._messages[at].role:
                out[-1] = _merged(out[-1], message)  # the API requires alternating roles
            else:
                out.append(message)
            role, gap = self._messages[at].role, False
        return encode_raw(out)

    def _changed_message(self, at: int, message: msgspec.Raw) -> msgspec.Raw | None:
        fields = fields_of(message) or {}
        changes = self._changes.get(at, {})
        blocks = [_PLACEHOLDER] if at in self._without_thinking else []
        for place, block in enumerate(elements_of(fields["content"]) or ()):
            change = changes.get(place, {})
            if change is not None:
                blocks.append(_changed(block, change) if change else block)
        if not blocks:
            return None
        fields["content"] = encode_raw(blocks)
        return msgspec.Raw(encode_fields(fields))


def _changed(block: msgspec.Raw, changes: dict[str, str]) -> msgspec.Raw:
    fields = fields_of(block) or {}
    fields.update({name: encode_raw(value) for name, value in changes.items()})
    return msgspec.Raw(encode_fields(fields))


def _merged(first: msgspec.Raw, second: msgspec.Raw) -> msgspec.Raw:
    """Merges two messages of one role."""
    fields = fields_of(first) or {}
    fields["content"] = encode_raw([*_blocks(first), *_blocks(second)])
    return msgspec.Raw(encode_fields(fields))


def _blocks(message: msgspec.Raw) -> list[msgspec.Raw]:
    content = (fields_of(message) or {}).get("content", msgspec.Raw(b"[]"))
    blocks = elements_of(content)
    return [msgspec.Raw(b'{"type":"text","text":%b}' % bytes(content))] if blocks is None else blocks


def without_thinking(fields: dict[str, msgspec.Raw]) -> None:
    """Removes thinking from a request, and the context edits that are refused without it."""
    fields.pop("thinking", None)
    management = member_of(fields, "context_management")
    edits = elements_of(management["edits"]) if management and "edits" in management else None
    if management is None or edits is None:
        return
    kept = [edit for edit in edits if not _type_of(edit).startswith("clear_thinking")]
    if len(kept) < len(edits):
        management["edits"] = encode_raw(kept)
        if kept:
            fields["context_management"] = msgspec.Raw(encode_fields(management))
        else:
            del fields["context_management"]


def _type_of(value: msgspec.Raw) -> str:
    try:
        return _typed.decode(value).type
    except msgspec.DecodeError:
        return ""


_typed = msgspec.json.Decoder(BlockSummary)
