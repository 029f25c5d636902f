"""Signed thinking that rides in the id of the call behind it, and where in the message it stood.

This API has no field for a signature: it goes out in `reasoning_details`, which many clients drop. All of them echo the
ids of calls, and a signature is demanded back only where a call followed. So the blocks that end before a call travel a
second time in its id (see `carrying`), under an origin of their own.

A message of this API has one text and one list of calls, while a Claude thinks between texts and between calls, and
takes its thinking back only where it stood: two blocks side by side are a 400 ("cannot be modified"). So a block says
how many calls and how many characters of text came before it: in the id of its item of `reasoning_details`, and in what
rides. Called by the encoders of answers, by `reasoning` and by `layout`.
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


class Place(msgspec.Struct, frozen=True, gc=False, order=True):
    """Where in the answer a block stood: behind so many calls and so many characters of text."""

    calls: int = 0
    said: int = 0

    def item_id(self, index: int) -> str:
        """The id of an item of `reasoning_details` that stood here."""
        return f"thought-{index}-{self.calls}-{self.said}"


def place_of(item_id: str | None) -> Place | None:
    """The place in such an id; None for the id of somebody else."""
    found = _PLACE.fullmatch(item_id) if item_id else None
    return None if found is None else Place(int(found.group(1)), int(found.group(2)))


class Placed(msgspec.Struct, frozen=True):
    """Thinking of the history, with the place that it told."""

    block: Thinking
    place: Place | None = None

    @property
    def opaque(self) -> str | None:
        """What tells blocks apart."""
        return self.block.signature or self.block.redacted


class Riders:
    """Signed and encrypted blocks that wait for the id of the next call."""

    def __init__(self) -> None:
        self._waiting: list[tuple[bool, str, int]] = []

    def add(self, block: Thinking, said: int) -> None:
        """`said`: characters of text before it."""
        self._waiting.append((block.redacted is not None, block.redacted or block.signature or "", said))

    def load(self, call: ToolCallStart) -> str:
        """The id of this call, with the call's own signature on board, else with the blocks before it."""
        waiting, self._waiting = self._waiting, []
        return embed_in_id(call.id, call.signature or _rider(waiting))


def _rider(blocks: list[tuple[bool, str, int]]) -> Signature | None:
    """What goes into the id: signatures and data without their text; None for no blocks. One signature before all text
    is by far the most frequent, and stays short."""
    if not blocks:
        return None
    redacted, opaque, said = blocks[0]
    if len(blocks) == 1 and not redacted and said == 0:
        return Signature(opaque, _ONE)
    return Signature(_encode(blocks).decode(), _SEVERAL)


def ridden(signature: Signature | None, calls: int) -> list[Placed]:
    """The blocks, without their text, that came in the id of the call behind `calls` others; none when it carried a
    signature of the call itself."""
    if signature is None:
        return []
    if signature.origin == _ONE:
        return [Placed(Thinking("", signature=signature.value), Place(calls))]
    if signature.origin != _SEVERAL:
        return []
    try:
        items = _decode.decode(signature.value)
    except msgspec.DecodeError:
        return []
    return [Placed(Thinking("", redacted=opaque) if redacted else Thinking("", signature=opaque),
                   Place(calls, max(0, said))) for redacted, opaque, said in items]


def is_rider(signature: Signature | None) -> bool:
    """Whether this is not the call's own signature."""
    return signature is not None and signature.origin in (_ONE, _SEVERAL)
