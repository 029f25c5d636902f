"""The references of a JSON Schema: where they lead, and how to follow them without end.

Only references inside the document are followed; nothing is fetched.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from extproc.schemas.visitor import MAX_DEPTH, PathVisitor, Schema, SchemaVisitor

_UP_TO_DRAFT_7 = re.compile(r"json-schema\.org/draft-0[3-7]/")


def resolve_pointer(reference: object, root: Schema) -> Schema | None:
    """The target of a reference such as `#/$defs/Item`, `#/anyOf/0` or `#`; None if there is none."""
    if reference == "#":
        return root
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node: object = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and name.isdecimal() and len(name) < 10 and int(name) < len(node):
            node = node[int(name)]
        elif isinstance(node, dict) and (name in node or (name := unquote(name)) in node):
            node = node[name]
        else:
            return None
    return node if isinstance(node, dict) else None


class SchemaReferences:
    """The references of one document: by path, by `$anchor`, by `$id` and by the `id` of draft 4."""

    def __init__(self, root: object) -> None:
        self._root: Schema = root if isinstance(root, dict) else {}
        self._names: dict[str, tuple[Schema, str]] | None = None

    def target(self, reference: object) -> Schema | None:
        """The schema that a reference leads to; None if this document has none."""
        found = resolve_pointer(reference, self._root)
        if found is not None or not isinstance(reference, str):
            return found
        named = self._find_name(reference)
        return named[0] if named is not None else None

    def path(self, reference: str) -> str | None:
        """The reference as a path from the top; None if it leads nowhere."""
        if resolve_pointer(reference, self._root) is not None:
            return reference
        named = self._find_name(reference)
        return named[1] if named is not None else None

    def _find_name(self, name: str) -> tuple[Schema, str] | None:
        if self._names is None:
            finder = _NameFinder()
            finder.visit(self._root)
            self._names = finder.found
        return self._names.get(name)


class _NameFinder(PathVisitor):
    """Collects the schemas that have names, with their paths."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, tuple[Schema, str]] = {}

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        for key, mark in (("$anchor", "#"), ("$id", ""), ("id", "")):
            name = node.get(key)
            if isinstance(name, str) and name:
                steps = [step.replace("~", "~0").replace("/", "~1") for step in self.path]
                self.found.setdefault(mark + name, (node, "/".join(["#", *steps])))
        return out


class UnrolledReferences(SchemaReferences):
    """References that are replaced by their targets, each a bounded number of times. Counts how often each target is
    open on the way from the top; a target is not entered when it is open `unrolls` times."""

    def __init__(self, root: object, unrolls: int) -> None:
        super().__init__(root)
        self._unrolls = unrolls
        self._open: dict[int, int] = {}
        draft = root.get("$schema") if isinstance(root, dict) else None
        self.stand_alone = isinstance(draft, str) and _UP_TO_DRAFT_7.search(draft) is not None
        """True if the keywords beside a `$ref` do not count: the rule up to draft 7."""

    def enter(self, target: Schema) -> bool:
        """Opens a target. Returns False if it is open often enough; nothing is opened then."""
        count = self._open.get(id(target), 0)
        if count >= self._unrolls:
            return False
        self._open[id(target)] = count + 1
        return True

    def leave(self, targets: list[Schema]) -> None:
        for target in targets:
            self._open[id(target)] -= 1


def references_end(root: Schema) -> bool:
    """True if every reference leads to a schema of the document and none leads back to itself. References that nest
    deeper than `MAX_DEPTH` count as endless."""
    follower = _ReferenceFollower(root)
    follower.visit(root)
    return follower.end


class _ReferenceFollower(SchemaVisitor):
    """Follows each reference once, from the place where it stands."""

    def __init__(self, root: Schema) -> None:
        self.end = True
        self._references = SchemaReferences(root)
        self._open = {id(root)}
        self._done = set[int]()

    def visit(self, node: object, depth: int = 0) -> Schema | bool:
        if depth > MAX_DEPTH:
            self.end = False
        if not isinstance(node, dict) or not self.end:
            return {}
        if "$ref" in node:
            self._follow(node["$ref"], depth)
        return super().visit(node, depth)

    def visit_child(self, key: str, name: str | int | None, node: object, depth: int) -> Schema | bool:
        # A definition is visited where a reference leads to it.
        return {} if key in ("$defs", "definitions") else super().visit_child(key, name, node, depth)

    def _follow(self, reference: object, depth: int) -> None:
        target = self._references.target(reference)
        if target is None or id(target) in self._open:
            self.end = False
        elif id(target) not in self._done:
            self._open.add(id(target))
            self.visit(target, depth + 1)
            self._open.discard(id(target))
            self._done.add(id(target))
