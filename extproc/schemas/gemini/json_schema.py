"""Writes `parametersJsonSchema` and `responseJsonSchema`: JSON Schema as far as Google documents it.

Source: the API reference of GenerationConfig.responseJsonSchema, which lists the keywords that are read: $id, $defs,
$ref, $anchor, type, format, title, description, enum (of strings and numbers), items, prefixItems, minItems, maxItems,
minimum, maximum, anyOf, oneOf (read as anyOf), properties, additionalProperties, required. References are replaced by
their targets, because Google supports cycles only in part and allows no keyword beside a `$ref`.
"""

from __future__ import annotations

from collections.abc import Sequence

from extproc.schemas.gemini.folding import fold_alternatives
from extproc.schemas.gemini.merged_schema import MergedSchema
from extproc.schemas.gemini.values import json_text
from extproc.schemas.gemini.writer import MAX_ITEMS, EnumValues, SchemaWriter
from extproc.schemas.types import JSON_TYPES
from extproc.schemas.visitor import Schema


class JsonSchemaWriter(SchemaWriter):
    """Writes JSON Schema."""

    counts = frozenset({"minItems", "maxItems"})

    def free_schema(self, types: Sequence[str]) -> Schema:
        names = [name for name in types if name in JSON_TYPES]
        return _typed(names) if names else {}

    def write_merged(self, merged: MergedSchema, depth: int, opened: list[Schema]) -> Schema | None:
        if merged.enum is not None:
            return self._write_enum(merged)
        if merged.union is not None and self.demands_only_required(merged):
            merged = fold_alternatives(merged, lambda option: self.merge(option, opened))
        notes: list[str] = []
        kinds = JSON_TYPES if merged.types is None else merged.types
        body = self.write_limits(merged, kinds, notes)
        if "format" in merged.keywords:
            body = {"format": merged.keywords["format"], **body}
        if "object" in kinds:
            self._write_object_keywords(merged, depth, body, notes)
        if "array" in kinds:
            self._write_array_keywords(merged, depth, body)
        if merged.union is not None:
            options = self.write_options(merged.union, merged, depth, notes)
            if not options:
                return None
            if {} not in options:
                body["anyOf"] = options
        return self.finish(_typed(merged.types or []), body, merged, notes)

    def _write_object_keywords(self, merged: MergedSchema, depth: int, body: Schema, notes: list[str]) -> None:
        declared, required = self.write_properties(merged, depth, notes)
        if declared or (merged.types == ["object"] and depth == 0):
            body["properties"] = declared
        if required:
            body["required"] = required
        if "additionalProperties" in merged.keywords:
            extra = self.write_schema(merged.keywords["additionalProperties"], depth + 1)
            if extra != {}:
                body["additionalProperties"] = False if extra is None else extra

    def _write_array_keywords(self, merged: MergedSchema, depth: int, body: Schema) -> None:
        first = merged.keywords.get("prefixItems")
        items = [self.write_child(item, depth + 1) for item in first] if isinstance(first, list) else []
        if items:
            body["prefixItems"] = items
        if "items" in merged.keywords:
            rest = self.write_schema(merged.keywords["items"], depth + 1)
            if rest is None:
                limit = body.get("maxItems")
                if len(items) <= MAX_ITEMS:
                    body["maxItems"] = min(limit, len(items)) if isinstance(limit, int) else len(items)
            elif rest:
                body["items"] = rest

    def _write_enum(self, merged: MergedSchema) -> Schema | None:
        """An enum lists strings and numbers; other values become their types and a note."""
        values = EnumValues(merged.enum or [], ("string", "number", "integer"))
        notes = [values.note] if values.note else []
        if merged.union is not None:
            notes.append(f"Must also match one of {json_text(merged.union)}")
        if not values.listable:
            return self.finish(_typed(values.other_types), {}, merged, notes)
        named: Schema = {**_typed(values.listable_types), "enum": values.listable}
        if values.other_types:
            body: Schema = {"anyOf": [named, _typed(values.other_types)]}
            self.spend(sum(len(value) if isinstance(value, str) else 8 for value in values.listable))
            return self.finish({}, body, merged, notes)
        return self.finish(_typed(values.listable_types), {"enum": values.listable}, merged, notes)


def _typed(types: Sequence[str]) -> Schema:
    if not types:
        return {}
    return {"type": types[0] if len(types) == 1 else list(types)}
