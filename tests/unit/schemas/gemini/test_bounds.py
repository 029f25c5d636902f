"""Rule 7: for any references, depth and width of a schema, the rewriting is fast and its result small."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable

import pytest

from extproc.schemas.cache import SchemaCache
from extproc.schemas.gemini import GROWTH, encode_parameters, rewrite_parameters
from tests.providers.gemini_schema import check_schema


def nested(depth: int) -> dict:
    schema: dict = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"p": schema}}
    return schema


def object_of(**properties: object) -> dict:
    return {"type": "object", "properties": properties}


def fan(width: int, levels: int, key: str = "properties") -> dict:
    """Every level refers to the next one `width` times: width ** levels schemas if all references are replaced."""
    def level(number: int) -> dict:
        inner = {"$ref": f"#/$defs/L{number + 1}"}
        if key == "properties":
            return object_of(**{f"p{n}": inner for n in range(width)})
        return {key: [inner] * width}
    return {**object_of(root={"$ref": "#/$defs/L0"}),
            "$defs": {**{f"L{n}": level(n) for n in range(levels)}, f"L{levels}": {"type": "string"}}}


def everybody_refers_to_everybody(count: int) -> dict:
    names = {f"N{n}": {"$ref": f"#/$defs/N{n}"} for n in range(count)}
    return {**object_of(root={"$ref": "#/$defs/N0"}), "$defs": {name: object_of(**names) for name in names}}


CASES: dict[str, Callable[[], dict]] = {
    "deep": lambda: nested(150),
    "deep arrays": lambda: object_of(a=json.loads('{"type":"array","items":' * 150 + "{}" + "}" * 150)),
    "deep unions": lambda: object_of(a=json.loads('{"anyOf":[{"type":"string"},' * 150 + "{}" + "]}" * 150)),
    "deep allOf": lambda: object_of(a=json.loads('{"allOf":[{"minLength":1},' * 150 + "{}" + "]}" * 150)),
    "fan of properties": lambda: fan(20, 20),
    "fan of anyOf": lambda: fan(20, 20, "anyOf"),
    "fan of oneOf": lambda: fan(20, 20, "oneOf"),
    "fan of allOf": lambda: fan(20, 20, "allOf"),
    "fan of prefixItems": lambda: fan(20, 20, "prefixItems"),
    "wide fan": lambda: fan(500, 6),
    "wide fan of anyOf": lambda: fan(500, 6, "anyOf"),
    "everybody refers to everybody": lambda: everybody_refers_to_everybody(60),
    "half a megabyte of properties": lambda: object_of(**{f"property{n}": {"type": "string", "description": "x" * 60}
                                                     for n in range(5_000)}),
    "half a megabyte of enum": lambda: object_of(a={"enum": [f"value{n}" for n in range(40_000)]}),
    "half a megabyte of alternatives": lambda: object_of(a={"anyOf": [
        {**object_of(**{"kind": {"const": f"k{n}"}, f"p{n}": {"type": "string"}}), "required": ["kind"]}
        for n in range(3_000)]}),
    "half a megabyte of alternatives at the top": lambda: {"type": "object", "oneOf": [
        {"properties": {"kind": {"const": f"k{n}"}, f"p{n}": {"type": "string"}}, "required": ["kind"],
         "additionalProperties": False} for n in range(3_000)]},
    "long texts referred to": lambda: {**object_of(**{f"p{n}": {"$ref": "#/$defs/T"} for n in range(5_000)}),
                                       "$defs": {"T": {"type": "string", "description": "x" * 20_000}}},
}


@pytest.mark.parametrize("json_schema", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_rule_7_the_rewriting_ends_and_gemini_takes_its_result(name, json_schema):
    schema = CASES[name]()
    source = len(json.dumps(schema))
    began = time.process_time()
    raw = encode_parameters(schema, json_schema=json_schema, cache=SchemaCache())
    spent = time.process_time() - began
    assert spent < 3
    assert raw is not None
    assert len(bytes(raw)) < 8 * (GROWTH + 2 * source)
    assert check_schema(json.loads(bytes(raw)), json_schema=json_schema) is None


def test_a_cut_schema_says_that_it_goes_on():
    written = rewrite_parameters(nested(150), json_schema=False)
    depth = 0
    while "properties" in written:
        written, depth = written["properties"]["p"], depth + 1
    assert 20 <= depth <= 32
    assert written == {"type": "OBJECT", "description": "Goes on deeper than can be described here."}


def test_references_in_many_places_are_all_replaced_within_the_budget():
    schema = {**object_of(**{f"p{n}": {"$ref": "#/$defs/T"} for n in range(100)}),
              "$defs": {"T": {"type": "string", "description": "short"}}}
    written = rewrite_parameters(schema, json_schema=True)
    assert all(inner == {"type": "string", "description": "short"} for inner in written["properties"].values())


def test_a_recursion_that_would_grow_too_much_is_unrolled_less():
    schema = everybody_refers_to_everybody(12)
    before = copy.deepcopy(schema)
    written = rewrite_parameters(schema, json_schema=True)
    assert len(json.dumps(written)) < 8 * GROWTH
    assert schema == before
