"""JSON Schemas for the Messages API: the input of a tool, and the form of an answer.

A tool's schema only weakens: names of properties that the API refuses leave `properties` and are told in words. The
schema of an answer (and of a strict tool) is compiled into a grammar that knows a part of JSON Schema only: what it
does not know goes into the descriptions; a schema that it cannot express at all is not sent. Called by the request
encoder. The input is never changed.

Sources: the API's 400 "Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"; the documentation of structured
outputs (every object closed, no recursion, no bounds of numbers, strings and long arrays).
"""

from __future__ import annotations

import re

import msgspec

from extproc.schemas.cache import SHARED, Rewritten
from extproc.schemas.functions import clean_parameters
from extproc.schemas.rewriting import MAX_DEPTH, Schema, SchemaVisitor, clean_schema, fits_strict, writable

_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})
_KNOWN = frozenset({"type", "required", "enum", "const", "$ref", "description", "title", "default", "format",
                    "minItems"})
_OUT_OF_REACH = frozenset({"patternProperties", "prefixItems", "not", "if", "dependentSchemas"})
_SAYS_SOMETHING = frozenset({"type", "enum", "const", "anyOf", "allOf", "$ref", "properties"})
_KINDS = frozenset({"type", "enum", "const", "anyOf", "allOf", "$ref"})
"""One of them says what a value is."""
_NO_SCHEMAS = frozenset({"$defs", "definitions", "enum", "const", "default", "$ref"})
_NOTE_LIMIT = 500
_ENCODER = msgspec.json.Encoder()


class _LegalKeys(SchemaVisitor):
    """Takes properties with names outside the API's alphabet out, and describes them instead."""

    def rewrite(self, out: Schema, node: Schema) -> Schema:
        properties = out.get("properties")
        if not isinstance(properties, dict):
            return out
        odd = [name for name in properties if not _KEY.fullmatch(name)]
        if not odd:
            return out
        out = writable(out, node)
        out["properties"] = {name: child for name, child in properties.items() if name not in odd}
        required = out.get("required")
        needed = [name for name in odd if isinstance(required, list) and name in required]
        if isinstance(required, list):
            out["required"] = [name for name in required if name not in odd]
        if out.get("additionalProperties") is False:
            del out["additionalProperties"]
        for name in odd:
            must = " (required)" if name in needed else ""
            _describe(out, f"Also takes the property {_json(name)}{must} of this schema: {_json(properties[name])}")
        return out


_LEGAL_KEYS = _LegalKeys()


def tool_schema(schema: Schema) -> Rewritten:
    """`input_schema` as it is sent; `strict`: it can be compiled as it stands. Remembered by content."""
    return SHARED.get("anthropic", schema, lambda size: _tool_schema(schema))


def _tool_schema(schema: Schema) -> Rewritten:
    found = input_schema(schema)
    return Rewritten(msgspec.Raw(_ENCODER.encode(found)), fits_strict(found) and _is_expressible(found))


def input_schema(schema: Schema) -> Schema:
    """The schema of a tool's input: an object at the top, names that the API takes."""
    visited = _LEGAL_KEYS.visit(schema)
    return clean_parameters(visited if isinstance(visited, dict) else {})


class _NotExpressible(Exception):  # noqa: N818 - a verdict, not an error
    """The grammar cannot say this schema."""


def output_schema(schema: Schema) -> Schema | None:
    """The schema for `output_config.format`, None when it cannot be said there: recursion, references out of the
    document, objects with free names, tuples, alternatives that exclude each other."""
    try:
        cleaned = clean_schema(schema)
        if not cleaned or _recursive(cleaned):
            return None
        return _closed(cleaned, 0)
    except _NotExpressible:
        return None


def _is_expressible(schema: Schema) -> bool:
    """Whether a strict tool's schema can be compiled as it stands."""
    try:
        return _closed(schema, 0) == schema and not _recursive(schema)
    except _NotExpressible:
        return False


def _closed(node: object, depth: int) -> Schema:
    if not isinstance(node, dict) or depth > MAX_DEPTH:
        raise _NotExpressible
    out: Schema = {}
    lost: list[str] = []
    for key, value in node.items():
        if key in ("properties", "$defs", "definitions"):
            out[key] = {name: _closed(child, depth + 1) for name, child in _object(value).items()}
        elif key in ("anyOf", "allOf", "oneOf"):
            # Alternatives of one kind each exclude each other anyway.
            out["anyOf" if key == "oneOf" else key] = [_closed(child, depth + 1) for child in _list(value)]
        elif key == "items":
            out[key] = _closed(value, depth + 1)
        elif key == "additionalProperties":
            if isinstance(value, dict) and value:
                raise _NotExpressible  # a map: its names are data
        elif key in _OUT_OF_REACH or not _plain(key, value):
            raise _NotExpressible
        elif key not in _KNOWN or (key == "minItems" and value not in (0, 1)) \
                or (key == "format" and value not in _FORMATS):
            lost.append(f"{key}: {_json(value)}")
        else:
            out[key] = value
    if not _SAYS_SOMETHING & out.keys():
        raise _NotExpressible  # anything at all
    if "properties" in out and not _KINDS & out.keys():
        out = {"type": "object", **out}  # the grammar wants to be told
    if "object" in _kinds(node) or "properties" in out:
        if not out.get("properties") and node.get("additionalProperties") is not False:
            raise _NotExpressible  # any object
        out["additionalProperties"] = False
    if lost:
        _describe(out, ", ".join(lost))
    return out


def _plain(key: str, value: object) -> bool:
    """Whether a keyword's value is one that the grammar can say."""
    if key == "$ref":
        return isinstance(value, str) and value.startswith("#/")
    if key == "enum":
        return not any(isinstance(item, (dict, list)) for item in _list(value))
    return key != "const" or not isinstance(value, (dict, list))


def _recursive(root: Schema) -> bool:
    """Whether following references from the top comes back to one that is open. Each is followed once."""
    open_, done = set[str](), set[str]()

    def visit(node: object) -> bool:
        if isinstance(node, list):
            return any(visit(child) for child in node)
        if not isinstance(node, dict):
            return False
        reference = node.get("$ref")
        if isinstance(reference, str) and reference not in done:
            if reference in open_ or len(open_) > MAX_DEPTH:
                return True
            open_.add(reference)
            if visit(_target(reference, root)):
                return True
            open_.discard(reference)
            done.add(reference)
        return any(visit(child) for key, child in node.items() if key not in _NO_SCHEMAS)

    return visit(root)


def _target(reference: str, root: Schema) -> object:
    node: object = root
    for step in reference.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict) or name not in node:
            raise _NotExpressible
        node = node[name]
    return node


def _kinds(node: Schema) -> list[object]:
    found = node.get("type")
    return found if isinstance(found, list) else [found]


def _object(value: object) -> Schema:
    if not isinstance(value, dict):
        raise _NotExpressible
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise _NotExpressible
    return value


def _describe(schema: Schema, note: str) -> None:
    old = schema.get("description")
    note = note if len(note) <= _NOTE_LIMIT else note[: _NOTE_LIMIT - 3] + "..."
    schema["description"] = f"{old}\n{note}" if isinstance(old, str) and old else note


def _json(value: object) -> str:
    return _ENCODER.encode(value).decode()
