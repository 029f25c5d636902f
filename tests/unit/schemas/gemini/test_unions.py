"""Alternatives: kept if the form has a keyword for them, folded at the top, alone at Vertex, and never stricter."""

from __future__ import annotations

from tests.unit.schemas.gemini.forms import allows, both, prop, response, tool

CAT = {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind"]}
DOG = {"type": "object", "properties": {"kind": {"const": "dog"}, "name": {"type": "string"}},
       "required": ["kind", "name"]}


def test_alternatives_stay_and_one_of_becomes_any_of():
    """Google reads oneOf as anyOf. Rewritten alternatives may overlap, so oneOf could refuse a correct value."""
    openapi, plain = both({"oneOf": [CAT, DOG], "description": "A pet"})
    assert plain["description"] == openapi["description"] == "A pet"  # distinguished by kind: nothing is lost
    assert plain["anyOf"][0] == {"type": "object", "required": ["kind"], "properties": {
        "kind": {"type": "string", "enum": ["cat"]}, "lives": {"type": "integer"}}}
    assert openapi["anyOf"][1]["required"] == ["kind", "name"]


def test_a_one_of_whose_alternatives_may_overlap_says_so():
    for written in both({"oneOf": [{"type": "string", "minLength": 2}, {"type": "string", "pattern": "^a"}]}):
        assert written["description"].startswith("Exactly one of the alternatives must match.")
    assert "description" not in prop({"oneOf": [{"type": "string"}, {"type": "integer"}]})


def test_nothing_stands_beside_any_of_at_vertex():
    schema = {"anyOf": [{"type": "string", "description": "A name"}, {"type": "integer"}, {"type": "null"}],
              "description": "Who", "title": "Owner"}
    assert prop(schema, vertex=True) == {"anyOf": [
        {"type": "STRING", "nullable": True, "description": "Who\nA name"}, {"type": "INTEGER", "nullable": True}]}
    assert prop(schema) == {"title": "Owner", "description": "Who", "nullable": True, "anyOf": [
        {"type": "STRING", "description": "A name"}, {"type": "INTEGER"}]}


def test_choices_inside_choices_become_one():
    inner = {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}
    assert prop({"anyOf": [{"type": ["string", "integer"]}, inner]}) == {
        "anyOf": [{"type": "STRING"}, {"type": "INTEGER"}, {"type": "BOOLEAN"}]}


def test_a_union_of_literals_is_an_enum():
    assert prop({"anyOf": [{"const": "a"}, {"type": "string", "const": "b"}, {"enum": ["c"]}]}) == {
        "type": "STRING", "enum": ["a", "b", "c"]}


def test_keywords_beside_alternatives_are_copied_into_each():
    openapi = prop({"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"],
                    "oneOf": [CAT, DOG]})
    assert [list(option["properties"]) for option in openapi["anyOf"]] == [["id", "kind", "lives"],
                                                                           ["id", "kind", "name"]]
    assert [option["required"] for option in openapi["anyOf"]] == [["id", "kind"], ["id", "kind", "name"]]
    assert prop({"type": "string", "anyOf": [{"pattern": "^a"}, {"type": "integer"}]}) == {
        "type": "STRING", "pattern": "^a"}


def test_alternatives_of_required_properties_are_described():
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
              "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    for written in both(schema):
        assert written["description"] == "Must have at least one of these sets of properties: a; b."
        assert set(written) == {"type", "description", "properties"}


def test_the_top_of_a_tool_has_no_alternatives():
    for json_schema in (False, True):
        written = tool({"oneOf": [{**CAT, "additionalProperties": False}, {**DOG, "additionalProperties": False}]},
                       json_schema=json_schema)
        assert set(written["properties"]) == {"kind", "lives", "name"}
        assert written["properties"]["kind"]["enum"] == ["cat", "dog"]
        assert written["properties"]["name"]["type"].lower() == "string"
        assert written["required"] == ["kind"]
        assert "exactly one of these sets of properties: kind; kind, name" in written["description"]
        assert "anyOf" not in written


def test_a_property_that_an_alternative_does_not_mention_may_be_anything_there():
    written = tool({"type": "object", "anyOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["b"]}]},
                   json_schema=True)
    assert allows(written, {"a": "text", "b": 1})
    assert written["properties"]["a"] == {"description": 'Usually {"type":"integer"}.'}


def test_values_at_the_top_of_a_tool_are_described():
    written = tool({"type": "object", "properties": {"a": {"type": "integer"}}, "enum": [{"a": 1}, {"a": 2}]})
    assert written["description"] == 'The arguments are one of {"a":1}, {"a":2}.'


def test_a_large_object_is_not_copied_for_each_alternative():
    base = {f"p{n}": {"type": "string"} for n in range(40)}
    written = prop({"type": "object", "properties": base,
                    "anyOf": [{"properties": {"x": {"const": n}}, "required": ["x"]} for n in range(5)]})
    assert written["type"] == "OBJECT"
    assert len(written["properties"]) == 41


def test_structured_output_may_be_anything_at_the_top():
    assert response({"type": "array", "items": {"type": "string"}}) == {"type": "ARRAY", "items": {"type": "STRING"}}
    assert response({"anyOf": [{"type": "string"}, {"type": "integer"}]}, json_schema=True) == {
        "anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert response({}, json_schema=True) == {}


def test_structured_output_keeps_the_order_of_its_properties():
    """Otherwise models up to 2.0 write them in alphabetical order."""
    schema = {"type": "object", "properties": {"why": {"type": "string"}, "answer": {"type": "string"}}}
    assert response(schema)["propertyOrdering"] == ["why", "answer"]
    assert "propertyOrdering" not in tool(schema)
    assert "propertyOrdering" not in response(schema, json_schema=True)
