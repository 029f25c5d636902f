"""One schema with everything that its references and its `allOf` say, as one set of keywords.

The writers of both target forms start from a `MergedSchema`. Merging never demands more than the schema did: where two
parts do not fit into one keyword, the first one stays and the other becomes a note, which ends in the description.
Subschemas stay as they are (two schemas of one property become an `allOf`, which is merged when the writer gets there).
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.schemas.gemini.notes import ANNOTATIONS, notes_of
from extproc.schemas.gemini.values import admits, common_types, distinct, identity, is_number, json_text
from extproc.schemas.openai import normalize_keywords
from extproc.schemas.references import UnrolledReferences
from extproc.schemas.visitor import Schema

_MAX_PARTS = 64
"""Parts of one schema that are merged. The rest is left out, which makes the schema weaker, never wrong."""

_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_ONE_VALUE = ("format", "pattern")
"""Keywords whose first value stays; a second one becomes a note."""


class MergedSchema:
    """What one schema says.

    `keywords`: those of draft 2020-12 that may have a place in a target form, without `type` and `enum`.
    `types`: None for any; empty if no value can match. `union`: alternatives of which one must match, None for none.
    `exactly_one`: the union is a `oneOf`. `texts`: the descriptions. `notes`: sentences without full stop about what
    the keywords do not say.
    """

    def __init__(self) -> None:
        self.keywords: Schema = {}
        self.types: list[str] | None = None
        self.enum: list[object] | None = None
        self.union: list[object] | None = None
        self.exactly_one = False
        self.title: str | None = None
        self.texts: list[str] = []
        self.notes: list[str] = []

    @property
    def never(self) -> bool:
        """True if no value can match."""
        return self.types == [] or self.enum == []

    @property
    def properties(self) -> Schema:
        found = self.keywords.get("properties")
        return found if isinstance(found, dict) else {}

    @property
    def required(self) -> list[str]:
        found = self.keywords.get("required")
        return found if isinstance(found, list) else []

    def add_note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def as_schema(self) -> Schema:
        """The keywords as a schema that can be merged again; without texts, notes and alternatives."""
        out: Schema = dict(self.keywords)
        if self.types is not None:
            out["type"] = self.types or ["null"]
        if self.enum is not None:
            out["enum"] = self.enum
        return out


class SchemaMerger:
    """Merges schemas. `spend` is called with the cost of every part read, for the budget of the whole rewriting."""

    def __init__(self, references: UnrolledReferences, spend: Callable[[int], None]) -> None:
        self._references = references
        self._spend = spend

    def merge(self, schema: object, opened: list[Schema]) -> MergedSchema:
        """`opened` receives the targets of references, which the caller closes after the subschemas are written."""
        merged = MergedSchema()
        pending = [schema]
        for _ in range(_MAX_PARTS):
            if not pending:
                break
            part = pending.pop()
            self._spend(8)
            if part is False:
                merged.types = []
            elif isinstance(part, dict):
                self._spend(sum(len(value) for value in part.values() if isinstance(value, (dict, list))))
                pending.extend(reversed(self._add(merged, normalize_keywords(part), opened)))
        if isinstance(schema, dict) and schema.get("nullable") is True:
            _allow_null(merged)
        if merged.enum is not None:
            merged.enum = [value for value in merged.enum if admits(merged.types, value)]
        return merged

    def _add(self, merged: MergedSchema, part: Schema, opened: list[Schema]) -> list[object]:
        """Adds one part; returns the parts that it refers to or combines."""
        if "$ref" in part and self._references.stand_alone:
            part = {key: value for key, value in part.items() if key == "$ref" or key in ANNOTATIONS}
        _add_texts(merged, part)
        _add_values(merged, part)
        _add_object_keywords(merged, part)
        _add_items(merged, part)
        for key, value in part.items():
            if key in _LOWER or key in _UPPER:
                _add_bound(merged, key, value)
            elif key in _ONE_VALUE and isinstance(value, str):
                _add_one_value(merged, key, value)
        for note in notes_of(part):
            merged.add_note(note)
        further: list[object] = []
        if "$ref" in part:
            further += self._follow_reference(merged, part["$ref"], opened)
        if isinstance(branches := part.get("allOf"), list):
            further += branches
        for key in ("anyOf", "oneOf"):
            if isinstance(options := part.get(key), list):
                further += _add_union(merged, key, options)
        return further

    def _follow_reference(self, merged: MergedSchema, reference: object, opened: list[Schema]) -> list[object]:
        target = self._references.target(reference)
        if target is None:
            merged.add_note(f"Follows the schema {json_text(reference)}")
            return []
        if any(target is other for other in opened):
            return []  # a circle of nothing but references
        if not self._references.enter(target):
            merged.add_note(f"Has the same form as {_short_name(reference)} above")
            return [{"type": target["type"]}] if "type" in target else []
        opened.append(target)
        return [target]


def _add_texts(merged: MergedSchema, part: Schema) -> None:
    text = part.get("description")
    if isinstance(text, str) and text and text not in merged.texts:
        merged.texts.append(text)
    title = part.get("title")
    if merged.title is None and isinstance(title, str) and title:
        merged.title = title


def _add_values(merged: MergedSchema, part: Schema) -> None:
    """`type`, `enum` and `const`: those of both parts must hold. OpenAPI's `nullable` also allows null."""
    nullable = part.get("nullable") is True
    types = part.get("type")
    if types is not None:
        found = [name for name in (types if isinstance(types, list) else [types]) if isinstance(name, str)]
        if nullable and "null" not in found:
            found.append("null")
        merged.types = found if merged.types is None else common_types(merged.types, found)
    values = part.get("enum")
    if isinstance(values, list):
        _restrict(merged, [*values, None] if nullable else values)
    if "const" in part:
        _restrict(merged, [part["const"]])


def _restrict(merged: MergedSchema, values: list[object]) -> None:
    if merged.enum is None:
        merged.enum = distinct(values)
        return
    allowed = {identity(value) for value in values}
    merged.enum = [value for value in merged.enum if identity(value) in allowed]


def _allow_null(merged: MergedSchema) -> None:
    """Generators of OpenAPI write `nullable` beside a reference or an `allOf` and mean the whole."""
    if merged.types is not None and "null" not in merged.types:
        merged.types.append("null")
    if merged.enum is not None and None not in merged.enum:
        merged.enum.append(None)
    if merged.union is not None:
        merged.union = [*merged.union, {"type": "null"}]


def _add_object_keywords(merged: MergedSchema, part: Schema) -> None:
    """`properties`, `required` and `additionalProperties`. The schemas of `patternProperties` become alternatives of
    `additionalProperties`."""
    keywords = merged.keywords
    declared = part.get("properties")
    if isinstance(declared, dict):
        properties = dict(merged.properties)
        for name, schema in declared.items():
            properties[name] = {"allOf": [properties[name], schema]} if name in properties else schema
        keywords["properties"] = properties
    required = part.get("required")
    if isinstance(required, list):
        keywords["required"] = list(dict.fromkeys([*merged.required, *required]))
    extra = part.get("additionalProperties", True)
    patterns = part.get("patternProperties")
    if isinstance(patterns, dict) and patterns:
        merged.add_note("Properties by name: " + "; ".join(f"{name} matches {json_text(schema, 120)}"
                                                      for name, schema in list(patterns.items())[:8]))
        options = [*patterns.values(), *([] if extra is False else [extra])]
        extra = True if any(option in (True, {}) for option in options) else {"anyOf": options}
    if extra is False or (isinstance(extra, dict) and extra):
        known = keywords.get("additionalProperties", True)
        both = extra if known is True else False if known is False or extra is False else {"allOf": [known, extra]}
        keywords["additionalProperties"] = both


def _add_items(merged: MergedSchema, part: Schema) -> None:
    keywords = merged.keywords
    new: Schema = {key: part[key] for key in ("prefixItems", "items") if key in part and part[key] not in (True, {})}
    if not new:
        return
    if "prefixItems" not in new and "prefixItems" not in keywords:
        keywords["items"] = {"allOf": [keywords["items"], new["items"]]} if "items" in keywords else new["items"]
    elif "prefixItems" not in keywords and "items" not in keywords:
        keywords.update(new)
    else:
        merged.add_note(f"Must also match {json_text(new)}")


def _add_bound(merged: MergedSchema, key: str, value: object) -> None:
    if not is_number(value):
        return
    known = merged.keywords.get(key)
    if known is not None:
        value = (max if key in _LOWER else min)(known, value)  # type: ignore[call-overload]
    merged.keywords[key] = value


def _add_one_value(merged: MergedSchema, key: str, value: str) -> None:
    known = merged.keywords.setdefault(key, value)
    if known != value:
        merged.add_note(f"Format: {value}" if key == "format" else f"Must match the regular expression {value}")


def _literals(options: list[object]) -> list[object] | None:
    """The values of a union of literals; None for any other union."""
    values: list[object] = []
    for option in options:
        if not isinstance(option, dict) or not ("const" in option or "enum" in option) or (
                option.keys() - {"const", "enum", "type"}):
            return None
        listed = option.get("enum", [option.get("const")])
        if not isinstance(listed, list) or not listed:
            return None
        values += listed
    return values


def _add_union(merged: MergedSchema, key: str, options: list[object]) -> list[object]:
    """A union of one alternative is a part of the schema. Of two unions the second one becomes a note. Returns further
    parts to merge."""
    possible = [option for option in options if option is not False]
    if len(possible) == 1:
        return possible
    if not possible:
        return [False]
    if key == "anyOf" and any(option in (True, {}) for option in possible):
        return []
    if (values := _literals(possible)) is not None:
        return [{"enum": values}]
    if merged.union is None:
        merged.union, merged.exactly_one = possible, key == "oneOf"
    elif merged.union != possible:
        merged.add_note(f"Must also match {'exactly one' if key == 'oneOf' else 'one'} of {json_text(possible)}")
    return []


def _short_name(reference: object) -> str:
    """The name of a target in a description: `Node` for `#/$defs/Node`."""
    if not isinstance(reference, str) or reference == "#":
        return "the whole"
    return reference.rstrip("/").rpartition("/")[2].lstrip("#")[:80] or "the whole"
