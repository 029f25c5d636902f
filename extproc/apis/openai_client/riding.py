"""Signed thinking that rides in the id of the call behind it.

This API has no field for a signature: it goes out in `reasoning_details`, which many clients drop. All of them echo the
ids of calls, and a signature is demanded back only where a call followed. So the blocks that end before a call travel a
second time in its id (see `carrying`), under an origin of their own. Called by the encoders of answers and by
`messages`.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extproc.carrying import origin_of
from extproc.conversation import Signature, Thinking

_ONE = origin_of("openai client", "signature")
_SEVERAL = origin_of("openai client", "blocks")

_encode = msgspec.json.Encoder().encode
_decode: msgspec.json.Decoder[list[tuple[bool, str]]] = msgspec.json.Decoder(list[tuple[bool, str]])


def rider(blocks: Sequence[Thinking]) -> Signature | None:
    """What the id of a call takes along of the signed or encrypted blocks before it: their signatures and data without
    their text. None for no blocks."""
    if not blocks:
        return None
    if len(blocks) == 1 and blocks[0].signature is not None:
        return Signature(blocks[0].signature, _ONE)
    items = [(block.redacted is not None, block.redacted or block.signature or "") for block in blocks]
    return Signature(_encode(items).decode(), _SEVERAL)


def ridden(signature: Signature | None) -> list[Thinking]:
    """The blocks, without their text, that came in an id; none when it carried a signature of the call itself."""
    if signature is None:
        return []
    if signature.origin == _ONE:
        return [Thinking("", signature=signature.value)]
    if signature.origin != _SEVERAL:
        return []
    try:
        items = _decode.decode(signature.value)
    except msgspec.DecodeError:
        return []
    return [Thinking("", redacted=value) if redacted else Thinking("", signature=value) for redacted, value in items]


def is_rider(signature: Signature | None) -> bool:
    """Whether this is not the call's own signature."""
    return signature is not None and signature.origin in (_ONE, _SEVERAL)
