"""Settings of tools at the top level, at a backend and at an attempt: what holds for a request that goes out."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from extproc.config import Attempt, Backend, ModelRule, ToolSettings
from tests.unit.ext_proc.playbook import Playbook, request_body
from tests.unit.ext_proc.test_translate import ASK, hop, routed

TOOLS = [{"name": name, "input_schema": {"type": "object", "properties": {}}} for name in ("read", "write")]


def sent(top: dict[str, Any], backend: dict[str, Any], attempt: dict[str, Any], **asked: Any) -> dict[str, Any]:
    """The body for the provider of a request with two tools."""
    play = with_settings(top, backend, attempt)
    play >> routed(play) >> request_body({**ASK, "tools": TOOLS, **asked})
    body: dict[str, Any] = json.loads(play.take()[1][1])
    return body


def with_settings(top: dict[str, Any], backend: dict[str, Any], attempt: dict[str, Any]) -> Playbook:
    settings = [msgspec.convert(place, ToolSettings) for place in (top, backend, attempt)]
    alpha = Backend(api="openai", url="https://alpha.example/base/v1", tools=settings[1])
    rule = ModelRule(match="one", attempts=[Attempt(backend="alpha", model="vendor/one", tools=settings[2])])
    return hop(backends={"alpha": alpha}, models=[rule], tools=settings[0])


@pytest.mark.parametrize(("top", "backend", "attempt", "native"), [
    ({}, {}, {}, True),
    ({"style": "off"}, {}, {}, False),
    ({"style": "off"}, {"style": "native"}, {}, True),
    ({}, {"style": "off"}, {}, False),
    ({"style": "native"}, {"style": "native"}, {"style": "off"}, False),
    ({}, {"style": "off"}, {"style": "auto"}, True),  # the default, said, is not the default, unsaid
])
def test_the_narrowest_place_that_sets_a_key_decides(top: dict[str, Any], backend: dict[str, Any],
                                                     attempt: dict[str, Any], native: bool) -> None:
    assert ("tools" in sent(top, backend, attempt)) is native


def test_keys_are_looked_up_one_by_one() -> None:
    body = sent({"choice": "required", "parallel": True}, {"parallel": False}, {"max": 2})
    assert body["tool_choice"] == "required"
    assert body["parallel_tool_calls"] is False
    play = with_settings({"max": 5}, {"max": 1}, {"choice": "required"})
    play >> routed(play) >> request_body({**ASK, "tools": TOOLS})
    [(kind, status, body, _)] = play.take()
    assert (kind, status) == ("immediate", 400)
    assert "at most 1" in body["error"]["message"]


def test_an_empty_list_takes_the_dialects_of_a_wider_place_back() -> None:
    """What a model writes as text is looked at where `read` names a dialect, or its profile does."""
    play = with_settings({"read": ["hermes"]}, {}, {"read": []})
    assert play.exchange.config.tools_of(play.exchange.config.models[0].attempts[0]).read == []
