"""Generated calls, written in each short form, cut anywhere and read back: the same calls and text."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.model_text.checks import TOOLS
from tests.model_text.dialect_writers import TAGGED, WRITERS, Call
from tests.model_text.exchange import send_text

# what no dialect can carry verbatim: lone surrogates, and Gemma's own quote
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=24).filter(lambda text: '<|"|>' not in text) \
    | st.sampled_from(["</tool_call>", "] } [TOOL_CALLS]", "it's \"so\"", "a\\", "<|call|>", "<|channel|>final",
                       "x), y=("])
nested = st.dictionaries(st.sampled_from(["a", "b", "min"]),
                         st.integers() | st.booleans() | texts | st.lists(st.integers(), max_size=2), max_size=2)
calls_of = {
    "tide": st.fixed_dictionaries({}, optional={"harbor": texts, "day": texts}),
    "valve": st.fixed_dictionaries({}, optional={
        "id": st.integers(-2**53, 2**53), "opening": st.floats(allow_nan=False, allow_infinity=False, width=32),
        "locked": st.booleans(), "tags": st.lists(texts, max_size=3), "limits": nested}),
    "ping": st.just({}),
}
some_calls = st.lists(st.sampled_from(sorted(calls_of)).flatmap(lambda name: st.tuples(st.just(name), calls_of[name])),
                      min_size=1, max_size=3)


@pytest.mark.parametrize("dialect", sorted(WRITERS))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(calls=some_calls, seed=st.integers(0, 2**16))
def test_what_was_written_is_read(dialect: str, calls: list[Call], seed: int) -> None:
    read_back(dialect, WRITERS[dialect](calls), calls, seed)


def read_back(dialect: str, raw: str, calls: list[Call], seed: int) -> None:
    """These calls and no text are read from `raw`, cut anywhere."""
    rng = random.Random(seed)
    cut = sorted(rng.randrange(len(raw) + 1) for _ in range(rng.randrange(12)))
    pieces = [raw[a:b] for a, b in zip([0, *cut], [*cut, len(raw)], strict=True)]
    got = send_text(pieces, TOOLS, dialect=dialect)
    assert [(name, json.loads(text or "{}")) for name, text in got["tool_calls"]] == calls
    assert got["content"] == ""


words = st.text("abc é\"'{}[],:\\/<>&", min_size=1, max_size=12)
tame_calls = st.lists(st.one_of(
    st.tuples(st.just("tide"), st.fixed_dictionaries({}, optional={"harbor": words, "day": words})),
    st.tuples(st.just("valve"), st.fixed_dictionaries({}, optional={
        "id": st.integers(-2**53, 2**53), "locked": st.booleans(), "tags": st.lists(words, max_size=3)})),
    st.tuples(st.just("ping"), st.just({}))), min_size=1, max_size=3)


@pytest.mark.parametrize("dialect", sorted(TAGGED))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(calls=tame_calls, seed=st.integers(0, 2**16))
def test_forms_without_escapes(dialect: str, calls: list[Call], seed: int) -> None:
    read_back(dialect, TAGGED[dialect](calls), calls, seed)
