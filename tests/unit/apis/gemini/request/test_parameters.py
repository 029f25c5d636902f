"""The generation config: every value in the range of its model; what cannot be sent is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extproc.conversation.model import OutputFormat, ThinkingConfig
from extproc.conversation.unsupported import Dropped
from extproc.errors import BadRequest
from tests.unit.apis.gemini.request.helpers import FLASH_25, GEMMA, LATEST, OLD, PRO_3, encode, tool, user

PRO_25 = "gemini-2.5-pro"
LITE_25 = "gemini-2.5-flash-lite"
SCHEMA: dict[str, object] = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def config(model: str = PRO_3, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = encode(user("hi"), model=model, **fields).get("generationConfig", {})
    return found


# ------------------------------------------------------------------------------------------------- limits and sampling


def test_a_request_without_parameters_sends_none():
    assert "generationConfig" not in encode()


def test_parameters_are_sent_under_geminis_names():
    assert config(FLASH_25, max_output_tokens=5000, temperature=0.5, top_p=0.9, top_k=20, stop=["a", "b"],
                  seed=7) == {"stopSequences": ["a", "b"], "maxOutputTokens": 5000, "temperature": 0.5, "topP": 0.9,
                              "topK": 20, "seed": 7}


@pytest.mark.parametrize(("model", "attempt", "wanted", "expected"), [
    (PRO_3, None, 128_000, 65_536), (OLD, None, 32_000, 8192), (PRO_3, 8000, 32_000, 8000),
    (PRO_3, 100_000, 90_000, 65_536), (PRO_3, 8000, 5000, 5000), (PRO_3, None, None, None), (PRO_3, 8000, None, None),
])
def test_the_output_limit_is_clamped_to_the_attempts_and_the_models(model, attempt, wanted, expected):
    found = config(model, max_output_tokens=wanted, settings={"max_output_tokens": attempt})
    assert found.get("maxOutputTokens") == expected


def test_a_sixth_stop_sequence_is_dropped_and_named():
    dropped = Dropped()
    assert config(stop=list("abcdef"), dropped=dropped)["stopSequences"] == list("abcde")
    assert dropped.losses == ["stop"]


@pytest.mark.parametrize(("fields", "expected"), [
    ({"temperature": 3.0}, {"temperature": 2.0}), ({"temperature": -1.0}, {"temperature": 0.0}),
    ({"top_p": 1.5}, {"topP": 1.0}), ({"top_k": 500}, {"topK": 64}), ({"top_k": 0}, {"topK": 1}),
    ({"seed": 2**40 + 5}, {"seed": 5}), ({"seed": -1}, {"seed": 0x7FFFFFFF}),
])
def test_values_are_clamped_to_their_range(fields, expected):
    assert config(**fields) == expected


def test_penalties_are_sent_to_models_that_take_them():
    assert config(OLD, presence_penalty=2.0, frequency_penalty=-3.0) == {"presencePenalty": 1.99,
                                                                         "frequencyPenalty": -2.0}


@pytest.mark.parametrize("model", [PRO_3, FLASH_25])
def test_other_models_name_penalties_unless_they_are_zero(model):
    dropped = Dropped()
    assert config(model, presence_penalty=0.5, frequency_penalty=0.0, dropped=dropped) == {}
    assert dropped.losses == ["presence_penalty"]


@pytest.mark.parametrize("model", [LATEST, "gemini-3.6-flash", "gemini-3.5-flash-lite"])
def test_models_with_fixed_sampling_name_sampling_fields(model):
    dropped = Dropped()
    assert config(model, temperature=0.2, top_p=0.5, top_k=3, dropped=dropped) == {}
    assert dropped.losses == ["temperature", "top_p", "top_k"]


def test_the_default_temperature_of_such_a_model_is_no_loss():
    dropped = Dropped()
    assert config(LATEST, temperature=1.0, top_p=1.0, dropped=dropped) == {}
    assert dropped.losses == []


def test_several_responses_are_refused():
    with pytest.raises(BadRequest, match="n: the request asks for 3 responses"):
        config(choices=3)


def test_unsupported_fields_are_named():
    dropped = Dropped()
    encode(user="somebody", logprobs=True, extra={"logit_bias": msgspec.Raw(b'{"1":2}'),
                                                  "store": msgspec.Raw(b"true")}, dropped=dropped)
    assert dropped.losses == ["logprobs", "logit_bias"]
    assert dropped.hints == ["user", "store"]


def test_safety_settings_come_from_the_configuration():
    safety = {"HARM_CATEGORY_HARASSMENT": "BLOCK_NONE", "HARM_CATEGORY_HATE_SPEECH": "OFF"}
    assert encode(settings={"safety": safety})["safetySettings"] == [
        {"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"},
        {"category": "HARM_CATEGORY_HATE_SPEECH", "threshold": "OFF"}]


# ------------------------------------------------------------------------------------------------------------ thinking


def thinking(model: str, wish: ThinkingConfig | None, limit: int | None = 40_000,
             dropped: Dropped | None = None) -> dict[str, Any] | None:
    found: dict[str, Any] | None = config(model, thinking=wish, max_output_tokens=limit,
                                          dropped=dropped).get("thinkingConfig")
    return found


WANTED = {"includeThoughts": True}


@pytest.mark.parametrize(("model", "wish", "expected"), [
    # Claude Code: adaptive thinking with an effort
    (PRO_3, ThinkingConfig("adaptive", effort="low"), {**WANTED, "thinkingLevel": "LOW"}),
    (PRO_3, ThinkingConfig("adaptive", effort="medium"), {**WANTED, "thinkingLevel": "HIGH"}),
    (PRO_3, ThinkingConfig("adaptive", effort="high"), {**WANTED, "thinkingLevel": "HIGH"}),
    (PRO_3, ThinkingConfig("adaptive", effort="max"), {**WANTED, "thinkingLevel": "HIGH"}),
    (PRO_3, ThinkingConfig("adaptive"), WANTED),
    ("gemini-3.1-pro-preview", ThinkingConfig("adaptive", effort="medium"), {**WANTED, "thinkingLevel": "MEDIUM"}),
    ("gemini-3.1-pro-preview", ThinkingConfig("adaptive", effort="minimal"), {**WANTED, "thinkingLevel": "LOW"}),
    ("gemini-3-flash-preview", ThinkingConfig("adaptive", effort="minimal"), {**WANTED, "thinkingLevel": "MINIMAL"}),
    (LATEST, ThinkingConfig("adaptive", effort="minimal"), {**WANTED, "thinkingLevel": "LOW"}),
    (FLASH_25, ThinkingConfig("adaptive"), {**WANTED, "thinkingBudget": -1}),
    (FLASH_25, ThinkingConfig("adaptive", effort="medium"), {**WANTED, "thinkingBudget": 8192}),
    (FLASH_25, ThinkingConfig("adaptive", effort="max"), {**WANTED, "thinkingBudget": 24_576}),
    (PRO_25, ThinkingConfig("adaptive", effort="max"), {**WANTED, "thinkingBudget": 32_768}),
    # a budget
    (PRO_3, ThinkingConfig("enabled", budget=1024), {**WANTED, "thinkingLevel": "LOW"}),
    (PRO_3, ThinkingConfig("enabled", budget=31_999), {**WANTED, "thinkingLevel": "HIGH"}),
    (LATEST, ThinkingConfig("enabled", budget=10_000), {**WANTED, "thinkingLevel": "MEDIUM"}),
    (FLASH_25, ThinkingConfig("enabled", budget=10_000), {**WANTED, "thinkingBudget": 10_000}),
    (FLASH_25, ThinkingConfig("enabled", budget=31_999), {**WANTED, "thinkingBudget": 24_576}),
    (PRO_25, ThinkingConfig("enabled", budget=31_999), {**WANTED, "thinkingBudget": 31_999}),
    (LITE_25, ThinkingConfig("enabled", budget=100), {**WANTED, "thinkingBudget": 512}),
    (FLASH_25, ThinkingConfig("enabled"), {**WANTED, "thinkingBudget": -1}),
    # an effort alone
    (PRO_3, ThinkingConfig(effort="high"), {**WANTED, "thinkingLevel": "HIGH"}),
    (FLASH_25, ThinkingConfig(effort="low"), {**WANTED, "thinkingBudget": 1024}),
    # off, or as little as there is
    (PRO_3, ThinkingConfig("disabled"), {"thinkingLevel": "LOW"}),
    ("gemini-3-flash-preview", ThinkingConfig("disabled"), {"thinkingLevel": "MINIMAL"}),
    (LATEST, ThinkingConfig("disabled", effort="high"), {"thinkingLevel": "LOW"}),
    (FLASH_25, ThinkingConfig("disabled"), {"thinkingBudget": 0}),
    (LITE_25, ThinkingConfig("disabled"), {"thinkingBudget": 0}),
    (PRO_25, ThinkingConfig("disabled"), {"thinkingBudget": 128}),
    (FLASH_25, ThinkingConfig(effort="none"), {"thinkingBudget": 0}),
    # said nothing: the model's own default
    (PRO_3, None, None), (FLASH_25, None, None), (OLD, None, None), (OLD, ThinkingConfig("disabled"), None),
])
def test_thinking_by_generation(model, wish, expected):
    assert thinking(model, wish) == expected


def test_a_model_that_never_thinks_names_a_request_for_thinking():
    dropped = Dropped()
    assert thinking(OLD, ThinkingConfig("enabled", budget=5000), dropped=dropped) is None
    assert dropped.losses == ["thinking"]


def test_a_model_that_always_thinks_names_disabled_thinking():
    dropped = Dropped()
    thinking(PRO_3, ThinkingConfig("disabled"), dropped=dropped)
    assert dropped.hints == ["thinking"]


def test_a_budget_leaves_room_for_the_response_if_the_attempt_clamps_the_output():
    found = config(PRO_25, thinking=ThinkingConfig("enabled", budget=31_999), max_output_tokens=32_000,
                   settings={"max_output_tokens": 8192})
    assert found["maxOutputTokens"] == 8192
    assert found["thinkingConfig"] == {**WANTED, "thinkingBudget": 4096}


@pytest.mark.parametrize(("model", "expected"), [(PRO_3, {"thinkingLevel": "LOW"}), (FLASH_25, {"thinkingBudget": 0}),
                                                 (PRO_25, {"thinkingBudget": 128}), (OLD, None)])
def test_a_short_output_limit_sets_the_least_thinking(model, expected):
    """Claude Code requests titles with few output tokens and without thinking; thoughts count as output."""
    assert thinking(model, None, limit=512) == expected


# --------------------------------------------------------------------------------------------------- structured output


def test_a_newer_model_gets_the_schema_as_json_schema():
    found = config(output_format=OutputFormat(SCHEMA))
    assert found["responseMimeType"] == "application/json"
    assert found["responseJsonSchema"]["required"] == ["a"]
    assert "responseSchema" not in found


def test_an_older_model_gets_the_openapi_subset():
    found = config(OLD, output_format=OutputFormat(SCHEMA))
    assert found["responseMimeType"] == "application/json"
    assert found["responseSchema"]["properties"] == {"a": {"type": "INTEGER"}}


@pytest.mark.parametrize("model", [PRO_3, OLD])
def test_any_json_object(model):
    body = encode(model=model, output_format=OutputFormat(None))
    assert body["generationConfig"] == {"responseMimeType": "application/json"}
    assert body["systemInstruction"]["parts"][0]["text"] == "Answer with one JSON object and nothing else."


def test_a_newer_model_takes_a_format_beside_tools():
    body = encode(tools=[tool("read")], output_format=OutputFormat(SCHEMA))
    assert "responseJsonSchema" in body["generationConfig"]
    assert "systemInstruction" not in body


@pytest.mark.parametrize(("model", "tools"), [(FLASH_25, [tool("read")]), (OLD, [tool("read")]), (GEMMA, [])])
def test_other_models_get_the_format_as_an_instruction(model, tools):
    body = encode(model=model, tools=tools, output_format=OutputFormat(SCHEMA))
    assert "generationConfig" not in body
    said = body["systemInstruction"] if "systemInstruction" in body else body["contents"][0]
    assert "It must match this JSON Schema: {" in said["parts"][0]["text"]
