"""The sample cases for Messages streams, at every cut, if the folder of cases exists beside the checkout."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.apis.anthropic.provider.response import AnthropicResponseDecoder
from tests.model_text.exchange import response_of_events
from tests.model_text.sample_cases import mismatch, shared_cases
from tests.unit.apis.anthropic.provider.helpers import context, event


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("case", shared_cases(only="anthropic-events"))
def test_case_at_every_cut(case: dict[str, Any], named: bool) -> None:
    tools = tuple(tool["function"]["name"] for tool in case.get("tools", []))
    body = b"".join(event(chunk, named=named) for chunk in case["chunks"])
    for cut in range(len(body)):
        decoder = AnthropicResponseDecoder(context(tools))
        got = response_of_events(decoder.feed(body[:cut]) + decoder.feed(body[cut:]) + decoder.finish())
        assert mismatch(got, case) is None
        assert got["reasoning"].strip() == case["expect"].get("reasoning", "").strip()
