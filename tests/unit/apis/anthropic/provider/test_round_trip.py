"""An OpenAI client and a Claude through the public API: thinking and its signature survive the client (P10), names and
ids are restored, arguments are repaired where the configuration says so.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc import apis
from extproc.apis.anthropic.provider import PROVIDER
from extproc.translation.exchange import Translation
from tests.providers.anthropic_rules import refusal
from tests.unit.apis.anthropic.provider.helpers import stream, thinking, tool_use

NAME = "harbor.tide"
TOOLS = [{"type": "function", "function": {"name": NAME, "parameters": {"type": "object", "properties": {
    "harbor": {"type": "string"}}}}}]
QUESTION = {"role": "user", "content": "tide?"}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(apis.PROVIDER_APIS, "anthropic", PROVIDER)


def exchange(messages: list[dict[str, Any]], response: bytes, **settings: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the provider's request, the client's message)."""
    talk = Translation("openai", "anthropic", "claude-haiku-4-5", url="https://api.anthropic.com/v1", **settings)
    request = talk.request(json.dumps({"model": "m", "messages": messages, "tools": TOOLS,
                                       "reasoning_effort": "low"}).encode())
    body = json.loads(request.body)
    assert refusal(body, request.headers) is None
    talk.start(200, {"content-type": "text/event-stream"})
    out = json.loads(talk.feed(response) + talk.finish())
    message: dict[str, Any] = out["choices"][0]["message"]
    return body, message


def called(body: dict[str, Any]) -> bytes:
    name = body["tools"][0]["name"] if body else "x"
    return stream(thinking("Hm."), tool_use("toolu_1", name, '{"harbor": "B"}'), stop="tool_use")


def first_turn() -> dict[str, Any]:
    body, _ = exchange([QUESTION], stream("ok"))
    return exchange([QUESTION], called(body))[1]


def second_turn(echoed: dict[str, Any]) -> dict[str, Any]:
    result = {"role": "tool", "tool_call_id": echoed["tool_calls"][0]["id"], "content": "low"}
    return exchange([QUESTION, echoed, result], stream("ok"))[0]


def test_p10_the_signature_comes_back_through_reasoning_details() -> None:
    message = first_turn()
    assert message["tool_calls"][0]["function"]["name"] == NAME
    body = second_turn(message)
    assert body["messages"][1]["content"][0] == {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert body["messages"][1]["content"][1]["id"] == "toolu_1"
    assert body["thinking"]["type"] == "enabled"


def test_p10_the_signature_comes_back_through_the_id_alone() -> None:
    message = first_turn()
    body = second_turn({name: message[name] for name in ("role", "content", "tool_calls")})
    assert body["messages"][1]["content"][0]["signature"] == "c2ln"
    assert body["thinking"]["type"] == "enabled"


def test_p10_a_client_that_drops_everything_continues_without_thinking() -> None:
    message = first_turn()
    call = {**message["tool_calls"][0], "id": "call_1"}
    body = second_turn({"role": "assistant", "content": None, "tool_calls": [call]})
    assert "thinking" not in body
    assert [block["type"] for block in body["messages"][1]["content"]] == ["tool_use"]


def test_arguments_are_repaired_where_the_setting_says_so() -> None:
    body, _ = exchange([QUESTION], stream("ok"))
    broken = stream(tool_use("toolu_1", body["tools"][0]["name"], "{'harbor': 'B',}"), stop="tool_use")
    _, message = exchange([QUESTION], broken, arguments="repair")
    assert json.loads(message["tool_calls"][0]["function"]["arguments"]) == {"harbor": "B"}


def test_p14_an_error_of_the_provider_has_the_clients_shape() -> None:
    talk = Translation("openai", "anthropic", "claude-haiku-4-5", url="https://api.anthropic.com/v1")
    talk.request(json.dumps({"model": "m", "messages": [QUESTION]}).encode())
    talk.start(529, {"content-type": "application/json", "retry-after": "3"})
    talk.feed(b'{"type":"error","error":{"type":"overloaded_error","message":"Busy"}}')
    error = json.loads(talk.finish())
    assert talk.head is not None
    assert (talk.head.status, talk.head.headers["retry-after"]) == (529, "3")
    assert error["error"]["message"] == "Busy"
