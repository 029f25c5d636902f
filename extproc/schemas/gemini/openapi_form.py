"""`parameters` and `responseSchema`: the subset of OpenAPI 3.0 that is Google's message `Schema`.

Every schema has one type or an `anyOf` ("type: must be specified when not using one_of, any_of or all_of fields"), an
array has `items`, only strings have an enum, null is `nullable`; unknown names refuse the whole request. A free value
is therefore written as the choice of all types, with arrays inside arrays to a finite depth: it is the one place where
the result allows less than the schema did.

Sources: the API reference of `Schema` and the refusals that the service words. Vertex takes nothing beside `anyOf`
("When using any_of, it must be the only field set").
"""

from __future__ import annotations

from collections.abc import Sequence

from extproc.schemas.gemini.folding import folded, properties
from extproc.schemas.gemini.merging import Facts
from extproc.schemas.gemini.rewriting import Rewriter, Values
from extproc.schemas.gemini.values import is_number, json_text, kind_of
from extproc.schemas.rewriting import Schema

FORMATS = {"string": ("date-time", "enum"), "number": ("float", "double"), "integer": ("int32", "int64")}
"""The formats of each type; any other is refused."""
ARRAYS_IN_ARRAYS = 3
"""Arrays inside arrays of a free value."""
COPIES = 64
"""An object that stands beside alternatives is copied into them up to so many properties, else they are folded."""

_FREE = ("string", "number", "boolean", "object", "array", "null")
_KEYS = {"string": ("pattern", "minLength", "maxLength"), "number": ("minimum", "maximum"),
         "integer": ("minimum", "maximum"), "array": ("minItems", "maxItems"),
         "object": ("minProperties", "maxProperties")}


class OpenApiForm(Rewriter):
    """Writes OpenAPI schemas. `any_of_alone`: nothing may stand beside `anyOf`. `ordered`: name the order of
    properties, for structured output of models up to 2.0, which otherwise write them in alphabetical order."""

    counts = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
    patterns = True

    def __init__(self, root: object, unrolls: int, budget: int, *, any_of_alone: bool, ordered: bool) -> None:
        super().__init__(root, unrolls, budget)
        self._alone = any_of_alone
        self._ordered = ordered
        self._written_free: dict[tuple[tuple[str, ...], int], tuple[Schema, int]] = {}

    def free(self, types: Sequence[str]) -> Schema:
        return self._free(types, 1 if self.far_exhausted else ARRAYS_IN_ARRAYS)

    def _free(self, types: Sequence[str], arrays: int) -> Schema:
        """The same for every place that allows the same: written once, paid for each time."""
        asked = tuple(types), arrays
        if asked not in self._written_free:
            self._written_free[asked] = self._write_free(*asked)
        made, cost = self._written_free[asked]
        self.spend(cost)
        return dict(made)

    def _write_free(self, types: Sequence[str], arrays: int) -> tuple[Schema, int]:
        """And what it costs."""
        kinds = [kind for kind in (types or _FREE) if kind in _FREE or kind == "integer"] or list(_FREE)
        leaves: list[Schema] = []
        cost = 0
        for kind in kinds:
            if kind == "array":
                inner = _FREE if arrays > 1 else [name for name in _FREE if name != "array"]
                items, cost = self._write_free(inner, arrays - 1)
                leaves.append({"type": "ARRAY", "items": items})
            elif kind != "null":
                leaves.append({"type": kind.upper()})
        return self._choice(leaves, nullable="null" in kinds), cost + 30 * len(leaves)

    def noted(self, schema: Schema, text: str) -> Schema:
        if self._alone and "anyOf" in schema:
            first, *others = _schemas(schema["anyOf"])
            return {"anyOf": [self.noted(first, text), *others]}
        return super().noted(schema, text)

    def write(self, facts: Facts, depth: int, opened: list[Schema]) -> Schema | None:
        notes: list[str] = []
        if facts.enum is not None:
            leaves, nullable = self._values(facts, notes)
        elif facts.union is not None:
            if self.only_demands(facts) or self._too_large_to_copy(facts):
                return self.write(folded(facts, lambda option: self.merged(option, opened)), depth, opened)
            leaves, nullable = self._alternatives(facts, depth, notes), False
        else:
            leaves, nullable = self._kinds(facts, depth, notes)
        if not leaves and not nullable:
            return None
        if len(leaves) == 1 and "anyOf" not in leaves[0]:
            leaf = leaves[0]
            if isinstance(own := leaf.get("description"), str) and own not in facts.texts:
                facts.texts.append(own)
            facts.title = facts.title or (str(leaf["title"]) if "title" in leaf else None)
            head: Schema = {"type": leaf["type"]}
            if nullable or leaf.get("nullable"):
                head["nullable"] = True
            body = {key: value for key, value in leaf.items()
                    if key not in ("type", "title", "description", "nullable")}
            return self.finished(head, body, facts, notes)
        out = self._choice(leaves, nullable=nullable)
        said = self.finished({}, {}, facts, notes)
        if self._alone:
            text = said.get("description", said.get("title"))
            return self.noted(out, text) if isinstance(text, str) else out
        if isinstance(text := said.get("description"), str) and "description" in out:
            out = self.noted(out, text)
            said.pop("description")
        return {**said, **out}

    def _choice(self, leaves: list[Schema], *, nullable: bool) -> Schema:
        """One schema of several types. Choices inside choices become one; null is said once."""
        flat: list[Schema] = []
        for leaf in leaves:
            if set(leaf) <= {"anyOf", "nullable"}:
                flat += _schemas(leaf["anyOf"])
                nullable = nullable or leaf.get("nullable") is True
            elif leaf.get("type") == "NULL":
                nullable = True
            else:
                flat.append(leaf)
        flat = [leaf for at, leaf in enumerate(flat) if leaf not in flat[:at]] if len(flat) <= COPIES else flat
        if not flat:
            return {"type": "NULL"}
        if len(flat) == 1:
            return {**flat[0], "nullable": True} if nullable else flat[0]
        if not nullable:
            return {"anyOf": flat}
        if self._alone:
            return {"anyOf": [{**leaf, "nullable": True} for leaf in flat]}
        return {"anyOf": flat, "nullable": True}

    # ----------------------------------------------------------------------------------------------- what one schema is

    def _kinds(self, facts: Facts, depth: int, notes: list[str]) -> tuple[list[Schema], bool]:
        """A schema for each of its types."""
        kinds = list(_FREE) if facts.types is None else list(facts.types)
        if "number" in kinds and "integer" in kinds:
            kinds.remove("integer")
        limits = self.limits(facts, kinds, notes)
        form = facts.keywords.get("format")
        leaves: list[Schema] = []
        for kind in kinds:
            if kind == "null":
                continue
            leaf: Schema = {"type": kind.upper()}
            if form in FORMATS.get(kind, ()):
                leaf["format"] = form
            if kind == "object":
                self._object(facts, depth, leaf, notes)
            elif kind == "array":
                self._array(facts, depth, leaf, notes)
            leaf.update((key, limits[key]) for key in _KEYS.get(kind, ()) if key in limits and key not in leaf)
            leaves.append(leaf)
        if isinstance(form, str) and all("format" not in leaf for leaf in leaves) and any(
                kind in FORMATS for kind in kinds):
            notes.append(f"Format: {form[:80]}")
        return leaves, "null" in kinds

    def _object(self, facts: Facts, depth: int, leaf: Schema, notes: list[str]) -> None:
        declared, required = self.properties(facts, depth, notes)
        if declared:
            leaf["properties"] = declared
            if self._ordered:
                leaf["propertyOrdering"] = list(declared)
        if required:
            leaf["required"] = required
        extra = facts.keywords.get("additionalProperties")
        if extra is False and not declared:
            notes.append("Must be an empty object")
        elif isinstance(extra, dict):
            notes.append(f"{'Other' if declared else 'The'} properties have free names and values that match "
                         f"{json_text(extra)}")

    def _array(self, facts: Facts, depth: int, leaf: Schema, notes: list[str]) -> None:
        first = facts.keywords.get("prefixItems")
        rest = facts.keywords.get("items", True)
        if isinstance(first, list) and first:
            notes.append(f"The first items in order: {json_text(first)}")
            if rest is False:
                count = facts.keywords.get("maxItems")
                leaf["maxItems"] = min(count, len(first)) if isinstance(count, int) else len(first)
            items: object = {"anyOf": [*first, *([] if rest is False else [rest])]}
        else:
            items = rest
        written = self.schema(items, depth + 1) if items not in (True, {}) else self._free((), ARRAYS_IN_ARRAYS - 1)
        if written is None:
            leaf["maxItems"] = 0
            written = {"type": "STRING"}
        leaf["items"] = written

    def _values(self, facts: Facts, notes: list[str]) -> tuple[list[Schema], bool]:
        """An enum: strings are listed, other values become their types, numbers with their range, and a note."""
        values = Values(facts.enum or [], ("string",))
        if values.note:
            notes.append(values.note)
        if facts.union is not None:
            notes.append(f"Must also match one of {json_text(facts.union)}")
        leaves: list[Schema] = [{"type": "STRING", "enum": values.named}] if values.named else []
        kinds = [kind for kind in values.others if not (kind == "integer" and "number" in values.others)]
        numbers = [value for value in facts.enum or [] if is_number(value)]
        told = len(numbers) == sum(kind_of(value) in ("integer", "number") for value in facts.enum or [])
        bounds: Schema = {"minimum": min(numbers), "maximum": max(numbers)} if numbers and told else {}
        for kind in kinds:
            if kind in ("number", "integer"):
                leaves.append({"type": kind.upper(), **bounds})
            elif kind != "null":
                leaves.append(self._free((kind,), ARRAYS_IN_ARRAYS))
        return leaves, "null" in kinds

    # ----------------------------------------------------------------------------------------------------- alternatives

    def _alternatives(self, facts: Facts, depth: int, notes: list[str]) -> list[Schema]:
        """Each alternative with what stands beside them all."""
        beside = facts.as_schema()
        union = facts.union or []
        whole: list[object] = [{"allOf": [beside, option]} for option in union] if beside else union
        options = self.options(whole, facts, depth, notes)
        facts.types, facts.keywords = None, {}
        return options

    def _too_large_to_copy(self, facts: Facts) -> bool:
        return facts.types == ["object"] and len(facts.union or []) * len(properties(facts)) > COPIES


def _schemas(value: object) -> list[Schema]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
