"""Folds alternatives of objects into one object.

Needed where a schema may not have an `anyOf` (the top of a function's parameters), and where a copy of the schema for
each alternative would cost too much. The folded schema accepts whatever one of the alternatives accepts: a property
that some alternative does not declare may have any value, and a property is required only if all of them require it.
Notes say what is lost.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.schemas.gemini.merged_schema import MergedSchema
from extproc.schemas.gemini.values import json_text
from extproc.schemas.visitor import Schema

_ENCODER = msgspec.json.Encoder()
_MAX_OPEN_BRANCHES = 64
"""Alternatives with undeclared properties that are combined; if there are more, such a property may have any value."""
_FOLDED_KEYWORDS = frozenset({"properties", "required", "additionalProperties"})
_MAX_NESTED = 8
"""Depth of alternatives inside alternatives that are folded; deeper ones become a note."""


def fold_alternatives(merged: MergedSchema, merge: Callable[[object], MergedSchema], depth: int = 0) -> MergedSchema:
    """Removes the union of `merged`, in place, and returns `merged`. Alternatives that are not objects are left out,
    because the caller wants an object."""
    options = merged.union
    merged.union = None
    if options is None:
        return merged
    branches = [merge(option) for option in options] if depth < _MAX_NESTED else []
    branches = [fold_alternatives(branch, merge, depth + 1) for branch in branches
                if not branch.never and (branch.types is None or "object" in branch.types)]
    if not branches:
        if depth >= _MAX_NESTED:
            merged.add_note(f"Must also match one of {json_text(options)}")
        return merged
    _fold_properties(merged, branches)
    _fold_required(merged, branches)
    extras = [branch.keywords.get("additionalProperties", True) for branch in branches]
    if "additionalProperties" not in merged.keywords and all(extra is False for extra in extras):
        merged.keywords["additionalProperties"] = False
    if len(branches) == 1:
        merged.texts += [text for text in branches[0].texts if text not in merged.texts]
    _note_branches(merged, branches)
    return merged


def _fold_properties(merged: MergedSchema, branches: list[MergedSchema]) -> None:
    own = merged.properties
    declaring: dict[str, list[MergedSchema]] = {}
    for branch in branches:
        for name in branch.properties:
            declaring.setdefault(name, []).append(branch)
    open_branches = [(branch, extra) for branch in branches
                     if (extra := branch.keywords.get("additionalProperties", True)) is not False]
    folded: Schema = dict(own)
    for name, declared_in in declaring.items():
        either = _fold_property(name, declared_in, open_branches)
        folded[name] = {"allOf": [own[name], either]} if name in own else either
    if folded:
        merged.keywords["properties"] = folded


def _fold_property(name: str, declared_in: list[MergedSchema],
                   open_branches: list[tuple[MergedSchema, object]]) -> Schema:
    """One property's schema from the branches that declare it and from the open ones, which allow undeclared
    properties: pairs of branch and `additionalProperties`."""
    declared = [branch.properties[name] for branch in declared_in]
    silent = len(open_branches) - sum(branch.keywords.get("additionalProperties", True) is not False
                                      for branch in declared_in)
    if silent:
        undeclared: list[object] = [True]
        if silent <= _MAX_OPEN_BRANCHES:
            undeclared = [extra for branch, extra in open_branches if name not in branch.properties]
        if True in undeclared:
            return _free_with_hint(_distinct_schemas(declared))
        declared += undeclared
    return {"anyOf": _distinct_schemas(declared)}


def _free_with_hint(given: list[object]) -> Schema:
    """A schema of any value, whose description says what the branches declare."""
    out: Schema = {}
    for schema in given:
        if isinstance(schema, dict) and isinstance(text := schema.get("description"), str):
            out.setdefault("description", text)
    bare = [text for schema in given[:4] if (text := _without_texts(schema)) not in (True, {})]
    if bare:
        hint = "Usually " + " or ".join(json_text(schema, 120) for schema in bare)
        out["description"] = f"{out['description']}\n{hint}." if "description" in out else f"{hint}."
    return out


def _distinct_schemas(schemas: list[object]) -> list[object]:
    return list({_ENCODER.encode(schema): schema for schema in schemas}.values())


def _without_texts(schema: object) -> object:
    if not isinstance(schema, dict):
        return schema
    return {key: value for key, value in schema.items() if key not in ("description", "title")}


def _fold_required(merged: MergedSchema, branches: list[MergedSchema]) -> None:
    demands = [branch.required for branch in branches]
    sets = [set(demand) for demand in demands]
    everywhere = set.intersection(*sets)
    shared = [name for name in demands[0] if name in everywhere]
    if any(demand != sets[0] for demand in sets):
        word = "exactly one" if merged.exactly_one else "at least one"
        merged.add_note(f"Must have {word} of these sets of properties: "
                   + "; ".join(", ".join(demand) or "none" for demand in demands[:16]))
    names = list(dict.fromkeys([*merged.required, *shared]))
    if names:
        merged.keywords["required"] = names


def _note_branches(merged: MergedSchema, branches: list[MergedSchema]) -> None:
    for branch in branches:
        if rest := {key: value for key, value in branch.keywords.items() if key not in _FOLDED_KEYWORDS}:
            branch.add_note(f"Must match {json_text(rest, 120)}")
    if len(branches) == 1:
        for note in branches[0].notes:
            merged.add_note(note)
        return
    for branch in branches[:16]:
        text = " ".join([*branch.texts, *branch.notes])[:200]
        names = ", ".join(branch.required or list(branch.properties)) or "nothing"
        if text:
            merged.add_note(f"With {names}: {text.rstrip('.')}")
