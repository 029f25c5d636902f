"""Alternatives of objects folded into one object, for places where a schema may hold no `anyOf` (the top of a
function's parameters) or where copies of it for every alternative would cost too much.

The folded schema accepts whatever one of the alternatives accepts: a property that some alternative says nothing about
may be anything there, and required is only what all of them require. What is lost stands in the notes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.schemas.gemini.merging import Facts
from extproc.schemas.gemini.values import json_text
from extproc.schemas.rewriting import Schema

_ENCODER = msgspec.json.Encoder()
_EXTRAS = 64
"""Alternatives that describe unnamed properties are looked into up to so many; more count as allowing anything."""
_FOLDED = frozenset({"properties", "required", "additionalProperties"})
_DEPTH = 8
"""Alternatives inside alternatives are folded so deep; below that they count as saying nothing."""


def folded(facts: Facts, merge: Callable[[object], Facts], depth: int = 0) -> Facts:
    """`facts` without its union; the same object, changed. Alternatives that are no objects are left out when there
    are others: whoever calls wants an object."""
    options = facts.union
    facts.union = None
    if options is None:
        return facts
    branches = [merge(option) for option in options] if depth < _DEPTH else []
    branches = [folded(branch, merge, depth + 1) for branch in branches
                if not branch.never and (branch.types is None or "object" in branch.types)]
    if not branches:
        if depth >= _DEPTH:
            facts.note(f"Must also match one of {json_text(options)}")
        return facts
    _fold_properties(facts, branches)
    _fold_required(facts, branches)
    extras = [branch.keywords.get("additionalProperties", True) for branch in branches]
    if "additionalProperties" not in facts.keywords and all(extra is False for extra in extras):
        facts.keywords["additionalProperties"] = False
    if len(branches) == 1:
        facts.texts += [text for text in branches[0].texts if text not in facts.texts]
    _note_branches(facts, branches)
    return facts


def _fold_properties(facts: Facts, branches: list[Facts]) -> None:
    own = properties(facts)
    having: dict[str, list[Facts]] = {}
    for branch in branches:
        for name in properties(branch):
            having.setdefault(name, []).append(branch)
    extras = [(branch, extra) for branch in branches
              if (extra := branch.keywords.get("additionalProperties", True)) is not False]
    merged: Schema = dict(own)
    for name, givers in having.items():
        wanted = _wanted(name, givers, extras)
        merged[name] = {"allOf": [own[name], wanted]} if name in own else wanted
    if merged:
        facts.keywords["properties"] = merged


def _wanted(name: str, givers: list[Facts], extras: list[tuple[Facts, object]]) -> Schema:
    """What the alternatives want of one property: those that declare it, and those that let others pass."""
    given = [properties(branch)[name] for branch in givers]
    silent = len(extras) - sum(branch.keywords.get("additionalProperties", True) is not False for branch in givers)
    if silent:
        # Branches that say nothing of the name; a hint remains of what the others say.
        others = [extra for branch, extra in extras if name not in properties(branch)] if silent <= _EXTRAS else [True]
        if True in others:
            return _hint(_different(given))
        given += others
    return {"anyOf": _different(given)}


def _hint(given: list[object]) -> Schema:
    out: Schema = {}
    for schema in given:
        if isinstance(schema, dict) and isinstance(text := schema.get("description"), str):
            out.setdefault("description", text)
    plain = [text for schema in given[:4] if (text := _without_text(schema)) not in (True, {})]
    if plain:
        hint = "Usually " + " or ".join(json_text(schema, 120) for schema in plain)
        out["description"] = f"{out['description']}\n{hint}." if "description" in out else f"{hint}."
    return out


def _different(schemas: list[object]) -> list[object]:
    return list({_ENCODER.encode(schema): schema for schema in schemas}.values())


def _without_text(schema: object) -> object:
    if not isinstance(schema, dict):
        return schema
    return {key: value for key, value in schema.items() if key not in ("description", "title")}


def _fold_required(facts: Facts, branches: list[Facts]) -> None:
    demands = [required(branch) for branch in branches]
    sets = [set(demand) for demand in demands]
    everywhere = set.intersection(*sets)
    shared = [name for name in demands[0] if name in everywhere]
    if any(demand != sets[0] for demand in sets):
        word = "exactly one" if facts.exactly_one else "at least one"
        facts.note(f"Must have {word} of these sets of properties: "
                   + "; ".join(", ".join(demand) or "none" for demand in demands[:16]))
    names = list(dict.fromkeys([*required(facts), *shared]))
    if names:
        facts.keywords["required"] = names


def _note_branches(facts: Facts, branches: list[Facts]) -> None:
    for branch in branches:
        if rest := {key: value for key, value in branch.keywords.items() if key not in _FOLDED}:
            branch.note(f"Must match {json_text(rest, 120)}")
    if len(branches) == 1:
        for note in branches[0].notes:
            facts.note(note)
        return
    for branch in branches[:16]:
        told = " ".join([*branch.texts, *branch.notes])[:200]
        names = ", ".join(required(branch) or list(properties(branch))) or "nothing"
        if told:
            facts.note(f"With {names}: {told.rstrip('.')}")


def properties(facts: Facts) -> Schema:
    found = facts.keywords.get("properties")
    return found if isinstance(found, dict) else {}


def required(facts: Facts) -> list[str]:
    found = facts.keywords.get("required")
    return found if isinstance(found, list) else []
