"""Structured output and strict tools of the Messages API: schemas that its grammar can compile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.schemas.anthropic import output_schema, tool_schema

Json = dict[str, Any]
NODE: Json = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "additionalProperties": False}


def closed(**properties: Any) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def test_an_unknown_keyword_moves_into_the_description():
    written = output_schema({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}})
    assert written == {"type": "object", "properties": {"n": {"type": "integer", "description": "minimum: 1"}},
                       "additionalProperties": False}


def test_one_of_becomes_any_of():
    written = output_schema({"oneOf": [{"type": "string"}, {"type": "integer"}]})
    assert written == {"anyOf": [{"type": "string"}, {"type": "integer"}]}


@pytest.mark.parametrize("name", ["next", "enum", "default", "$defs"])
def test_a_recursive_schema_is_not_expressible_whatever_the_property_is_called(name):
    node = {"type": "object", "properties": {name: {"$ref": "#/$defs/Node"}}}
    assert output_schema({**closed(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}) is None


@pytest.mark.parametrize("schema", [
    {}, {"type": "object"}, {"type": "object", "properties": {"a": {}}}, {"type": "array", "prefixItems": [{}]},
    {"type": "object", "additionalProperties": {"type": "string"}}, closed(a={"not": {"type": "string"}}),
    closed(a={"$ref": "#"}), {"anyOf": [{"type": "string"}, {"$ref": "#/anyOf/0"}]}, closed(a={"enum": [{"b": 1}]})])
def test_a_schema_that_the_grammar_cannot_express_is_not_sent(schema):
    assert output_schema(schema) is None


def test_a_keyword_whose_value_has_another_shape_is_described():
    assert output_schema({"type": "string", "format": {}}) == {"type": "string", "description": "format: {}"}


def test_rule_7_a_long_chain_of_references_is_bounded():
    """Each target nests deeply, so that a plain recursion over all of them would exceed Python's stack."""
    def level(number: int) -> Json:
        inner: Json = {"$ref": f"#/$defs/L{number + 1}"}
        for _ in range(20):
            inner = closed(p=inner)
        return inner

    levels = {f"L{number}": level(number) for number in range(60)}
    assert output_schema({**closed(p={"$ref": "#/$defs/L0"}), "$defs": {**levels, "L60": {"type": "string"}}}) is None


@pytest.mark.parametrize(("schema", "strict"), [
    (closed(a={"type": "string"}), True), (closed(a={"type": "integer", "minimum": 1}), False),
    ({**closed(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}}, False),
    ({**closed(root={"$ref": "#/$defs/Leaf"}), "$defs": {"Leaf": closed(a={"type": "string"})}}, True)])
def test_a_tool_is_strict_if_its_schema_compiles_unchanged(schema, strict):
    found = tool_schema(schema)
    assert found.text is not None
    assert json.loads(bytes(found.text)) == schema
    assert found.strict is strict
