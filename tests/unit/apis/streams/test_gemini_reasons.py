"""Why a Gemini response ended, as relays and models really tell it: numbers for names, and calls that Gemini did not
take."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import playbook
from tests.playbook import delta
from tests.unit.apis.gemini.response.conversation import call, chunk, sse, text, thought
from tests.unit.apis.streams.exchanges import answered, every_way, talk, understood

VERTEX: dict[str, Any] = {"url": "https://aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google"}
SETTINGS: dict[str, Any] = {"model": "gemini-3-pro-preview"}
PARIS = ("get_weather", {"city": "Paris"})


def both(*chunks: dict[str, Any]) -> list[bytes]:
    """A stream, and the array of a stream without `alt=sse`."""
    return [sse(*chunks), json.dumps(list(chunks)).encode()]


@pytest.mark.parametrize(("reason", "where", "finish"), [
    (1, {}, "stop"), ("1", {}, "stop"), (2, {}, "length"), (3, {}, "content_filter"), (4, {}, "content_filter"),
    (6, {}, "content_filter"), (7, {}, "content_filter"), (9, {}, "content_filter"), (11, {}, "content_filter"),
    (1, VERTEX, "stop"), (2, VERTEX, "length"), (8, VERTEX, "content_filter"), (10, VERTEX, "content_filter"),
    ("CONTINUATION", {}, "length"), ("CONTINUATION", VERTEX, "length"),
])
def test_a_number_means_the_reason_of_its_door(reason: object, where: dict[str, Any], finish: str) -> None:
    for body in both(chunk(text("Hello")), {"candidates": [{"finishReason": reason, "index": 0}]}):
        heard = every_way(body, "gemini", **SETTINGS, **where)
        assert (heard.text, heard.finish, heard.error) == ("Hello", finish, None)


@pytest.mark.parametrize(("reason", "where", "name"), [
    (10, {}, "MALFORMED_FUNCTION_CALL"), (9, VERTEX, "MALFORMED_FUNCTION_CALL"), (5, {}, "OTHER"), (5, VERTEX, "OTHER"),
    (13, {}, "TOO_MANY_TOOL_CALLS"), (99, {}, "99"),
])
def test_a_number_that_means_a_failure_is_one(reason: int, where: dict[str, Any], name: str) -> None:
    for body in both({"candidates": [{"finishReason": reason, "index": 0}]}):
        heard = every_way(body, "gemini", **SETTINGS, **where)
        assert heard.error is not None
        assert name in heard.error


def test_zero_is_no_reason_yet() -> None:
    for body in both({"candidates": [{**chunk(text("Hel"))["candidates"][0], "finishReason": 0}]},
                     chunk(text("lo"), finish="STOP")):
        assert every_way(body, "gemini", **SETTINGS).text == "Hello"


# ----------------------------------------------------------------------------------------------- calls it did not take


@pytest.mark.parametrize("name", ["get_weather", "delete_everything"])
@pytest.mark.parametrize("reason", ["UNEXPECTED_TOOL_CALL", 12])
@pytest.mark.parametrize("apart", [False, True])
def test_an_unexpected_call_that_is_whole_passes_and_is_counted(name: str, reason: object, apart: bool) -> None:
    chunks = [chunk(text("I see."), call(name, {"city": "Paris"}))]
    if apart:
        chunks.append(chunk(finish=reason))  # type: ignore[arg-type]
    else:
        chunks[0]["candidates"][0]["finishReason"] = reason
    for body in both(*chunks):
        heard = every_way(body, "gemini", **SETTINGS)
        assert (heard.text, heard.calls, heard.finish) == ("I see.", ((name, {"city": "Paris"}),), "tool_calls")
        exchange = talk("anthropic", "gemini", **SETTINGS)
        answered(exchange, body)
        assert exchange.unoffered_calls == (name != "get_weather")


@pytest.mark.parametrize("chunks", [
    pytest.param([chunk(finish="UNEXPECTED_TOOL_CALL")], id="without a call"),
    pytest.param([chunk({"functionCall": {"name": "get_weather", "willContinue": True, "partialArgs": [
        {"jsonPath": "$.city", "stringValue": "Par", "willContinue": True}]}}),
        chunk(finish="UNEXPECTED_TOOL_CALL")], id="inside a string of its arguments"),
])
def test_an_unexpected_call_that_is_not_whole_fails_over(chunks: list[Any]) -> None:
    heard = every_way(sse(*chunks), "gemini", **SETTINGS)
    assert (heard.calls, heard.finish) == ((), None)
    assert heard.error is not None


WRITTEN = [
    ('print(default_api.get_weather(city="Paris"))', [PARIS]),
    ("print(default_api.get_weather(city='Paris', days=-2))", [("get_weather", {"city": "Paris", "days": -2})]),
    ("default_api.get_weather(\n    city='Paris',\n)", [PARIS]),
    ('get_weather(city="Paris")', [PARIS]),
    ('[get_weather(city="Paris"), default_api.ping()]', [PARIS, ("ping", {})]),
    ('print(default_api.get_weather(city="Paris"))\nprint(default_api.ping())', [PARIS, ("ping", {})]),
    ('print(default_api.ping(), default_api.get_weather(city="Paris"))', [("ping", {}), PARIS]),
    ('```tool_code\nprint(default_api.get_weather(city="Paris"))\n```', [PARIS]),
    ('print(default_api.get_weather(city="a\\nb \\"q\\" (c)\tå 😀"))',
     [("get_weather", {"city": 'a\nb "q" (c)\tå 😀'})]),
    ('print(default_api.get_weather(city="a\n  b"))', [("get_weather", {"city": "a\n  b"})]),
    ('print(default_api.get_weather(city="""a\n"b" c"""))', [("get_weather", {"city": 'a\n"b" c'})]),
    ("print(default_api.get_weather(city='x', more={'a': [1, 2.5, True, None], 'b': ()}))",
     [("get_weather", {"city": "x", "more": {"a": [1, 2.5, True, None], "b": []}})]),
    ("print(default_api.get_weather(city='x', on=true, off=false, none=null))",
     [("get_weather", {"city": "x", "on": True, "off": False, "none": None})]),
    ('call:default_api:get_weather{"city": "Paris"}', [PARIS]),
]


@pytest.mark.parametrize(("code", "calls"), WRITTEN)
@pytest.mark.parametrize("label", ["Malformed function call: ", ""])
def test_a_call_written_as_python_is_read_from_the_message(code: str, calls: list[Any], label: str) -> None:
    last = chunk(finish="MALFORMED_FUNCTION_CALL", message=label + code)
    for body in both(last):
        heard = every_way(body, "gemini", **SETTINGS)
        assert (list(heard.calls), heard.finish, heard.text) == (calls, "tool_calls", "")
    heard = every_way(sse(chunk(thought("Hm.")), chunk(text("I look.")), last), "gemini", **SETTINGS)
    assert (heard.thinking, heard.text, list(heard.calls)) == ("Hm.", "I look.", calls)


@pytest.mark.parametrize("code", [code for code, _ in WRITTEN])
def test_and_from_the_text_that_came_with_the_reason(code: str) -> None:
    calls = next(calls for known, calls in WRITTEN if known == code)
    heard = every_way(sse(chunk(text(code), finish="MALFORMED_FUNCTION_CALL")), "gemini", **SETTINGS)
    assert (list(heard.calls), heard.text) == (calls, "")


@pytest.mark.parametrize("code", [
    pytest.param('print(default_api.get_weather(city="Par', id="cut in a string"),
    pytest.param('print(default_api.get_weather(city="Paris"', id="cut behind a string"),
    pytest.param('print(default_api.get_weather(city="Paris")', id="cut before the last bracket"),
    pytest.param("print(default_api.get_weather(city='it's'))", id="a quote inside"),
    pytest.param("print(default_api.get_weather('Paris'))", id="an argument without a name"),
    pytest.param("print(default_api.get_weather(city=os.getcwd()))", id="an expression"),
    pytest.param("print(default_api.get_weather(days=7 / 12))", id="a sum"),
    pytest.param("print(default_api.get_weather(city='a', city='b'))", id="two values for one"),
    pytest.param("print(default_api.get_weather(**{'city': 'a'}))", id="unpacked"),
    pytest.param("print(default_api.delete_everything(sure=True))", id="a tool that is not offered"),
    pytest.param("print(default_api.get_weather(city='a'), default_api.gone())", id="one of two is not offered"),
    pytest.param("city = 'a'\nprint(default_api.get_weather(city=city))", id="a program"),
    pytest.param("print(1)", id="no call"),
    pytest.param("call:get_weather{city: Paris}", id="no JSON"),
    pytest.param("", id="no text"),
])
def test_a_call_without_one_whole_reading_fails_over(code: str) -> None:
    body = sse(chunk(finish="MALFORMED_FUNCTION_CALL", message=f"Malformed function call: {code}"))
    exchange = talk("anthropic", "gemini", withhold=True, **SETTINGS)
    answered(exchange, body)
    assert exchange.head is not None
    assert exchange.head.status == 502, "nothing was sent: the next attempt may do better"
    heard = every_way(body, "gemini", **SETTINGS)
    assert heard.calls == ()
    assert heard.error is not None


def test_a_malformed_call_behind_a_whole_one_is_not_guessed_at() -> None:
    body = sse(chunk(call("ping", {})), chunk(finish="MALFORMED_FUNCTION_CALL",
                                              message="Malformed function call: print(default_api.ping())"))
    assert every_way(body, "gemini", **SETTINGS, ways=[("anthropic", True), ("openai", True)]).error is not None


def test_a_strict_attempt_checks_what_was_read() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    body = sse(chunk(finish="MALFORMED_FUNCTION_CALL", message="Malformed function call: print(f(days=1))"))
    exchange = talk("anthropic", "gemini", arguments="strict", tools={"f": schema}, **SETTINGS)
    assert understood("anthropic", True, answered(exchange, body)).error is not None


def test_google_reports_the_same_at_its_openai_endpoint() -> None:
    for reason in ("function_call_filter: MALFORMED_FUNCTION_CALL", "malformed_function_call"):
        assert every_way(playbook.sse(delta(reason))).error is not None
    made = delta("function_call_filter: UNEXPECTED_TOOL_CALL", tool_calls=[playbook.call(0, "a", "gone", "{}")])
    assert every_way(playbook.sse(made))[2:4] == ((("gone", {}),), "tool_calls")
    heard = every_way(playbook.sse(delta(content="So"), delta("content_filter: RECITATION")))
    assert (heard.text, heard.finish) == ("So", "content_filter")
    assert every_way(playbook.sse(delta(content="So"), delta("CONTINUATION"))).finish == "length"
