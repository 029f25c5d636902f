"""The sample cases for Chat Completions streams, if the folder of cases exists beside the checkout."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.apis.openai.provider.response import OpenAIResponseDecoder
from tests.model_text.exchange import response_of_events
from tests.model_text.sample_cases import mismatch, shared_cases
from tests.playbook import context, sse

TEXT_EMBEDDED = ("leak-002", "leak-005")
"""The dialects read calls written as text; the decoder alone does not."""


@pytest.mark.parametrize("case", [case for case in shared_cases(only="openai-chunks") if case.id not in TEXT_EMBEDDED])
def test_case(case: dict[str, Any]) -> None:
    tools = [tool["function"]["name"] for tool in case.get("tools", [])]
    body = sse(*case["chunks"])
    for size in (len(body), 1, 7):
        decoder = OpenAIResponseDecoder(context(tools))
        pieces = [body[at:at + size] for at in range(0, len(body), size)]
        got = response_of_events([event for piece in pieces for event in decoder.feed(piece)] + decoder.finish())
        assert mismatch(got, case) is None
