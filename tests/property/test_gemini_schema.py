"""Generated JSON Schemas, rewritten for Gemini: taken by the strict provider, and never stricter than they were."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.apis.gemini.schema import rewritten_parameters, rewritten_response
from tests import schemas
from tests.providers.gemini_schema import check_schema

FORMS = [pytest.param({"json_schema": True}, id="json schema"),
         pytest.param({"json_schema": False}, id="openapi"),
         pytest.param({"json_schema": False, "any_of_alone": True}, id="openapi at vertex")]


def refused(written: schemas.Json, form: dict[str, bool], *, top: bool) -> str | None:
    return check_schema(written, json_schema=form["json_schema"], vertex="any_of_alone" in form, top=top)


def read_back(written: schemas.Json, form: dict[str, bool]) -> schemas.Json:
    return written if form["json_schema"] else schemas.as_json_schema(written)


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_p7_tools_are_taken_and_every_value_of_the_original_still_matches(form, data):
    schema = data.draw(schemas.documents(top_object=data.draw(st.booleans())))
    before = copy.deepcopy(schema)
    written = rewritten_parameters(schema, **form)
    assert schema == before
    if written is None:
        return
    assert refused(written, form, top=True) is None
    if not schemas.decidable(schema):
        return
    target = read_back(written, form)
    for _ in range(4):
        value = data.draw(schemas.values(schema))
        if isinstance(value, dict) and schemas.arrays_in_arrays(value) <= 3 and schemas.accepts(schema, value):
            assert schemas.accepts(target, value), json.dumps(written)


@pytest.mark.parametrize("form", FORMS)
@given(data=st.data())
def test_structured_output_is_taken_and_never_stricter(form, data):
    schema = data.draw(schemas.documents())
    written = rewritten_response(schema, **form)
    assert refused(written, form, top=False) is None
    if not schemas.decidable(schema):
        return
    target = read_back(written, form)
    for _ in range(4):
        value = data.draw(schemas.values(schema))
        if schemas.arrays_in_arrays(value) <= 3 and schemas.accepts(schema, value):
            assert schemas.accepts(target, value), json.dumps(written)


@pytest.mark.parametrize("form", FORMS)
@given(schema=schemas.garbage())
def test_whatever_a_client_sends_becomes_a_schema_that_is_taken(form, schema):
    written = rewritten_parameters(schema, **form)
    assert written is None or refused(written, form, top=True) is None
    assert refused(rewritten_response(schema, **form), form, top=False) is None


@given(schema=schemas.documents())
def test_rule_6_the_same_schema_gives_the_same_bytes(schema):
    for json_schema in (True, False):
        first = json.dumps(rewritten_parameters(schema, json_schema=json_schema))
        assert json.dumps(rewritten_parameters(copy.deepcopy(schema), json_schema=json_schema)) == first
