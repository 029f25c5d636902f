"""Safety settings of the configuration reach the provider's request."""

from __future__ import annotations

import json

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.ext_proc.attempt import ChosenAttempt, make_translation


@pytest.mark.parametrize(("of_backend", "of_attempt", "sent"), [
    ({}, {}, None),
    ({"HARM_CATEGORY_HARASSMENT": "OFF"}, {}, {"HARM_CATEGORY_HARASSMENT": "OFF"}),
    ({"HARM_CATEGORY_HARASSMENT": "OFF", "HARM_CATEGORY_HATE_SPEECH": "BLOCK_NONE"},
     {"HARM_CATEGORY_HATE_SPEECH": "BLOCK_ONLY_HIGH", "HARM_CATEGORY_DANGEROUS_CONTENT": "BLOCK_NONE"},
     {"HARM_CATEGORY_HARASSMENT": "OFF", "HARM_CATEGORY_HATE_SPEECH": "BLOCK_ONLY_HIGH",
      "HARM_CATEGORY_DANGEROUS_CONTENT": "BLOCK_NONE"}),
])
def test_an_attempts_settings_go_over_its_backends(of_backend: dict[str, str], of_attempt: dict[str, str],
                                                   sent: dict[str, str] | None) -> None:
    backend = Backend(api="gemini", url="https://generativelanguage.googleapis.com/v1beta", safety=of_backend)
    attempt = Attempt(backend="b", model="gemini-3-pro-preview", safety=of_attempt)
    rule = ModelRule(match="m", attempts=[attempt])
    made = make_translation(Config(backends={"b": backend}, models=[rule]), "anthropic", backend,
                            ChosenAttempt(rule, attempt, 1, True), "m", "req_1")
    body = json.loads(made.request(b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}')
                      .body)
    settings = body.get("safetySettings")
    assert (settings and {one["category"]: one["threshold"] for one in settings}) == sent
