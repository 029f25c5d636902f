"""Names of types in schemas: the seven of JSON Schema, and the other names that clients write for them."""

from __future__ import annotations

import pytest

from extproc.schemas.types import JSON_TYPES, first_json_type, json_type, means_any_type


@pytest.mark.parametrize("name", JSON_TYPES)
def test_the_seven_types_mean_themselves_in_any_case(name):
    assert json_type(name) == json_type(name.upper()) == name


@pytest.mark.parametrize(("name", "meant"), [
    ("str", "string"), ("VARCHAR(20)", "string"), ("uint8", "integer"), ("int64", "integer"), ("float32", "number"),
    ("Bool", "boolean"), ("dict[str, int]", "object"), ("map<string, int>", "object"), ("list[str]", "array"),
    ("nil", "null")])
def test_a_name_with_a_size_or_parameters_means_its_word(name, meant):
    assert json_type(name) == first_json_type(name) == meant


@pytest.mark.parametrize("name", ["objekt", "strings", "file", "", "[str]", 7, None, ["string"]])
def test_other_names_mean_no_type(name):
    assert json_type(name) is None


def test_only_a_reader_takes_the_first_word_of_a_compound_name():
    assert json_type("string|null") is None
    assert first_json_type("string|null") == "string"


def test_names_of_any_type():
    assert means_any_type("Any")
    assert means_any_type("")
    assert not means_any_type("string")
