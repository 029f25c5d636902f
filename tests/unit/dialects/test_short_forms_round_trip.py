"""Generated calls, written in each short form, cut anywhere and read back: the same calls and text."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.dialects.cases import answer, sse_bytes, text_chunks
from tests.unit.dialects.reads import TOOLS

Call = tuple[str, dict[str, Any]]


def objects(calls: list[Call], key: str = "arguments") -> list[str]:
    return [json.dumps({"name": name, key: arguments}, ensure_ascii=False) for name, arguments in calls]


def pythonic(calls: list[Call]) -> list[str]:
    return [f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})" for name, arguments in calls]


def gemma_value(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, list):
        return "[" + ",".join(map(gemma_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{gemma_value(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def step3_call(call: Call) -> str:
    name, arguments = call
    pairs = "".join(f'<steptml:parameter name="{key}">{value if isinstance(value, str) else json.dumps(value)}'
                    "</steptml:parameter>" for key, value in arguments.items())
    return (f'<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">{pairs}</steptml:invoke>'
            "<｜tool_call_end｜>")


WRITERS: dict[str, Callable[[list[Call]], str]] = {
    "llama3-json": lambda calls: "; ".join(objects(calls, "parameters")),
    "llama-pythonic": lambda calls: "[" + ", ".join(pythonic(calls)) + "]",
    "llama4-pythonic": lambda calls: "<|python_start|>[" + ", ".join(pythonic(calls)) + "]<|python_end|>",
    "olmo3": lambda calls: "<function_calls>\n" + "\n".join(pythonic(calls)) + "\n</function_calls>",
    "mistral": lambda calls: "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(arguments)}" for name, arguments in calls),
    "gpt-oss": lambda calls: "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{json.dumps(arguments)}<|call|>"
        for name, arguments in calls),
    "gemma-4": lambda calls: "".join(f"<|tool_call>call:{name}{gemma_value(arguments)}<tool_call|>"
                                     for name, arguments in calls),
    "xlam": lambda calls: "[" + ", ".join(objects(calls)) + "]",
    "phi-4-mini": lambda calls: "functools[" + ",".join(objects(calls)) + "]",
    "granite-3.1": lambda calls: "<tool_call>[" + ",".join(objects(calls)) + "]",
    "granite-20b-fc": lambda calls: " ".join(f"<function_call> {call}" for call in objects(calls)),
    "apertus": lambda calls: "<|tools_prefix|>" + json.dumps([{name: arguments} for name, arguments in calls])
    + "<|tools_suffix|>",
    "step3": lambda calls: "<｜tool_calls_begin｜>" + "".join(map(step3_call, calls)) + "<｜tool_calls_end｜>",
    "internlm2": lambda calls: "".join(f"<|action_start|><|plugin|>{call}<|action_end|>" for call in objects(calls)),
}

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
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(calls=some_calls, seed=st.integers(0, 2**16))
def test_what_was_written_is_read(dialect: str, calls: list[Call], seed: int) -> None:
    raw = WRITERS[dialect](calls)
    rng = random.Random(seed)
    cut = sorted(rng.randrange(len(raw) + 1) for _ in range(rng.randrange(12)))
    pieces = [raw[a:b] for a, b in zip([0, *cut], [*cut, len(raw)], strict=True)]
    got = answer(sse_bytes(text_chunks(pieces)), TOOLS, dialect=dialect)
    assert [(name, json.loads(text or "{}")) for name, text in got["tool_calls"]] == calls
    assert got["content"] == ""


@pytest.mark.parametrize("dialect", sorted(WRITERS))
@settings(max_examples=40, deadline=None)
@given(pieces=st.lists(st.sampled_from([
    "[TOOL_CALLS]", "[ARGS]", "{", "}", "[", "]", "(", ")", '"', "'", "\\", ":", ",", "name", "tide", "ping", "call:",
    "=", "<|channel|>", "analysis", "<|message|>", "to=functions.ping", "<|tool_call>", '<|"|>', "<tool_call|>",
    "functools[", "<tool_call>", '{"name": "tide", "arguments": {', "<|python_tag|>", "<function_calls>", "\n", " ",
    "```", "<think>", "</think>", "harbor", "<|action_start|><|plugin|>", "<|end|>", "<function_call>",
    "<｜tool_calls_begin｜>", '<steptml:invoke name="ping">', "<|tools_prefix|>", "<|assistant_end|>"]), max_size=14),
       finish=st.sampled_from(["stop", "length"]))
def test_any_text_has_one_reading(dialect: str, pieces: list[str], finish: str) -> None:
    """Markers in any order raise nothing, and give the same at every cut."""
    raw = "".join(pieces)
    whole = answer(sse_bytes(text_chunks([raw], finish)), TOOLS, dialect=dialect)
    single = answer(sse_bytes(text_chunks(list(raw), finish)), TOOLS, dialect=dialect)
    for part in ("content", "reasoning", "tool_calls", "finish_reason"):
        assert whole[part] == single[part]
