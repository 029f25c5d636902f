"""Text or reasoning that waits behind an open call. It keeps its pieces as they came; when they go out is the affair of
`extproc.conversation.sequencer`."""

from __future__ import annotations


class DeferredText:
    """`kind`: of the block that it goes into."""

    __slots__ = ("kind", "pieces")

    def __init__(self, kind: str, first: str) -> None:
        self.kind = kind
        self.pieces = [first]
