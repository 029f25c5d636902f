"""Generated JSON Schemas, rewritten for Gemini: taken by the strict provider, and never stricter than they were."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from extproc.schemas.gemini import rewrite_parameters, rewrite_response_schema
from tests import schemas
from tests.providers.gemini_schema import check_schema

FORMS = ({"json_schema": True}, {"json_schema": False}, {"json_schema": False, "any_of_alone": True})


def check(schema: schemas.Json, values: list[schemas.Json], rewrite: Callable[..., schemas.Json], *, top: bool) -> None:
    """The rewritten schema is taken by the provider in all three forms, and allows these values."""
    for form in FORMS:
        written = rewrite(schema, **form)
        if written is None:
            continue
        assert check_schema(written, json_schema=form["json_schema"], vertex="any_of_alone" in form, top=top) is None
        target = written if form["json_schema"] else schemas.as_json_schema(written)
        accepts = schemas.accepting(target)
        for value in values:
            assert accepts(value), f"{json.dumps(value)} in {json.dumps(written)}"


def matching(schema: schemas.Json, seed: int) -> list[schemas.Json]:
    """Values that the schema allows. Arrays of arrays of arrays of arrays are more than a free value may be."""
    if not schemas.decidable(schema):
        return []
    rng, accepts = Random(seed), schemas.accepting(schema)
    tried = [schemas.some_value(rng, schema, schema) for _ in range(40)]
    return [value for value in tried if schemas.arrays_in_arrays(value) <= 3 and accepts(value)]


seeds = st.integers(0, 1000)


@given(schema=schemas.documents(), top_object=st.booleans(), seed=seeds)
def test_p7_tools_are_taken_and_every_call_that_the_original_allows_is_still_allowed(schema, top_object, seed):
    schema = {**schema, "type": "object"} if top_object else schema
    before = copy.deepcopy(schema)
    calls = [value for value in matching(schema, seed) if isinstance(value, dict)]
    check(schema, calls, rewrite_parameters, top=True)
    assert schema == before


@given(schema=schemas.documents(), seed=seeds)
def test_structured_output_is_taken_and_never_stricter(schema, seed):
    check(schema, matching(schema, seed), rewrite_response_schema, top=False)


@given(schema=schemas.garbage())
def test_whatever_a_client_sends_becomes_a_schema_that_is_taken(schema):
    check(schema, [], rewrite_parameters, top=True)
    check(schema, [], rewrite_response_schema, top=False)


@given(schema=schemas.documents())
def test_rule_6_the_same_schema_gives_the_same_bytes(schema):
    for form in FORMS:
        first = json.dumps(rewrite_parameters(schema, **form))
        assert json.dumps(rewrite_parameters(copy.deepcopy(schema), **form)) == first
