"""JSON Schemas of tools, rewritten for what a provider takes.

`SchemaVisitor` walks a schema and knows which keywords hold schemas; a subclass says what becomes of each keyword.
`clean_schema` applies the rules of the OpenAI format; what holds for the parameters of a function besides is in
`function_schema`. Called by request encoders. The input is never changed; a schema that needs no change comes back as
the same object. Names of properties are data, not keywords: a property may be called "type", "$ref" or "default" and
stays.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import cast
from urllib.parse import unquote

from extproc.remembered import remembered

Schema = dict[str, object]

MAX_DEPTH = 64
"""Schemas nested deeper than this become `{}`, which allows anything."""

LONGEST_PATTERN = 1000
"""Characters of a pattern that is looked at. To compile one takes 2 us for each of them, and Python remembers it."""

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

    def _subschemas(self, key: str, value: object, depth: int) -> object:
        if key in _MAPS and isinstance(value, dict):
            return _mapped(value, lambda child: self.visit(child, depth + 1))
        if isinstance(value, list) and (key in _LISTS or key == "items"):
            return _listed(value, lambda child: self.visit(child, depth + 1))
        if key in _SINGLES and value is not None:
            return self.visit(value, depth + 1)
        return value


def writable(out: Schema, node: Schema) -> Schema:
    """`out`, or a shallow copy when it still is the client's own `node`."""
    return dict(node) if out is node else out


class OpenAISchema(SchemaVisitor):
    """What servers of the OpenAI format refuse: draft-4 forms, nulls where a keyword has no value, types outside
    the seven, arrays without items, patterns that are no regular expression for them."""

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        for key in node:
            if key in ("$schema", "$id") or (out[key] is None and key not in _DATA) or not _well_formed(key, out[key]):
                out = writable(out, node)
                del out[key]
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
        return self._patterns(out, node)

    def _type(self, out: Schema, node: Schema) -> Schema:
        found = _types(out)
        known = list(dict.fromkeys(name for name in map(_type_name, found) if name is not None))
        if known == found and known:
            return out
        out = writable(out, node)
        if not known:
            del out["type"]
        else:
            out["type"] = known if isinstance(out["type"], list) else known[0]
        return out

    def _patterns(self, out: Schema, node: Schema) -> Schema:
        pattern = out.get("pattern")
        if isinstance(pattern, str) and not _is_regex(pattern):
            out = writable(out, node)
            del out["pattern"]
            describe(out, f"Must match the regular expression {pattern}")
        keyed = out.get("patternProperties")
        if isinstance(keyed, dict):
            wrong = [key for key in keyed if not _is_regex(key)]
            if wrong:
                out = writable(out, node)
                out["patternProperties"] = {key: child for key, child in keyed.items() if key not in wrong}
                describe(out, "Further property names match " + " or ".join(wrong))
        return out


_VISITOR = OpenAISchema()


def well_formed(node: Schema) -> Schema:
    """One schema in the words of draft 2020-12, whatever draft and quality it has; its subschemas are left as they
    are. `node` itself when it needs no change."""
    return _VISITOR.rewrite(node, node)


def clean_schema(schema: Schema) -> Schema:
    """A schema that may have any type at its top (structured output)."""
    return cast(Schema, _VISITOR.visit(schema))


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


# -------------------------------------------------------------------------------------------------------- small rules


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


@remembered(entries=4096, longest=200)
def _is_regex(pattern: str) -> bool:
    """A longer one passes as it is."""
    if len(pattern) > LONGEST_PATTERN:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, OverflowError, RecursionError, ValueError):
        return False
    return True


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


def _mapped(value: dict[str, object], change: Callable[[object], object]) -> dict[str, object]:
    out = value
    for name, child in value.items():
        new = change(child)
        if new is not child:
            if out is value:
                out = dict(value)
            out[name] = new
    return out


def _listed(value: list[object], change: Callable[[object], object]) -> list[object]:
    out = [change(child) for child in value]
    return value if all(new is old for new, old in zip(out, value, strict=True)) else out
