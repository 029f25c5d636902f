"""`parametersJsonSchema` and `responseJsonSchema`: JSON Schema as far as Google documents it.

Source: the API reference of GenerationConfig.responseJsonSchema, which lists the keywords that are read: $id, $defs,
$ref, $anchor, type, format, title, description, enum (of strings and numbers), items, prefixItems, minItems, maxItems,
minimum, maximum, anyOf, oneOf (read as anyOf), properties, additionalProperties, required. References are put in place
here, because cycles are only taken in part and no keyword may stand beside a `$ref`.
"""

from __future__ import annotations

from collections.abc import Sequence

from extproc.schemas.gemini.folding import folded
from extproc.schemas.gemini.merging import Facts
from extproc.schemas.gemini.rewriting import MAX_ITEMS, Rewriter, Values
from extproc.schemas.gemini.values import TYPES, json_text
from extproc.schemas.rewriting import Schema


class JsonForm(Rewriter):
    """Writes JSON Schema."""

    counts = frozenset({"minItems", "maxItems"})

    def free(self, types: Sequence[str]) -> Schema:
        names = [name for name in types if name in TYPES]
        return _head(names) if names else {}

    def write(self, facts: Facts, depth: int, opened: list[Schema]) -> Schema | None:
        if facts.enum is not None:
            return self._values(facts)
        if facts.union is not None and self.only_demands(facts):
            facts = folded(facts, lambda option: self.merged(option, opened))
        notes: list[str] = []
        kinds = TYPES if facts.types is None else facts.types
        body = self.limits(facts, kinds, notes)
        if "format" in facts.keywords:
            body = {"format": facts.keywords["format"], **body}
        if "object" in kinds:
            self._object(facts, depth, body, notes)
        if "array" in kinds:
            self._array(facts, depth, body)
        if facts.union is not None:
            options = self.options(facts.union, facts, depth, notes)
            if not options:
                return None
            if {} not in options:
                body["anyOf"] = options
        return self.finished(_head(facts.types or []), body, facts, notes)

    def _object(self, facts: Facts, depth: int, body: Schema, notes: list[str]) -> None:
        declared, required = self.properties(facts, depth, notes)
        if declared or (facts.types == ["object"] and depth == 0):
            body["properties"] = declared
        if required:
            body["required"] = required
        if "additionalProperties" in facts.keywords:
            extra = self.schema(facts.keywords["additionalProperties"], depth + 1)
            if extra != {}:
                body["additionalProperties"] = False if extra is None else extra

    def _array(self, facts: Facts, depth: int, body: Schema) -> None:
        first = facts.keywords.get("prefixItems")
        items = [self.child(item, depth + 1) for item in first] if isinstance(first, list) else []
        if items:
            body["prefixItems"] = items
        if "items" in facts.keywords:
            rest = self.schema(facts.keywords["items"], depth + 1)
            if rest is None:
                limit = body.get("maxItems")
                if len(items) <= MAX_ITEMS:
                    body["maxItems"] = min(limit, len(items)) if isinstance(limit, int) else len(items)
            elif rest:
                body["items"] = rest

    def _values(self, facts: Facts) -> Schema | None:
        """An enum: strings and numbers are listed, other values become their types and a note."""
        values = Values(facts.enum or [], ("string", "number", "integer"))
        notes = [values.note] if values.note else []
        if facts.union is not None:
            notes.append(f"Must also match one of {json_text(facts.union)}")
        if not values.named:
            return self.finished(_head(values.others), {}, facts, notes)
        named: Schema = {**_head(values.named_types), "enum": values.named}
        if values.others:
            body: Schema = {"anyOf": [named, _head(values.others)]}
            self.spend(sum(len(value) if isinstance(value, str) else 8 for value in values.named))
            return self.finished({}, body, facts, notes)
        return self.finished(_head(values.named_types), {"enum": values.named}, facts, notes)


def _head(types: Sequence[str]) -> Schema:
    if not types:
        return {}
    return {"type": types[0] if len(types) == 1 else list(types)}
