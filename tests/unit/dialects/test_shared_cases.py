"""The sample cases of model text, at every cut, where the folder of cases exists beside the checkout."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model_text.exchange import client_response
from tests.model_text.sample_cases import UPSTREAMS, case_settings, case_streams, mismatch, shared_cases


@pytest.mark.parametrize("case", shared_cases(without=("responses-events", *UPSTREAMS)))
def test_case(case: dict[str, Any]) -> None:
    tools = case.get("tools", [])
    settings = case_settings(case)
    streams = list(case_streams(case))
    for body in streams:
        assert mismatch(client_response(body, tools, **settings), case) is None
    body = streams[0]
    single_bytes = [body[i:i + 1] for i in range(len(body))]
    assert mismatch(client_response(single_bytes, tools, **settings), case) is None
    whole = client_response(body, tools, streamed=False, **settings)
    if case["expect"]["finish_reason"] == "error":
        assert whole["finish_reason"] == "error"  # the answer is an error body then, without the text before it
    elif case.get("match", {}).get("tool_calls") != "truncated":
        assert mismatch(whole, case) is None
