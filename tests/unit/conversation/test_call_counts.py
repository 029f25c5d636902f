"""Which calls a model made, in which way it wrote them, and how they fared: counted whatever the client sees of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import Translation
from extproc.conversation.call_counts import CallCounts, CallTally
from extproc.dialects.registry import DIALECTS

WEATHER = {"name": "weather", "description": "w", "input_schema": {
    "type": "object", "required": ["town"], "properties": {"town": {"type": "string"}, "days": {"type": "integer"}}}}
HERMES = '<tool_call>\n{"name": "weather", "arguments": %s}\n</tool_call>'
KIMI = ("<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>%s"
        "<|tool_call_end|><|tool_calls_section_end|>")


def counts(message: dict[str, Any], model: str = "gpt-4o", finish: str = "stop", **settings: Any) -> Any:
    """The counts of this answer, by dialect."""
    talk = Translation("anthropic", "openai", model, **settings)
    talk.request(json.dumps({"model": "m", "max_tokens": 50, "tools": [WEATHER],
                             "messages": [{"role": "user", "content": "hi"}]}).encode())
    talk.start(200, {"content-type": "application/json"})
    talk.feed(json.dumps({"id": "c", "object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}]}).encode())
    talk.finish()
    return talk.calls


def native(*arguments: str, name: str = "weather") -> dict[str, Any]:
    return {"content": None, "tool_calls": [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": text}}
        for at, text in enumerate(arguments)]}


def test_no_call_is_no_count() -> None:
    assert counts({"content": "fine weather"}) == {}


@pytest.mark.parametrize(("arguments", "found"), [
    (['{"town": "Ulm"}', "{}", ""], CallCounts(total=3)),
    (['{"town": }'], CallCounts(total=1, unreadable=1)),
    (['{"town": "Ul'], CallCounts(total=1, unreadable=1)),
    (['{"town": "Ulm"'], CallCounts(total=1, repaired=1)),
])
def test_native_calls(arguments: list[str], found: CallCounts) -> None:
    assert counts(native(*arguments), finish="tool_calls") == {"native": found}


def test_native_calls_of_tools_that_nobody_offered() -> None:
    assert counts(native("{}", name="climate"), finish="tool_calls") == {"native": CallCounts(total=1, unoffered=1)}


@pytest.mark.parametrize(("mode", "arguments", "found"), [
    ("repair", "{'town': 'Ulm'}", CallCounts(total=1, repaired=1)),
    ("strict", '{"days": 3}', CallCounts(total=1, refused=1)),
    ("strict", '{"town": "Ulm"}', CallCounts(total=1)),
])
def test_native_calls_that_are_looked_at(mode: str, arguments: str, found: CallCounts) -> None:
    told = counts(native(arguments), finish="tool_calls", arguments=mode)["native"]
    assert (told.total, told.repaired, told.refused) == (found.total, found.repaired, found.refused)


@pytest.mark.parametrize(("model", "text", "dialect"), [
    ("qwen/qwen2.5-72b-instruct", HERMES % '{"town": "Ulm"}', "qwen3-hermes"),
    ("moonshotai/kimi-k2", KIMI % '{"town": "Ulm"}', "kimi-k2"),
    ("a-model-nobody-knows", HERMES % '{"town": "Ulm"}', "hermes"),
])
def test_calls_in_text_say_their_dialect(model: str, text: str, dialect: str) -> None:
    assert counts({"content": text}, model) == {dialect: CallCounts(total=1)}


def test_the_dialect_that_was_asked_for_gives_its_name_to_forms_that_several_share() -> None:
    found = counts({"content": HERMES % '{"town": "Ulm"}'}, "m", dialect="granite4")
    assert found == {"granite4": CallCounts(total=1)}


@pytest.mark.parametrize("settings", [{}, {"arguments": "strict"}])
def test_calls_in_text_that_were_repaired_or_refused(settings: dict[str, Any]) -> None:
    model = "qwen/qwen2.5-72b-instruct"
    assert counts({"content": HERMES % "{'town': 'Ulm',}"}, model, **settings)["qwen3-hermes"].repaired == 1
    refused = counts({"content": HERMES % '{"days": 3}'}, model, **settings)["qwen3-hermes"]
    assert refused == CallCounts(total=1, refused=1 if settings else 0)


def test_two_ways_in_one_answer() -> None:
    both = {**native('{"town": "Bonn"}'), "content": HERMES % '{"town": "Ulm"}'}
    assert counts(both, "qwen/qwen2.5-72b-instruct", finish="tool_calls") == {
        "native": CallCounts(total=1), "qwen3-hermes": CallCounts(total=1)}


def test_where_bytes_pass_calls_are_counted_all_the_same() -> None:
    talk = Translation("openai", "openai", "gpt-4o", url="https://api.openai.com/v1")
    talk.request(json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode())
    talk.start(200, {"content-type": "application/json"})
    talk.feed(json.dumps({"id": "c", "object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", **native("{}")}}]}).encode())
    talk.finish()
    assert talk.calls == {"native": CallCounts(total=1, unoffered=1)}


def test_refused_calls_are_among_all_that_were_made() -> None:
    tally = CallTally()
    tally.native.refused = 1
    tally.of("hermes").total = tally.written = 2
    assert tally.counts(sent=3, unoffered=0) == {
        "native": CallCounts(total=2, refused=1), "hermes": CallCounts(total=2)}
    assert CallCounts(total=5, unreadable=1, unoffered=1, refused=1).failed == 3


def test_no_dialect_is_called_native() -> None:
    """The label of what is no dialect must not be one."""
    assert not {"native", "other"} & set(DIALECTS)
