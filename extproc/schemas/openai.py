"""JSON Schemas for servers of the OpenAI format: tools and structured output.

`clean_schema` applies the rules that hold for every schema. Those of the top of a function's parameters are in
`function_parameters.py`. Gemini's writers and the validation of arguments start from the same rules. Called by request
encoders. The input is never changed; a schema that needs no change comes back as the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from extproc.schemas.portable_regex import portable
from extproc.schemas.references import SchemaReferences
from extproc.schemas.types import declared_types, json_type, means_any_type
from extproc.schemas.visitor import (
    MAX_DEPTH,
    SCHEMA_LISTS,
    SCHEMA_MAPS,
    Schema,
    SchemaVisitor,
    describe,
    required_names,
    subschemas,
    writable,
)

_VALUES = frozenset({"default", "const", "examples", "example", "enum"})
"""Keywords that hold values: null is one."""
_NO_STATEMENT: tuple[object, ...] = (None, False, "", [], {})
"""A keyword with one of these values says as much as its absence, whatever form its value should have."""


class PortablePatterns(SchemaVisitor):
    """Moves regular expressions that only some engines compile into the description. Everything else stays as the
    client wrote it, even where it is no schema."""

    def visit(self, node: object, depth: int = 0) -> Schema | bool:
        return super().visit(node, depth) if isinstance(node, dict) and depth <= MAX_DEPTH else cast(Schema, node)

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        return _rewrite_patterns(out, node, portable)


class OpenAISchema(SchemaVisitor):
    """Rewrites what servers of the OpenAI format refuse: draft-4 forms, nulls where a keyword has no value, types
    outside the seven, arrays without items, patterns that not every engine compiles, references that lead nowhere.

    `references`: those of the whole schema; None leaves `$ref` as it is."""

    def __init__(self, references: SchemaReferences | None = None) -> None:
        self.references = references

    def report_fault(self, key: str) -> None:
        """Called for a keyword of this schema that cannot be sent with its meaning."""

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        for key in node:
            well_formed = _is_well_formed(key, out[key])
            if key in ("$schema", "$id") or (out[key] is None and key not in _VALUES) or not well_formed:
                if not well_formed and out[key] not in _NO_STATEMENT and key not in ("description", "title"):
                    self.report_fault(key)
                out = writable(out, node)
                del out[key]
        if self.references is not None and "$ref" in out:
            out = self._rewrite_reference(out, node, self.references)
        if "type" in out:
            out = self._rewrite_type(out, node)
        for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(out.get(bound), bool):
                out = _numeric_bound(writable(out, node), bound, limit)
        if isinstance(out.get("items"), list):
            out = _prefix_items(writable(out, node))
        if "array" in declared_types(out) and "items" not in out and "prefixItems" not in out:
            out = writable(out, node)
            out["items"] = {}
        return _rewrite_patterns(out, node, self.portable_pattern)

    def portable_pattern(self, pattern: str) -> str | None:
        """The regular expression as it is sent; None moves it into the description."""
        return portable(pattern)

    def _rewrite_reference(self, out: Schema, node: Schema, references: SchemaReferences) -> Schema:
        """A reference by name becomes a path, because `$id` is not sent. One that leads nowhere becomes words."""
        reference = cast(str, out["$ref"])
        path = references.path(reference)
        if path == reference:
            return out
        out = writable(out, node)
        if path is None:
            self.report_fault("$ref")
            del out["$ref"]
            describe(out, f"Follows the schema {reference}")
        else:
            out["$ref"] = path
        return out

    def _rewrite_type(self, out: Schema, node: Schema) -> Schema:
        declared = declared_types(out)
        known = list(dict.fromkeys(name for name in map(json_type, declared) if name is not None))
        if known == declared and known:
            return out
        if any(json_type(name) is None and name is not None and not means_any_type(name) for name in declared):
            self.report_fault("type")
        out = writable(out, node)
        if not known:
            del out["type"]
        else:
            out["type"] = known if isinstance(out["type"], list) else known[0]
        return out


_ONE_SCHEMA = OpenAISchema()


def normalize_keywords(node: Schema) -> Schema:
    """One schema in the keywords of draft 2020-12, whatever its draft and quality; its subschemas stay as they are.
    Returns `node` itself if it needs no change."""
    return _ONE_SCHEMA.rewrite(node, node)


def clean_schema(schema: Schema, original: Schema | None = None) -> Schema:
    """A schema that may have any type at its top (structured output). `original`: the document of its references, if
    `schema` was merged from parts of it."""
    return cast(Schema, OpenAISchema(SchemaReferences(schema if original is None else original)).visit(schema))


def fits_strict(schema: object, depth: int = 0) -> bool:
    """True if `strict: true` may be sent: every object lists all of its properties as required and allows no others,
    and no keyword is present that strict mode refuses."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return False
    if any(key in schema for key in ("oneOf", "allOf", "not", "if", "patternProperties", "propertyNames", "default")):
        return False
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        return False
    closed = schema.get("additionalProperties") is False and set(required_names(schema)) == set(properties)
    if not closed and ("object" in declared_types(schema) or properties):
        return False
    children = [*properties.values(), *subschemas(schema, "$defs").values(),
                *subschemas(schema, "definitions").values()]
    children += [schema["items"]] if "items" in schema else []
    union = schema.get("anyOf", [])
    return isinstance(union, list) and all(fits_strict(child, depth + 1) for child in [*children, *union])


# -------------------------------------------------------------------------------------------------------- single rules


def _is_well_formed(key: str, value: object) -> bool:
    """True if a keyword's value has a form that servers take."""
    if key == "required":
        return isinstance(value, list) and all(isinstance(name, str) for name in value)
    if key in SCHEMA_LISTS or key == "enum":
        return isinstance(value, list) and bool(value)
    if key in SCHEMA_MAPS:
        return isinstance(value, dict)
    if key in ("description", "title", "pattern", "$ref"):
        return isinstance(value, str)
    return True


def _rewrite_patterns(out: Schema, node: Schema, rewrite: Callable[[str], str | None]) -> Schema:
    """Rewrites `pattern` and the names in `patternProperties`; `rewrite` returns None for one that becomes words."""
    pattern = out.get("pattern")
    if isinstance(pattern, str) and (text := rewrite(pattern)) != pattern:
        out = writable(out, node)
        if text is None:
            del out["pattern"]
            describe(out, f"Must match the regular expression {pattern}")
        else:
            out["pattern"] = text
    keyed = out.get("patternProperties")
    if isinstance(keyed, dict):
        names = {key: rewrite(key) for key in keyed}
        if any(name != key for key, name in names.items()):
            out = writable(out, node)
            out["patternProperties"] = {name: keyed[key] for key, name in names.items() if name is not None}
            wrong = [key for key, name in names.items() if name is None]
            if wrong:
                describe(out, "Further property names match " + " or ".join(wrong))
    return out


def _numeric_bound(out: Schema, bound: str, limit: str) -> Schema:
    """Draft 4 wrote `minimum: 3, exclusiveMinimum: true`; later drafts write `exclusiveMinimum: 3`."""
    exclusive = out.pop(bound)
    value = out.get(limit)
    if exclusive and isinstance(value, (int, float)) and not isinstance(value, bool):
        out[bound] = out.pop(limit)
    return out


def _prefix_items(out: Schema) -> Schema:
    """Draft 4 wrote tuples as a list in `items`; later drafts as `prefixItems`."""
    items = out.pop("items")
    if items:
        out["prefixItems"] = items
    if "additionalItems" in out:
        out["items"] = out.pop("additionalItems")
    return out
