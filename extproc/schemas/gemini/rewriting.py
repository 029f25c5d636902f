"""The walk through a JSON Schema that both of Gemini's schema forms share.

A `Rewriter` merges a schema's parts, lets its form write what it has a place for, and puts the rest into the
description. The result only ever allows more than the schema did. The walk always ends: references are entered a
bounded number of times on one way, schemas nested too deep are cut, and so is everything when the whole has grown past
its budget; what is cut allows any value of its types, and says so. The input is never changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from extproc.schemas.gemini.folding import folded
from extproc.schemas.gemini.folding import properties as properties_of
from extproc.schemas.gemini.merging import Facts, Merger
from extproc.schemas.gemini.notes import described
from extproc.schemas.gemini.references import References
from extproc.schemas.gemini.values import TYPES, count_of, identity, is_number, json_text, kind_of, listed
from extproc.schemas.rewriting import Schema, well_formed

MAX_DEPTH = 24
"""Schemas nested deeper become free values: Google stops at some depth ("exceeds the maximum allowed nesting depth",
googleapis/js-genai#882), and one level may take three of JSON's."""
MAX_ITEMS = 100
"""A larger `minItems` or `maxItems` goes into words: the sum of these over all tools has a limit near 960 (googleapis/
python-genai#2170), past which Google answers INVALID_ARGUMENT and no reason."""

_COUNTS = (("minLength", "string", "At least {} character", "s"), ("maxLength", "string", "At most {} character", "s"),
           ("minItems", "array", "At least {} item", "s"), ("maxItems", "array", "At most {} item", "s"),
           ("minProperties", "object", "At least {} propert", "ies"),
           ("maxProperties", "object", "At most {} propert", "ies"))


class Rewriter:
    """One rewriting. `budget`: bytes, roughly, that the result may have before everything else in it is cut."""

    counts: frozenset[str] = frozenset()
    """The lengths and counts that the form has a keyword for."""
    patterns = False
    """Whether the form has `pattern`."""

    def __init__(self, root: object, unrolls: int, budget: int) -> None:
        self._references = References(root, unrolls)
        self._left = budget
        self._far = -4 * budget
        self._merger = Merger(self._references, self.spend)

    @property
    def exhausted(self) -> bool:
        return self._left <= 0

    @property
    def far_exhausted(self) -> bool:
        """Even what was cut has grown so much that it must be told in fewer words."""
        return self._left <= self._far

    def spend(self, cost: int) -> None:
        self._left -= cost

    def schema(self, node: object, depth: int) -> Schema | None:
        """One schema in the target form; None for one that no value can match."""
        if node is False:
            return None
        if not isinstance(node, dict):
            return self.free(())
        if depth > MAX_DEPTH or self.exhausted:
            return self._cut(node)
        opened: list[Schema] = []
        facts = self._merger.merge(node, opened)
        out = None if facts.never else self.write(facts, depth, opened)
        self._references.leave(opened)
        return out

    def object_on_top(self, root: object) -> Schema:
        """The parameters of a function: an object that has no alternatives at its top."""
        opened: list[Schema] = []
        facts = folded(self._merger.merge(root, opened), lambda option: self._merger.merge(option, opened))
        if facts.enum is not None:
            facts.note(f"The arguments are one of {listed(facts.enum)}")
        facts.types, facts.enum = ["object"], None
        out = self.write(facts, 0, opened)
        self._references.leave(opened)
        return out if out is not None else {}

    def write(self, facts: Facts, depth: int, opened: list[Schema]) -> Schema | None:
        """The form's own part: one schema from its facts."""
        raise NotImplementedError

    def free(self, types: Sequence[str]) -> Schema:
        """Any value of these types, of all types when there are none."""
        raise NotImplementedError

    def child(self, node: object, depth: int) -> Schema:
        """A subschema that stands where there must be one."""
        out = self.schema(node, depth)
        return out if out is not None else self.noted(self.free(("string",)), "Must be left out.")

    def noted(self, schema: Schema, text: str) -> Schema:
        """The schema with more in front of its description."""
        own = schema.get("description")
        return {**schema, "description": f"{text}\n{own}" if own else text}

    def finished(self, head: Schema, body: Schema, facts: Facts, notes: Sequence[str]) -> Schema:
        """A schema in the order type, title, description, then the rest, paid from the budget."""
        out = dict(head)
        if facts.title is not None:
            out["title"] = facts.title
        text = described(facts.texts, [*facts.notes, *notes])
        if text:
            out["description"] = text
        out.update(body)
        self.spend(_cost(out))
        return out

    def merged(self, node: object, opened: list[Schema]) -> Facts:
        return self._merger.merge(node, opened)

    def peeked(self, node: object) -> Facts:
        """The facts of a schema whose references are closed again."""
        opened: list[Schema] = []
        facts = self._merger.merge(node, opened)
        self._references.leave(opened)
        return facts

    def only_demands(self, facts: Facts) -> bool:
        """Whether the alternatives of an object say no more than which of its properties must be there: then they are
        folded, and told in words."""
        return facts.types == ["object"] and bool(properties_of(facts)) and not any(
            option.keywords.keys() - {"required"} or option.union or option.enum
            for option in map(self.peeked, facts.union or []))

    def options(self, union: Sequence[object], facts: Facts, depth: int, notes: list[str]) -> list[Schema]:
        """The rewritten alternatives that can match at all. One that must exclude the others becomes one that need
        not (rewritten ones overlap, and Google reads oneOf as anyOf); where that is lost, the notes say it."""
        found = [out for option in union if (out := self.schema(option, depth + 1)) is not None]
        if facts.exactly_one and len(found) > 1 and not disjoint(found):
            notes.append("Exactly one of the alternatives must match")
        return found

    def _cut(self, node: Schema) -> Schema:
        types = well_formed(node).get("type")
        names = types if isinstance(types, list) else [types]
        out = self.free([name for name in names if isinstance(name, str)])
        text = node.get("description")
        note = "Goes on deeper than can be described here."
        out = self.noted(out, f"{text[:200]}\n{note}" if isinstance(text, str) and text else note)
        self.spend(_cost(out))
        return out

    # -------------------------------------------------------------------------------- what one schema demands of values

    def limits(self, facts: Facts, kinds: Sequence[str], notes: list[str]) -> Schema:
        """The bounds, lengths and counts that the form has a keyword for; the others become notes."""
        keywords = facts.keywords
        out: Schema = {}
        for key, kind, words, many in _COUNTS:
            count = count_of(keywords.get(key))
            if count is None or kind not in kinds:
                continue
            if key in self.counts and not (kind == "array" and count > MAX_ITEMS):
                out[key] = count
            elif count or key.startswith("max"):
                notes.append(words.format(count) + (many if count != 1 else "y" if many == "ies" else ""))
        if "number" in kinds or "integer" in kinds:
            _bounds(keywords, "number" not in kinds, out, notes)
        pattern = keywords.get("pattern")
        if isinstance(pattern, str) and "string" in kinds:
            if self.patterns:
                out["pattern"] = pattern
            else:
                notes.append(f"Must match the regular expression {pattern[:500]}")
        return out

    def properties(self, facts: Facts, depth: int, notes: list[str]) -> tuple[Schema, list[str]]:
        """The rewritten properties, and those of the required names that are among them."""
        declared = facts.keywords.get("properties")
        out: Schema = {}
        if isinstance(declared, dict):
            out = {name: self.child(schema, depth + 1) for name, schema in declared.items()}
        names = facts.keywords.get("required")
        wanted = names if isinstance(names, list) else []
        if absent := [name for name in wanted if name not in out]:
            notes.append(f"Must also have {', '.join(map(str, absent))}"[:300])
        return out, [name for name in wanted if name in out]


class Values:
    """The values of an enum, by what a form can do with them. `named` can be listed, `others` are the types of those
    that cannot; `note` tells them all when the types alone say too little."""

    def __init__(self, values: Sequence[object], listable: Sequence[str]) -> None:
        # Google refuses empty strings in enums ("enum[0]: cannot be empty"): then no string can be listed.
        kinds = [kind for kind in listable if kind != "string" or not any(value == "" for value in values)]
        self.named = [value for value in values if _listable(value, kinds)]
        rest = [value for value in values if not _listable(value, kinds)]
        self.others = [kind for kind in TYPES if any(kind_of(value) == kind for value in rest)]
        self.note = ""
        if any(value is not None and not isinstance(value, bool) for value in rest) or (
                len({value for value in rest if isinstance(value, bool)}) == 1):
            self.note = f"One of: {listed(values)}" if len(values) > 1 else f"Must be {json_text(values[0])}"

    @property
    def named_types(self) -> list[str]:
        found = {kind_of(value) for value in self.named}
        return [kind for kind in TYPES if kind in found and not (kind == "integer" and "number" in found)]


def _listable(value: object, kinds: Sequence[str]) -> bool:
    return kind_of(value) in kinds and (isinstance(value, str) or is_number(value))


def disjoint(options: Sequence[Schema]) -> bool:
    """Whether no value can match two of these rewritten schemas: their types differ, or a property that all of them
    require has other values in each."""
    kinds: set[str] = set()
    for option in options:
        types = option.get("type")
        own = {str(name).lower() for name in (types if isinstance(types, list) else [types])}
        own |= {"integer"} if "number" in own else set()
        if types is None or own & kinds:
            return _told_apart(options)
        kinds |= own
    return True


def _told_apart(options: Sequence[Schema]) -> bool:
    shared = set.intersection(*(set(_list(option, "required")) for option in options))
    for name in shared:
        seen: set[object] = set()
        for option in options:
            declared = option.get("properties")
            schema = declared.get(name) if isinstance(declared, dict) else None
            values = {identity(value) for value in _list(schema, "enum")} if isinstance(schema, dict) else set()
            if not values or values & seen or option.get("type") not in ("object", "OBJECT"):
                break
            seen |= values
        else:
            return True
    return False


def _list(schema: Schema, key: str) -> list[object]:
    value = schema.get(key)
    return value if isinstance(value, list) else []


def _bounds(keywords: Schema, integers: bool, out: Schema, notes: list[str]) -> None:
    """`minimum` and `maximum`. Of an integer an exclusive bound is exactly the next inclusive one."""
    for key, beyond, up, words in (("minimum", "exclusiveMinimum", True, "greater"),
                                   ("maximum", "exclusiveMaximum", False, "less")):
        bound, edge = keywords.get(key), keywords.get(beyond)
        if is_number(edge):
            if integers:
                near: int | float = math.floor(edge) + 1 if up else math.ceil(edge) - 1
            else:
                near = edge
                notes.append(f"Must be {words} than {json_text(edge)}")
            bound = near if not is_number(bound) else (max if up else min)(bound, near)
        if is_number(bound):
            out[key] = bound


def _cost(schema: Schema) -> int:
    """The bytes of one schema without its subschemas, roughly."""
    cost = 24
    for key, value in schema.items():
        cost += len(key) + 4
        if isinstance(value, str):
            cost += len(value)
        elif isinstance(value, dict):
            cost += sum(len(name) + 6 for name in value)
        elif isinstance(value, list):
            cost += sum(len(item) + 3 if isinstance(item, str) else 8 for item in value)
    return cost
