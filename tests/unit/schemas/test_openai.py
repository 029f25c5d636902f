"""JSON Schemas in, schemas that servers of the OpenAI format take out."""

from __future__ import annotations

import copy

import pytest

from extproc.schemas.function_parameters import clean_parameters
from extproc.schemas.openai import clean_schema, fits_strict
from extproc.schemas.visitor import MAX_DEPTH


def prop(schema):
    """One property's schema after cleaning."""
    return clean_parameters({"type": "object", "properties": {"p": schema}})["properties"]["p"]


def test_a_clean_schema_comes_back_as_the_same_object():
    schema = {"type": "object", "properties": {"a": {"type": ["string", "null"], "pattern": "^a+$"},
                                               "b": {"type": "array", "items": {"$ref": "#/$defs/B"}}},
              "required": ["a"], "additionalProperties": False, "$defs": {"B": {"enum": [1, None], "default": None}}}
    assert clean_parameters(schema) is schema


def test_the_input_is_never_changed():
    schema = {"$schema": "x", "type": "object", "properties": {"a": {"type": "int"}}, "required": None,
              "anyOf": [{"properties": {"b": {"type": "array"}}}]}
    before = copy.deepcopy(schema)
    clean_parameters(schema)
    assert schema == before


@pytest.mark.parametrize("name", ["type", "title", "$ref", "default", "required", "enum", "pattern", "properties",
                                  "$schema", "items", "anyOf", "description"])
def test_p7_names_of_properties_are_never_touched(name):
    schema = {"$id": "x", "type": "object", "properties": {name: {"type": "str"}}}
    assert clean_parameters(schema)["properties"] == {name: {"type": "string"}}


@pytest.mark.parametrize(("given", "cleaned"), [
    ({"type": "array"}, {"type": "array", "items": {}}),
    ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
    ({"type": "array", "items": None}, {"type": "array", "items": {}}),
    ({"type": "array", "items": [{"type": "int"}], "additionalItems": False},
     {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}),
    ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, {"type": "integer", "exclusiveMinimum": 3}),
    ({"type": "integer", "maximum": 3, "exclusiveMaximum": False}, {"type": "integer", "maximum": 3}),
    ({"exclusiveMinimum": True}, {}),
    ({"type": "STRING"}, {"type": "string"}),
    ({"type": "dict"}, {"type": "object"}),
    ({"type": "uint8"}, {"type": "integer"}),
    ({"type": "varchar(20)"}, {"type": "string"}),
    ({"type": "list[str]"}, {"type": "array", "items": {}}),
    ({"type": "objekt"}, {}),
    ({"type": "any"}, {}),
    ({"type": ["str", "string", "None", "file"]}, {"type": ["string", "null"]}),
    ({"type": []}, {}),
    ({"type": "string", "required": True}, {"type": "string"}),
    ({"type": "object", "properties": {}, "required": None}, {"type": "object", "properties": {}}),
    ({"type": "object", "properties": None}, {"type": "object"}),
    ({"enum": []}, {}),
    ({"anyOf": None, "oneOf": []}, {}),
    ({"default": None, "const": None}, {"default": None, "const": None}),
    ({"minimum": None, "title": 3}, {}),
    ({"$ref": "#/$defs/X"}, {"description": "Follows the schema #/$defs/X."}),
    ({"anyOf": [{"type": "int"}, {"$schema": "x"}]}, {"anyOf": [{"type": "integer"}, {}]}),
    ({"additionalProperties": {"type": "float"}}, {"additionalProperties": {"type": "number"}}),
    ("string", {}),
    (None, {}),
    (True, True),
])
def test_forms_that_servers_refuse_are_rewritten(given, cleaned):
    assert prop(given) == cleaned


def test_a_pattern_that_does_not_compile_moves_into_the_description():
    cleaned = prop({"type": "string", "pattern": r"^\p{L}+$", "description": "A word"})
    assert cleaned == {"type": "string", "description": "A word\nMust match the regular expression ^\\p{L}+$."}
    cleaned = prop({"patternProperties": {r"^\p{L}": {}, "^a": {}}})
    assert cleaned["patternProperties"] == {"^a": {}}
    assert r"^\p{L}" in cleaned["description"]


@pytest.mark.parametrize("schema", [{}, {"type": "object"}, {"type": ["object", "null"]}, {"type": "string"},
                                    {"properties": {}}, {"type": "object", "properties": None}])
def test_p24_the_top_is_an_object_with_properties(schema):
    assert clean_parameters(schema) == {"type": "object", "properties": {}}


def test_a_union_at_the_top_is_merged_and_described():
    cleaned = clean_parameters({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "int"}}, "required": ["kind", "x"]},
        {"$ref": "#/$defs/B"}], "$defs": {"B": {"type": "object", "properties": {"kind": {"const": "b"}},
                                                "required": ["kind"]}}})
    assert cleaned["type"] == "object"
    assert cleaned["properties"] == {"kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "x": {"type": "integer"}}
    assert cleaned["required"] == ["kind"]
    assert "exactly one of these sets of properties: kind, x; kind" in cleaned["description"]
    assert "oneOf" not in cleaned


def test_allof_at_the_top_is_merged_with_everything_it_demands():
    cleaned = clean_parameters({"type": "object", "properties": {"a": {}}, "required": ["a"], "allOf": [
        {"properties": {"b": {}}, "required": ["b"], "additionalProperties": False}]})
    assert cleaned == {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a", "b"],
                       "additionalProperties": False}


@pytest.mark.parametrize(("reference", "name"), [("item.json", {"$id": "item.json"}), ("#item", {"$anchor": "item"})])
def test_a_reference_by_name_at_the_top_is_followed(reference, name):
    item = {**name, "type": "object", "properties": {"a": {"type": "string"}}}
    cleaned = clean_parameters({"$ref": reference, "$defs": {"Item": item}})
    assert cleaned["properties"] == {"a": {"type": "string"}}
    assert "description" not in cleaned


def test_a_reference_at_the_top_is_followed_even_in_a_circle():
    node = {"type": "object", "properties": {"next": {"$ref": "#/definitions/Node"}}}
    cleaned = clean_parameters({"$ref": "#/definitions/Node", "definitions": {"Node": node}})
    assert cleaned["properties"] == node["properties"]
    assert cleaned["definitions"] == {"Node": node}
    circle = clean_parameters({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}})
    assert (circle["type"], circle["properties"]) == ("object", {})
    assert "$ref" not in circle


def test_references_that_fan_out_at_the_top_are_bounded():
    fan = {f"L{level}": {"anyOf": [{"$ref": f"#/$defs/L{level + 1}"}] * 20} for level in range(20)}
    cleaned = clean_parameters({"$ref": "#/$defs/L0", "$defs": fan})
    assert cleaned["type"] == "object"


def test_values_at_the_top_are_described():
    cleaned = clean_parameters({"type": "object", "properties": {}, "not": {"required": ["a"]}, "enum": [{"a": 1}]})
    assert set(cleaned) == {"type", "properties", "description"}
    assert '[{"a":1}]' in cleaned["description"]
    assert '{"required":["a"]}' in cleaned["description"]


def test_rule_7_a_schema_that_is_nested_too_deep_is_cut():
    schema = {"type": "string"}
    for _ in range(MAX_DEPTH * 3):
        schema = {"type": "object", "properties": {"p": schema}}
    cleaned, depth = clean_parameters(schema), 0
    while cleaned.get("properties"):
        cleaned, depth = cleaned["properties"]["p"], depth + 1
    assert depth == MAX_DEPTH + 1


def test_structured_output_may_have_any_type_at_the_top():
    assert clean_schema({"type": "array", "items": {"type": "str"}}) == {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(("schema", "fits"), [
    ({"type": "object", "properties": {}, "additionalProperties": False}, True),
    ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
      "additionalProperties": False}, True),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
    ({"type": "object", "properties": {}}, False),
    ({"type": "object", "properties": {"a": {"type": "object"}}, "required": ["a"],
      "additionalProperties": False}, False),
    ({"type": "object", "properties": {}, "additionalProperties": False, "allOf": [{}]}, False),
])
def test_strict_is_only_for_schemas_that_meet_its_demands(schema, fits):
    assert fits_strict(schema) is fits
