"""What the turns of other providers left in an Anthropic client's history -> a history that this endpoint takes.

Ids that carry a signature become short. Thinking that the endpoint did not sign goes, or loses its mark where the
endpoint checks no signature; a signature of its own that was marked as such is unwrapped; where every turn with calls
must hold thinking, one space stands for what was not kept. Only the blocks concerned are written anew, all others keep
their bytes, so that prompt caches hit.
"""

from __future__ import annotations

import re

import msgspec

from extproc.apis.anthropic.wire import BlockSummary, MessageSummary, ThinkingBlock
from extproc.apis.shared.json_fields import elements_of, fields_of, joined, member_of, raw
from extproc.conversation.signatures import MARK, extract_from_id, extract_from_text
from extproc.profiles.anthropic import AnthropicEndpoint

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_THINKING = ("thinking", "redacted_thinking")
_PLACEHOLDER = raw(ThinkingBlock(" ", ""))

Changes = dict[str, str] | None
"""Members of a block with their new values; None: the block goes."""


class History:
    """One request's messages. `origin`: who issues the endpoint's signatures. `thinks`: the model may think."""

    def __init__(self, turns: list[MessageSummary], endpoint: AnthropicEndpoint, origin: str, *, thinks: bool) -> None:
        self._turns = turns
        self._endpoint = endpoint
        self._origin = origin
        self._changes: dict[int, dict[int, Changes]] = {}
        self.ids: set[str] = set()
        """Of all calls and results, without loads."""
        self._calls: set[str] = set()
        """Ids of the calls so far."""
        self.sound = True
        """No call has an id that was there before or that the API refuses, and every result has its call."""
        self.lost_thinking = False
        for at, turn in enumerate(turns):
            for place, block in enumerate(turn.blocks):
                self._look(at, place, block)
        self._without_thinking = [at for at, turn in enumerate(turns) if self._misses_thinking(at, turn)] if (
            thinks and endpoint.thinking_required) else []

    @property
    def changed(self) -> bool:
        return bool(self._changes or self._without_thinking)

    @property
    def loop_lost(self) -> bool:
        """A tool loop is open, which is one turn of the model to the API, and does not begin with thinking that the
        endpoint takes back."""
        waiting = False  # for the first turn of the model in the loop that is open
        lost = False
        answers = False  # the last message holds results
        before = ""
        for at, turn in enumerate(self._turns):
            kept = self._kept(at)
            if turn.role == "assistant":
                if turn.blocks and not kept:
                    continue  # it goes, and its neighbours become one message
                if waiting:
                    lost = next((block.type for block in kept), "") not in _THINKING
                    waiting = False
            elif turn.role == "user":
                results = turn.holds("tool_result") or (answers and before == "user")
                waiting, answers = waiting or not results, results
            before = turn.role
        return lost and answers and before != "assistant"

    def _kept(self, at: int) -> list[BlockSummary]:
        changes = self._changes.get(at, {})
        return [block for place, block in enumerate(self._turns[at].blocks) if changes.get(place, {}) is not None]

    def _misses_thinking(self, at: int, turn: MessageSummary) -> bool:
        return turn.role == "assistant" and turn.holds("tool_use") and not any(
            block.type in _THINKING for block in self._kept(at))

    # ------------------------------------------------------------------------------------------------------- looking

    def _look(self, at: int, place: int, block: BlockSummary) -> None:
        kind = block.type
        if kind == "tool_use":
            self._call(at, place, block)
        elif kind == "tool_result" and isinstance(block.tool_use_id, str):
            plain = self._plain_id(at, place, "tool_use_id", block.tool_use_id)
            self.sound = self.sound and plain in self._calls
            self.ids.add(plain)
        elif kind == "thinking":
            self._thinking(at, place, block.signature if isinstance(block.signature, str) else "")
        elif kind == "redacted_thinking" and (
                not self._endpoint.signed or (isinstance(block.data, str)
                                              and extract_from_text(block.data) is not None)):
            self._change(at, place, None)  # encrypted by someone else
            self.lost_thinking = True

    def _call(self, at: int, place: int, block: BlockSummary) -> None:
        if not isinstance(block.id, str):
            return  # the provider says so
        plain = self._plain_id(at, place, "id", block.id)
        self.sound = self.sound and plain not in self.ids and _LEGAL_ID.fullmatch(plain) is not None
        self.ids.add(plain)
        self._calls.add(plain)

    def _plain_id(self, at: int, place: int, member: str, value: str) -> str:
        if MARK not in value:
            return value
        plain = extract_from_id(value)[0]
        self._change(at, place, {member: plain})
        return plain

    def _thinking(self, at: int, place: int, signature: str) -> None:
        carried = extract_from_text(signature) if signature else None
        if carried is not None and carried.origin == self._origin:
            self._change(at, place, {"signature": carried.value})
        elif self._endpoint.signed and (carried is not None or not signature):
            self._change(at, place, None)
            self.lost_thinking = True
        elif carried is not None:
            self._change(at, place, {"signature": ""})

    def _change(self, at: int, place: int, changes: Changes) -> None:
        self._changes.setdefault(at, {})[place] = changes

    # ------------------------------------------------------------------------------------------------------- changing

    def cleaned(self, messages: msgspec.Raw) -> msgspec.Raw:
        """The messages with all changes; the very same when there are none."""
        if not self.changed:
            return messages
        out: list[msgspec.Raw] = []
        role = ""
        gap = False
        for at, given in enumerate(elements_of(messages) or ()):
            changes = at in self._changes or at in self._without_thinking
            message = self._message(at, given) if changes else given
            if message is None:  # nothing but thinking of someone else
                gap = True
                continue
            if gap and out and role == self._turns[at].role:
                out[-1] = _merged(out[-1], message)  # the API wants the roles to alternate
            else:
                out.append(message)
            role, gap = self._turns[at].role, False
        return raw(out)

    def _message(self, at: int, message: msgspec.Raw) -> msgspec.Raw | None:
        fields = fields_of(message) or {}
        changes = self._changes.get(at, {})
        blocks = [_PLACEHOLDER] if at in self._without_thinking else []
        for place, block in enumerate(elements_of(fields["content"]) or ()):
            change = changes.get(place, {})
            if change is not None:
                blocks.append(_changed(block, change) if change else block)
        if not blocks:
            return None
        fields["content"] = raw(blocks)
        return msgspec.Raw(joined(fields))


def _changed(block: msgspec.Raw, changes: dict[str, str]) -> msgspec.Raw:
    fields = fields_of(block) or {}
    fields.update({name: raw(value) for name, value in changes.items()})
    return msgspec.Raw(joined(fields))


def _merged(first: msgspec.Raw, second: msgspec.Raw) -> msgspec.Raw:
    """Two messages of one role as one."""
    fields = fields_of(first) or {}
    fields["content"] = raw([*_blocks(first), *_blocks(second)])
    return msgspec.Raw(joined(fields))


def _blocks(message: msgspec.Raw) -> list[msgspec.Raw]:
    content = (fields_of(message) or {}).get("content", msgspec.Raw(b"[]"))
    blocks = elements_of(content)
    return [msgspec.Raw(b'{"type":"text","text":%b}' % bytes(content))] if blocks is None else blocks


def without_thinking(fields: dict[str, msgspec.Raw]) -> None:
    """Takes the wish for thinking out of a request, and the edits of its context that are refused without one."""
    fields.pop("thinking", None)
    management = member_of(fields, "context_management")
    edits = elements_of(management["edits"]) if management and "edits" in management else None
    if management is None or edits is None:
        return
    kept = [edit for edit in edits if not _type_of(edit).startswith("clear_thinking")]
    if len(kept) < len(edits):
        management["edits"] = raw(kept)
        if kept:
            fields["context_management"] = msgspec.Raw(joined(management))
        else:
            del fields["context_management"]


def _type_of(value: msgspec.Raw) -> str:
    try:
        return _typed.decode(value).type
    except msgspec.DecodeError:
        return ""


_typed = msgspec.json.Decoder(BlockSummary)
