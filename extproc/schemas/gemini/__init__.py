"""JSON Schemas of tools and of structured output, rewritten for Gemini.

Called by the request encoder for every tool of every request; the results are kept by content, so that the same tools
cost nothing twice. There are two forms: `json_schema` (`parametersJsonSchema`, `responseJsonSchema`) and the OpenAPI
subset (`parameters`, `responseSchema`). In both the rewritten schema accepts whatever the original accepts, names of
properties stay as they are, references are put in place with cycles cut at a finite depth, and what the form has no
keyword for stands in the descriptions. The input is never changed, and the same input gives the same bytes.
"""

from __future__ import annotations

import msgspec

from extproc.schemas.cache import SHARED, Rewritten, SchemaCache
from extproc.schemas.gemini.json_form import JsonForm
from extproc.schemas.gemini.openapi_form import OpenApiForm
from extproc.schemas.gemini.rewriting import Rewriter
from extproc.schemas.rewriting import Schema, SchemaVisitor, writable

GROWTH = 64 * 1024
"""Bytes that a schema may grow by, besides doubling. Past that references are entered less often, then cut."""

_ENCODER = msgspec.json.Encoder()


def parameters(schema: object, *, json_schema: bool, any_of_alone: bool = False,
               cache: SchemaCache = SHARED) -> msgspec.Raw | None:
    """The JSON of a function's parameters: an object at the top, without alternatives there. `schema` is decoded JSON
    of any quality. None when the OpenAPI form has no property to tell: then `parameters` must be left out, because
    older endpoints refuse an empty object. `any_of_alone`: the door's rule about `anyOf` (OpenAPI form only)."""
    alone = any_of_alone and not json_schema
    kind = "gemini.parametersJsonSchema" if json_schema else "gemini.parameters" + (".alone" if alone else "")
    return cache.get(kind, schema, lambda size: _encoded(
        rewritten_parameters(schema, json_schema=json_schema, any_of_alone=alone, size=size))).text


def response_schema(schema: object, *, json_schema: bool, any_of_alone: bool = False,
                    cache: SchemaCache = SHARED) -> msgspec.Raw:
    """The JSON of a schema for structured output, which may have any type at its top."""
    alone = any_of_alone and not json_schema
    kind = "gemini.responseJsonSchema" if json_schema else "gemini.responseSchema" + (".alone" if alone else "")
    text = cache.get(kind, schema, lambda size: _encoded(
        rewritten_response(schema, json_schema=json_schema, any_of_alone=alone, size=size))).text
    return text if text is not None else msgspec.Raw(b"{}")


def openai_parameters(schema: object, cache: SchemaCache = SHARED) -> Rewritten:
    """`parameters` for a Gemini behind an endpoint of the OpenAI format, which hands the schema on: the OpenAPI subset
    with the types as JSON Schema writes them. Always an object with properties."""
    def rewrite(size: int) -> Rewritten:
        out = rewritten_parameters(schema, json_schema=False, size=size)
        return _encoded(_in_lower_case({"type": "object", "properties": {}} if out is None else out))

    return cache.get("gemini.openai", schema, rewrite)


def openai_format(schema: object) -> Schema:
    """The same for structured output."""
    return _in_lower_case(rewritten_response(schema, json_schema=False, size=len(_ENCODER.encode(schema))))


def rewritten_parameters(schema: object, *, json_schema: bool, any_of_alone: bool = False,
                         size: int = 0) -> Schema | None:
    """`parameters` as decoded JSON. `size`: the bytes of the schema's own JSON."""
    for rewriter in _attempts(schema, json_schema, any_of_alone, size, ordered=False):
        out = rewriter.object_on_top(schema)
        if not rewriter.exhausted:
            break
    return out if json_schema or out.get("properties") else None


def rewritten_response(schema: object, *, json_schema: bool, any_of_alone: bool = False, size: int = 0) -> Schema:
    """`response_schema` as decoded JSON."""
    for rewriter in _attempts(schema, json_schema, any_of_alone, size, ordered=True):
        out = rewriter.child(schema, 0)
        if not rewriter.exhausted:
            break
    return out


def _attempts(root: object, json_schema: bool, any_of_alone: bool, size: int, *, ordered: bool) -> list[Rewriter]:
    """Rewriters that enter references twice, then once on one way: a tree shows its children's children when there is
    room for them."""
    budget = GROWTH + 2 * size
    if json_schema:
        return [JsonForm(root, unrolls, budget) for unrolls in (2, 1)]
    return [OpenApiForm(root, unrolls, budget, any_of_alone=any_of_alone, ordered=ordered) for unrolls in (2, 1)]


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
