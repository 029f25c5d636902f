"""The JSON Schema of a tool -> what is known about the values of each parameter, for `coercion.py`.

`tool_shape` is called once per tool call and cached by the schema's content. References and branches are followed with
bounds, since schemas come from clients and may be circular or fan out. Nothing is fetched: a `$ref` that leaves the
schema is ignored. No values are read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from extproc.bounds import bounded_cache
from extproc.schemas.references import resolve_pointer
from extproc.schemas.types import first_json_type, json_type

Schema = dict[str, object]

_MAX_SCHEMAS = 256
"""Most subschemas (references, branches) of one parameter."""
_MAX_KEPT = 4096
"""Most parameters of nested members that one schema caches."""
_MAX_CACHED_SCHEMA = 16 * 1024
"""Longest schema, in bytes of JSON, whose shape is cached. The shape takes 27 times as much memory."""

STRING = frozenset({"string"})


class Parameter(msgspec.Struct, frozen=True):
    """What is known about the values of one parameter."""

    schema: Schema | bool | None
    """As declared; None if the tool declares no such parameter."""
    types: frozenset[str]
    """The JSON types that the schema allows, and `any` for a type name that JSON Schema does not know. A schema without
    types allows strings."""
    typed: bool = True
    """False if `types` is the default. A dialect that marks strings then relies on its own mark."""
    choices: tuple[object, ...] | None = None
    """The members of `enum` and `const`."""
    alternatives: tuple[Schema, ...] = ()
    """The schema and its branches in one list, references resolved."""
    document: Document | None = None

    @property
    def streams(self) -> bool:
        """True if the text may be sent before its end is known: it is a string whatever follows."""
        return self.choices is None and self.types == STRING


class Document:
    """The schema that references point into, and a cache of the parameters made of its parts. A parameter is made when
    a value needs it, since recursive schemas have infinitely many."""

    __slots__ = ("kept", "root")

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.kept: dict[tuple[int, ...], Parameter] = {}

    def parameter(self, schemas: Sequence[object]) -> Parameter:
        """A parameter with these alternative schemas. Parts are cached by identity; the root keeps them alive."""
        key = tuple(map(id, schemas))
        found = self.kept.get(key)
        if found is None:
            found = self._make(schemas)
            if len(self.kept) < _MAX_KEPT:
                self.kept[key] = found
        return found

    def _make(self, schemas: Sequence[object]) -> Parameter:
        alternatives = self.lay_out(schemas)
        types: set[str] = set()
        choices: list[object] = []
        for schema in alternatives:
            types.update(_declared_types(schema))
            choices += _choices(schema)
        if types and any(schema.get("nullable") is True for schema in alternatives):
            types.add("null")
        first = schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}
        return Parameter(schema=first if isinstance(first, (dict, bool)) else None,
                         types=frozenset(types) or STRING, typed=bool(types), choices=tuple(choices) or None,
                         alternatives=alternatives, document=self)

    def lay_out(self, schemas: Iterable[object]) -> tuple[Schema, ...]:
        """The schemas, each followed by the target of its reference and its branches, without duplicates."""
        out: list[Schema] = []
        seen: set[int] = set()
        waiting = list(schemas)[::-1]
        while waiting and len(out) < _MAX_SCHEMAS:
            schema = waiting.pop()
            if not isinstance(schema, dict) or id(schema) in seen:
                continue
            seen.add(id(schema))
            out.append(schema)
            waiting += _parts(schema, self.root)[::-1]
        return tuple(out)


class ToolShape(msgspec.Struct, frozen=True):
    """The parameters of one tool."""

    name: str
    parameters: dict[str, Parameter]
    required: frozenset[str]
    closed: bool
    """No other parameters are allowed (`additionalProperties: false`)."""
    others: Parameter
    """The description of parameters that are not declared."""


_UNDECLARED = Parameter(schema=None, types=STRING, typed=False)


def tool_shape(schema: Schema, name: str = "") -> ToolShape:
    """The shape of a tool with this parameter schema. Never raises: an invalid schema allows strings."""
    try:
        encoded = msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return _shape(schema, name)
    return _cached_shape(encoded, name)


@bounded_cache(entries=128, longest=_MAX_CACHED_SCHEMA)
def _cached_shape(encoded: bytes, name: str) -> ToolShape:
    return _shape(msgspec.json.decode(encoded), name)


def _shape(schema: object, name: str) -> ToolShape:
    root: Schema = schema if isinstance(schema, dict) else {}
    document = Document(root)
    alternatives = document.lay_out([root])
    declared: dict[str, list[object]] = {}
    others: list[object] = []
    for part in alternatives:
        for key, child in mapping(part.get("properties")).items():
            declared.setdefault(key, []).append(child)
        if isinstance(part.get("additionalProperties"), dict):
            others.append(part["additionalProperties"])
    required, closed = _demands(root, root, 0, [_MAX_SCHEMAS])
    return ToolShape(name=name, parameters={key: document.parameter(found) for key, found in declared.items()},
                     required=required, closed=closed,
                     others=document.parameter(others) if others else _UNDECLARED)


def parameter(shape: ToolShape, key: str) -> Parameter:
    """The parameter `key`. An undeclared one follows `additionalProperties`; without it, it is a string."""
    found = shape.parameters.get(key)
    return shape.others if found is None else found


# ------------------------------------------------------------------------------------------------------------ reading


def _parts(schema: Schema, root: Schema) -> list[object]:
    """The target of a schema's reference, and its branches."""
    found: list[object] = []
    if "$ref" in schema:
        found.append(resolve_pointer(schema["$ref"], root))
    for key in ("allOf", "anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list):
            found += branches
    return found


def _declared_types(schema: Schema) -> set[str]:
    declared = schema.get("type")
    types = {_type_name(name) for name in (declared if isinstance(declared, list) else [declared])
             if isinstance(name, str)}
    for choice in _choices(schema):
        types.update(json_types(choice)[:1])
    if not types and not any(key in schema for key in ("$ref", "allOf", "anyOf", "oneOf")):
        # a schema with members describes a container
        if isinstance(schema.get("properties"), dict) or isinstance(schema.get("additionalProperties"), dict):
            types.add("object")
        if isinstance(schema.get("items"), (dict, list)) or isinstance(schema.get("prefixItems"), list):
            types.add("array")
    return types


def _type_name(name: str) -> str:
    return json_type(name) or first_json_type(name) or "any"


def _choices(schema: Schema) -> list[object]:
    listed = schema.get("enum")
    choices = list(listed) if isinstance(listed, list) else []
    return [*choices, schema["const"]] if "const" in schema else choices


def json_types(value: object) -> tuple[str, ...]:
    """The JSON types of a value, narrowest first."""
    if value is None:
        return ("null",)
    if isinstance(value, bool):
        return ("boolean",)
    if isinstance(value, int):
        return ("integer", "number")
    if isinstance(value, float):
        return ("number",)
    if isinstance(value, str):
        return ("string",)
    return ("object",) if isinstance(value, dict) else ("array",)


def _demands(schema: Schema, root: Schema, depth: int, left: list[int]) -> tuple[frozenset[str], bool]:
    """The required names, and True if undeclared names are forbidden. `left`: a countdown of the schemas that may still
    be read."""
    left[0] -= 1
    if depth > 16 or left[0] < 0:
        return frozenset(), False
    names = schema.get("required")
    required = frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
    closed = schema.get("additionalProperties") is False
    both = [resolve_pointer(schema["$ref"], root)] if "$ref" in schema else []
    both += _dicts(schema.get("allOf"))
    for part in both:
        if part is not None:
            more, shut = _demands(part, root, depth + 1, left)
            required, closed = required | more, closed or shut
    for key in ("anyOf", "oneOf"):
        branches = [_demands(part, root, depth + 1, left) for part in _dicts(schema.get(key))]
        if branches:
            required |= frozenset.intersection(*(names for names, _ in branches))
            closed = closed or all(shut for _, shut in branches)
    return required, closed


def mapping(value: object) -> Schema:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Schema]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []
