"""Text of parameters -> JSON values, by the tool's schema: one test for each line of the rule."""

from __future__ import annotations

import json

import msgspec
import pytest

from extproc.dialects.coercion import (
    Parameter,
    coerce_text,
    coerce_value,
    json_or_text,
    parameter,
    tool_shape,
)

VALVE: dict[str, object] = {
    "type": "object",
    "properties": {
        "valve_id": {"type": "integer"},
        "opening": {"type": "number"},
        "locked": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "limits": {"type": "object", "properties": {"min": {"type": "number"}, "max": {"type": "number"}}},
        "operator": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "delay_s": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["valve_id"],
}


def of(schema: object) -> Parameter:
    """The parameter `p` of a tool with this one parameter."""
    return parameter(tool_shape({"type": "object", "properties": {"p": schema}}), "p")


def same(found: object, wanted: object) -> bool:
    """Equal as JSON text: 1 is not true, and 3 is not 3.0."""
    return json.dumps(found) == json.dumps(wanted)


# ---------------------------------------------------------------------------------------------- which types are allowed


@pytest.mark.parametrize(("schema", "types"), [
    ({"type": "string"}, {"string"}),
    ({"type": ["integer", "null"]}, {"integer", "null"}),
    ({"enum": ["a", 1, None, 1.5, True]}, {"string", "integer", "null", "number", "boolean"}),
    ({"const": 3}, {"integer"}),
    ({"anyOf": [{"type": "string"}, {"oneOf": [{"type": "null"}, {"allOf": [{"type": "array"}]}]}]},
     {"string", "null", "array"}),
    ({"type": "string", "enum": ["a", None]}, {"string", "null"}),
    ({"type": "string", "nullable": True}, {"string", "null"}),
    ({"properties": {"a": {}}}, {"object"}),
    ({"items": {"type": "string"}}, {"array"}),
    ({}, {"string"}),
    (True, {"string"}),
    (False, {"string"}),
    (None, {"string"}),
    ({"description": "says nothing about types"}, {"string"}),
    ({"$ref": "https://elsewhere.test/schema"}, {"string"}),
    ({"$ref": "#/nowhere"}, {"string"}),
    ({"type": 7, "enum": "no list", "anyOf": {}}, {"string"}),
])
def test_all_types_that_a_schema_allows_are_collected(schema: object, types: set[str]) -> None:
    assert of(schema).types == types


@pytest.mark.parametrize(("aliases", "meant"), [
    (["str", "text", "varchar", "char", "enum", "STRING", "String"], "string"),
    (["int", "int32", "int64", "uint8", "long", "short", "Integer"], "integer"),
    (["float", "float64", "double", "Number"], "number"),
    (["bool", "Boolean"], "boolean"),
    (["dict", "dict[str, int]", "object"], "object"),
    (["arr", "list", "list[str]", "sequence", "Array"], "array"),
])
def test_other_names_of_types_mean_the_seven(aliases: list[str], meant: str) -> None:
    assert {alias: set(of({"type": alias}).types) for alias in aliases} == {alias: {meant} for alias in aliases}


def test_a_type_that_json_schema_does_not_have_takes_any_json() -> None:
    for text, value in (("42", 42), ("[1]", [1]), ("null", None), ("plain", "plain")):
        assert same(coerce_text(text, of({"type": "any"})), value)


def test_only_what_can_be_nothing_but_a_string_streams() -> None:
    assert of({"type": "string"}).streams
    assert of({"type": "string", "pattern": "^a", "minLength": 2}).streams
    assert of({}).streams
    assert not of({"type": ["string", "null"]}).streams
    assert not of({"type": "string", "enum": ["a", "b"]}).streams
    assert not of({"const": "a"}).streams
    assert not of({"type": "any"}).streams
    assert not of({"type": "integer"}).streams


# -------------------------------------------------------------------------------------------------- the order of tries


@pytest.mark.parametrize("text", ["null", "true", "42", "None", "", "  spaces \n", '{"a": 1}', '"quoted"', "NaN"])
def test_text_of_a_string_stays_verbatim(text: str) -> None:
    assert coerce_text(text, of({"type": "string"})) == text


@pytest.mark.parametrize(("types", "text", "value"), [
    # null, in any case and with space around it; Python's None as well
    (["string", "null"], "null", None), (["string", "null"], " NULL\n", None), (["string", "null"], "None", None),
    (["integer", "null"], "Null", None), (["string", "null"], "none", "none"), (["string", "null"], "", ""),
    (["string", "null"], "42", "42"), (["string", "null"], " a ", " a "),
    # integers: any size, exactly
    ("integer", "42", 42), ("integer", " -7\n", -7), ("integer", "+5", 5), ("integer", "007", 7),
    ("integer", "12345678901234567890123", 12345678901234567890123), ("integer", "3.0", 3), ("integer", "1e3", 1000),
    ("integer", "abc", "abc"), ("integer", "", ""), ("integer", " abc ", " abc "), ("integer", "1_000", "1_000"),
    ("integer", "3.5", 3.5), ("integer", "true", True), ("integer", '"3"', 3), ("integer", "٣", "٣"),
    # numbers: whole ones become integers, infinite ones stay text
    ("number", "0.5", 0.5), ("number", "3.0", 3), ("number", "3", 3), ("number", "-1e2", -100), ("number", ".5", 0.5),
    ("number", "1e999", "1e999"), ("number", "-1e999", "-1e999"), ("number", "NaN", "NaN"),
    ("number", "Infinity", "Infinity"), ("number", "nan", "nan"), ("number", "1e300", 1e300),
    (["integer", "number"], "2.50", 2.5), (["number", "string"], "2.0", 2), (["integer", "string"], "2.0", "2.0"),
    (["integer", "string"], "12", 12), (["integer", "string"], "007", "007"), (["number", "string"], "+1", "+1"),
    # booleans
    ("boolean", "true", True), ("boolean", "False", False), ("boolean", "TRUE", True), ("boolean", "1", True),
    ("boolean", "0", False), ("boolean", " true ", True), ("boolean", "yes", "yes"), ("boolean", "2", 2),
    (["integer", "boolean"], "1", 1), (["boolean", "string"], "maybe", "maybe"),
    # objects and arrays: JSON, then Python's way
    ("object", '{"a": 1}', {"a": 1}), ("object", " \n{}\n", {}), ("array", "[1, 2]", [1, 2]),
    ("object", "{'a': 1, 'b': None, 'c': True}", {"a": 1, "b": None, "c": True}),
    ("array", "('x', 'y')", ["x", "y"]), ("array", "['it\\'s', \"b\",]", ["it's", "b"]),
    ("object", '"{\\"a\\": 1}"', {"a": 1}), ("object", "{broken", "{broken"), ("object", "[1]", [1]),
    ("array", '{"a": 1}', {"a": 1}), ("array", "a, b", "a, b"), ("object", '{"a": 1} tail', '{"a": 1} tail'),
    ("object", '{"a": NaN}', '{"a": NaN}'), ("object", "{'a': 1e999}", "{'a': 1e999}"),
    ("object", '{"a": 1', '{"a": 1'), (["object", "string"], "{'a': 1}", "{'a': 1}"),
    (["object", "string"], '{"a": 1}', {"a": 1}), (["array", "string"], "[link](x)", "[link](x)"),
    (["object", "null"], "None", None), ("null", "null", None), ("null", "nothing", "nothing"),
])
def test_the_first_type_that_fits_counts(types: object, text: str, value: object) -> None:
    found = coerce_text(text, of({"type": types}))
    assert same(found, value)


def test_an_integer_longer_than_python_converts_stays_text() -> None:
    digits = "9" * 5000
    assert coerce_text(digits, of({"type": "integer"})) == digits


def test_a_listed_choice_is_met_exactly() -> None:
    assert coerce_text("\nslow\n", of({"enum": ["slow", "fast"]})) == "slow"
    assert coerce_text("medium ", of({"enum": ["slow", "fast"]})) == "medium "
    assert same(coerce_text("1", of({"enum": [1, 2]})), 1)
    assert same(coerce_text("1", of({"enum": ["1", 2]})), "1")
    assert coerce_text("null", of({"anyOf": [{"enum": ["a"]}, {"type": "null"}]})) is None


# ------------------------------------------------------------------------------------------------------------- members


def test_members_of_objects_and_items_of_arrays_are_typed_too() -> None:
    schema = {"type": "object", "properties": {
        "n": {"type": "integer"}, "s": {"type": "string"}, "flags": {"type": "array", "items": {"type": "boolean"}},
        "deep": {"type": "object", "additionalProperties": {"type": "number"}}, "free": {}}}
    text = '{"n": "3", "s": "3", "flags": ["true", "no"], "deep": {"x": "1.5", "y": "z"}, "free": "1", "other": "1"}'
    assert coerce_text(text, of(schema)) == {
        "n": 3, "s": "3", "flags": [True, "no"], "deep": {"x": 1.5, "y": "z"}, "free": "1", "other": "1"}


def test_a_string_member_only_changes_to_a_type_that_the_schema_allows() -> None:
    assert coerce_value({"p": "[1]"}, {"properties": {"p": {"type": "integer"}}}) == {"p": "[1]"}
    assert coerce_value({"p": "true"}, {"properties": {"p": {"type": "integer"}}}) == {"p": "true"}
    assert coerce_value({"p": "[1]"}, {"properties": {"p": {"type": "array"}}}) == {"p": [1]}
    assert coerce_value({"p": "null"}, {"properties": {"p": {"type": ["integer", "null"]}}}) == {"p": None}
    assert coerce_value({"p": "null"}, {"properties": {"p": {"type": ["string", "null"]}}}) == {"p": "null"}


def test_what_came_as_json_and_is_no_string_is_untouched() -> None:
    value = {"a": 1, "b": [True, None, 2.0], "c": {"d": "text"}, "e": 5}
    schema: dict[str, object] = {"properties": {
        "a": {"type": "string"}, "b": {"items": {"type": "integer"}}, "e": {"type": "boolean"}}}
    assert coerce_value(value, schema) is value


def test_the_input_is_not_changed() -> None:
    value = {"p": ["1", "2"]}
    assert coerce_value(value, {"properties": {"p": {"items": {"type": "integer"}}}}) == {"p": [1, 2]}
    assert value == {"p": ["1", "2"]}


def test_items_by_position() -> None:
    for schema in ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}],
                    "items": {"type": "number"}},
                   {"type": "array", "items": [{"type": "integer"}, {"type": "boolean"}]}):
        rest = 1.5 if isinstance(schema["items"], dict) else "1.5"
        assert same(coerce_text('["1", "1", "1.5"]', of(schema)), [1, True, rest])


def test_coerce_value_takes_a_parameter_so_that_references_reach_the_whole_schema() -> None:
    shape = tool_shape({"properties": {"p": {"$ref": "#/$defs/Point"}},
                        "$defs": {"Point": {"type": "object", "properties": {"x": {"$ref": "#/$defs/Size"}}},
                                  "Size": {"type": "integer"}}})
    assert coerce_value({"x": "4"}, parameter(shape, "p")) == {"x": 4}


# --------------------------------------------------------------------------------------------------------------- tools


def test_the_shape_of_a_tool() -> None:
    shape = tool_shape(VALVE, "set_valve")
    assert (shape.name, list(shape.parameters), shape.required, shape.closed) == (
        "set_valve", ["valve_id", "opening", "locked", "tags", "limits", "operator", "delay_s"],
        frozenset({"valve_id"}), False)
    texts = {"valve_id": "3", "opening": "0.5", "locked": "False", "tags": '["a", "b"]',
             "limits": "{'min': '1', 'max': 2}", "operator": "null", "delay_s": "4"}
    assert {key: coerce_text(text, parameter(shape, key)) for key, text in texts.items()} == {
        "valve_id": 3, "opening": 0.5, "locked": False, "tags": ["a", "b"], "limits": {"min": 1, "max": 2},
        "operator": None, "delay_s": 4}


def test_an_undeclared_parameter_is_a_string_unless_the_schema_describes_the_others() -> None:
    unknown = parameter(tool_shape(VALVE), "zzz")
    assert (unknown.schema, unknown.types, unknown.typed, unknown.streams) == (None, {"string"}, False, True)
    described = parameter(tool_shape({"additionalProperties": {"type": "integer"}}), "zzz")
    assert coerce_text("5", described) == 5
    assert coerce_text("5", parameter(tool_shape({"additionalProperties": True}), "zzz")) == "5"
    assert tool_shape({"additionalProperties": False}).closed


def test_a_schema_without_types_leaves_the_choice_to_dialects_that_mark_strings() -> None:
    assert not of({}).typed
    assert of({"type": "string"}).typed
    assert same(json_or_text(" 3 "), 3)
    assert json_or_text("Brest") == "Brest"
    assert json_or_text("NaN") == "NaN"


def test_references_and_branches_at_the_top_are_merged() -> None:
    shape = tool_shape({
        "$defs": {"Base": {"properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}},
        "allOf": [{"$ref": "#/$defs/Base"}],
        "anyOf": [{"properties": {"b": {"type": "boolean"}, "c": {"type": "integer"}}, "required": ["b", "c"]},
                  {"properties": {"c": {"type": "null"}}, "required": ["c"]}],
    })
    assert {key: set(found.types) for key, found in shape.parameters.items()} == {
        "a": {"integer"}, "b": {"boolean"}, "c": {"integer", "null"}}
    assert shape.required == {"a", "c"}
    assert shape.closed


def test_recursive_schemas() -> None:
    tree = {"type": "object", "properties": {"size": {"type": "integer"}, "left": {"$ref": "#/$defs/Tree"},
                                             "all": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}
    shape = tool_shape({"$defs": {"Tree": tree}, "properties": {"root": {"$ref": "#/$defs/Tree"}}})
    found = coerce_text('{"size": "1", "left": {"left": {"size": "2"}, "all": [{"size": "3"}]}}',
                        parameter(shape, "root"))
    assert found == {"size": 1, "left": {"left": {"size": 2}, "all": [{"size": 3}]}}
    itself = tool_shape({"properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}})
    assert coerce_text('{"next": {"n": "1"}, "n": "2"}', parameter(itself, "next")) == {"next": {"n": 1}, "n": 2}


def test_hostile_schemas_come_to_an_end() -> None:
    circle: dict[str, object] = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
                                 "properties": {"p": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    assert parameter(tool_shape(circle), "p").types == {"string"}
    fan: dict[str, object] = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}, {"anyOf": [
        {"$ref": f"#/$defs/a{n + 1}"}]}]} for n in range(60)}
    shape = tool_shape({"$defs": {**fan, "a60": {"type": "integer"}}, "$ref": "#/$defs/a0",
                        "properties": {"p": {"$ref": "#/$defs/a0"}}})
    assert coerce_text("3", parameter(shape, "p")) == 3


def test_values_nested_deeper_than_the_bound_keep_what_they_came_with() -> None:
    shape = tool_shape({"type": "object", "properties": {"p": {"$ref": "#"}, "n": {"type": "integer"}}})
    text = '{"n": "1", "p": ' * 200 + "{}" + "}" * 200
    found = coerce_text(text, parameter(shape, "p"))
    assert isinstance(found, dict)
    assert same(found["n"], 1)
    far: object = found
    for _ in range(150):
        assert isinstance(far, dict)
        far = far["p"]
    assert isinstance(far, dict)
    assert far["n"] == "1"


def test_a_shape_is_made_once_for_equal_schemas_and_does_not_follow_later_changes() -> None:
    schema: dict[str, object] = {"properties": {"once": {"type": "integer"}}}
    shape = tool_shape(schema)
    assert tool_shape(json.loads(json.dumps(schema))) is shape
    schema["properties"] = {"once": {"type": "string"}}
    assert parameter(shape, "once").types == {"integer"}
    assert parameter(tool_shape(schema), "once").types == {"string"}


def test_what_comes_out_can_be_written_as_json() -> None:
    for text in ('{"a": "\\ud800"}', "{'a': '\\ud800'}", '{"a": 1e400}', "[NaN]", "9" * 400):
        for types in ("object", "array", "number", "integer"):
            msgspec.json.encode(coerce_text(text, of({"type": types})))
