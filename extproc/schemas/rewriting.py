"""JSON Schemas of tools, rewritten for what a provider takes.

`SchemaVisitor` walks a schema and knows which keywords hold schemas; a subclass says what becomes of each keyword.
`clean_schema` applies the rules of the OpenAI format; what holds for the parameters of a function besides is in
`function_schema`. Called by request encoders. The input is never changed; a schema that needs no change comes back as
the same object. Names of properties are data, not keywords: a property may be called "type", "$ref" or "default" and
stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast
from urllib.parse import unquote

from extproc.schemas.portable_regex import portable

Schema = dict[str, object]

MAX_DEPTH = 64
"""Schemas nested deeper than this become `{}`, which allows anything."""

_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_SINGLES = frozenset({"items", "additionalProperties", "additionalItems", "contains", "propertyNames", "not", "if",
                      "then", "else", "unevaluatedItems", "unevaluatedProperties", "contentSchema"})
_DATA = frozenset({"default", "const", "examples", "example", "enum"})
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_TYPE_ALIASES = {
    "str": "string", "text": "string", "char": "string", "varchar": "string", "date": "string", "datetime": "string",
    "uuid": "string", "int": "integer", "int32": "integer", "int64": "integer", "long": "integer", "float": "number",
    "double": "number", "decimal": "number", "bool": "boolean", "dict": "object", "map": "object", "struct": "object",
    "list": "array", "tuple": "array", "set": "array", "none": "null", "nil": "null",
}
_ANYTHING = frozenset({"", "any", "mixed"})
"""What generators write as a type that allows everything."""
_NOTE_LIMIT = 2000


class SchemaVisitor:
    """Walks a schema and copies only what changes."""

    def visit(self, node: object, depth: int = 0) -> Schema | bool:
        """The rewritten schema; what is no schema at all becomes `{}`."""
        if isinstance(node, bool):
            return node
        if not isinstance(node, dict) or depth > MAX_DEPTH:
            return {}
        out: Schema = node
        for key, value in node.items():
            new = self._subschemas(key, value, depth)
            if new is not value:
                out = writable(out, node)
                out[key] = new
        return self.rewrite(out, node)

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        """One schema whose subschemas are done. `out` is `node` itself while nothing changed: copy before writing
        (`writable`)."""
        return out

    def child(self, key: str, name: str | int | None, node: object, depth: int) -> Schema | bool:
        """The subschema in the keyword `key`; `name` is its property or its index where the keyword holds several."""
        return self.visit(node, depth + 1)

    def _subschemas(self, key: str, value: object, depth: int) -> object:
        if key in _MAPS and isinstance(value, dict):
            return _mapped(value, lambda name, node: self.child(key, name, node, depth))
        if isinstance(value, list) and (key in _LISTS or key == "items"):
            return _listed(value, lambda at, node: self.child(key, at, node, depth))
        if key in _SINGLES and value is not None:
            return self.child(key, None, value, depth)
        return value


def writable(out: Schema, node: Schema) -> Schema:
    """`out`, or a shallow copy when it still is the client's own `node`."""
    return dict(node) if out is node else out


class PortablePatterns(SchemaVisitor):
    """Turns regular expressions that only some engines compile into words; all else stays as the client wrote it, even
    where it is no schema."""

    def visit(self, node: object, depth: int = 0) -> Schema | bool:
        return super().visit(node, depth) if isinstance(node, dict) and depth <= MAX_DEPTH else cast(Schema, node)

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        return _patterns(out, node, portable)


class OpenAISchema(SchemaVisitor):
    """What servers of the OpenAI format refuse: draft-4 forms, nulls where a keyword has no value, types outside
    the seven, arrays without items, patterns that not every engine compiles, references that lead nowhere.

    `references`: those of the whole schema; None leaves them as they are."""

    def __init__(self, references: SchemaReferences | None = None) -> None:
        self.references = references

    def fault(self, key: str) -> None:
        """The keyword `key` of this schema says something that cannot be sent: what is sent means something else."""

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        for key in node:
            well_formed = _well_formed(key, out[key])
            if key in ("$schema", "$id") or (out[key] is None and key not in _DATA) or not well_formed:
                if not well_formed and out[key] not in _NOTHING_SAID and key not in ("description", "title"):
                    self.fault(key)
                out = writable(out, node)
                del out[key]
        if self.references is not None and "$ref" in out:
            out = self._reference(out, node, self.references)
        if "type" in out:
            out = self._type(out, node)
        for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(out.get(bound), bool):
                out = _number_bound(writable(out, node), bound, limit)
        if isinstance(out.get("items"), list):
            out = _tuple_items(writable(out, node))
        if "array" in _types(out) and "items" not in out and "prefixItems" not in out:
            out = writable(out, node)
            out["items"] = {}
        return _patterns(out, node, self.regex)

    def regex(self, pattern: str) -> str | None:
        """How a regular expression is written; None: it is told in words."""
        return portable(pattern)

    def _reference(self, out: Schema, node: Schema, references: SchemaReferences) -> Schema:
        """References by name become paths, as `$id` is not sent; those that lead nowhere are told in words."""
        reference = cast(str, out["$ref"])
        path = references.path(reference)
        if path == reference:
            return out
        out = writable(out, node)
        if path is None:
            self.fault("$ref")
            del out["$ref"]
            describe(out, f"Follows the schema {reference}")
        else:
            out["$ref"] = path
        return out

    def _type(self, out: Schema, node: Schema) -> Schema:
        found = _types(out)
        known = list(dict.fromkeys(name for name in map(_type_name, found) if name is not None))
        if known == found and known:
            return out
        if any(_type_name(name) is None and name is not None and not _is_anything(name) for name in found):
            self.fault("type")
        out = writable(out, node)
        if not known:
            del out["type"]
        else:
            out["type"] = known if isinstance(out["type"], list) else known[0]
        return out


def _patterns(out: Schema, node: Schema, written: Callable[[str], str | None]) -> Schema:
    pattern = out.get("pattern")
    if isinstance(pattern, str) and (text := written(pattern)) != pattern:
        out = writable(out, node)
        if text is None:
            del out["pattern"]
            describe(out, f"Must match the regular expression {pattern}")
        else:
            out["pattern"] = text
    keyed = out.get("patternProperties")
    if isinstance(keyed, dict):
        names = {key: written(key) for key in keyed}
        if any(name != key for key, name in names.items()):
            out = writable(out, node)
            out["patternProperties"] = {name: keyed[key] for key, name in names.items() if name is not None}
            wrong = [key for key, name in names.items() if name is None]
            if wrong:
                describe(out, "Further property names match " + " or ".join(wrong))
    return out


_VISITOR = OpenAISchema()


def well_formed(node: Schema) -> Schema:
    """One schema in the words of draft 2020-12, whatever draft and quality it has; its subschemas are left as they
    are. `node` itself when it needs no change."""
    return _VISITOR.rewrite(node, node)


def clean_schema(schema: Schema) -> Schema:
    """A schema that may have any type at its top (structured output)."""
    return cast(Schema, OpenAISchema(SchemaReferences(schema)).visit(schema))


def clean_merged(schema: Schema, original: Schema) -> Schema:
    """`clean_schema` of one whose parts were merged; its references are still those of the `original`."""
    return cast(Schema, OpenAISchema(SchemaReferences(original)).visit(schema))


def fits_strict(schema: object, depth: int = 0) -> bool:
    """Whether `strict: true` may be sent: every object lists all of its properties as required and allows no
    others, and no keyword stands where strict mode refuses it."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return False
    if any(key in schema for key in ("oneOf", "allOf", "not", "if", "patternProperties", "propertyNames", "default")):
        return False
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        return False
    closed = schema.get("additionalProperties") is False and set(required_names(schema)) == set(properties)
    if not closed and ("object" in _types(schema) or properties):
        return False
    children = [*properties.values(), *_values(schema, "$defs"), *_values(schema, "definitions")]
    children += [schema["items"]] if "items" in schema else []
    union = schema.get("anyOf", [])
    return isinstance(union, list) and all(fits_strict(child, depth + 1) for child in [*children, *union])


def resolve_reference(reference: object, root: Schema) -> Schema | None:
    """The target of a local reference such as `#/$defs/Item`, `#/anyOf/0` or `#`, or None."""
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
    """Where the references of one schema lead: by their path, by `$anchor`, by `$id` and by the `id` of draft 4."""

    def __init__(self, root: object) -> None:
        self._root: Schema = root if isinstance(root, dict) else {}
        self._names: dict[str, tuple[Schema, str]] | None = None

    def target(self, reference: object) -> Schema | None:
        """The schema; None when it is nowhere in this document."""
        found = resolve_reference(reference, self._root)
        if found is not None or not isinstance(reference, str):
            return found
        named = self._named(reference)
        return named[0] if named is not None else None

    def path(self, reference: str) -> str | None:
        """The reference as a path from the top; None when it leads nowhere."""
        if resolve_reference(reference, self._root) is not None:
            return reference
        named = self._named(reference)
        return named[1] if named is not None else None

    def _named(self, name: str) -> tuple[Schema, str] | None:
        if self._names is None:
            self._names = _Names().of(self._root)
        return self._names.get(name)


class PlacedVisitor(SchemaVisitor):
    """A visitor that knows where it is: `place` holds the keys from the top."""

    def __init__(self) -> None:
        self.place: list[str] = []

    def child(self, key: str, name: str | int | None, node: object, depth: int) -> Schema | bool:
        before = len(self.place)
        self.place += [key] if name is None else [key, str(name)]
        found = super().child(key, name, node, depth)
        del self.place[before:]
        return found


class _Names(PlacedVisitor):
    """The schemas that can be meant by name, with their paths."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, tuple[Schema, str]] = {}

    def of(self, root: Schema) -> dict[str, tuple[Schema, str]]:
        self.visit(root)
        return self._found

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        for key, mark in (("$anchor", "#"), ("$id", ""), ("id", "")):
            name = node.get(key)
            if isinstance(name, str) and name:
                steps = [step.replace("~", "~0").replace("/", "~1") for step in self.place]
                self._found.setdefault(mark + name, (node, "/".join(["#", *steps])))
        return out


# -------------------------------------------------------------------------------------------------------- small rules


_NOTHING_SAID: tuple[object, ...] = (None, False, "", [], {})
"""Values that say no more of a keyword than its absence, whatever form it should have."""


def _is_anything(name: object) -> bool:
    return isinstance(name, str) and name.lower() in _ANYTHING


def _well_formed(key: str, value: object) -> bool:
    """Whether a keyword's value has a form that servers take."""
    if key == "required":
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    if key in _LISTS or key == "enum":
        return isinstance(value, list) and bool(value)
    if key in _MAPS:
        return isinstance(value, dict)
    if key in ("description", "title", "pattern", "$ref"):
        return isinstance(value, str)
    return True


def _types(schema: Schema) -> list[object]:
    found = schema.get("type")
    return found if isinstance(found, list) else [] if found is None else [found]


def _type_name(found: object) -> str | None:
    if not isinstance(found, str):
        return None
    if found in _TYPES:
        return found
    lower = found.lower()
    return lower if lower in _TYPES else _TYPE_ALIASES.get(lower)


def _number_bound(out: Schema, bound: str, limit: str) -> Schema:
    """Draft 4 wrote `minimum: 3, exclusiveMinimum: true`; later drafts write `exclusiveMinimum: 3`."""
    exclusive = out.pop(bound)
    value = out.get(limit)
    if exclusive and isinstance(value, (int, float)) and not isinstance(value, bool):
        out[bound] = out.pop(limit)
    return out


def _tuple_items(out: Schema) -> Schema:
    """Draft 4 wrote tuples as a list in `items`; later drafts as `prefixItems`."""
    items = out.pop("items")
    if items:
        out["prefixItems"] = items
    if "additionalItems" in out:
        out["items"] = out.pop("additionalItems")
    return out


def describe(schema: Schema, note: str) -> None:
    """Puts a sentence behind the description; changes `schema` itself."""
    old = schema.get("description")
    note = note[:_NOTE_LIMIT]
    schema["description"] = f"{old}\n{note}." if isinstance(old, str) and old else f"{note}."


def entries(schema: Schema, key: str) -> list[tuple[str, object]]:
    """What a map of schemas holds, such as `properties`; nothing where it is none."""
    value = schema.get(key)
    return list(value.items()) if isinstance(value, dict) else []


def _values(schema: Schema, key: str) -> list[object]:
    return [child for _, child in entries(schema, key)]


def required_names(schema: Schema) -> list[str]:
    """What of `required` is names."""
    value = schema.get("required")
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _mapped(value: dict[str, object], change: Callable[[str, object], object]) -> dict[str, object]:
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
