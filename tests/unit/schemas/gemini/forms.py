"""Schemas rewritten for Gemini and checked by the strict provider."""

from __future__ import annotations

from typing import Any

from extproc.schemas.gemini import rewrite_parameters, rewrite_response_schema
from tests.providers.gemini_schema import check_schema
from tests.schemas import accepting, as_json_schema

Json = Any


def tool(schema: Json, *, json_schema: bool = False, vertex: bool = False) -> Json:
    """A tool's schema as it is sent. Fails if Gemini would refuse it."""
    written = rewrite_parameters(schema, json_schema=json_schema, any_of_alone=vertex)
    if written is not None:
        assert check_schema(written, json_schema=json_schema, vertex=vertex) is None
    return written


def prop(schema: Json, *, json_schema: bool = False, vertex: bool = False, **beside: Json) -> Json:
    """One property's schema as it is sent. `beside`: keywords at the top, such as `$defs`."""
    around = {key.replace("_", "$", 1): value for key, value in beside.items()}
    whole = {"type": "object", "properties": {"p": schema}, **around}
    return tool(whole, json_schema=json_schema, vertex=vertex)["properties"]["p"]


def both(schema: Json, **beside: Json) -> tuple[Json, Json]:
    """One property as OpenAPI schema and as JSON Schema."""
    return prop(schema, **beside), prop(schema, json_schema=True, **beside)


def response(schema: Json, *, json_schema: bool = False, vertex: bool = False) -> Json:
    written = rewrite_response_schema(schema, json_schema=json_schema, any_of_alone=vertex)
    assert check_schema(written, json_schema=json_schema, vertex=vertex, top=False) is None
    return written


def allows(written: Json, value: Json) -> bool:
    """True if a rewritten schema, of either form, allows a value."""
    return accepting(as_json_schema(written) if _is_openapi(written) else written)(value)


def _is_openapi(written: Json) -> bool:
    kinds = [written.get("type"), *(option.get("type") for option in written.get("anyOf", []))]
    return any(isinstance(kind, str) and kind.isupper() for kind in kinds)
