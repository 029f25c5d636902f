"""The walk through a JSON Schema that all rewriting shares.

`SchemaVisitor` knows which keywords hold subschemas; a subclass says what becomes of each schema. The input is never
changed; a schema that needs no change comes back as the same object. Names of properties are data, not keywords: a
property may be called "type", "$ref" or "default" and stays.

Gemini's writers (`gemini/writer.py`) do not use this walk: they merge the parts of a schema before they write it.
"""

from __future__ import annotations

from collections.abc import Callable

Schema = dict[str, object]

MAX_DEPTH = 64
"""Schemas nested deeper than this become `{}`, which allows anything."""

SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that hold subschemas by name."""
SCHEMA_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
"""Keywords that hold a list of subschemas. `items` of draft 4 may hold one, too."""
_SINGLE_SCHEMAS = frozenset({"items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not",
                             "if", "then", "else", "unevaluatedItems", "unevaluatedProperties", "contentSchema"})
_NOTE_LIMIT = 2000


class SchemaVisitor:
    """Walks a schema from the leaves to the top, and copies only what changes."""

    def visit(self, node: object, depth: int = 0) -> Schema | bool:
        """The rewritten schema; anything that is not a schema becomes `{}`."""
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict) or depth > MAX_DEPTH:
            return {}
        out: Schema = node
        for key, value in node.items():
            new = self._visit_keyword(key, value, depth)
            if new is not value:
                out = writable(out, node)
                out[key] = new
        return self.rewrite(out, node)

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        """Rewrites one schema after its subschemas. `out` is `node` itself while nothing has changed: copy it before
        writing (`writable`)."""
        return out

    def visit_child(self, key: str, name: str | int | None, node: object, depth: int) -> Schema | bool:
        """Rewrites the subschema in the keyword `key`. `name`: its property or index if the keyword holds several.
        `depth`: that of the schema around it."""
        return self.visit(node, depth + 1)

    def _visit_keyword(self, key: str, value: object, depth: int) -> object:
        if key in SCHEMA_MAPS and isinstance(value, dict):
            return _mapped(value, lambda name, node: self.visit_child(key, name, node, depth))
        if isinstance(value, list) and (key in SCHEMA_LISTS or key == "items"):
            return _listed(value, lambda at, node: self.visit_child(key, at, node, depth))
        if key in _SINGLE_SCHEMAS and value is not None:
            return self.visit_child(key, None, value, depth)
        return value


class PathVisitor(SchemaVisitor):
    """A visitor that knows its place: `path` holds the keys from the top."""

    def __init__(self) -> None:
        self.path: list[str] = []

    def visit_child(self, key: str, name: str | int | None, node: object, depth: int) -> Schema | bool:
        before = len(self.path)
        self.path += [key] if name is None else [key, str(name)]
        found = super().visit_child(key, name, node, depth)
        del self.path[before:]
        return found


def writable(out: Schema, node: Schema) -> Schema:
    """`out`, or a shallow copy if it still is the client's own `node`."""
    return dict(node) if out is node else out


def describe(schema: Schema, note: str) -> None:
    """Appends a sentence to the description of `schema`, in place. At most 2,000 characters of `note` are used."""
    old = schema.get("description")
    note = note[:_NOTE_LIMIT]
    schema["description"] = f"{old}\n{note}." if isinstance(old, str) and old else f"{note}."


def subschemas(schema: Schema, key: str) -> Schema:
    """A map of schemas such as `properties`; empty if the keyword is absent or malformed."""
    value = schema.get(key)
    return value if isinstance(value, dict) else {}


def required_names(schema: Schema) -> list[str]:
    """The strings in `required`."""
    value = schema.get("required")
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _mapped(value: Schema, change: Callable[[str, object], object]) -> Schema:
    out = value
    for name, child in value.items():
        new = change(name, child)
        if new is not child:
            if out is value:
                out = dict(value)
            out[name] = new
    return out


def _listed(value: list[object], change: Callable[[int, object], object]) -> list[object]:
    out = [change(at, child) for at, child in enumerate(value)]
    return value if all(new is old for new, old in zip(out, value, strict=True)) else out
