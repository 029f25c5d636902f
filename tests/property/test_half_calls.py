"""A client never runs half a call. Whatever finish reason the provider sends, a response whose text ends inside a call
has no complete call with a value that is cut, invented or no JSON, and none without a required parameter.

Every dialect of the registry that the project or a test can write is tested with every beginning of its calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.dialects.registry import DIALECTS
from extproc.dialects.writing import WRITABLE
from tests.model_text.dialect_writers import TAGGED, WRITERS, gemma_value, objects, pythonic
from tests.model_text.exchange import send_text, tool
from tests.model_text.sample_cases import UPSTREAMS, case_settings, shared_cases
from tests.property.test_writing import written_by_us

Json = dict[str, Any]
Call = tuple[str, Json]

FINISHES = ["stop", "tool_calls"]
SHOWN = ("content", "reasoning", "tool_calls", "finish_reason")
AMBIGUOUS = {"hermes-013", "qwen3c-028", "qwen3c-040", "roo-004"}
"""Samples with a value that holds the closing tags of their own dialect: a cut after these is ambiguous."""
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


TOOLS = [
    tool("write_file", ("path", "content"), path=STRING, content=STRING, mode=STRING),
    tool("write", path=STRING),  # its name is the beginning of another one's
    tool("set_valve", ("valve", "limits"), valve=INTEGER, ratio={"type": "number"}, locked={"type": "boolean"},
         limits={"type": "object", "properties": {"low": INTEGER, "unit": STRING}},
         tags={"type": "array", "items": STRING}),
    tool("look", q=STRING, top=INTEGER),
    tool("ping"),
]
REQUIRED = {one["function"]["name"]: set(one["function"]["parameters"].get("required", ())) for one in TOOLS}

ANSWERS: list[list[Call]] = [
    [("write_file", {"path": "/tmp/foo bar.txt", "content": "line 1\n\nsay \"hi\", it's {ok} [1, 2]: a=b\n  rm -rf"})],
    [("set_valve", {"valve": 1234, "ratio": 12.75, "locked": True, "limits": {"low": 15, "unit": "bar"},
                    "tags": ["dry", "dock 12"]})],
    [("look", {"q": "tides of Brest", "top": 120})],
    [("ping", {})],
    [("write_file", {"path": "a", "content": "b c"}), ("look", {"q": "d e"}), ("ping", {}),
     ("set_valve", {"valve": 10, "limits": {"low": 10}})],
]


def objects_in(opener: str, closer: str, between: str = "") -> Callable[[list[Call]], str]:
    return lambda calls: between.join(f"{opener}{call}{closer}" for call in objects(calls))


def functiongemma(calls: list[Call]) -> str:
    return "".join(f"<start_function_call>call:{name}{gemma_value(arguments)}<end_function_call>".replace(
        '<|"|>', "<escape>") for name, arguments in calls)


def kimi_k3(calls: list[Call]) -> str:
    def argument(key: str, value: Any) -> str:
        kind, text = ("string", value) if isinstance(value, str) else ("json", json.dumps(value))
        return f'<|open|>argument key="{key}" type="{kind}"<|sep|>{text}<|close|>argument<|sep|>'

    return "<|open|>tools<|sep|>" + "".join(
        f'<|open|>call tool="{name}" index="{at}"<|sep|>{"".join(argument(*item) for item in arguments.items())}'
        "<|close|>call<|sep|>" for at, (name, arguments) in enumerate(calls, 1)) + "<|close|>tools<|sep|>"


def minimax_m3(calls: list[Call]) -> str:
    def element(key: str, value: Any) -> str:
        if isinstance(value, dict):
            inner = "".join(element(*item) for item in value.items())
        elif isinstance(value, list):
            inner = "".join(element("item", item) for item in value)
        else:
            inner = value if isinstance(value, str) else json.dumps(value)
        return f"<{key}>{inner}</{key}>"

    invokes = "\n".join(f'<invoke name="{name}">{"".join(element(*item) for item in arguments.items())}</invoke>'
                        for name, arguments in calls)
    return f"<tool_call>\n{invokes}\n</tool_call>".replace("<", "]<]minimax[>[<")


def roo_xml(calls: list[Call]) -> str:
    def element(key: str, value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        return f"<{key}>\n{text}\n</{key}>" if key == "content" else f"<{key}>{text}</{key}>"

    return "\n".join("\n".join([f"<{name}>", *(element(*item) for item in arguments.items()), f"</{name}>"])
                     for name, arguments in calls)


OTHERS: dict[str, Callable[[list[Call]], str]] = {
    "apriel": lambda calls: f"<tool_calls>[{', '.join(objects(calls))}]</tool_calls>",
    "ernie-4.5": objects_in("<tool_call>\n", "\n</tool_call>\n"),
    "functionary-v3.1": lambda calls: "".join(f"<function={name}>{json.dumps(arguments)}</function>"
                                              for name, arguments in calls),
    "functiongemma": functiongemma,
    "granite-3.0": lambda calls: f"<|tool_call|>[{', '.join(objects(calls))}]",
    "granite4": objects_in("<tool_call>\n", "\n</tool_call>", "\n"),
    "jamba": lambda calls: f"<tool_calls>[{', '.join(objects(calls))}]</tool_calls>",
    "kimi-k3": kimi_k3,
    "lfm2": lambda calls: f"<|tool_call_start|>[{', '.join(pythonic(calls))}]<|tool_call_end|>",
    "lmstudio-default": objects_in("[TOOL_REQUEST]", "[END_TOOL_REQUEST]", "\n"),
    "longcat": objects_in("<longcat_tool_call>", "</longcat_tool_call>"),
    "minimax-m3": minimax_m3,
    "roo-xml": roo_xml,
    "seed-oss": lambda calls: written_by_us("qwen3-coder", calls, TOOLS).replace("tool_call>", "seed:tool_call>"),
}


def writer_of(dialect: str) -> Callable[[list[Call]], str]:
    if dialect in WRITABLE:
        return lambda calls: written_by_us(dialect, calls, TOOLS)
    writer = WRITERS.get(dialect) or TAGGED.get(dialect) or OTHERS.get(dialect)
    assert writer is not None, f"{dialect} needs a writer, here or in tests/model_text/dialect_writers.py"
    return writer


@cache
def texts_of(dialect: str) -> list[tuple[list[Call], str]]:
    return [(calls, writer_of(dialect)(calls)) for calls in ANSWERS]


def fault_in(got: Json, meant: list[Call], required: Mapping[str, set[str]] = REQUIRED) -> str | None:
    """What a client could take for a call and must not; None: nothing. An answer that says that it was cut off may
    end with a call whose arguments are no JSON."""
    told = got["tool_calls"]
    if len(told) > len(meant):
        return "more calls than were written"
    for at, ((name, text), (wanted, arguments)) in enumerate(zip(told, meant, strict=False)):
        last = at == len(told) - 1
        try:
            found = json.loads(text or "{}")
        except ValueError:
            if last and got["finish_reason"] in ("length", "error"):
                continue
            return f"arguments that are no JSON: {text}"
        if name != wanted or any(key not in arguments or arguments[key] != value for key, value in found.items()):
            return f"a cut or invented value: {name} {text}"
        if missing := required.get(name, set()) & arguments.keys() - found.keys():
            return f"a call without {missing}: {name} {text}"
        if not last and found != arguments:
            return f"less than what was closed: {name} {text}"
    if told and got["finish_reason"] not in ("tool_calls", "length", "error"):
        return f"calls and {got['finish_reason']}"
    return None


def places_in(text: str) -> list[int]:
    """Every place but those further inside of a word or number than behind its first character."""
    return [at for at in range(len(text)) if at < 2 or not text[at - 2:at + 1].isalnum()]


def asked(dialect: str, text: str, finish: str, **settings: Any) -> Json:
    return send_text(text, TOOLS, finish=finish, dialect=dialect, **settings)


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("mode", ["repair", "as-is", "strict"])
def test_no_beginning_of_a_call_is_a_call(dialect: str, mode: str) -> None:
    """All places of single calls in the default mode, every second one of several calls; in the other modes every
    eighth one."""
    faults = []
    for meant, text in texts_of(dialect):
        step = 8 if mode != "repair" else 1 if len(meant) == 1 else 2
        for number, upto in enumerate(places_in(text)[::step]):
            got = asked(dialect, text[:upto], FINISHES[number % 2], arguments=mode)
            if (fault := fault_in(got, meant)) is not None:
                faults.append((text[:upto][-60:], fault))
    assert not faults, f"{len(faults)}: {faults[:3]}"


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_cut_of_a_beginning_gives_the_same(dialect: str, data: st.DataObject) -> None:
    _, text = data.draw(st.sampled_from(texts_of(dialect)))
    text = text[:data.draw(st.integers(0, len(text)))]
    finish, mode = data.draw(st.sampled_from(FINISHES)), data.draw(st.sampled_from(["repair", "as-is", "strict"]))
    pieces = data.draw(st.sampled_from([list(text), [text[:len(text) // 2], text[len(text) // 2:]]]))
    whole = asked(dialect, text, finish, arguments=mode)
    cut = send_text(pieces, TOOLS, finish=finish, dialect=dialect, arguments=mode)
    assert [cut[key] for key in SHOWN] == [whole[key] for key in SHOWN]


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_whole_calls_are_calls(dialect: str) -> None:
    for meant, text in texts_of(dialect):
        got = asked(dialect, text, "stop")
        assert [(name, json.loads(arguments)) for name, arguments in got["tool_calls"]] == meant
        assert got["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("case", shared_cases(without=("responses-events", *UPSTREAMS)))
def test_no_beginning_of_a_sample_is_another_call(case: Json) -> None:
    """The sample's own reading says what was meant; damage in it may end a value earlier or later, never at an end of
    the text that is not its end."""
    raw = case.get("raw", "")
    if case["expect"]["finish_reason"] != "tool_calls" or not raw or case["id"] in AMBIGUOUS:
        return
    tools, options = case.get("tools", []), case_settings(case)
    required = {one["function"]["name"]: set((one["function"].get("parameters") or {}).get("required", ()))
                for one in tools}
    meant = [(name, json.loads(text or "{}")) for name, text in
             send_text(raw, tools, **options)["tool_calls"]]
    faults = []
    for upto in range(0, len(raw), 3):
        got = send_text(raw[:upto], tools, finish=FINISHES[upto % 2], **options)
        if (fault := fault_in(got, meant, required)) is not None:
            faults.append((raw[:upto][-60:], fault))
    assert not faults, f"{len(faults)}: {faults[:3]}"
