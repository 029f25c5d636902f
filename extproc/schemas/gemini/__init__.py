"""JSON Schemas of tools and of structured output, rewritten for Gemini.

Called by the request encoder for every tool of every request; results are cached by content. There are two forms:
JSON Schema (`parametersJsonSchema`, `responseJsonSchema`) and the OpenAPI subset (`parameters`, `responseSchema`). In
both, the rewritten schema accepts whatever the original accepts, property names stay as they are, references are
replaced by their targets with cycles cut at a finite depth, and keywords that the form lacks move into the
descriptions. The input is never changed, and the same input gives the same bytes.
"""

from __future__ import annotations

import msgspec

from extproc.schemas.cache import SHARED_CACHE, Rewritten, SchemaCache
from extproc.schemas.gemini.json_schema import JsonSchemaWriter
from extproc.schemas.gemini.openapi import OpenApiWriter
from extproc.schemas.gemini.writer import SchemaWriter
from extproc.schemas.visitor import Schema, SchemaVisitor, writable

GROWTH = 64 * 1024
"""Bytes that a schema may grow by, besides doubling. Past that, references are unrolled less often, then cut."""

_ENCODER = msgspec.json.Encoder()


def encode_parameters(schema: object, *, json_schema: bool, any_of_alone: bool = False,
                      cache: SchemaCache = SHARED_CACHE) -> msgspec.Raw | None:
    """The JSON of a function's parameters: an object at the top, without alternatives there. `schema`: decoded JSON of
    any quality. None if the schema has no properties in the OpenAPI form: then `parameters` must be left out, because
    older endpoints refuse an empty object. `any_of_alone`: the endpoint allows no keyword beside `anyOf` (OpenAPI form
    only)."""
    alone = any_of_alone and not json_schema
    kind = "gemini.parametersJsonSchema" if json_schema else "gemini.parameters" + (".alone" if alone else "")
    return cache.get(kind, schema, lambda size: _encoded(
        rewrite_parameters(schema, json_schema=json_schema, any_of_alone=alone, size=size))).text


def encode_response_schema(schema: object, *, json_schema: bool, any_of_alone: bool = False,
                           cache: SchemaCache = SHARED_CACHE) -> msgspec.Raw:
    """The JSON of a schema for structured output, which may have any type at its top."""
    alone = any_of_alone and not json_schema
    kind = "gemini.responseJsonSchema" if json_schema else "gemini.responseSchema" + (".alone" if alone else "")
    text = cache.get(kind, schema, lambda size: _encoded(
        rewrite_response_schema(schema, json_schema=json_schema, any_of_alone=alone, size=size))).text
    return text if text is not None else msgspec.Raw(b"{}")


def encode_parameters_for_openai(schema: object, cache: SchemaCache = SHARED_CACHE) -> Rewritten:
    """`parameters` for Gemini behind an endpoint of the OpenAI format, which forwards the schema: the OpenAPI subset
    with types in lower case. Always an object with properties."""
    def rewrite(size: int) -> Rewritten:
        out = rewrite_parameters(schema, json_schema=False, size=size)
        return _encoded(_in_lower_case({"type": "object", "properties": {}} if out is None else out))

    return cache.get("gemini.openai", schema, rewrite)


def rewrite_format_for_openai(schema: object) -> Schema:
    """The schema of structured output for Gemini behind an endpoint of the OpenAI format."""
    return _in_lower_case(rewrite_response_schema(schema, json_schema=False, size=len(_ENCODER.encode(schema))))


def rewrite_parameters(schema: object, *, json_schema: bool, any_of_alone: bool = False,
                       size: int = 0) -> Schema | None:
    """Like `encode_parameters`, as decoded JSON. `size`: length of the schema's own JSON, in bytes."""
    for writer in _writers(schema, json_schema, any_of_alone, size, ordered=False):
        out = writer.write_parameters(schema)
        if not writer.exhausted:
            break
    return out if json_schema or out.get("properties") else None


def rewrite_response_schema(schema: object, *, json_schema: bool, any_of_alone: bool = False, size: int = 0) -> Schema:
    """Like `encode_response_schema`, as decoded JSON."""
    for writer in _writers(schema, json_schema, any_of_alone, size, ordered=True):
        out = writer.write_child(schema, 0)
        if not writer.exhausted:
            break
    return out


def _writers(root: object, json_schema: bool, any_of_alone: bool, size: int, *, ordered: bool) -> list[SchemaWriter]:
    """A writer that unrolls references twice, and one that unrolls them once, for when the first exceeds the budget. A
    tree shows its grandchildren if there is room."""
    budget = GROWTH + 2 * size
    if json_schema:
        return [JsonSchemaWriter(root, unrolls, budget) for unrolls in (2, 1)]
    return [OpenApiWriter(root, unrolls, budget, any_of_alone=any_of_alone, ordered=ordered) for unrolls in (2, 1)]


class _LowerCase(SchemaVisitor):
    def rewrite(self, out: Schema, node: Schema) -> Schema:
        kind = out.get("type")
        if isinstance(kind, str) and not kind.islower():
            out = writable(out, node)
            out["type"] = kind.lower()
        if "propertyOrdering" in out:
            out = writable(out, node)
            del out["propertyOrdering"]
        return out


def _in_lower_case(schema: Schema) -> Schema:
    found = _LowerCase().visit(schema)
    return found if isinstance(found, dict) else {}


def _encoded(schema: Schema | None) -> Rewritten:
    return Rewritten(None if schema is None else msgspec.Raw(_ENCODER.encode(schema)))
