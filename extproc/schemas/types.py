"""The seven types of JSON Schema, and the other names that clients write for them.

One table for all directions: the schemas sent to providers (`openai.py`, `gemini/`) and the reading of arguments that
a model wrote as text (`dialects/shapes.py`).

Sources: the names that vLLM's tool parsers take (`str, text, varchar, char, enum`: string; `int*, uint*, long, short`:
integer; `float*, double`: number; `bool`; `dict`; `arr, list, sequence`), and names that schemas of MCP servers were
seen to use.
"""

from __future__ import annotations

import re

JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")

_OTHER_NAMES = {
    "string": ("str", "text", "char", "varchar", "enum", "date", "datetime", "uuid"),
    "integer": ("int", "uint", "long", "short"),
    "number": ("num", "float", "double", "decimal"),
    "boolean": ("bool",),
    "object": ("obj", "dict", "map", "struct"),
    "array": ("arr", "list", "tuple", "set", "sequence"),
    "null": ("none", "nil"),
}
_MEANINGS = {name: kind for kind, names in _OTHER_NAMES.items() for name in (kind, *names)}
_ANY_TYPE = frozenset({"", "any", "mixed"})
_TYPE_NAME = re.compile(r"([a-z]+)[0-9]*(?:\[.*\]|<.*>|\(.*\))?", re.DOTALL)
"""A word with a size or parameters: `int64`, `list[str]`, `varchar(20)`."""


def json_type(name: object) -> str | None:
    """The type that a name means, in any case: `STRING`, `int64` and `list[str]` are known. None if it means none."""
    if not isinstance(name, str):
        return None
    found = _TYPE_NAME.fullmatch(name.lower())
    return _MEANINGS.get(found[1]) if found is not None else None


def first_json_type(text: str) -> str | None:
    """The type that the first word means, for reading: `string|null` counts as a string."""
    found = _TYPE_NAME.match(text.lower())
    return _MEANINGS.get(found[1]) if found is not None else None


def means_any_type(name: object) -> bool:
    """True for the words that generators write for a type that allows everything."""
    return isinstance(name, str) and name.lower() in _ANY_TYPE


def declared_types(schema: dict[str, object]) -> list[object]:
    """The members of `type`, as they are written; empty if it is absent."""
    found = schema.get("type")
    return found if isinstance(found, list) else [] if found is None else [found]
