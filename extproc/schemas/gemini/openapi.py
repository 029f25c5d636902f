"""Writes `parameters` and `responseSchema`: the subset of OpenAPI 3.0 that is Google's message `Schema`.

Every schema has one type or an `anyOf` ("type: must be specified when not using one_of, any_of or all_of fields"), an
array has `items`, only strings have an enum, null is `nullable`; an unknown keyword fails the whole request. A free
value is therefore a choice of all types, with arrays inside arrays to a finite depth. This is the one place where the
result allows less than the schema did.

Sources: the API reference of `Schema`, and the texts of the service's refusals. Vertex takes nothing beside `anyOf`
("When using any_of, it must be the only field set").
"""

from __future__ import annotations

from collections.abc import Sequence

from extproc.schemas.gemini.folding import fold_alternatives
from extproc.schemas.gemini.merged_schema import MergedSchema
from extproc.schemas.gemini.values import is_number, json_text, kind_of
from extproc.schemas.gemini.writer import EnumValues, SchemaWriter
from extproc.schemas.visitor import Schema

_FORMATS = {"string": ("date-time", "enum"), "number": ("float", "double"), "integer": ("int32", "int64")}
"""The formats of each type. Google refuses all others."""
_NESTED_ARRAYS = 3
"""Depth of arrays inside arrays in a free value."""
_MAX_COPIES = 64
"""Properties of an object that are copied into its alternatives. If there are more, the alternatives are folded."""

_FREE_TYPES = ("string", "number", "boolean", "object", "array", "null")
_LIMITS = {"string": ("pattern", "minLength", "maxLength"), "number": ("minimum", "maximum"),
         "integer": ("minimum", "maximum"), "array": ("minItems", "maxItems"),
         "object": ("minProperties", "maxProperties")}


class OpenApiWriter(SchemaWriter):
    """Writes OpenAPI schemas. `any_of_alone`: no other keyword is allowed beside `anyOf`. `ordered`: adds
    `propertyOrdering`, for structured output; models up to 2.0 otherwise write properties in alphabetical order."""

    counts = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
    patterns = True

    def __init__(self, root: object, unrolls: int, budget: int, *, any_of_alone: bool, ordered: bool) -> None:
        super().__init__(root, unrolls, budget)
        self._alone = any_of_alone
        self._ordered = ordered
        self._free_schemas: dict[tuple[tuple[str, ...], int], tuple[Schema, int]] = {}

    def free_schema(self, types: Sequence[str]) -> Schema:
        return self._free(types, 1 if self.far_exhausted else _NESTED_ARRAYS)

    def _free(self, types: Sequence[str], arrays: int) -> Schema:
        """A free schema is written once; its cost counts each time."""
        key = tuple(types), arrays
        if key not in self._free_schemas:
            self._free_schemas[key] = self._write_free(*key)
        schema, cost = self._free_schemas[key]
        self.spend(cost)
        return dict(schema)

    def _write_free(self, types: Sequence[str], arrays: int) -> tuple[Schema, int]:
        """A free schema and its cost."""
        kinds = [kind for kind in types if kind in _FREE_TYPES or kind == "integer"] or list(_FREE_TYPES)
        leaves: list[Schema] = []
        cost = 0
        for kind in kinds:
            if kind == "array":
                inner = _FREE_TYPES if arrays > 1 else [name for name in _FREE_TYPES if name != "array"]
                items, cost = self._write_free(inner, arrays - 1)
                leaves.append({"type": "ARRAY", "items": items})
            elif kind != "null":
                leaves.append({"type": kind.upper()})
        return self._choice(leaves, nullable="null" in kinds), cost + 30 * len(leaves)

    def with_note(self, schema: Schema, text: str) -> Schema:
        if self._alone and "anyOf" in schema:
            first, *others = _schemas(schema["anyOf"])
            return {"anyOf": [self.with_note(first, text), *others]}
        return super().with_note(schema, text)

    def write_merged(self, merged: MergedSchema, depth: int, opened: list[Schema]) -> Schema | None:
        notes: list[str] = []
        if merged.enum is not None:
            leaves, nullable = self._write_enum(merged, notes)
        elif merged.union is not None:
            if self.demands_only_required(merged) or self._too_large_to_copy(merged):
                merged = fold_alternatives(merged, lambda option: self.merge(option, opened))
                return self.write_merged(merged, depth, opened)
            leaves, nullable = self._write_alternatives(merged, depth, notes), False
        else:
            leaves, nullable = self._write_types(merged, depth, notes)
        if not leaves and not nullable:
            return None
        if len(leaves) == 1 and "anyOf" not in leaves[0]:
            leaf = leaves[0]
            if isinstance(own := leaf.get("description"), str) and own not in merged.texts:
                merged.texts.append(own)
            merged.title = merged.title or (str(leaf["title"]) if "title" in leaf else None)
            head: Schema = {"type": leaf["type"]}
            if nullable or leaf.get("nullable"):
                head["nullable"] = True
            body = {key: value for key, value in leaf.items()
                    if key not in ("type", "title", "description", "nullable")}
            return self.finish(head, body, merged, notes)
        out = self._choice(leaves, nullable=nullable)
        texts = self.finish({}, {}, merged, notes)
        if self._alone:
            text = texts.get("description", texts.get("title"))
            return self.with_note(out, text) if isinstance(text, str) else out
        if isinstance(text := texts.get("description"), str) and "description" in out:
            out = self.with_note(out, text)
            texts.pop("description")
        return {**texts, **out}

    def _choice(self, leaves: list[Schema], *, nullable: bool) -> Schema:
        """One schema that accepts each of several. Nested choices become one; null appears once."""
        flat: list[Schema] = []
        for leaf in leaves:
            if set(leaf) <= {"anyOf", "nullable"}:
                flat += _schemas(leaf["anyOf"])
                nullable = nullable or leaf.get("nullable") is True
            elif leaf.get("type") == "NULL":
                nullable = True
            else:
                flat.append(leaf)
        flat = [leaf for at, leaf in enumerate(flat) if leaf not in flat[:at]] if len(flat) <= _MAX_COPIES else flat
        if not flat:
            return {"type": "NULL"}
        if len(flat) == 1:
            return {**flat[0], "nullable": True} if nullable else flat[0]
        if not nullable:
            return {"anyOf": flat}
        if self._alone:
            return {"anyOf": [{**leaf, "nullable": True} for leaf in flat]}
        return {"anyOf": flat, "nullable": True}

    # ---------------------------------------------------------------------------------------------- types of one schema

    def _write_types(self, merged: MergedSchema, depth: int, notes: list[str]) -> tuple[list[Schema], bool]:
        """A schema for each type, and whether null is allowed."""
        kinds = list(_FREE_TYPES) if merged.types is None else list(merged.types)
        if "number" in kinds and "integer" in kinds:
            kinds.remove("integer")
        limits = self.write_limits(merged, kinds, notes)
        form = merged.keywords.get("format")
        leaves: list[Schema] = []
        for kind in kinds:
            if kind == "null":
                continue
            leaf: Schema = {"type": kind.upper()}
            if form in _FORMATS.get(kind, ()):
                leaf["format"] = form
            if kind == "object":
                self._write_object_keywords(merged, depth, leaf, notes)
            elif kind == "array":
                self._write_array_keywords(merged, depth, leaf, notes)
            leaf.update((key, limits[key]) for key in _LIMITS.get(kind, ()) if key in limits and key not in leaf)
            leaves.append(leaf)
        if isinstance(form, str) and all("format" not in leaf for leaf in leaves) and any(
                kind in _FORMATS for kind in kinds):
            notes.append(f"Format: {form[:80]}")
        return leaves, "null" in kinds

    def _write_object_keywords(self, merged: MergedSchema, depth: int, leaf: Schema, notes: list[str]) -> None:
        declared, required = self.write_properties(merged, depth, notes)
        if declared:
            leaf["properties"] = declared
            if self._ordered:
                leaf["propertyOrdering"] = list(declared)
        if required:
            leaf["required"] = required
        extra = merged.keywords.get("additionalProperties")
        if extra is False and not declared:
            notes.append("Must be an empty object")
        elif isinstance(extra, dict):
            notes.append(f"{'Other' if declared else 'The'} properties have free names and values that match "
                         f"{json_text(extra)}")

    def _write_array_keywords(self, merged: MergedSchema, depth: int, leaf: Schema, notes: list[str]) -> None:
        first = merged.keywords.get("prefixItems")
        rest = merged.keywords.get("items", True)
        if isinstance(first, list) and first:
            notes.append(f"The first items in order: {json_text(first)}")
            if rest is False:
                count = merged.keywords.get("maxItems")
                leaf["maxItems"] = min(count, len(first)) if isinstance(count, int) else len(first)
            items: object = {"anyOf": [*first, *([] if rest is False else [rest])]}
        else:
            items = rest
        written = self.write_schema(items, depth + 1) if items not in (True, {}) else self._free((), _NESTED_ARRAYS - 1)
        if written is None:
            leaf["maxItems"] = 0
            written = {"type": "STRING"}
        leaf["items"] = written

    def _write_enum(self, merged: MergedSchema, notes: list[str]) -> tuple[list[Schema], bool]:
        """An enum lists strings; other values become their types, numbers with their range, and a note."""
        values = EnumValues(merged.enum or [], ("string",))
        if values.note:
            notes.append(values.note)
        if merged.union is not None:
            notes.append(f"Must also match one of {json_text(merged.union)}")
        leaves: list[Schema] = [{"type": "STRING", "enum": values.listable}] if values.listable else []
        kinds = [kind for kind in values.other_types if not (kind == "integer" and "number" in values.other_types)]
        numbers = [value for value in merged.enum or [] if is_number(value)]
        all_finite = len(numbers) == sum(kind_of(value) in ("integer", "number") for value in merged.enum or [])
        bounds: Schema = {"minimum": min(numbers), "maximum": max(numbers)} if numbers and all_finite else {}
        for kind in kinds:
            if kind in ("number", "integer"):
                leaves.append({"type": kind.upper(), **bounds})
            elif kind != "null":
                leaves.append(self._free((kind,), _NESTED_ARRAYS))
        return leaves, "null" in kinds

    # ----------------------------------------------------------------------------------------------------- alternatives

    def _write_alternatives(self, merged: MergedSchema, depth: int, notes: list[str]) -> list[Schema]:
        """Each alternative, combined with the keywords beside the union."""
        beside = merged.as_schema()
        union = merged.union or []
        whole: list[object] = [{"allOf": [beside, option]} for option in union] if beside else union
        options = self.write_options(whole, merged, depth, notes)
        merged.types, merged.keywords = None, {}
        return options

    def _too_large_to_copy(self, merged: MergedSchema) -> bool:
        return merged.types == ["object"] and len(merged.union or []) * len(merged.properties) > _MAX_COPIES


def _schemas(value: object) -> list[Schema]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
