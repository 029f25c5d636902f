"""One conversation, two providers: Gemini and an OpenAI-compatible one answer in turns, and each is strict.

Calls of the other provider carry no signature that Gemini would know, ids that OpenAI would refuse carry one; whoever
answers next gets the whole history in a form that it takes, and Gemini its own signatures back, byte for byte.
"""

from __future__ import annotations

from typing import Any

import anthropic
import pytest

from tests.e2e.gemini.talk import (
    BYPASS,
    IMAGE,
    PRO,
    THINKING,
    TOOLS,
    Conversation,
    calls_of,
    outputs,
    said,
)
from tests.e2e.wire import HELLO, payload, stream
from tests.providers import openai
from tests.providers.gemini import GeminiProvider, blocked, calls, parts, text
from tests.providers.gemini_wire import error, error_body, invalid_key, overloaded, quota, response, sse
from tests.providers.openai import OpenAIProvider

DOWN = openai.status(503, openai.openai_error("down"))


@pytest.mark.parametrize("thinking", [THINKING, {"type": "disabled"}])
@pytest.mark.parametrize("streamed", [True, False])
def test_gemini_then_openai_then_gemini(client: anthropic.Anthropic, gemini: GeminiProvider, provider: OpenAIProvider,
                                        streamed: bool, thinking: Any) -> None:
    """Step 1 by Gemini, step 2 by OpenAI because Gemini is overloaded, step 3 by Gemini again."""
    gemini.script(calls(("weather", {"town": "Ulm"}), ("now", {}), thoughts="Hm.", content="Looking."), overloaded(),
                  text("Sunny."))
    provider.script(openai.calls(("call_a", "weather", {"town": "Jena"}), ("call_b", "now", {})))
    talk = Conversation(client, "gemini-first", streamed, thinking=thinking)
    first = talk.turn("18 degrees", [IMAGE])
    second = talk.turn("17 degrees", "noon")
    assert said(talk.turn()) == "Sunny."
    ids = [block.id for message in (first, second) for block in calls_of(message)]
    assert len(set(ids)) == 4

    to_openai = provider.last.messages
    assert [message["role"] for message in to_openai][:4] == ["user", "assistant", "tool", "tool"]
    assert all(len(call["id"]) <= 40 for message in to_openai for call in message.get("tool_calls", ()))
    (issued,) = list(gemini.issued[PRO])[-1:]
    assert issued[:24].encode() not in provider.last.raw, "a signature is none of its business"

    again = gemini.last
    assert again.signatures() == [issued, BYPASS], "its own on its own step, a stand-in for the other provider's"
    assert [call["name"] for call in again.held("functionCall")] == ["weather", "now", "weather", "now"]
    results = outputs(again.held("functionResponse"))
    assert (results[0], results[2:]) == ("18 degrees", ["17 degrees", "noon"])


@pytest.mark.parametrize("streamed", [True, False])
def test_openai_then_gemini_then_openai(client: anthropic.Anthropic, gemini: GeminiProvider, provider: OpenAIProvider,
                                        streamed: bool) -> None:
    provider.script(openai.calls(("call_a", "weather", {"town": "Ulm"}), ("call_b", "now", {})), DOWN,
                    openai.text("Sunny."))
    gemini.script(calls(("weather", {"town": "Jena"}), ("now", {}), ids=["call_a", "call_b"], thoughts="Hm."))
    talk = Conversation(client, "openai-first", streamed, thinking=THINKING)
    talk.turn("18 degrees", "noon")
    second = talk.turn("17 degrees", "noon")
    assert said(talk.turn()) == "Sunny."
    assert gemini.last.signatures() == [BYPASS]
    sent = provider.last.messages
    ids = [call["id"] for message in sent for call in message.get("tool_calls", ())]
    assert len(set(ids)) == 4, "the id that Gemini used a second time became a new one"
    assert [message["tool_call_id"] for message in sent if message["role"] == "tool"] == ids
    assert all(len(id_) <= 40 for id_ in ids)
    assert any(len(block.id) > 64 for block in calls_of(second)), "the client's id carries the signature"


def test_the_same_history_the_same_bytes_after_a_detour(client: anthropic.Anthropic, gemini: GeminiProvider,
                                                       provider: OpenAIProvider) -> None:
    """What Gemini got before the detour is the beginning of what it gets after it: its prompt cache still fits."""
    gemini.script(calls(("now", {})), calls(("now", {"n": 2})), quota(), text("done"))
    provider.script(openai.calls(("call_a", "now", {})))
    talk = Conversation(client, "gemini-first")
    for _ in range(3):
        talk.turn("noon")
    talk.turn()
    before, after = gemini.seen[1], gemini.seen[3]
    assert after.contents[:len(before.contents)] == before.contents


def test_the_same_model_behind_two_doors(client: anthropic.Anthropic, gemini: GeminiProvider) -> None:
    """AI Studio fails, Vertex goes on: signatures of the one are not the other's, each gets its own back."""
    gemini.script(calls(("now", {}), ids=["c1"]), overloaded(), calls(("now", {"n": 2})), text("done"))
    talk = Conversation(client, "studio-first", thinking=THINKING)
    talk.turn("noon")
    talk.turn("noon")
    talk.turn()
    by_studio = list(gemini.issued[PRO])[-1]
    assert [seen.vertex for seen in gemini.seen] == [False, False, True, False]
    assert gemini.seen[2].signatures() == [BYPASS]
    assert gemini.seen[3].signatures() == [by_studio, BYPASS]


FAILS = [pytest.param(error(code, "no"), id=str(code)) for code in (403, 404, 429, 500, 503, 504)]
FAILS += [pytest.param(invalid_key(), id="a refused key, which is a 400 at Google"),
          pytest.param(sse([error_body(503, "busy")]), id="an error as the first event"),
          pytest.param(sse([response([]), error_body(503, "busy")]), id="an error before the first content"),
          pytest.param(sse([]), id="an empty stream"),
          pytest.param(sse([response([])]), id="an end before the first content"),
          pytest.param(parts([], finish="MALFORMED_FUNCTION_CALL"), id="a malformed call and nothing else")]


@pytest.mark.parametrize("failure", FAILS)
def test_what_fails_before_the_first_content_fails_over(client: anthropic.Anthropic, gemini: GeminiProvider,
                                                       provider: OpenAIProvider, failure: Any) -> None:
    gemini.script(failure)
    provider.script(openai.text("From the second."))
    assert said(Conversation(client, "gemini-first").turn()) == "From the second."


@pytest.mark.parametrize("answer", [
    parts([[{"text": "Half"}]], finish="OTHER"), calls(("now", {}), finish=None), blocked("SAFETY")],
    ids=["failed after content", "an end without a finish", "a blocked prompt"])
def test_what_comes_later_does_not_fail_over(client: anthropic.Anthropic, gemini: GeminiProvider,
                                            provider: OpenAIProvider, answer: Any) -> None:
    gemini.script(answer)
    with stream(str(client.base_url), payload("gemini-first", tools=TOOLS)) as got:
        events = got.read()
    assert provider.seen == []
    assert events[-1]["type"] == "error" or events[-2]["delta"]["stop_reason"] == "refusal"


def test_a_refused_request_is_not_tried_elsewhere(client: anthropic.Anthropic, gemini: GeminiProvider,
                                                  provider: OpenAIProvider) -> None:
    gemini.script(error(400, "Request contains an invalid argument."))
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model="gemini-first", max_tokens=9, messages=HELLO)
    assert provider.seen == []
