"""The sample cases for streams of the Messages API, at every cut, where the folder of cases exists beside the
checkout."""

from __future__ import annotations

import json
from typing import Any

import pytest

from extproc.apis.anthropic_provider.answer import AnthropicAnswerDecoder
from tests.unit.apis_anthropic_provider.helpers import context, event
from tests.unit.apis_openai_answer.test_shared_cases import collect
from tests.unit.dialects.cases import shared_cases


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("case", shared_cases(only="anthropic-events"))
def test_case_at_every_cut(case: dict[str, Any], named: bool) -> None:
    tools = tuple(tool["function"]["name"] for tool in case.get("tools", []))
    body = b"".join(event(chunk, named=named) for chunk in case["chunks"])
    expect = case["expect"]
    for cut in range(len(body)):
        decoder = AnthropicAnswerDecoder(context(tools))
        got = collect(decoder.feed(body[:cut]) + decoder.feed(body[cut:]) + decoder.finish())
        assert got["finish"] == expect["finish_reason"]
        assert got["content"].strip() == expect["content"].strip()
        assert got["reasoning"].strip() == expect.get("reasoning", "").strip()
        assert [(name, json.loads(arguments or "{}")) for name, arguments in got["calls"]] == [
            (call["name"], call["arguments"]) for call in expect["tool_calls"]]
