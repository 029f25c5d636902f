"""The part of writing a schema that both of Gemini's schema forms share.

A `SchemaWriter` merges the parts of a schema, writes what its form has a keyword for, and puts the rest into the
description. The result only ever allows more than the schema did. Writing always ends: on one path a reference is
entered a bounded number of times, schemas nested too deep are cut, and past the budget everything is cut. A cut schema
allows any value of its types, and its description says so. The input is never changed.

It goes from the top down, unlike `SchemaVisitor`: parts must be merged before their subschemas are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from extproc.schemas.gemini.folding import fold_alternatives
from extproc.schemas.gemini.merged_schema import MergedSchema, SchemaMerger
from extproc.schemas.gemini.notes import description_of
from extproc.schemas.gemini.values import count_of, identity, is_number, json_text, kind_of, listed
from extproc.schemas.openai import normalize_keywords
from extproc.schemas.references import UnrolledReferences
from extproc.schemas.types import JSON_TYPES
from extproc.schemas.visitor import Schema

MAX_DEPTH = 24
"""Schemas nested deeper become free values. Google refuses some depth ("exceeds the maximum allowed nesting depth",
googleapis/js-genai#882), and one level of a schema may take three of JSON."""
MAX_ITEMS = 100
"""A larger `minItems` or `maxItems` moves into the description. The sum of these over all tools has a limit near 960
(googleapis/python-genai#2170), past which Google responds with INVALID_ARGUMENT and no reason."""

_COUNTS = (("minLength", "string", "At least {} character", "s"), ("maxLength", "string", "At most {} character", "s"),
           ("minItems", "array", "At least {} item", "s"), ("maxItems", "array", "At most {} item", "s"),
           ("minProperties", "object", "At least {} propert", "ies"),
           ("maxProperties", "object", "At most {} propert", "ies"))


class SchemaWriter:
    """Writes one document. `unrolls`: how often a reference may be open on one path. `budget`: bytes, roughly, that the
    result may have before the rest is cut."""

    counts: frozenset[str] = frozenset()
    """The keywords for lengths and counts that the form has."""
    patterns = False
    """True if the form has `pattern`."""

    def __init__(self, root: object, unrolls: int, budget: int) -> None:
        self._references = UnrolledReferences(root, unrolls)
        self._left = budget
        self._far = -4 * budget
        self._merger = SchemaMerger(self._references, self.spend)

    @property
    def exhausted(self) -> bool:
        return self._left <= 0

    @property
    def far_exhausted(self) -> bool:
        """Even the cut schemas have grown too much: they must become shorter."""
        return self._left <= self._far

    def spend(self, cost: int) -> None:
        self._left -= cost

    def write_schema(self, node: object, depth: int) -> Schema | None:
        """One schema in the target form; None if no value can match it."""
        if node is False:
            return None
        if not isinstance(node, dict):
            return self.free_schema(())
        if depth > MAX_DEPTH or self.exhausted:
            return self._write_cut(node)
        opened: list[Schema] = []
        merged = self._merger.merge(node, opened)
        out = None if merged.never else self.write_merged(merged, depth, opened)
        self._references.leave(opened)
        return out

    def write_parameters(self, root: object) -> Schema:
        """The parameters of a function: an object without alternatives at its top."""
        opened: list[Schema] = []
        merged = fold_alternatives(self._merger.merge(root, opened), lambda option: self._merger.merge(option, opened))
        if merged.enum is not None:
            merged.add_note(f"The arguments are one of {listed(merged.enum)}")
        merged.types, merged.enum = ["object"], None
        out = self.write_merged(merged, 0, opened)
        self._references.leave(opened)
        return out if out is not None else {}

    def write_merged(self, merged: MergedSchema, depth: int, opened: list[Schema]) -> Schema | None:
        """Writes one merged schema in the form of the subclass; None if no value can match it."""
        raise NotImplementedError

    def free_schema(self, types: Sequence[str]) -> Schema:
        """A schema of any value of these types; of all types if there are none."""
        raise NotImplementedError

    def write_child(self, node: object, depth: int) -> Schema:
        """A subschema in a place where one is needed, even if no value can match it."""
        out = self.write_schema(node, depth)
        return out if out is not None else self.with_note(self.free_schema(("string",)), "Must be left out.")

    def with_note(self, schema: Schema, text: str) -> Schema:
        """The schema with `text` in front of its description."""
        own = schema.get("description")
        return {**schema, "description": f"{text}\n{own}" if own else text}

    def finish(self, head: Schema, body: Schema, merged: MergedSchema, notes: Sequence[str]) -> Schema:
        """A schema in the order type, title, description, then the rest. Its cost is taken from the budget."""
        out = dict(head)
        if merged.title is not None:
            out["title"] = merged.title
        text = description_of(merged.texts, [*merged.notes, *notes])
        if text:
            out["description"] = text
        out.update(body)
        self.spend(_cost(out))
        return out

    def merge(self, node: object, opened: list[Schema]) -> MergedSchema:
        return self._merger.merge(node, opened)

    def peek_merged(self, node: object) -> MergedSchema:
        """The merged schema; its references are closed again."""
        opened: list[Schema] = []
        merged = self._merger.merge(node, opened)
        self._references.leave(opened)
        return merged

    def demands_only_required(self, merged: MergedSchema) -> bool:
        """True if the alternatives of an object only say which of its properties are required. Such alternatives are
        folded and described."""
        return merged.types == ["object"] and bool(merged.properties) and not any(
            option.keywords.keys() - {"required"} or option.union or option.enum
            for option in map(self.peek_merged, merged.union or []))

    def write_options(self, union: Sequence[object], merged: MergedSchema, depth: int,
                      notes: list[str]) -> list[Schema]:
        """The alternatives that a value can match. `oneOf` becomes `anyOf`, because rewritten alternatives may overlap
        and Google reads `oneOf` as `anyOf`; a note says so unless the alternatives exclude each other."""
        found = [out for option in union if (out := self.write_schema(option, depth + 1)) is not None]
        if merged.exactly_one and len(found) > 1 and not disjoint(found):
            notes.append("Exactly one of the alternatives must match")
        return found

    def _write_cut(self, node: Schema) -> Schema:
        types = normalize_keywords(node).get("type")
        names = types if isinstance(types, list) else [types]
        out = self.free_schema([name for name in names if isinstance(name, str)])
        text = node.get("description")
        note = "Goes on deeper than can be described here."
        out = self.with_note(out, f"{text[:200]}\n{note}" if isinstance(text, str) and text else note)
        self.spend(_cost(out))
        return out

    # --------------------------------------------------------------------------------------- keywords of one schema

    def write_limits(self, merged: MergedSchema, kinds: Sequence[str], notes: list[str]) -> Schema:
        """The bounds, lengths and counts that the form has a keyword for. The others become notes."""
        keywords = merged.keywords
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
            _write_bounds(keywords, "number" not in kinds, out, notes)
        pattern = keywords.get("pattern")
        if isinstance(pattern, str) and "string" in kinds:
            if self.patterns:
                out["pattern"] = pattern
            else:
                notes.append(f"Must match the regular expression {pattern[:500]}")
        return out

    def write_properties(self, merged: MergedSchema, depth: int, notes: list[str]) -> tuple[Schema, list[str]]:
        """The properties, and the required names among them."""
        out: Schema = {name: self.write_child(schema, depth + 1) for name, schema in merged.properties.items()}
        if absent := [name for name in merged.required if name not in out]:
            notes.append(f"Must also have {', '.join(map(str, absent))}"[:300])
        return out, [name for name in merged.required if name in out]


class EnumValues:
    """The values of an enum, divided by what a form can do with them. `listable`: the values that the form can list.
    `other_types`: the types of all others. `note`: describes all values if the types alone say too little."""

    def __init__(self, values: Sequence[object], listable: Sequence[str]) -> None:
        # Google refuses empty strings in enums ("enum[0]: cannot be empty"): then no string can be listed.
        kinds = [kind for kind in listable if kind != "string" or not any(value == "" for value in values)]
        self.listable = [value for value in values if _is_listable(value, kinds)]
        rest = [value for value in values if not _is_listable(value, kinds)]
        self.other_types = [kind for kind in JSON_TYPES if any(kind_of(value) == kind for value in rest)]
        self.note = ""
        if any(value is not None and not isinstance(value, bool) for value in rest) or (
                len({value for value in rest if isinstance(value, bool)}) == 1):
            self.note = f"One of: {listed(values)}" if len(values) > 1 else f"Must be {json_text(values[0])}"

    @property
    def listable_types(self) -> list[str]:
        found = {kind_of(value) for value in self.listable}
        return [kind for kind in JSON_TYPES if kind in found and not (kind == "integer" and "number" in found)]


def _is_listable(value: object, kinds: Sequence[str]) -> bool:
    return kind_of(value) in kinds and (isinstance(value, str) or is_number(value))


def disjoint(options: Sequence[Schema]) -> bool:
    """True if no value can match two of these rewritten schemas: their types differ, or they require a property whose
    values differ in each of them."""
    kinds: set[str] = set()
    for option in options:
        types = option.get("type")
        own = {str(name).lower() for name in (types if isinstance(types, list) else [types])}
        own |= {"integer"} if "number" in own else set()
        if types is None or own & kinds:
            return _differ_in_a_property(options)
        kinds |= own
    return True


def _differ_in_a_property(options: Sequence[Schema]) -> bool:
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


def _write_bounds(keywords: Schema, integers: bool, out: Schema, notes: list[str]) -> None:
    """Writes `minimum` and `maximum`. The exclusive bound of an integer becomes the next inclusive one."""
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
