"""Requests of Responses clients at OpenAI, held against the strict provider: what passes, what is repaired, what is
encoded anew."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import RequestError, Translation
from tests.providers import responses as api
from tests.unit.apis.responses.passthrough.helpers import TOOL, accepted, response_to, sent, talk, written

CALL: dict[str, Any] = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather",
                        "arguments": '{"town": "Ulm"}', "status": "completed"}
OUTPUT: dict[str, Any] = {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees"}


def test_what_need_not_change_passes() -> None:
    """Hosted tools, namespaces, fields and items that this gateway does not know."""
    body = {"instructions": "Be brief.", "input": [{"role": "user", "content": "hi"}, {"type": "brand_new", "a": 1.50}],
            "tools": [TOOL, {"type": "web_search"}, {"type": "namespace", "name": "ns", "tools": [TOOL]}],
            "text": {"verbosity": "low"}, "brand_new": {"b": [1, 2]}, "prompt_cache_key": "k", "store": False,
            "include": ["reasoning.encrypted_content"], "max_output_tokens": 100}
    assert sent(body) == {**body, "model": "gpt-6-sol"}


def test_the_bytes_of_items_pass() -> None:
    text = written({"input": [{"role": "user", "content": "hi"}], "store": False})
    assert b'{\n   "role": "user",\n   "content": "hi"\n  }' in talk().request(text).body


def test_nothing_is_stored_and_reasoning_is_included() -> None:
    got = accepted({"input": "hi", "store": True, "include": ["message.output_text.logprobs"]})
    assert got["store"] is False
    assert got["include"] == ["message.output_text.logprobs", "reasoning.encrypted_content"]


def test_limits_efforts_and_parameters_become_those_of_the_model() -> None:
    exchange = talk(max_output_tokens=50)
    got = accepted({"input": "hi", "max_output_tokens": 80, "temperature": 0.5, "reasoning": {"effort": "minimal"}},
                   translation=exchange)
    assert got["max_output_tokens"] == 50
    assert got["reasoning"]["effort"] == "low"
    assert "temperature" not in got
    assert exchange.dropped.losses == ["temperature"]
    assert accepted({"input": "hi", "max_output_tokens": 3})["max_output_tokens"] == 16


def test_no_summary_is_asked_for_where_none_may_be() -> None:
    got = accepted({"input": "hi", "reasoning": {"effort": "low", "summary": "auto"}}, reasoning_summaries=False)
    assert got["reasoning"] == {"effort": "low"}


@pytest.mark.parametrize("other", [
    Translation("responses", "openai", "gpt-5.4", url="https://api.openai.com/v1", endpoint="responses"),
    Translation("responses", "openai", "gpt-6-sol", url="https://other.example/v1", endpoint="responses"),
    Translation("responses", "anthropic", "claude-sonnet-4-5")], ids=["model", "host", "API"])
def test_r15_reasoning_of_another_is_dropped(other: Translation) -> None:
    stream = api.events_of(api.response([api.reasoning("Hm.", encrypted="gAAA"), api.message("Hello.")]))
    _, out = response_to(stream)
    items = json.loads(out.decode().rstrip().rpartition("data: ")[2])["response"]["output"]
    history = {"input": [{"role": "user", "content": "hi"}, *items, {"role": "user", "content": "And?"}],
               "max_output_tokens": 100}
    assert b"gAAA" not in other.request(written(history)).body


@pytest.mark.parametrize("items", [
    pytest.param([CALL, OUTPUT, {**CALL, "id": "fc_2"}, OUTPUT], id="r28 an id twice"),
    pytest.param([CALL], id="a call without an output"),
    pytest.param([OUTPUT], id="an output without a call"),
    pytest.param([{**CALL, "call_id": "x" * 80}, {**OUTPUT, "call_id": "x" * 80}], id="a long id"),
])
def test_calls_that_do_not_match_are_repaired(items: list[Any]) -> None:
    got = accepted({"input": [{"role": "user", "content": "hi"}, *items, {"role": "user", "content": "And?"}],
                    "tools": [TOOL]})
    ids = [item["call_id"] for item in got["input"] if item.get("type") == "function_call"]
    assert len(set(ids)) == len(ids)


def test_a_summary_of_this_gateway_becomes_a_message() -> None:
    compact = Translation("responses-compact", "openai", "gpt-6-sol", endpoint="responses")
    compact.request(written({"input": "hi"}))
    compact.start(200, {"content-type": "application/json"})
    whole = api.response([api.message("They said hello.")])
    [item] = json.loads(compact.feed(json.dumps(whole).encode()) + compact.finish())["output"]
    got = accepted({"input": [item, {"role": "user", "content": "Did they?"}]})
    assert got["input"][0]["role"] == "user"
    assert "They said hello." in json.dumps(got["input"][0])


@pytest.mark.parametrize(("body", "code"), [
    ({"previous_response_id": "resp_1"}, "previous_response_not_found"),
    ({"background": True}, "unsupported_parameter"),
    ({"conversation": "conv_1"}, "unsupported_parameter"),
    ({"prompt": {"id": "p"}}, "unsupported_parameter"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "item_not_found")], ids=lambda value: str(value)[:30])
def test_r33_what_is_stored_nowhere_is_refused(body: dict[str, Any], code: str) -> None:
    with pytest.raises(RequestError) as refused:
        talk().request(written({"input": "hi", **body}))
    assert refused.value.status == 400
    assert json.loads(refused.value.body)["error"]["code"] == code


@pytest.mark.parametrize(("body", "settings"), [
    ({}, {"tool_style": "prompted"}), ({}, {"dialect": "hermes"}), ({}, {"arguments": "repair"}),
    ({}, {"parallel_tool_calls": False}), ({}, {"tool_choice": "required"}),
    ({"tools": [{**TOOL, "parameters": {"oneOf": [{"type": "object", "properties": {}}]}}]}, {}),
    ({"input": [{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}]}, {}),
], ids=lambda value: str(value)[:40])
def test_any_other_change_re_encodes(body: dict[str, Any], settings: Any) -> None:
    """`stream: false` is written by no client that leaves it out, and by the encoder never."""
    got = accepted({"input": "hi", "tools": [TOOL], "stream": False, **body}, **settings)
    assert "stream" not in got


def test_a_server_of_another_make_gets_its_own_form() -> None:
    exchange = Translation("responses", "openai", "some/model", url="https://other.example/v1", endpoint="responses")
    got = sent({"input": "hi", "tools": [{"type": "namespace", "name": "ns", "tools": [TOOL]}, {"type": "web_search"}]},
               exchange)
    assert [tool["name"] for tool in got["tools"]] == ["ns__weather"]
