"""The references of one JSON Schema, followed so that they end.

Gemini takes no `$ref` in `parameters`, and no cycles elsewhere, so the rewriters put the target where the reference
stands. A `References` knows where a reference leads and how often each target is open on the way from the top to the
place of the rewriting; a target that is open too often is not entered again. Fetches nothing: only references inside
the document are followed.
"""

from __future__ import annotations

import re

from extproc.schemas.rewriting import Schema, SchemaReferences

_OLD_DRAFT = re.compile(r"json-schema\.org/draft-0[3-7]/")


class References:
    """`unrolls`: how often a target may be open on one way from the top."""

    def __init__(self, root: object, unrolls: int) -> None:
        self._document = SchemaReferences(root)
        self._unrolls = unrolls
        self._open: dict[int, int] = {}
        draft = root.get("$schema") if isinstance(root, dict) else None
        self.stand_alone = isinstance(draft, str) and _OLD_DRAFT.search(draft) is not None
        """Up to draft 7 a `$ref` makes the keywords beside it void."""

    def target(self, reference: object) -> Schema | None:
        """Where a reference leads; None when that is nowhere in this document."""
        return self._document.target(reference)

    def enter(self, target: Schema) -> bool:
        """Opens a target; False, and nothing opened, when it is open often enough."""
        count = self._open.get(id(target), 0)
        if count >= self._unrolls:
            return False
        self._open[id(target)] = count + 1
        return True

    def leave(self, targets: list[Schema]) -> None:
        for target in targets:
            self._open[id(target)] -= 1


def short_name(reference: object) -> str:
    """What a reference is called in a text for the model: `Node` for `#/$defs/Node`."""
    if not isinstance(reference, str) or reference == "#":
        return "the whole"
    return reference.rstrip("/").rpartition("/")[2].lstrip("#")[:80] or "the whole"
