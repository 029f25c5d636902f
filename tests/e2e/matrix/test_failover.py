"""Failover between the Responses API and each other API, in both directions, through the real Envoy: the next attempt
answers where the first fails before its first token, and no provider sees the reasoning of another."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from tests.e2e.matrix.abilities import NOW, WEATHER
from tests.e2e.matrix.backends import BACKENDS, Backend, in_turn
from tests.e2e.matrix.clients import BROKEN, Called, Client, Result, Wish
from tests.e2e.matrix.responses_client import CLIENTS
from tests.providers import responses as api
from tests.providers.openai import status

PAIRS = [(first, second) for first, second in permutations([kind.name for kind in BACKENDS], 2)
         if "responses" in (first, second)]
CLIENT_NAMES = [kind.name for kind in CLIENTS]
BYPASS = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
"""Stands for a signature that Gemini demands and nobody issued."""


def results(calls: list[Called], text: str) -> list[tuple[Called, Result]]:
    return [(called, Result(text)) for called in calls]


@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("fault", ["rate", "overloaded"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_a_conversation_moves_to_the_other_provider_and_back(
        clients: dict[str, Client], backends: dict[str, Backend], client: str, first: str, second: str, fault: Any,
        streamed: bool) -> None:
    one, other = backends[first], backends[second]
    talk = clients[client].talk(Wish(in_turn(one, other), streamed, tools=[WEATHER, NOW], thinking=True))
    one.server(one.signer).script(one.calls(("weather", {"town": "Ulm"}), thinking="Hm."), one.fails(fault),
                                  one.text("Sunny."))
    other.server(other.signer).script(other.calls(("weather", {"town": "Jena"}), ("now", {}), thinking="So."))

    talk.say("Weather in Ulm and Jena?")
    talk.answer(*results(talk.turn().calls, "18 degrees"))
    said = talk.turn()
    assert [(called.name, called.arguments) for called in said.calls] == [("weather", {"town": "Jena"}), ("now", {})]
    talk.answer(*results(said.calls, "17 degrees"))
    assert talk.turn().text == "Sunny."

    at_other = other.asked(other.server(other.signer).seen[-1])
    assert at_other.calls == [("weather", {"town": "Ulm"})]
    assert at_other.results == [("weather", "18 degrees")]
    assert set(at_other.signatures) <= {BYPASS}, "the reasoning of another provider"
    again = one.asked(one.server(one.signer).seen[-1])
    assert [name for name, _ in again.calls] == ["weather", "weather", "now"]
    assert [text for _, text in again.results] == ["18 degrees", "17 degrees", "17 degrees"]
    assert len(set(again.signatures) - {BYPASS}) == 1, "its own and no other"


CREATED = {"type": "response.created", "response": api.response([], state="in_progress", usage=None)}
FAILURES = [
    *(pytest.param(status(code, api.openai_error("no")), id=str(code)) for code in (429, 500, 503)),
    pytest.param(api.raw([], end="reset"), id="a reset behind the head"),
    pytest.param(api.raw([], end="end"), id="an empty response"),
    pytest.param(api.sse([CREATED], end="cut"), id="a stream that breaks off before content"),
    pytest.param(api.sse([CREATED], end="end"), id="a stream that ends before content"),
    pytest.param(api.sse([CREATED, api.failed_event("no")]), id="response.failed"),
    pytest.param(api.sse([CREATED, api.error_event("no")]), id="an error event"),
    pytest.param(api.sse([CREATED, "data: {not JSON\n\n"]), id="damaged JSON"),
    pytest.param(api.json(api.failed_event("no")["response"]), id="a failed response as a whole"),
]


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_what_fails_before_the_first_content_fails_over(clients: dict[str, Client], backends: dict[str, Backend],
                                                        client: str, failure: Any) -> None:
    one, other = backends["responses"], backends["anthropic"]
    one.server(one.signer).script(failure)
    other.server(other.signer).script(other.text("From the second."))
    talk = clients[client].talk(Wish(in_turn(one, other), streamed=True))
    talk.say("Hello")
    assert talk.turn().text == "From the second."


@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_behind_the_first_content_there_is_no_other_attempt(clients: dict[str, Client], backends: dict[str, Backend],
                                                            client: str) -> None:
    one, other = backends["responses"], backends["anthropic"]
    one.server(one.signer).script(one.breaks("error inside", streamed=True))
    talk = clients[client].talk(Wish(in_turn(one, other), streamed=True))
    talk.say("Hello")
    with pytest.raises(BROKEN):
        talk.turn()
    assert not other.server(other.signer).seen
