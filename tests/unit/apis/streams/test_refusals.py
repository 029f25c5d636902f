"""Why Anthropic refused: `stop_details` for Messages clients, the explanation for all others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.apis.streams.exchanges import answered, talk
from tests.unit.apis.streams.test_messages_streams import CLAUDE, DEEPSEEK, end, said, start, stream

WORDS = "This request triggered restrictions on violative cyber content.\n\"q\" å"
DETAILS = {"type": "refusal", "category": "cyber", "explanation": WORDS, "recommended_model": {"id": "x"}}
READ: dict[str, Any] = {"arguments": "repair", **CLAUDE}
"""The settings want arguments looked at: no bytes pass."""
PLACES = [pytest.param(CLAUDE, id="bytes pass"), pytest.param(DEEPSEEK, id="a compatible endpoint"),
          pytest.param(READ, id="written anew")]


def whole(details: Any = DETAILS, content: Any = ()) -> bytes:
    return json.dumps({"id": "msg_1", "type": "message", "role": "assistant", "model": "x", "content": list(content),
                       "stop_reason": "refusal", "stop_sequence": None, "stop_details": details,
                       "usage": {"input_tokens": 10, "output_tokens": 1}}).encode()


def events_of(out: bytes) -> list[dict[str, Any]]:
    return [json.loads(block.split("data: ", 1)[1]) for block in out.decode().split("\n\n")
            if "data: {" in block]


def translated(client: str, streamed: bool, provider: bytes, **settings: Any) -> bytes:
    """What the client gets, in any cut."""
    outs = {answered(talk(client, "anthropic", stream=streamed, **settings), provider, size) for size in (None, 1, 7)}
    assert len(outs) == 1
    return outs.pop()


PROVIDERS = [pytest.param(stream(start(), *end("refusal", DETAILS)), id="streamed"), pytest.param(whole(), id="whole")]


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_messages_client_gets_the_details_as_they_came(where: dict[str, Any], provider: bytes) -> None:
    told = next(event["delta"] for event in events_of(translated("anthropic", True, provider, **where))
                if event["type"] == "message_delta")
    assert (told["stop_reason"], told["stop_details"]) == ("refusal", DETAILS)
    message = json.loads(translated("anthropic", False, provider, **where))
    assert (message["stop_reason"], message["stop_details"]) == ("refusal", DETAILS)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_chat_client_gets_the_explanation(where: dict[str, Any], provider: bytes) -> None:
    chunks = events_of(translated("openai", True, provider, **where))
    refused = "".join(chunk["choices"][0]["delta"].get("refusal") or "" for chunk in chunks if chunk["choices"])
    reason = next(chunk["choices"][0]["finish_reason"] for chunk in reversed(chunks) if chunk["choices"])
    assert (refused, reason) == (WORDS, "content_filter")
    choice = json.loads(translated("openai", False, provider, **where))["choices"][0]
    assert (choice["message"]["refusal"], choice["message"]["content"], choice["finish_reason"]) == (
        WORDS, None, "content_filter")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_web_front_end_gets_the_explanation(provider: bytes) -> None:
    events = events_of(translated("events", True, provider, **CLAUDE))
    told = next(event for event in events if event["type"] == "usage")
    assert (told["refusal"], told["finish_reason"]) == (WORDS, "content_filter")


def test_what_was_said_before_the_refusal_stays() -> None:
    body = stream(start(), *said("I would"), *end("refusal", DETAILS))
    message = json.loads(translated("openai", False, body, **CLAUDE))["choices"][0]["message"]
    assert (message["content"], message["refusal"]) == ("I would", WORDS)


@pytest.mark.parametrize(("details", "words"), [
    ({"type": "refusal", "category": "bio", "explanation": None}, "The provider refused this request (category: bio)."),
    ({"type": "refusal", "category": None, "explanation": None}, None),
    (None, None), (..., None), ("odd", None), ([1], None),
])
def test_details_of_any_kind_do_no_harm(details: Any, words: str | None) -> None:
    for provider in (stream(start(), *end("refusal", details)), *([whole(details)] if details is not ... else [])):
        for where in (CLAUDE, READ):
            message = json.loads(translated("openai", False, provider, **where))["choices"][0]["message"]
            assert message["refusal"] == words
            kept = json.loads(translated("anthropic", False, provider, **where))
            assert kept["stop_reason"] == "refusal"
            if isinstance(details, dict):
                assert kept["stop_details"] == details


def test_a_response_that_was_not_refused_says_nothing_of_it() -> None:
    body = stream(start(), *said("Low tide."), *end("end_turn", None))
    assert b"stop_details" not in translated("anthropic", True, body, **READ)
    assert b'"refusal":"' not in translated("openai", True, body, **CLAUDE)
