"""P7, keyword by keyword: what Gemini refuses in a schema is rewritten, and what is lost is described."""

from __future__ import annotations

import pytest

from tests.unit.schemas.gemini.forms import allows, both, prop, tool

NODE = {"type": "object", "properties": {"name": {"type": "string"},
                                         "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
        "required": ["name"]}


@pytest.mark.parametrize("key", ["$schema", "$id", "$comment", "$anchor", "x-order", "readOnly", "unknown"])
def test_p7_keywords_without_meaning_for_a_model_are_removed(key):
    schema = {key: "https://json-schema.org/draft/2020-12/schema", "type": "object",
              "properties": {"a": {"type": "string", key: "x"}}}
    assert tool(schema) == {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
    assert tool(schema, json_schema=True) == {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.mark.parametrize("name", ["title", "default", "$ref", "type", "properties", "enum", "required", "items",
                                  "const", "$defs", "anyOf", "nullable", "description", "additionalProperties"])
def test_p7_names_of_properties_are_never_touched(name):
    schema = {"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]}
    assert tool(schema) == {"type": "OBJECT", "properties": {name: {"type": "INTEGER"}}, "required": [name]}
    assert tool(schema, json_schema=True) == schema


def test_p7_references_are_replaced_by_their_targets():
    schema = {"type": "object", "properties": {"at": {"$ref": "#/$defs/Place"}, "to": {"$ref": "#/definitions/Place"}},
              "$defs": {"Place": {"type": "string", "description": "A city"}},
              "definitions": {"Place": {"type": "string"}}}
    assert tool(schema)["properties"] == {"at": {"type": "STRING", "description": "A city"}, "to": {"type": "STRING"}}
    assert tool(schema, json_schema=True)["properties"] == {"at": {"type": "string", "description": "A city"},
                                                            "to": {"type": "string"}}


def test_p7_texts_beside_a_reference_precede_those_of_its_target():
    openapi, plain = both({"$ref": "#/$defs/A", "description": "Where to go"},
                          _defs={"A": {"type": "string", "description": "A city", "title": "Place"}})
    assert openapi == {"type": "STRING", "title": "Place", "description": "Where to go\nA city"}
    assert plain == {"type": "string", "title": "Place", "description": "Where to go\nA city"}


def test_p7_up_to_draft_7_keywords_beside_a_reference_are_ignored():
    beside = {"$ref": "#/definitions/A", "type": "integer", "description": "kept"}
    for draft, kind in (("http://json-schema.org/draft-07/schema#", "STRING"),
                        ("https://json-schema.org/draft/2020-12/schema", None)):
        schema = {"$schema": draft, "type": "object", "properties": {"p": beside},
                  "definitions": {"A": {"type": "string"}}}
        written = tool(schema)["properties"]["p"]
        assert written.get("type") == (kind or "STRING")  # in 2020-12 no value can match
        assert ("Must be left out" in written["description"]) is (kind is None)


def test_p7_recursion_is_cut_at_a_finite_depth():
    for json_schema in (False, True):
        written = tool({"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": NODE}},
                       json_schema=json_schema)
        node, depth = written["properties"]["root"], 0
        while "properties" in node:
            assert node["required"] == ["name"]
            node, depth = node["properties"]["children"]["items"], depth + 1
        assert depth == 2
        assert node["type"].lower() == "object"
        assert "same form as Node above" in node["description"]
        assert "$ref" not in str(written)


@pytest.mark.parametrize("definitions", [
    {"A": {"$ref": "#/$defs/A"}},
    {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    {"A": {"allOf": [{"$ref": "#/$defs/A"}]}},
    {"A": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "string"}]}},
])
def test_p7_circular_references_end(definitions):
    both({"$ref": "#/$defs/A"}, _defs=definitions)


@pytest.mark.parametrize("reference", ["#/$defs/Missing", "https://example.com/a.json", "other.json#/a", "#nowhere", 3])
def test_p7_a_reference_that_leads_nowhere_allows_anything_and_says_so(reference):
    for written in both({"$ref": reference}):
        assert all(allows(written, value) for value in (1, "a", None, [1], {"a": 1}))
    if isinstance(reference, str):
        assert reference in prop({"$ref": reference}, json_schema=True)["description"]


@pytest.mark.parametrize("reference", ["#/properties/q", "#/$defs/a~1b", "#/$defs/a%20b", "#/$defs/L/anyOf/1", "#named",
                                       "https://example.com/x"])
def test_p7_references_of_every_form_are_followed(reference):
    written = tool({"type": "object", "properties": {"p": {"$ref": reference}, "q": {"type": "boolean"}},
                    "$defs": {"a/b": {"type": "boolean"}, "a b": {"type": "boolean"},
                              "L": {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
                              "N": {"$anchor": "named", "type": "boolean"},
                              "I": {"$id": "https://example.com/x", "type": "boolean"}}})
    assert written["properties"]["p"] == {"type": "BOOLEAN"}


def test_p7_additional_properties():
    assert both({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}) == (
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False})
    openapi, plain = both({"type": "object", "additionalProperties": {"type": "number"}})
    assert openapi == {"type": "OBJECT", "description":
                       'The properties have free names and values that match {"type":"number"}.'}
    assert plain == {"type": "object", "additionalProperties": {"type": "number"}}


@pytest.mark.parametrize(("given", "openapi"), [
    ({"type": "integer", "exclusiveMinimum": 0}, {"type": "INTEGER", "minimum": 1}),
    ({"type": "integer", "exclusiveMaximum": 10}, {"type": "INTEGER", "maximum": 9}),
    ({"type": "integer", "exclusiveMinimum": 0.5, "minimum": -3}, {"type": "INTEGER", "minimum": 1}),
    ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, {"type": "INTEGER", "minimum": 4}),
    ({"type": "number", "exclusiveMinimum": 0},
     {"type": "NUMBER", "description": "Must be greater than 0.", "minimum": 0}),
    ({"type": "number", "exclusiveMaximum": 1.5},
     {"type": "NUMBER", "description": "Must be less than 1.5.", "maximum": 1.5}),
])
def test_p7_exclusive_bounds(given, openapi):
    written, plain = both(given)
    assert written == openapi
    assert plain == {**openapi, "type": openapi["type"].lower()}


def test_p7_property_names_and_patterns_of_names():
    openapi, plain = both({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}})
    assert openapi == {"type": "OBJECT", "description": "Property names match the regular expression ^[a-z]+$."}
    assert plain["description"] == openapi["description"]
    openapi, plain = both({"type": "object", "additionalProperties": False, "patternProperties": {
        "^S_": {"type": "string"}, "^I_": {"type": "integer"}}})
    assert '^S_ matches {"type":"string"}' in openapi["description"]
    assert plain["additionalProperties"] == {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert allows(plain, {"S_a": "x", "I_b": 1})
    assert not allows(plain, {"S_a": []})


@pytest.mark.parametrize(("given", "openapi", "plain"), [
    ({"const": "x"}, {"type": "STRING", "enum": ["x"]}, {"type": "string", "enum": ["x"]}),
    ({"type": "string", "const": "x"}, {"type": "STRING", "enum": ["x"]}, {"type": "string", "enum": ["x"]}),
    ({"const": 3}, {"type": "INTEGER", "description": "Must be 3.", "minimum": 3, "maximum": 3},
     {"type": "integer", "enum": [3]}),
    ({"const": True}, {"type": "BOOLEAN", "description": "Must be true."},
     {"type": "boolean", "description": "Must be true."}),
    ({"const": None}, {"type": "NULL"}, {"type": "null"}),
    ({"const": ""}, {"type": "STRING", "description": 'Must be "".'}, {"type": "string", "description": 'Must be "".'}),
    ({"const": {"a": 1}}, {"type": "OBJECT", "description": 'Must be {"a":1}.'},
     {"type": "object", "description": 'Must be {"a":1}.'}),
])
def test_p7_const_is_an_enum_of_one(given, openapi, plain):
    assert both(given) == (openapi, plain)


@pytest.mark.parametrize(("given", "openapi", "plain"), [
    ({"enum": ["a", "b", "a"]}, {"type": "STRING", "enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
    ({"type": "string", "enum": ["", "a"]}, {"type": "STRING", "description": 'One of: "", "a".'},
     {"type": "string", "description": 'One of: "", "a".'}),
    ({"type": "integer", "enum": [1, 2, 5]},
     {"type": "INTEGER", "description": "One of: 1, 2, 5.", "minimum": 1, "maximum": 5},
     {"type": "integer", "enum": [1, 2, 5]}),
    ({"enum": [0.5, 1]}, {"type": "NUMBER", "description": "One of: 0.5, 1.", "minimum": 0.5, "maximum": 1},
     {"type": "number", "enum": [0.5, 1]}),
    ({"enum": ["a", None]}, {"type": "STRING", "nullable": True, "enum": ["a"]},
     {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
    ({"enum": [True, False]}, {"type": "BOOLEAN"}, {"type": "boolean"}),
    ({"type": ["string", "null"], "enum": ["a", "b"]}, {"type": "STRING", "enum": ["a", "b"]},
     {"type": "string", "enum": ["a", "b"]}),
    ({"type": "string", "enum": ["a", 1]}, {"type": "STRING", "enum": ["a"]}, {"type": "string", "enum": ["a"]}),
])
def test_p7_enums(given, openapi, plain):
    assert both(given) == (openapi, plain)


def test_p7_an_enum_of_many_types_is_a_choice_that_allows_each_value():
    for written in both({"enum": ["a", 1, 2.5, True, None]}):
        assert all(allows(written, value) for value in ("a", 1, 2.5, True, None))
        assert not allows(written, "b")
        assert 'One of: "a", 1, 2.5, true, null' in written["description"]


@pytest.mark.parametrize(("given", "openapi"), [
    ({"type": ["string", "null"]}, {"type": "STRING", "nullable": True}),
    ({"type": ["null", "integer"], "description": "d"}, {"type": "INTEGER", "nullable": True, "description": "d"}),
    ({"anyOf": [{"type": "string"}, {"type": "null"}], "description": "d"},
     {"type": "STRING", "nullable": True, "description": "d"}),
    ({"oneOf": [{"type": "null"}, {"type": "string", "description": "x"}]},
     {"type": "STRING", "nullable": True, "description": "x"}),
    ({"type": "string", "nullable": True}, {"type": "STRING", "nullable": True}),
    ({"allOf": [{"$ref": "#/$defs/S"}], "nullable": True}, {"type": "STRING", "nullable": True}),
    ({"type": "null"}, {"type": "NULL"}),
    ({"type": ["string", "integer", "null"]}, {"anyOf": [{"type": "STRING"}, {"type": "INTEGER"}], "nullable": True}),
    ({"type": ["integer", "number"]}, {"type": "NUMBER"}),
])
def test_p7_null_is_nullable_and_type_lists_are_choices(given, openapi):
    assert prop(given, _defs={"S": {"type": "string"}}) == openapi


def test_p7_type_lists_stay_in_json_schema():
    schema = {"type": ["integer", "null"]}
    assert prop(schema, json_schema=True) == schema


def test_p7_all_of_is_merged():
    schema = {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                        {"properties": {"a": {"minLength": 1}, "b": {"type": "integer"}}, "required": ["b"]},
                        {"description": "Both"}]}
    openapi, plain = both(schema)
    assert openapi == {"type": "OBJECT", "description": "Both",
                       "properties": {"a": {"type": "STRING", "minLength": 1}, "b": {"type": "INTEGER"}},
                       "required": ["a", "b"]}
    assert plain["properties"]["a"] == {"type": "string", "description": "At least 1 character."}
    assert prop({"allOf": [{"minimum": 1, "maximum": 9}, {"minimum": 3, "maximum": 12}], "type": "integer"}) == {
        "type": "INTEGER", "minimum": 3, "maximum": 9}
    assert prop({"allOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}]}) == {"type": "STRING", "enum": ["b"]}


@pytest.mark.parametrize("name", ["uri", "email", "date", "uuid", "ipv4"])
def test_p7_formats_of_strings_that_gemini_refuses_are_described(name):
    openapi, plain = both({"type": "string", "format": name, "description": "Where"})
    assert openapi == {"type": "STRING", "description": f"Where\nFormat: {name}."}
    assert plain == {"type": "string", "description": "Where", "format": name}


def test_p7_formats_that_gemini_knows_stay_with_their_type():
    assert prop({"type": "string", "format": "date-time"}) == {"type": "STRING", "format": "date-time"}
    assert prop({"type": "integer", "format": "int64"}) == {"type": "INTEGER", "format": "int64"}
    assert prop({"type": "number", "format": "int64"}) == {"type": "NUMBER", "description": "Format: int64."}


@pytest.mark.parametrize(("keyword", "value", "note"), [
    ("default", 5, "Default: 5"), ("examples", [1, 2], "Examples: 1, 2"), ("input_examples", [7], "Examples: 7"),
    ("multipleOf", 5, "Must be a multiple of 5"), ("deprecated", True, "Deprecated"),
    ("not", {"const": 3}, 'Must not match {"const":3}'),
])
def test_p7_keywords_that_gemini_lacks_are_described(keyword, value, note):
    for written in both({"type": "integer", keyword: value, "description": "A number"}):
        assert written["description"] == f"A number\n{note}."
        assert set(written) == {"type", "description"}


def test_p7_lengths_and_patterns():
    schema = {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^a"}
    openapi, plain = both(schema)
    assert openapi == {**schema, "type": "STRING"}
    assert plain == {"type": "string", "description": "At least 1 character. At most 5 characters. "
                                                      "Must match the regular expression ^a."}


def test_p7_a_required_name_without_a_property_is_described():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "ghost"]}
    for json_schema in (False, True):
        written = tool(schema, json_schema=json_schema)
        assert written["required"] == ["a"]
        assert written["description"] == "Must also have ghost."


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}, {}, {"properties": None},
                                    {"type": "object", "properties": {}, "additionalProperties": False}])
def test_p7_a_tool_without_properties_has_no_parameters_or_an_empty_object(schema):
    assert tool(schema) is None
    written = tool(schema, json_schema=True)
    assert (written["type"], written["properties"]) == ("object", {})


def test_p7_an_object_without_properties_inside():
    assert both({"type": "object"}) == ({"type": "OBJECT"}, {"type": "object"})


def test_p7_an_array_without_items_holds_anything():
    openapi, plain = both({"type": "array"})
    assert plain == {"type": "array"}
    assert openapi["type"] == "ARRAY"
    assert all(allows(openapi, [value]) for value in (1, "a", None, True, {"a": []}, [[1]]))


def test_p7_tuples():
    openapi, plain = both({"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": False})
    assert openapi["items"] == {"anyOf": [{"type": "STRING"}, {"type": "NUMBER"}]}
    assert openapi["maxItems"] == plain["maxItems"] == 2
    assert "in order" in openapi["description"]
    assert plain["prefixItems"] == [{"type": "string"}, {"type": "number"}]
    assert both({"type": "array", "items": [{"type": "string"}], "additionalItems": False})[1] == {
        "type": "array", "prefixItems": [{"type": "string"}], "maxItems": 1}
    assert allows(prop({"type": "array", "prefixItems": [{"type": "string"}]}), ["a", 1, None])


def test_p7_conditions_and_dependencies_are_described():
    openapi, _ = both({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
                       "if": {"required": ["a"]}, "then": {"required": ["b"]}, "dependentRequired": {"a": ["b"]}})
    assert 'If it matches {"required":["a"]}, then it must match {"required":["b"]}' in openapi["description"]
    assert 'With a also "b" must be given' in openapi["description"]


def test_p7_a_free_value_is_a_choice_of_all_types():
    """Gemini requires a type if there is no anyOf."""
    openapi, plain = both({"description": "Anything"})
    assert plain == {"description": "Anything"}
    assert openapi["description"] == "Anything"
    assert all(allows(openapi, value) for value in (None, 1, 2.5, "a", True, [], [1, ["a", [None]]], {"a": {"b": [1]}}))


def test_p7_large_counts_of_items_are_described():
    """The sum over all tools has an undocumented limit (googleapis/python-genai#2170)."""
    for written in both({"type": "array", "items": {"type": "string"}, "maxItems": 5000}):
        assert "maxItems" not in written
        assert "At most 5000 items" in written["description"]


def test_p7_garbage_is_a_free_value():
    for junk in ("string", 3, [], None, {"type": "wat"}, {"type": []}, {"properties": 3, "required": "a", "enum": {}}):
        for written in both(junk):
            assert all(allows(written, value) for value in (1, "a", {"a": 1}))
