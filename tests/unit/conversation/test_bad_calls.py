"""Calls that no client can run, and those that nobody expected: what happens to them, and what log and metrics tell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from prometheus_client import generate_latest

from extproc import Translation
from extproc.config import Attempt, Backend, ModelRule, ToolSettings
from extproc.config.tools import EventLabel, EventSettings
from extproc.conversation.call_counts import BadCall, CallCounts
from extproc.ext_proc.record import Record
from extproc.process.log import Log
from extproc.worker.exchange_log import log_exchange
from extproc.worker.metrics import PrometheusMetrics
from tests.model_text.text_and_calls import (
    UPSTREAMS,
    NativeCall,
    begin_exchange,
    finished_exchange,
    hermes_call,
    provider_body,
    received,
)
from tests.unit.ext_proc.playbook import request_body, response_body, response_headers
from tests.unit.ext_proc.test_translate import ASK, SSE, hop, routed

READ: NativeCall = ("read", {"path": "a"})
ELSE: NativeCall = ("climate", {"path": "a"})

every_api = pytest.mark.parametrize("upstream", UPSTREAMS)
both_ways = pytest.mark.parametrize("stream", [True, False])


# ---------------------------------------------------------------------------- styles that expect no native call


@every_api
@both_ways
def test_a_native_call_while_tools_are_in_the_prompt_goes_out_and_is_counted_as_one(upstream: str,
                                                                                   stream: bool) -> None:
    made = finished_exchange(upstream, [READ], stream=stream, tool_style="prompted")
    assert made.calls == {"native": CallCounts(total=1, unexpected=1)}
    assert made.bad_calls == []
    assert received(upstream, [READ], stream=stream, tool_style="prompted").calls == [READ]


@every_api
@pytest.mark.parametrize("style", ["hermes", "kimi-k2"])
def test_so_it_is_with_every_form_that_is_written(upstream: str, style: str) -> None:
    made = finished_exchange(upstream, [READ, "\n" + hermes_call(*READ)], tool_style=style)
    assert made.calls["native"] == CallCounts(total=1, unexpected=1)


@every_api
@both_ways
def test_with_tools_off_every_call_is_one_of_a_tool_that_nobody_offered(upstream: str, stream: bool) -> None:
    made = finished_exchange(upstream, [READ], stream=stream, tool_style="off")
    assert made.calls == {"native": CallCounts(total=1, unoffered=1)}
    assert made.bad_calls == [BadCall("read", "unoffered")]
    refused = finished_exchange(upstream, [READ], stream=stream, tool_style="off", arguments="strict")
    assert refused.failure is not None


@every_api
def test_with_tools_off_what_looks_like_a_call_is_text(upstream: str) -> None:
    answer = received(upstream, ["Look: " + hermes_call(*READ)], tool_style="off", read_dialects=["hermes"])
    assert answer.calls == []
    assert answer.text == "Look: " + hermes_call(*READ)


# ------------------------------------------------------------------------------------------------ strict: not offered


@every_api
@both_ways
@pytest.mark.parametrize("items", [[ELSE], ["Look.\n", READ, ELSE], [ELSE, READ]], ids=str)
def test_strict_refuses_a_call_of_a_tool_that_was_not_offered(upstream: str, stream: bool,
                                                              items: list[str | NativeCall]) -> None:
    made = finished_exchange(upstream, items, stream=stream, arguments="strict")
    assert made.failure is not None
    assert "'climate'" in made.failure.message
    assert made.finish_reason is None
    native = made.calls["native"]
    assert (native.unoffered, native.refused) == (1, 1)
    assert made.bad_calls == [BadCall("climate", "refused")]
    for mode in (None, "repair"):
        passed = finished_exchange(upstream, items, stream=stream, arguments=mode)
        assert passed.failure is None
        assert passed.calls["native"].unoffered == 1
        assert passed.bad_calls == [BadCall("climate", "unoffered")]


def test_nothing_of_it_goes_out() -> None:
    made = begin_exchange("openai", arguments="strict")
    out = made.feed(provider_body("openai", ["Hm.", ELSE])) + made.finish()
    assert b"climate" not in out.partition(b"event: error")[0]
    assert b"message_stop" not in out


@pytest.mark.parametrize("api", ["anthropic", "openai"])
def test_also_between_two_of_one_api(api: str) -> None:
    tool: dict[str, Any] = {"name": "read", "input_schema": {"type": "object", "properties": {}}} \
        if api == "anthropic" else {"type": "function", "function": {"name": "read", "parameters": {
            "type": "object", "properties": {}}}}
    model, url = {"anthropic": ("claude-sonnet-4-5", "https://api.anthropic.com/v1"),
                  "openai": ("gpt-4o", "https://api.openai.com/v1")}[api]
    for mode, failed in (("strict", True), ("as-is", False)):
        made = Translation(api, api, model, url=url, arguments=mode)
        made.request(json.dumps({"model": model, "max_tokens": 9, "stream": True, "tools": [tool],
                                 "messages": [{"role": "user", "content": "hi"}]}).encode())
        made.start(200, {"content-type": "text/event-stream"})
        made.feed(provider_body(api, [ELSE]))
        made.finish()
        assert (made.failure is not None) is failed
        assert made.calls["native"].unoffered == 1
        assert [bad.tool for bad in made.bad_calls] == ["climate"]


# ------------------------------------------------------------------------------------------------------- log, metrics


def record_of(*items: str | NativeCall, style: str | None = None, arguments: Any = None,
              hidden: tuple[str, ...] = ()) -> Record:
    """What the backend hop tells of an answer to a request with the tool `read`."""
    tools = ToolSettings(style=style, arguments=arguments, read=["hermes"])
    play = hop(backends={"alpha": Backend(api="openai", url="https://alpha.example/v1", tools=tools)},
               models=[ModelRule(match="one", attempts=[Attempt(backend="alpha", model="m")])],
               events=EventSettings(tools={name: EventLabel(visibility="hidden") for name in hidden}))
    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    play >> routed(play) >> request_body({**ASK, "tools": [{"name": "read", "input_schema": schema}]})
    play >> response_headers(**SSE) >> response_body(provider_body("openai", list(items)), end=True)
    return play.exchange.close(play.now)


def line_of(record: Record) -> dict[str, Any]:
    lines: list[bytes] = []
    log_exchange(Log("info", write=lines.append), record)
    told: dict[str, Any] = json.loads(lines[0])
    return told


def test_a_line_with_a_bad_call_is_a_warning_that_names_it() -> None:
    line = line_of(record_of(ELSE))
    assert (line["level"], line["outcome"]) == ("warning", "ok")
    assert line["bad_calls"] == [{"tool": "climate", "reason": "unoffered"}]
    line = line_of(record_of(READ))
    assert line["level"] == "info"
    assert "bad_calls" not in line
    line = line_of(record_of(("read", {"n": 1}), arguments="strict"))
    assert (line["level"], line["bad_calls"]) == ("warning", [{"tool": "read", "reason": "refused"}])
    line = line_of(record_of(hermes_call("read", {"n": 1}), arguments="strict"))
    assert line["bad_calls"] == [{"tool": "read", "reason": "refused"}]


def test_a_call_that_was_only_put_right_is_none() -> None:
    line = line_of(record_of("<tool_call>\n{'name': 'read', 'arguments': {'path': 'a'}}\n</tool_call>"))
    assert line["level"] == "info"
    assert line["repaired"] > 0


@pytest.mark.parametrize(("pattern", "shown"), [("climate", "hidden"), ("cl*", "hidden"), ("c[l]imate", "climate"),
                                                ("read", "climate")])
def test_tools_that_front_ends_hide_are_not_named(pattern: str, shown: str) -> None:
    assert line_of(record_of(ELSE, hidden=(pattern,)))["bad_calls"] == [{"tool": shown, "reason": "unoffered"}]


def test_nor_are_they_in_repairs() -> None:
    text = "<tool_call>\n{'name': 'read', 'arguments': {'path': 'a'}}\n</tool_call>"
    assert {repair["tool"] for repair in line_of(record_of(text))["repairs"]} == {"read"}
    assert {repair["tool"] for repair in line_of(record_of(text, hidden=("*",)))["repairs"]} == {"hidden"}


@pytest.mark.parametrize("name", ["I would now read the file of Mr Miller", "x" * 100, "na\nme"])
def test_the_log_holds_no_words_of_a_model(name: str) -> None:
    line = line_of(record_of((name, {})))
    assert line["bad_calls"] == [{"tool": "", "reason": "unoffered"}]
    assert name not in json.dumps(line)


def test_only_the_first_are_named() -> None:
    record = record_of(*[(f"tool_{number}", {}) for number in range(30)])
    assert len(record.bad_calls) == 20
    assert record.calls["native"].unoffered == 30


def test_metrics_tell_unexpected_calls_apart() -> None:
    metrics = PrometheusMetrics()
    for record in (record_of(READ, style="prompted"), record_of(READ)):
        metrics.began("translate")
        metrics.finished(record)
    page = generate_latest(metrics.registry).decode()
    counted = [line for line in page.splitlines() if line.startswith("extproc_tool_calls_unexpected_total{")]
    assert [float(line.rsplit(" ", 1)[1]) for line in counted] == [1.0]
