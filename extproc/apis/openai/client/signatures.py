"""Signed thinking embedded in the id of the next call, with its position in the message.

This API has no field for a signature. Signatures are sent in `reasoning_details`, which many clients drop. All clients
echo the ids of calls, and a signature is required back only if a call followed. So the blocks before a call are also
embedded in its id (`extproc.conversation.signatures`), under an origin of their own.

A message of this API has one text and one list of calls, while Claude thinks between texts and between calls and takes
its thinking back only in its original position: two adjacent blocks are a 400 ("cannot be modified"). So each block
records the number of calls and the number of characters of text before it, in the id of its item of `reasoning_details`
and in the embedded data. Used by the response encoders, `reasoning` and `messages`.
"""

from __future__ import annotations

import re

import msgspec

from extproc.conversation.model import Signature, Thinking, ToolCallStart
from extproc.conversation.signatures import embed_in_id, origin_of

_ONE = origin_of("openai client", "signature")
_SEVERAL = origin_of("openai client", "blocks")

_encode = msgspec.json.Encoder().encode
_decode: msgspec.json.Decoder[list[tuple[bool, str, int]]] = msgspec.json.Decoder(list[tuple[bool, str, int]])
_PLACE = re.compile(r"thought-\d{1,9}-(\d{1,9})-(\d{1,9})")


class BlockPosition(msgspec.Struct, frozen=True, gc=False, order=True):
    """The position of a block in the response: the number of calls and of characters of text before it."""

    calls: int = 0
    characters: int = 0

    def item_id(self, index: int) -> str:
        """The id of an item of `reasoning_details` at this position."""
        return f"thought-{index}-{self.calls}-{self.characters}"


def position_of_id(item_id: str | None) -> BlockPosition | None:
    """The position in such an id; None for an id of another origin."""
    found = _PLACE.fullmatch(item_id) if item_id else None
    return None if found is None else BlockPosition(int(found.group(1)), int(found.group(2)))


class PositionedThinking(msgspec.Struct, frozen=True):
    """Thinking of the history with its recorded position."""

    block: Thinking
    position: BlockPosition | None = None

    @property
    def opaque(self) -> str | None:
        """The signature or encrypted data, which identifies the block."""
        return self.block.signature or self.block.redacted


class PendingSignatures:
    """Signed and encrypted blocks to be embedded in the id of the next call."""

    def __init__(self) -> None:
        self._waiting: list[tuple[bool, str, int]] = []

    def add(self, block: Thinking, characters: int) -> None:
        """`characters`: characters of text before the block."""
        self._waiting.append((block.redacted is not None, block.redacted or block.signature or "", characters))

    def id_with_signature(self, call: ToolCallStart) -> str:
        """The id of this call with the call's own signature, else with the blocks before it."""
        waiting, self._waiting = self._waiting, []
        return embed_in_id(call.id, call.signature or _packed_blocks(waiting))


def _packed_blocks(blocks: list[tuple[bool, str, int]]) -> Signature | None:
    """The embedded data: signatures and encrypted data without their text; None for no blocks. One signature before all
    text is by far the most frequent case and stays short."""
    if not blocks:
        return None
    redacted, opaque, characters = blocks[0]
    if len(blocks) == 1 and not redacted and characters == 0:
        return Signature(opaque, _ONE)
    return Signature(_encode(blocks).decode(), _SEVERAL)


def extract_blocks(signature: Signature | None, calls: int) -> list[PositionedThinking]:
    """The blocks, without their text, from the id of a call; none if it carries the call's own signature. `calls`: the
    number of calls before it."""
    if signature is None:
        return []
    if signature.origin == _ONE:
        return [PositionedThinking(Thinking("", signature=signature.value), BlockPosition(calls))]
    if signature.origin != _SEVERAL:
        return []
    try:
        items = _decode.decode(signature.value)
    except msgspec.DecodeError:
        return []
    return [PositionedThinking(Thinking("", redacted=opaque) if redacted else Thinking("", signature=opaque),
                   BlockPosition(calls, max(0, characters))) for redacted, opaque, characters in items]


def holds_blocks(signature: Signature | None) -> bool:
    """True if the signature belongs to thinking before the call, not to the call itself."""
    return signature is not None and signature.origin in (_ONE, _SEVERAL)
