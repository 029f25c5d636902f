"""One schema with all that its references and its `allOf` say, as one set of keywords: its `Facts`.

The rewriters of both target forms start from these. Merging never demands more than the schema did: where two parts
cannot be put into one keyword, the first one stands and the other becomes a note, which ends in the description. The
subschemas are left as they are (two schemas of one property become an `allOf`, merged when their turn comes).
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.schemas.gemini.notes import ANNOTATIONS, notes_of
from extproc.schemas.gemini.references import References, short_name
from extproc.schemas.gemini.values import admits, common_types, distinct, identity, is_number, json_text
from extproc.schemas.rewriting import Schema, well_formed

PARTS = 64
"""So many parts of one schema are merged; what comes after them is left out (a weaker schema, never a wrong one)."""

_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_FIRST = ("format", "pattern")


class Facts:
    """What one schema says.

    `keywords` holds the keywords of draft 2020-12 that may have a place in a target form, without `type` and `enum`.
    `types` None: any; empty: no value can match. `union`: the alternatives of which one must match, None for none.
    `texts`: its descriptions. `notes`: sentences without full stop on what the keywords do not say.
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
        """No value can match."""
        return self.types == [] or self.enum == []

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def as_schema(self) -> Schema:
        """The keywords as a schema that can be merged once more; without texts, notes and alternatives."""
        out: Schema = dict(self.keywords)
        if self.types is not None:
            out["type"] = self.types or ["null"]
        if self.enum is not None:
            out["enum"] = self.enum
        return out


class Merger:
    """Makes facts. `spend` is told of every part that was read, for the bound on the whole rewriting."""

    def __init__(self, references: References, spend: Callable[[int], None]) -> None:
        self._references = references
        self._spend = spend

    def merge(self, schema: object, opened: list[Schema]) -> Facts:
        """`opened` receives the targets of references that stay open until the caller has done the subschemas."""
        facts = Facts()
        pending = [schema]
        for _ in range(PARTS):
            if not pending:
                break
            part = pending.pop()
            self._spend(8)
            if part is False:
                facts.types = []
            elif isinstance(part, dict):
                self._spend(sum(len(value) for value in part.values() if isinstance(value, (dict, list))))
                pending.extend(reversed(self._add(facts, well_formed(part), opened)))
        if isinstance(schema, dict) and schema.get("nullable") is True:
            _allow_null(facts)
        if facts.enum is not None:
            facts.enum = [value for value in facts.enum if admits(facts.types, value)]
        return facts

    def _add(self, facts: Facts, part: Schema, opened: list[Schema]) -> list[object]:
        """Adds one part; returns those that it is made of besides."""
        if "$ref" in part and self._references.stand_alone:
            part = {key: value for key, value in part.items() if key == "$ref" or key in ANNOTATIONS}
        _add_texts(facts, part)
        _add_values(facts, part)
        _add_extra(facts, part)
        _add_items(facts, part)
        for key, value in part.items():
            if key in _LOWER or key in _UPPER:
                _add_bound(facts, key, value)
            elif key in _FIRST and isinstance(value, str):
                _add_first(facts, key, value)
        for note in notes_of(part):
            facts.note(note)
        further: list[object] = []
        if "$ref" in part:
            further += self._referred(facts, part["$ref"], opened)
        if isinstance(branches := part.get("allOf"), list):
            further += branches
        for key in ("anyOf", "oneOf"):
            if isinstance(options := part.get(key), list):
                further += _add_union(facts, key, options)
        return further

    def _referred(self, facts: Facts, reference: object, opened: list[Schema]) -> list[object]:
        target = self._references.target(reference)
        if target is None:
            facts.note(f"Follows the schema {json_text(reference)}")
            return []
        if any(target is other for other in opened):
            return []  # A circle without anything between: it says nothing more.
        if not self._references.enter(target):
            facts.note(f"Has the same form as {short_name(reference)} above")
            return [{"type": target["type"]}] if "type" in target else []
        opened.append(target)
        return [target]


def _add_texts(facts: Facts, part: Schema) -> None:
    text = part.get("description")
    if isinstance(text, str) and text and text not in facts.texts:
        facts.texts.append(text)
    title = part.get("title")
    if facts.title is None and isinstance(title, str) and title:
        facts.title = title


def _add_values(facts: Facts, part: Schema) -> None:
    """`type`, `enum` and `const`: both parts' must hold. OpenAPI's `nullable` allows null beside them."""
    nullable = part.get("nullable") is True
    types = part.get("type")
    if types is not None:
        found = [name for name in (types if isinstance(types, list) else [types]) if isinstance(name, str)]
        if nullable and "null" not in found:
            found.append("null")
        facts.types = found if facts.types is None else common_types(facts.types, found)
    values = part.get("enum")
    if isinstance(values, list):
        _restrict(facts, [*values, None] if nullable else values)
    if "const" in part:
        _restrict(facts, [part["const"]])


def _restrict(facts: Facts, values: list[object]) -> None:
    if facts.enum is None:
        facts.enum = distinct(values)
        return
    allowed = {identity(value) for value in values}
    facts.enum = [value for value in facts.enum if identity(value) in allowed]


def _allow_null(facts: Facts) -> None:
    """`nullable` beside a reference or an `allOf` is meant for the whole, as generators of OpenAPI write it."""
    if facts.types is not None and "null" not in facts.types:
        facts.types.append("null")
    if facts.enum is not None and None not in facts.enum:
        facts.enum.append(None)
    if facts.union is not None:
        facts.union = [*facts.union, {"type": "null"}]


def _add_extra(facts: Facts, part: Schema) -> None:
    """`properties`, `required`, and the schema of all further properties. Patterns of names join the latter: what
    has a name of neither kind must match `additionalProperties`, what matches a pattern that pattern's schema."""
    keywords = facts.keywords
    declared = part.get("properties")
    if isinstance(declared, dict):
        known = keywords.get("properties")
        merged = dict(known) if isinstance(known, dict) else {}
        for name, schema in declared.items():
            merged[name] = {"allOf": [merged[name], schema]} if name in merged else schema
        keywords["properties"] = merged
    required = part.get("required")
    if isinstance(required, list):
        known_names = keywords.get("required")
        keywords["required"] = list(dict.fromkeys([*(known_names if isinstance(known_names, list) else []), *required]))
    extra = part.get("additionalProperties", True)
    patterns = part.get("patternProperties")
    if isinstance(patterns, dict) and patterns:
        facts.note("Properties by name: " + "; ".join(f"{name} matches {json_text(schema, 120)}"
                                                      for name, schema in list(patterns.items())[:8]))
        options = [*patterns.values(), *([] if extra is False else [extra])]
        extra = True if any(option in (True, {}) for option in options) else {"anyOf": options}
    if extra is False or (isinstance(extra, dict) and extra):
        known = keywords.get("additionalProperties", True)
        both = extra if known is True else False if known is False or extra is False else {"allOf": [known, extra]}
        keywords["additionalProperties"] = both


def _add_items(facts: Facts, part: Schema) -> None:
    keywords = facts.keywords
    new: Schema = {key: part[key] for key in ("prefixItems", "items") if key in part and part[key] not in (True, {})}
    if not new:
        return
    if "prefixItems" not in new and "prefixItems" not in keywords:
        keywords["items"] = {"allOf": [keywords["items"], new["items"]]} if "items" in keywords else new["items"]
    elif "prefixItems" not in keywords and "items" not in keywords:
        keywords.update(new)
    else:
        facts.note(f"Must also match {json_text(new)}")


def _add_bound(facts: Facts, key: str, value: object) -> None:
    if not is_number(value):
        return
    known = facts.keywords.get(key)
    if known is not None:
        value = (max if key in _LOWER else min)(known, value)  # type: ignore[call-overload]
    facts.keywords[key] = value


def _add_first(facts: Facts, key: str, value: str) -> None:
    known = facts.keywords.setdefault(key, value)
    if known != value:
        facts.note(f"Format: {value}" if key == "format" else f"Must match the regular expression {value}")


def _only_values(options: list[object]) -> list[object] | None:
    """The values of alternatives that are nothing but values, as unions of literals are written."""
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


def _add_union(facts: Facts, key: str, options: list[object]) -> list[object]:
    """One alternative is no choice, so it is a part; of two choices the second one is told in words."""
    possible = [option for option in options if option is not False]
    if len(possible) == 1:
        return possible
    if not possible:
        return [False]
    if key == "anyOf" and any(option in (True, {}) for option in possible):
        return []
    if (values := _only_values(possible)) is not None:
        return [{"enum": values}]
    if facts.union is None:
        facts.union, facts.exactly_one = possible, key == "oneOf"
    elif facts.union != possible:
        facts.note(f"Must also match {'exactly one' if key == 'oneOf' else 'one'} of {json_text(possible)}")
    return []
