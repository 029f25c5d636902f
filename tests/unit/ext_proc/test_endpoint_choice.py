"""`endpoint` of a backend and of an attempt: the path of the request, and the API in the record of the attempt."""

from __future__ import annotations

from typing import Any

import pytest

from extproc.config import Attempt, Backend, ModelRule
from tests.unit.ext_proc.playbook import request_body
from tests.unit.ext_proc.test_translate import ASK, hop, routed

OPENAI = "https://api.openai.com/v1"
OTHER = "https://alpha.example/v1"


@pytest.mark.parametrize(("url", "model", "backend", "attempt", "path", "api"), [
    (OPENAI, "gpt-6-sol", {}, {}, "/v1/responses", "responses"),
    (OPENAI, "gpt-4o", {}, {}, "/v1/chat/completions", "openai"),
    (OPENAI, "gpt-6-sol", {"endpoint": "chat"}, {}, "/v1/chat/completions", "openai"),
    (OPENAI, "gpt-6-sol", {"endpoint": "chat"}, {"endpoint": "auto"}, "/v1/responses", "responses"),
    (OTHER, "any", {"endpoint": "responses"}, {}, "/v1/responses", "responses"),
    (OTHER, "any", {"endpoint": "responses"}, {"endpoint": "chat"}, "/v1/chat/completions", "openai"),
    (OTHER, "any", {}, {"endpoint": "responses"}, "/v1/responses", "responses"),
])
def test_the_attempt_overrides_the_backend_and_the_record_names_the_api(
        url: str, model: str, backend: dict[str, Any], attempt: dict[str, Any], path: str, api: str) -> None:
    alpha = Backend(api="openai", url=url, **backend)
    rule = ModelRule(match="one", attempts=[Attempt(backend="alpha", model=model, **attempt)])
    play = hop(backends={"alpha": alpha}, models=[rule])
    play >> routed(play) >> request_body(ASK)
    assert path in str(play.take()[0])
    assert play.exchange.record.provider_api == api
