"""Properties of coercion and repair: values survive being written as text, and no text breaks anything."""

from __future__ import annotations

import json
import math
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from extproc.dialects.coercion import coerce_text, coerce_value, parameter, tool_shape
from extproc.dialects.json.lenient import read_lenient
from extproc.dialects.json.repair import problems, read_object

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
                      max_leaves=12)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=4)
TYPES = st.lists(st.sampled_from(["string", "integer", "number", "boolean", "object", "array", "null", "any", "uint8"]),
                 unique=True, max_size=4)
SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.builds(lambda types: {"type": types}, TYPES) | st.builds(lambda value: {"const": value}, SCALARS)
    | st.sampled_from([{}, True, False, None, {"$ref": "#"}, {"$ref": "#/properties/p"}, {"enum": ["a", 1, None]}]),
    lambda inner: st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner)
    | st.builds(lambda a: {"type": "array", "items": a}, inner)
    | st.builds(lambda a, b: {"type": "object", "properties": {"a": a}, "additionalProperties": b}, inner, inner),
    max_leaves=6)
JSON_LIKE = st.lists(st.sampled_from(
    ["{", "}", "[", "]", '"', "'", ":", ",", "\\", "\n", "a", "1", ".5", "e9", "null", "True", "\\u", "d800", "//",
     "/*", "`", " ", "(", ")", "{}", '{"a": ', "NaN", "é"]), max_size=40).map("".join)


def type_of(value: object) -> str:
    names = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array",
             dict: "object"}
    return names[type(value)]


@given(VALUES)
def test_json_text_of_a_value_comes_back_as_the_value(value: object) -> None:
    shape = tool_shape({"properties": {"p": {"type": type_of(value)}}})
    text = value if isinstance(value, str) else json.dumps(value)
    assert coerce_text(text, parameter(shape, "p")) == value


@given(st.dictionaries(TEXT, SCALARS, max_size=4) | st.lists(SCALARS, max_size=4))
def test_python_text_of_a_value_comes_back_as_the_value(value: object) -> None:
    shape = tool_shape({"properties": {"p": {"type": type_of(value)}}})
    assert coerce_text(repr(value), parameter(shape, "p")) == value


@given(JSON_LIKE | st.text(max_size=30), SCHEMAS)
def test_any_text_and_schema_give_a_value_that_json_carries(text: str, schema: object) -> None:
    text = text.encode("utf-8", "replace").decode()
    shape = tool_shape({"type": "object", "properties": {"p": schema}})
    found = parameter(shape, "p")
    value = coerce_text(text, found)
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    msgspec.json.encode(value)
    if found.streams:
        assert value == text


@given(VALUES, SCHEMAS)
def test_values_that_came_as_json_only_change_in_their_strings(value: object, schema: object) -> None:
    before = json.dumps(value)
    found = coerce_value(value, schema)
    assert json.dumps(value) == before
    assert isinstance(value, str) or type(found) is type(value)
    problems({"properties": {"p": schema}}, {"p": found})


@given(OBJECTS)
def test_valid_objects_come_back_as_they_are(value: dict[str, object]) -> None:
    found = read_object(json.dumps(value))
    assert found is not None
    assert (found.value, found.repairs) == (value, ())


@given(VALUES)
def test_the_relaxed_reader_agrees_with_the_strict_one(value: object) -> None:
    text = json.dumps(value)
    reading = read_lenient(text)
    assert (reading.value, reading.repairs, reading.end) == (value, (), len(text))


@given(JSON_LIKE)
def test_no_text_breaks_the_repair(text: str) -> None:
    found = read_object(text)
    if found is not None:
        assert json.loads(json.dumps(found.value, allow_nan=False)) == found.value
        msgspec.json.encode(found.value)
        strict = msgspec.json.decode(text) if not found.repairs else None
        assert strict is None or strict == found.value


@given(st.floats())
def test_numbers_are_finite(number: float) -> None:
    shape = tool_shape({"properties": {"p": {"type": "number"}}})
    value = coerce_text(str(number), parameter(shape, "p"))
    assert value == number if math.isfinite(number) else value == str(number)
