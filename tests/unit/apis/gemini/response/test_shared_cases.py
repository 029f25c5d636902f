"""The sample cases for Gemini's streams at every cut, where the folder of cases exists beside the checkout."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.apis.gemini.provider.response import GeminiResponseDecoder
from tests.model_text.exchange import response_of_events
from tests.model_text.sample_cases import mismatch, shared_cases
from tests.playbook import context
from tests.unit.apis.gemini.response.conversation import sse


def read(pieces: list[bytes], tools: list[str]) -> dict[str, Any]:
    decoder = GeminiResponseDecoder(context(tools))
    return response_of_events([event for piece in pieces for event in decoder.feed(piece)] + decoder.finish())


@pytest.mark.parametrize("case", shared_cases(only="gemini-chunks"))
def test_case(case: dict[str, Any]) -> None:
    tools = [tool["function"]["name"] for tool in case.get("tools", [])]
    body = sse(*case["chunks"])
    whole = read([body], tools)
    assert mismatch(whole, case) is None
    for at in range(len(body) + 1):
        assert read([body[:at], body[at:]], tools) == whole
    assert read([body[at:at + 1] for at in range(len(body))], tools) == whole
