"""The parameters of a function -> a schema that is an object and says so at its top.

The OpenAI API refuses `$ref`, `anyOf`, `oneOf`, `allOf`, `enum`, `const` and `not` there. What they said is merged into
the one object, or told in its description. Called by request encoders, for tools; an answer's schema may have any form
at its top. The input is never changed, and comes back as the same object where it needs no change.
"""

from __future__ import annotations

import msgspec

from extproc.schemas.rewriting import (
    MAX_DEPTH,
    Schema,
    clean_merged,
    describe,
    entries,
    required_names,
    resolve_reference,
)


def clean_parameters(schema: Schema) -> Schema:
    """The parameters of a function: type object with properties, and none of $ref, anyOf, oneOf, allOf, enum, const
    and not at the top, where the OpenAI API refuses them. What they said is merged or goes into the description, so
    that the model still knows it. Idempotent."""
    return _object_on_top(clean_merged(_TopMerger(schema).merge(schema), schema))


def _object_on_top(schema: Schema) -> Schema:
    wrong_type = schema.get("type") != "object"
    if not wrong_type and isinstance(schema.get("properties"), dict):
        return schema
    out = dict(schema)
    if wrong_type:
        out = {"type": "object", **{key: value for key, value in schema.items() if key not in ("type", "items")}}
    out.setdefault("properties", {})
    return out


class _TopMerger:
    """Takes $ref, allOf, anyOf, oneOf, enum, const and not away from the top of a schema: follows the reference,
    merges the branches, and tells the rest in words. References are followed a bounded number of times, because
    they may be circular or fan out."""

    _COMBINATIONS = ("allOf", "anyOf", "oneOf")
    _VALUES = (("enum", "The arguments are one of "), ("const", "The arguments are "),
               ("not", "The arguments must not match "))

    def __init__(self, root: Schema) -> None:
        self._root = root
        self._follows = 200

    def merge(self, schema: Schema, depth: int = 0) -> Schema:
        """`schema` itself when its top holds none of these."""
        if depth > MAX_DEPTH:
            return {}
        out = schema
        notes: list[str] = []
        while "$ref" in out:
            out = self._follow(out, notes)
        for key, words in self._VALUES:
            if key in out:
                if out[key] is not None:
                    notes.append(words + _json(out[key]))
                out = _without(out, key)
        for key in self._COMBINATIONS:
            if key in out:
                out = self._merge_branches(out, key, notes, depth)
        if notes:
            out = dict(out)
            for note in notes:
                describe(out, note)
        return out

    def _follow(self, schema: Schema, notes: list[str]) -> Schema:
        rest = _without(schema, "$ref")
        self._follows -= 1
        target = resolve_reference(schema["$ref"], self._root) if self._follows > 0 else None
        if target is None:
            if isinstance(schema["$ref"], str):
                notes.append(f"The arguments follow the schema {schema['$ref']}")
            return rest
        return {**target, **rest}

    def _merge_branches(self, schema: Schema, key: str, notes: list[str], depth: int) -> Schema:
        """The branches' properties become the schema's own; required is what every branch (allOf: any branch)
        requires. What anyOf and oneOf demand beyond that is told in words."""
        branches = schema[key]
        out = _without(schema, key)
        if not isinstance(branches, list):
            return out
        flat = [self.merge(branch, depth + 1) for branch in branches if isinstance(branch, dict)]
        properties = dict(entries(out, "properties"))
        for branch in flat:
            for name, child in entries(branch, "properties"):
                properties[name] = _either(properties[name], child) if name in properties else child
            for table in ("$defs", "definitions"):
                if _is_map(branch, table):
                    out[table] = {**dict(entries(branch, table)), **dict(entries(out, table))}
        if key == "allOf":
            demanded = [name for branch in flat for name in required_names(branch)]
            for branch in flat:
                for name, value in branch.items():
                    if name not in ("type", "properties", "required", "$defs", "definitions"):
                        out.setdefault(name, value)
        else:
            demanded = _shared_demands(flat, key, notes)
            if len(flat) > 1:
                out.pop("additionalProperties", None)
        required = list(dict.fromkeys([*required_names(out), *demanded]))
        if properties:
            out["properties"] = properties
        if required:
            out["required"] = required
        return out


def _shared_demands(branches: list[Schema], key: str, notes: list[str]) -> list[str]:
    """The names that all branches require; a note tells the sets when they differ."""
    demands = [required_names(branch) for branch in branches]
    if not demands:
        return []
    if any(demand != demands[0] for demand in demands):
        word = "exactly one" if key == "oneOf" else "at least one"
        notes.append(f"The arguments must have {word} of these sets of properties: "
                     + "; ".join(", ".join(demand) or "none" for demand in demands))
    return [name for name in demands[0] if all(name in other for other in demands[1:])]


def _without(schema: Schema, key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}


def _either(first: object, second: object) -> object:
    if first == second:
        return first
    options = first["anyOf"] if isinstance(first, dict) and list(first) == ["anyOf"] else [first]
    if not isinstance(options, list):
        options = [first]
    return first if second in options else {"anyOf": [*options, second]}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _is_map(schema: Schema, key: str) -> bool:
    return isinstance(schema.get(key), dict)
