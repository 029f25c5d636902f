"""The parameters of a function: a schema whose top is an object.

The OpenAI API refuses `$ref`, `anyOf`, `oneOf`, `allOf`, `enum`, `const` and `not` at the top. `clean_parameters`
merges what they say into the one object, or puts it into the description, so that the model still knows it. Called by
request encoders, for tools; the schema of structured output may have any form at its top (`clean_schema`).
"""

from __future__ import annotations

import msgspec

from extproc.schemas.openai import clean_schema
from extproc.schemas.references import SchemaReferences
from extproc.schemas.visitor import MAX_DEPTH, Schema, describe, required_names, subschemas

_MAX_FOLLOWED = 200
"""References that are followed at the top: they may be circular or fan out."""
_VALUE_NOTES = (("enum", "The arguments are one of "), ("const", "The arguments are "),
                ("not", "The arguments must not match "))


def clean_parameters(schema: Schema) -> Schema:
    """The parameters of a function, with type `object` and `properties` at the top. Idempotent. The input is never
    changed, and comes back as the same object if it needs no change."""
    return _with_object_on_top(clean_schema(_TopMerger(schema).merge(schema), original=schema))


def _with_object_on_top(schema: Schema) -> Schema:
    wrong_type = schema.get("type") != "object"
    if not wrong_type and isinstance(schema.get("properties"), dict):
        return schema
    out = dict(schema)
    if wrong_type:
        out = {"type": "object", **{key: value for key, value in schema.items() if key not in ("type", "items")}}
    out.setdefault("properties", {})
    return out


class _TopMerger:
    """Removes the refused keywords from the top of a schema: follows the reference, merges the branches, and describes
    the rest."""

    def __init__(self, root: Schema) -> None:
        self._references = SchemaReferences(root)
        self._follows = _MAX_FOLLOWED

    def merge(self, schema: Schema, depth: int = 0) -> Schema:
        """Returns `schema` itself if its top has none of the keywords."""
        if depth > MAX_DEPTH:
            return {}
        out = schema
        notes: list[str] = []
        while "$ref" in out:
            out = self._follow_reference(out, notes)
        for key, words in _VALUE_NOTES:
            if key in out:
                if out[key] is not None:
                    notes.append(words + _json(out[key]))
                out = _without(out, key)
        for key in ("allOf", "anyOf", "oneOf"):
            if key in out:
                out = self._merge_branches(out, key, notes, depth)
        if notes:
            out = dict(out)
            for note in notes:
                describe(out, note)
        return out

    def _follow_reference(self, schema: Schema, notes: list[str]) -> Schema:
        rest = _without(schema, "$ref")
        self._follows -= 1
        target = self._references.target(schema["$ref"]) if self._follows > 0 else None
        if target is None:
            if isinstance(schema["$ref"], str):
                notes.append(f"The arguments follow the schema {schema['$ref']}")
            return rest
        return {**target, **rest}

    def _merge_branches(self, schema: Schema, key: str, notes: list[str], depth: int) -> Schema:
        """The properties of the branches join the schema's own. A name is required if every branch requires it; in
        `allOf`, if one does. What `anyOf` and `oneOf` demand beyond that is described."""
        branches = schema[key]
        out = _without(schema, key)
        if not isinstance(branches, list):
            return out
        merged = [self.merge(branch, depth + 1) for branch in branches if isinstance(branch, dict)]
        properties = dict(subschemas(out, "properties"))
        for branch in merged:
            for name, child in subschemas(branch, "properties").items():
                properties[name] = _either(properties[name], child) if name in properties else child
            for table in ("$defs", "definitions"):
                if isinstance(branch.get(table), dict):
                    out[table] = {**subschemas(branch, table), **subschemas(out, table)}
        if key == "allOf":
            demanded = [name for branch in merged for name in required_names(branch)]
            for branch in merged:
                for name, value in branch.items():
                    if name not in ("type", "properties", "required", "$defs", "definitions"):
                        out.setdefault(name, value)
        else:
            demanded = _shared_demands(merged, key, notes)
            if len(merged) > 1:
                out.pop("additionalProperties", None)
        required = list(dict.fromkeys([*required_names(out), *demanded]))
        if properties:
            out["properties"] = properties
        if required:
            out["required"] = required
        return out


def _shared_demands(branches: list[Schema], key: str, notes: list[str]) -> list[str]:
    """The names that all branches require. A note lists the sets if they differ."""
    demands = [required_names(branch) for branch in branches]
    if not demands:
        return []
    if any(demand != demands[0] for demand in demands):
        word = "exactly one" if key == "oneOf" else "at least one"
        notes.append(f"The arguments must have {word} of these sets of properties: "
                     + "; ".join(", ".join(demand) or "none" for demand in demands))
    return [name for name in demands[0] if all(name in other for other in demands[1:])]


def _either(first: object, second: object) -> object:
    """A schema that accepts what either of two accepts."""
    if first == second:
        return first
    options = first["anyOf"] if isinstance(first, dict) and list(first) == ["anyOf"] else [first]
    if not isinstance(options, list):
        options = [first]
    return first if second in options else {"anyOf": [*options, second]}


def _without(schema: Schema, key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
