"""A text that ends inside a call: the responses of both client APIs, the counts, and calls that are complete because
only closing markup is missing. tests/property/test_half_calls.py cuts the calls of every dialect at every place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.translation.exchange import Translation
from tests.model_text.exchange import client_response, cuts, request_body, send_every_cut, sse_bytes, text_chunks, tool
from tests.playbook import call as native_call
from tests.playbook import delta, sse

Json = dict[str, Any]
WEATHER = tool("get_weather", ("city",), city="string", days="integer")
LOOK = tool("look", top="integer", q="string")
TOOLS = [WEATHER, LOOK]
HERMES = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
SECTION = "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
V31 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>"


def reads(text: str, dialect: str, *, finish: str = "stop", **settings: Any) -> tuple[list[list[str]], str, str]:
    """(calls, finish reason, text), the same at every cut."""
    got = send_every_cut(text, TOOLS, finish=finish, dialect=dialect, **settings)
    return got["tool_calls"], got["finish_reason"], got["content"]


# --------------------------------------------------------------------------------------------------- cut and whole calls


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
@pytest.mark.parametrize(("dialect", "text", "sent"), [
    ("qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nrm -rf /tmp/foo", '{"city": "rm -rf /tmp/foo'),
    ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": ', '{"city": '),
    ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 1', '{"city": "Paris", "days": 1'),
    ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris",', '{"city": "Paris"'),
    ("kimi-k2", SECTION + '{"city"', '{"city"'),
    ("glm-4.6", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_val", '{"city": "Paris'),
    ("glm-4.6", "<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_value>12</arg_value>\n", '{"days": 12'),
    ("glm-4.6", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_k", '{"city": "Paris"'),
    ("gemma-4", '<|tool_call>call:get_weather{city:<|"|>Par<|"', '{"city": "Par'),
])
def test_a_cut_call_stays_open(dialect: str, text: str, sent: str, finish: str) -> None:
    assert reads(text, dialect, finish=finish) == ([["get_weather", sent]], "length", "")


@pytest.mark.parametrize(("dialect", "text"), [
    ("minimax-m2", '<minimax:tool_call><invoke name="get_weather">'), ("minimax-m2", '<minimax:tool_call><invoke name="look">'),
    ("glm-4.6", "<tool_call>look"), ("mistral", "[TOOL_CALLS]look"), ("kimi-k2", SECTION),
    ("hermes", '<tool_call>\n{"name": "look", "arguments": '), ("deepseek-v3.2", '<｜DSML｜tool_calls><｜DSML｜invoke name="look">'),
])
def test_a_call_that_is_cut_before_its_arguments_is_not_sent(dialect: str, text: str) -> None:
    """A client could take it for a call without arguments. The finish reason shows that something is missing."""
    assert reads(text, dialect) == ([], "length", "")


@pytest.mark.parametrize(("dialect", "text"), [
    ("glm-4.6", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"),
    ("glm-4.6", "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value></tool_"),
    ("qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</fun"),
    ("kimi-k2", SECTION + '{"city": "Paris"}'), ("deepseek-v3.1", V31 + '{"city": "Paris"}'),
    ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n'),
    ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"'),
    ("lfm2", '<|tool_call_start|>[get_weather(city="Paris")]'), ("lfm2", '<|tool_call_start|>[get_weather(city="Paris"'),
    ("gemma-4", '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>'),
    ("roo-xml", "<get_weather>\n<city>Paris</city>\n"),
    ("minimax-m3", ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_weather">]<]minimax[>[<city>Paris]<]minimax[>[</city>'),
    ("deepseek-v3.2", '<｜DSML｜invoke name="get_weather"><｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n</｜DS'),
    ("prompted", '<tool_call name="get_weather">\n<parameter name="city">Paris</parameter>\n</tool'),
])
def test_a_call_that_only_lacks_closing_markup_is_whole(dialect: str, text: str) -> None:
    """Servers remove the token that ends a call, or a stop sequence."""
    found, finish, _ = reads(text, dialect)
    assert ([(name, json.loads(text)) for name, text in found], finish) == (
        [("get_weather", {"city": "Paris"})], "tool_calls")


@pytest.mark.parametrize(("dialect", "text"), [
    ("qwen3-coder", "<function=get_weather>\n<parameter=days>\n12\n</parameter>\n"),
    ("prompted", '<tool_call name="get_weather">\n<parameter name="days">12</parameter>\n'),
])
def test_prose_behind_a_call_without_its_end(dialect: str, text: str) -> None:
    """It closes nothing: the call is complete if only closing markup is missing before it."""
    assert reads(text + "So I ask.", dialect)[:2] == ([["get_weather", '{"days": 12']], "length")
    text = text.replace("12", "Paris").replace("days", "city") + text[text.index("<parameter"):]
    found, finish, shown = reads(text + "So I ask.", dialect)
    assert (found, finish, shown.strip()) == (
        [["get_weather", '{"city": "Paris", "days": 12}']], "tool_calls", "So I ask.")


def test_calls_before_the_cut_one_stay_whole() -> None:
    found, finish, _ = reads(HERMES + '\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Ro', "hermes")
    assert (found, finish) == ([["get_weather", '{"city": "Paris"}'], ["get_weather", '{"city": "Ro']], "length")


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("upstream", ["anthropic", "gemini"])
def test_every_provider_api(upstream: str, streamed: bool) -> None:
    text = HERMES.replace("Paris", "Rome") + HERMES[:HERMES.index("aris")]
    talk = Translation("anthropic", upstream, "m", url="http://127.0.0.1:8000/v1")
    talk.request(request_body(TOOLS, stream=streamed))
    talk.start(200, {"content-type": "application/json"})
    if upstream == "gemini":
        body: Json = {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}
    else:
        body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 1, "output_tokens": 1}}
    out = talk.feed(json.dumps(body).encode()) + talk.finish()
    assert b'"max_tokens"' in out
    assert b"Rome" in out
    assert b"tool_use\"}" not in out.replace(b" ", b"").replace(b'"type":"tool_use"}', b"")


@pytest.mark.parametrize("streamed", [True, False])
def test_a_chat_completions_client(streamed: bool) -> None:
    talk = Translation("openai", "openai", "m", url="http://127.0.0.1:8000/v1", dialect="hermes")
    talk.request(json.dumps({"model": "m", "stream": streamed, "tools": TOOLS,
                             "messages": [{"role": "user", "content": "hi"}]}).encode())
    talk.start(200, {"content-type": "text/event-stream"})
    out = talk.feed(sse_bytes(text_chunks([HERMES[:HERMES.index("aris")]], "tool_calls"))) + talk.finish()
    assert b'"finish_reason":"length"' in out
    assert b'"finish_reason":"tool_calls"' not in out
    assert (rb'{\"city\": ' in out) is streamed  # a response in one piece omits an incomplete call
    assert rb'\"}' not in out


def test_a_long_text_behind_a_cut_call_goes_on() -> None:
    """It waits for a native call that continues the cut one, but not for ever."""
    body = sse(delta(reasoning_content=HERMES[:HERMES.index("aris")]), *(delta(content="word " * 999) for _ in range(20)),
               delta("stop"))
    got = client_response(body, TOOLS, dialect="hermes")
    assert (got["content"].split(), got["finish_reason"]) == (["word"] * 19_980, "length")
    assert got["tool_calls"] == [["get_weather", '{"city": "P']]


def test_without_a_finish_reason_the_answer_is_broken() -> None:
    body = sse(delta(content='<tool_call>\n{"name": "look", "arguments": '))
    assert client_response(body, TOOLS, dialect="hermes")["finish_reason"] == "error"


# ----------------------------------------------------------------------------------------------- strict, and the figures


def counted(text: str, dialect: str, *before: Json, finish: str = "stop", **settings: Any) -> tuple[bytes, Json]:
    """(the client's bytes, the counts of calls)."""
    talk = Translation("anthropic", "openai", "m", url="http://127.0.0.1:8000/v1", dialect=dialect, **settings)
    talk.request(request_body(TOOLS))
    talk.start(200, {"content-type": "text/event-stream"})
    out = talk.feed(sse(*before, *text_chunks([text], finish))) + talk.finish()
    return out, {name: {key: value for key in ("total", "repaired", "unreadable", "unoffered", "refused")
                        if (value := getattr(counts, key))} for name, counts in talk.calls.items()}


@pytest.mark.parametrize(("dialect", "text"), [
    ("hermes", '<tool_call>\n{"name": "get_weather", "arguments": '), ("hermes", HERMES[:HERMES.index("Paris")]),
    ("hermes", HERMES[:HERMES.index('": "Paris')]), ("deepseek-v3.1", V31), ("deepseek-v3.1", V31 + '{"city": "Pa'),
    ("qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nPa"), ("mistral", "[TOOL_CALLS]look"),
    ("gemma-4", '<|tool_call>call:get_weather{city:<|"|>Par'),
])
def test_half_a_call_is_refused_by_strict(dialect: str, text: str) -> None:
    out, counts = counted(text, dialect, arguments="strict")
    assert b"event: error" in out
    assert b"does not match the tool's schema: $: the text ends inside of the call" in out
    assert b"tool_use" not in out
    assert counts == {dialect: {"total": 1, "refused": 1}}


def test_a_refused_call_of_the_text_is_not_counted_as_native() -> None:
    out, counts = counted(HERMES.replace("city", "town"), "hermes", arguments="strict")
    assert b"event: error" in out
    assert out.count(b"event: ") == 2  # message_start, error
    assert counts == {"hermes": {"total": 1, "refused": 1}}


def test_native_calls_beside_those_that_were_left_out_are_counted() -> None:
    native = delta(tool_calls=[native_call(0, "c", "look", '{"top": 1}')])
    skipped = SECTION.replace("get_weather", "gone") + '{"a": 1}<|tool_call_end|>'
    _, counts = counted(skipped + SECTION[SECTION.index("<|tool_call_b"):] + '{"city": "Paris"}<|tool_call_end|>',
                        "kimi-k2", native)
    assert counts == {"native": {"total": 1}, "kimi-k2": {"total": 2, "unoffered": 1}}


@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("text", [HERMES[:HERMES.index("aris")], '<tool_call>\n{"name": "look", "arguments": '])
def test_a_cut_call_is_counted_as_unreadable(text: str, finish: str) -> None:
    assert counted(text, "hermes", finish=finish)[1] == {"hermes": {"total": 1, "unreadable": 1}}


def test_a_call_that_lacks_closing_markup_is_counted_as_repaired() -> None:
    text = "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>"
    assert counted(text, "glm-4.6")[1] == {"glm-4.6": {"total": 1, "repaired": 1}}


# ------------------------------------------------------------------------------------------- the same call in reasoning

ROME = HERMES.replace("Paris", "Rome")


@pytest.mark.parametrize(("text", "cities"), [
    (f"<think>I call {HERMES} now.</think>\n{HERMES}", ["Paris"]),
    (f"<think>I call {HERMES}</think>Well.\n{HERMES}\n{HERMES}", ["Paris", "Paris"]),
    (f"<think>I call {HERMES}</think>\n{ROME}", ["Paris", "Rome"]),
    (f"<think>I call {HERMES}\n{ROME}</think>\n{ROME}\n{HERMES}", ["Paris", "Rome", "Rome"]),
    (f"<think>I call {HERMES}\n{HERMES}", ["Paris", "Paris"]),
    (f"<think>x</think>{HERMES}\n</think>{HERMES}", ["Paris", "Paris"]),
])
@pytest.mark.parametrize("mode", ["repair", "as-is", "strict"])
def test_a_call_in_reasoning_that_is_closed_later_and_the_same_behind_it(text: str, cities: list[str], mode: str) -> None:
    """Only a call that the model drafted in its reasoning is the same one: two equal calls in a response are meant."""
    found, finish, _ = reads(text, "hermes", arguments=mode)
    assert ([json.loads(arguments)["city"] for _, arguments in found], finish) == (cities, "tool_calls")


def test_a_call_in_the_reasoning_field_and_in_the_text() -> None:
    for pieces in cuts(HERMES):
        body = sse(*(delta(reasoning_content=piece) for piece in pieces), *text_chunks(pieces))
        got = client_response(body, TOOLS, dialect="hermes")
        assert (got["tool_calls"], got["finish_reason"]) == ([["get_weather", '{"city": "Paris"}']], "tool_calls")
