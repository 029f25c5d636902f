"""JSON Schemas for the Messages API: the input of a tool, and structured output.

The schema of a tool's input is only weakened: properties whose names the API refuses leave `properties` and are
described in words. The schema of structured output, or of a strict tool, is compiled into a grammar that knows a part
of JSON Schema: what it does not know moves into the descriptions; a schema that it cannot express at all is not sent.
Called by the request encoder. The input is never changed.

Sources: the API's 400 "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"; the documentation of structured
outputs (every object closed, no recursion, no bounds of numbers, strings and long arrays).
"""

from __future__ import annotations

import re
from typing import cast

import msgspec

from extproc.schemas.cache import SHARED_CACHE, Rewritten
from extproc.schemas.function_parameters import clean_parameters
from extproc.schemas.openai import clean_schema, fits_strict
from extproc.schemas.references import references_end
from extproc.schemas.types import declared_types
from extproc.schemas.visitor import MAX_DEPTH, Schema, SchemaVisitor, writable

_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_NOTE_LIMIT = 500
_ENCODER = msgspec.json.Encoder()


def tool_schema(schema: Schema) -> Rewritten:
    """`input_schema` as it is sent; `strict`: the API can compile it unchanged. Cached by content."""
    return SHARED_CACHE.get("anthropic", schema, lambda size: _tool_schema(schema))


def _tool_schema(schema: Schema) -> Rewritten:
    found = input_schema(schema)
    return Rewritten(msgspec.Raw(_ENCODER.encode(found)), fits_strict(found) and _is_expressible(found))


def input_schema(schema: Schema) -> Schema:
    """The schema of a tool's input: an object at the top, property names that the API takes."""
    visited = _LEGAL_PROPERTY_NAMES.visit(schema)
    return clean_parameters(visited if isinstance(visited, dict) else {})


def output_schema(schema: Schema) -> Schema | None:
    """The schema for `output_config.format`. None if the grammar cannot express it: recursion, references out of the
    document, objects with free names, tuples, alternatives that exclude each other."""
    try:
        cleaned = clean_schema(schema)
        if not cleaned or not references_end(cleaned):
            return None
        return _GRAMMAR.rewritten(cleaned)
    except _NotExpressible:
        return None


def _is_expressible(schema: Schema) -> bool:
    """True if a strict tool's schema can be compiled unchanged."""
    try:
        return _GRAMMAR.rewritten(schema) == schema and references_end(schema)
    except _NotExpressible:
        return False


class _LegalPropertyNames(SchemaVisitor):
    """Removes properties with names outside the API's alphabet, and describes them instead."""

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        properties = out.get("properties")
        if not isinstance(properties, dict):
            return out
        illegal = [name for name in properties if not _PROPERTY_NAME.fullmatch(name)]
        if not illegal:
            return out
        out = writable(out, node)
        out["properties"] = {name: child for name, child in properties.items() if name not in illegal}
        required = out.get("required")
        needed = [name for name in illegal if isinstance(required, list) and name in required]
        if isinstance(required, list):
            out["required"] = [name for name in required if name not in illegal]
        if out.get("additionalProperties") is False:
            del out["additionalProperties"]
        for name in illegal:
            must = " (required)" if name in needed else ""
            _describe(out, f"Also takes the property {_json(name)}{must} of this schema: {_json(properties[name])}")
        return out


_LEGAL_PROPERTY_NAMES = _LegalPropertyNames()


# ----------------------------------------------------------------------------------------------------------- grammar

_KEPT = frozenset({"type", "required", "enum", "const", "$ref", "description", "title", "default", "properties",
                   "$defs", "definitions", "anyOf", "allOf", "items"})
_REFUSED = frozenset({"patternProperties", "prefixItems", "not", "if", "dependentSchemas"})
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
_VALUE_KINDS = frozenset({"type", "enum", "const", "anyOf", "allOf", "$ref"})
"""The grammar needs one of them, or `properties`, in each schema."""
_VISITED = frozenset({"properties", "$defs", "definitions", "anyOf", "allOf", "oneOf", "items"})
_THROUGH_ALTERNATIVES = re.compile(r"/(?:anyOf|oneOf|allOf)/")
"""A reference into alternatives, which the grammar does not follow."""


class _NotExpressible(Exception):  # noqa: N818 - a verdict, not an error
    """The grammar cannot express this schema."""


class _GrammarSchema(SchemaVisitor):
    """Rewrites a clean schema into the part of JSON Schema that the grammar knows. Raises `_NotExpressible`."""

    def rewritten(self, schema: Schema) -> Schema:
        out = self.visit(schema)
        return out if isinstance(out, dict) else {}

    def visit(self, node: object, depth: int = 0) -> Schema | bool:
        if not isinstance(node, dict) or depth > MAX_DEPTH or not _REFUSED.isdisjoint(node):
            raise _NotExpressible
        return super().visit(node, depth)

    def visit_child(self, key: str, name: str | int | None, node: object, depth: int) -> Schema | bool:
        return super().visit_child(key, name, node, depth) if key in _VISITED else cast(Schema, node)

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        kept: Schema = {}
        moved: list[str] = []
        for key, value in out.items():
            if not _is_expressible_value(key, value):
                raise _NotExpressible
            if key == "oneOf":
                kept["anyOf"] = value  # alternatives of one kind each exclude each other anyway
            elif key in _KEPT or (key == "minItems" and value in (0, 1)) or (key == "format" and value in _FORMATS):
                kept[key] = value
            elif key != "additionalProperties":
                moved.append(f"{key}: {_json(value)}")
        if "properties" not in kept and _VALUE_KINDS.isdisjoint(kept):
            raise _NotExpressible  # any value at all
        if "properties" in kept and _VALUE_KINDS.isdisjoint(kept):
            kept = {"type": "object", **kept}
        if "object" in declared_types(node) or "properties" in kept:
            if not kept.get("properties") and node.get("additionalProperties") is not False:
                raise _NotExpressible  # any object
            kept["additionalProperties"] = False
        if moved:
            _describe(kept, ", ".join(moved))
        return kept


_GRAMMAR = _GrammarSchema()


def _is_expressible_value(key: str, value: object) -> bool:
    """True if the grammar can express this value of a keyword."""
    if key == "$ref":
        return isinstance(value, str) and value.startswith("#/") and not _THROUGH_ALTERNATIVES.search(value)
    if key == "enum":
        return isinstance(value, list) and not any(isinstance(item, (dict, list)) for item in value)
    if key == "additionalProperties":
        return not (isinstance(value, dict) and value)  # a map: its names are data
    return key != "const" or not isinstance(value, (dict, list))


def _describe(schema: Schema, note: str) -> None:
    old = schema.get("description")
    note = note if len(note) <= _NOTE_LIMIT else note[: _NOTE_LIMIT - 3] + "..."
    schema["description"] = f"{old}\n{note}" if isinstance(old, str) and old else note


def _json(value: object) -> str:
    return _ENCODER.encode(value).decode()
