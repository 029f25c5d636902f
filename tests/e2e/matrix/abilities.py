"""What is tried with every client and every provider: one function each, and the row that it has in the table.

A function gets a `Cell` and holds a conversation; it passes when client and provider understood each other. `dropped`
says, per pair, what the gateway had to name in `x-extproc-dropped`: each cell is held to exactly that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from tests.e2e.matrix.asked import RoutingFields
from tests.e2e.matrix.backends import LIMIT, PROMPT, RETRY_AFTER, SAID, SIGNATURE, Backend, Break, Fault
from tests.e2e.matrix.clients import BROKEN, Client, Failed, Figures, Result, Talk, Tool, Wish
from tests.providers import gemini

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OTHER_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJcOkw7zDtsOfCg=="
WORDS = "Grüße aus Köln 🎈: es ist 21 °C."
WEATHER = Tool("weather", "The weather of a town", {"type": "object", "properties": {
    "town": {"type": "string"}, "days": {"type": "integer"}}, "required": ["town"]})
NOW = Tool("now", "The time", {"type": "object", "properties": {}})
Pair = tuple[str, str]
"""(client, provider)."""


def after(backend: Backend) -> str:
    """The name of the model whose second attempt is this provider."""
    return f"after-{backend.name}"


@dataclass
class Cell:
    """One client, one provider, streamed or not. `other` is a provider of another API, before which failover begins."""

    client: Client
    backend: Backend
    other: Backend
    streamed: bool
    dropped: list[str] = field(default_factory=list)
    """What the responses named as dropped, without repetitions."""

    @property
    def pair(self) -> Pair:
        return self.client.name, self.backend.name

    def talk(self, *, model: str | None = None, **wish: Any) -> Talk:
        return self.client.talk(Wish(model or self.backend.model, self.streamed, **wish))

    def script(self, *answers: Any, model: str | None = None) -> None:
        self.backend.server(model or self.backend.model).script(*answers)

    def note(self) -> None:
        """Remembers what the last response named."""
        named = self.client.headers.get("x-extproc-dropped", "")
        self.dropped += [name for name in named.split(", ") if name and name not in self.dropped]

    def turn(self, talk: Talk) -> Any:
        said = talk.turn()
        self.note()
        return said

    def asked(self, turn: int = -1, *, model: str | None = None) -> RoutingFields:
        """What the provider was asked, by default the last time."""
        return self.backend.asked(self.backend.server(model or self.backend.model).seen[turn])

    def refused(self, fault: Fault) -> Failed:
        """How the SDK reports this error."""
        self.script(self.backend.fails(fault))
        talk = self.talk()
        talk.say("hello")
        with pytest.raises(BROKEN) as caught:
            talk.turn()
        assert len(self.backend.server(self.backend.model).seen) == 1
        return self.client.failed(caught.value)


@dataclass(frozen=True)
class Ability:
    """A row. `name` is its title, `shows` what a cell proves; `whole`: it is tried without a stream as well."""

    name: str
    shows: str
    try_it: Callable[[Cell], None]
    dropped: Mapping[Pair, tuple[str, ...]]
    streamed: tuple[bool, ...]

    @property
    def id(self) -> str:
        return self.name.lower().replace(" ", "-")


ABILITIES: list[Ability] = []


def ability(name: str, shows: str, dropped: Mapping[Pair, tuple[str, ...]] | None = None,
            streamed: tuple[bool, ...] = (True, False)) -> Callable[[Callable[[Cell], None]], Callable[[Cell], None]]:
    def add(try_it: Callable[[Cell], None]) -> Callable[[Cell], None]:
        ABILITIES.append(Ability(name, shows, try_it, dropped or {}, streamed))
        return try_it
    return add


def every(*names: str, clients: tuple[str, ...] = ("openai", "anthropic", "responses"),
          providers: tuple[str, ...] = ("openai", "anthropic", "gemini")) -> dict[Pair, tuple[str, ...]]:
    return {(client, provider): names for client in clients for provider in providers}


# --------------------------------------------------------------------------------------------------------------- text


@ability("Text", "system prompt, question and a second turn; every character arrives, a stream in pieces")
def text(cell: Cell) -> None:
    cell.script(cell.backend.text(WORDS), cell.backend.text("Gern."))
    talk = cell.talk(system="Be brief.")
    talk.say("Wie ist das Wetter in Köln? 🎈")
    said = cell.turn(talk)
    assert (said.text, said.stop, said.calls, said.thinking) == (WORDS, "end", [], "")
    assert said.model == cell.backend.model, "the client reads the name that it asked for"
    assert not cell.streamed or said.pieces > 1
    talk.say("Danke")
    assert cell.turn(talk).text == "Gern."
    assert (cell.asked(0).system, cell.asked(0).texts) == ("Be brief.", ["Wie ist das Wetter in Köln? 🎈"])
    assert cell.asked().texts == ["Wie ist das Wetter in Köln? 🎈", "Danke"]


@ability("Parameters", "temperature, stop sequences and the output limit reach the provider",
         every("stop", clients=("openai", "anthropic"), providers=("responses",)))
def parameters(cell: Cell) -> None:
    cell.script(cell.backend.text("ok"))
    talk = cell.talk(limit=300, stop=["END", "STOP"], temperature=0.25)
    talk.say("hello")
    cell.turn(talk)
    settings: dict[str, Any] = {"temperature": 0.25, "stop": ["END", "STOP"], "limit": 300}
    if "responses" in (cell.client.name, cell.backend.name):  # has no stop sequences
        del settings["stop"]
    assert cell.asked().settings == settings


@ability("Output limit", "a response that the limit cuts off says so")
def output_limit(cell: Cell) -> None:
    cell.script(cell.backend.text("Half an ans", stop="length"))
    talk = cell.talk(limit=20)
    talk.say("hello")
    said = cell.turn(talk)
    assert (said.text, said.stop) == ("Half an ans", "length")


@ability("Refusal", "a content filter or refusal of the provider reaches the client as such, not as an ordinary end")
def refusal(cell: Cell) -> None:
    cell.script(cell.backend.text("I cannot", stop="refusal"))
    talk = cell.talk()
    talk.say("hello")
    assert cell.turn(talk).stop == "refusal"


@ability("Usage", "tokens in and out, with the cached and the reasoning ones, in each API's own places")
def usage(cell: Cell) -> None:
    cell.script(cell.backend.text("ok"))
    talk = cell.talk()
    talk.say("hello")
    assert cell.turn(talk).figures == Figures(input=21, cached=8, output=12, reasoning=5)


# -------------------------------------------------------------------------------------------------------------- tools


def called(said: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.arguments) for call in said.calls]


@ability("Tools", "text and a call, its result, a second call without arguments, the final text")
def tools(cell: Cell) -> None:
    cell.script(cell.backend.calls(("weather", {"town": "Köln", "days": 2}), content="Looking."),
                cell.backend.calls(("now", {})), cell.backend.text("Sunny."))
    talk = cell.talk(tools=[WEATHER, NOW])
    talk.say("Weather in Köln?")
    first = cell.turn(talk)
    assert (first.text, first.stop, called(first)) == ("Looking.", "calls", [("weather", {"town": "Köln", "days": 2})])
    talk.answer((first.calls[0], Result("18 degrees")))
    second = cell.turn(talk)
    assert (second.stop, called(second)) == ("calls", [("now", {})])
    assert second.calls[0].id != first.calls[0].id
    talk.answer((second.calls[0], Result("noon")))
    last = cell.turn(talk)
    assert (last.text, last.stop) == ("Sunny.", "end")
    asked = cell.asked()
    assert asked.tools == ["weather", "now"]
    assert asked.calls == [("weather", {"town": "Köln", "days": 2}), ("now", {})]
    assert asked.results == [("weather", "18 degrees"), ("now", "noon")]


@ability("Parallel tools", "three calls at once, two of them of one tool; where the APIs differ, the client returns "
                           "the results in another order")
def parallel_tools(cell: Cell) -> None:
    wanted = [("weather", {"town": "Ulm"}), ("now", {}), ("weather", {"town": "Jena"})]
    cell.script(cell.backend.calls(*wanted), cell.backend.text("Done."))
    talk = cell.talk(tools=[WEATHER, NOW])
    talk.say("Weather in Ulm and Jena, and the time?")
    said = cell.turn(talk)
    assert called(said) == wanted
    assert len({call.id for call in said.calls}) == 3
    ulm, now, jena = said.calls
    results = [(jena, Result("in Jena")), (ulm, Result("in Ulm")), (now, Result("noon"))]
    if cell.client.name == cell.backend.name:  # the order is the client's own; the strict provider takes one only
        results.append(results.pop(0))
    talk.answer(*results)
    assert cell.turn(talk).text == "Done."
    assert cell.asked().calls == wanted
    assert cell.asked().results == [("weather", "in Ulm"), ("now", "noon"), ("weather", "in Jena")]


@ability("One tool at a time", "the client's wish for at most one call reaches the provider",
         every("parallel_tool_calls", providers=("gemini",)))
def one_at_a_time(cell: Cell) -> None:
    cell.script(cell.backend.calls(("now", {})))
    talk = cell.talk(tools=[NOW], parallel=False)
    talk.say("Time?")
    assert called(cell.turn(talk)) == [("now", {})]
    if cell.backend.name == "gemini":  # has no such field: the system text asks for it
        assert "one tool" in cell.asked().system or "one function" in cell.asked().system
    else:
        assert not cell.asked().parallel


@ability("Forced tool", "the model must call the one tool that the client names")
def forced_tool(cell: Cell) -> None:
    cell.script(cell.backend.calls(("now", {})))
    talk = cell.talk(tools=[WEATHER, NOW], forced="now")
    talk.say("Time?")
    assert called(cell.turn(talk)) == [("now", {})]
    assert cell.asked().forced == "now"


# ----------------------------------------------------------------------------------------------------------- thinking


@ability("Thinking", "reasoning is separate from text, and returns with its call if the provider requires it",
         every("messages.thinking", providers=("gemini",)))
def thinking(cell: Cell) -> None:
    model = cell.backend.thinker
    cell.script(cell.backend.calls(("now", {}), content="Looking.", thinking="Which time? Now."),
                cell.backend.text("Noon.", thinking="That was easy."), model=model)
    talk = cell.talk(model=model, tools=[NOW], thinking=True)
    talk.say("Time?")
    first = cell.turn(talk)
    assert (first.thinking, first.text, called(first)) == ("Which time? Now.", "Looking.", [("now", {})])
    talk.answer((first.calls[0], Result("12:00")))
    last = cell.turn(talk)
    assert (last.thinking, last.text, last.stop) == ("That was easy.", "Noon.", "end")
    if cell.backend.name != "gemini":  # takes its signature instead
        assert cell.asked(model=model).thinking == ["Which time? Now."]


@ability("Signatures", "opaque signatures return to their provider byte for byte, also from a client that keeps "
                       "nothing but text and calls", every("messages.thinking", providers=("gemini",),
                                                           clients=("anthropic", "responses")))
def signatures(cell: Cell) -> None:
    model = cell.backend.signer
    cell.script(cell.backend.calls(("weather", {"town": "Ulm"}), ("now", {}), thinking="Two things."),
                cell.backend.text("Done."), model=model)
    talk = cell.talk(model=model, tools=[WEATHER, NOW], thinking=True)
    talk.forgetful = True
    talk.say("Weather and time?")
    said = cell.turn(talk)
    talk.answer(*((call, Result("fine")) for call in said.calls))
    assert cell.turn(talk).text == "Done."
    server = cell.backend.server(model)
    issued = list(server.issued["gemini-3-pro-preview"])[-1] if isinstance(server, gemini.GeminiProvider) else SIGNATURE
    assert cell.asked(model=model).signatures == [issued]


# -------------------------------------------------------------------------------------------------------------- media


@ability("Images", "an image of the user and one inside a tool result")
def images(cell: Cell) -> None:
    cell.script(cell.backend.calls(("now", {})), cell.backend.text("Two dots."))
    talk = cell.talk(tools=[NOW])
    talk.say("What is this?", image=PNG)
    said = cell.turn(talk)
    talk.answer((said.calls[0], Result("a screenshot", image=OTHER_PNG)))
    assert cell.turn(talk).text == "Two dots."
    assert cell.asked().images == [PNG, OTHER_PNG]
    ((tool, result),) = cell.asked().results
    assert (tool, result.startswith("a screenshot")) == ("now", True)


@ability("Documents", "a PDF of the user")
def documents(cell: Cell) -> None:
    cell.script(cell.backend.text("Empty."))
    talk = cell.talk()
    talk.say("What does it say?", document=PDF)
    assert cell.turn(talk).text == "Empty."
    assert cell.asked().documents == [PDF]


# ---------------------------------------------------------------------------------------------------------- structure


class Weather(BaseModel):
    """What `chat.completions.parse` and `messages.parse` are given."""

    town: str
    degrees: int
    clouds: list[str]


@ability("Structured output", "a schema from the SDK's own helper reaches the provider; the SDK parses the response")
def structured_output(cell: Cell) -> None:
    cell.script(cell.backend.text('{"town": "Köln", "degrees": 21, "clouds": ["few"]}'))
    talk = cell.talk(format=Weather)
    talk.say("Weather in Köln?")
    said = cell.turn(talk)
    assert said.parsed == Weather(town="Köln", degrees=21, clouds=["few"])
    schema = cell.asked().schema
    assert set(schema["properties"]) == {"town", "degrees", "clouds"}
    assert set(schema["required"]) == {"town", "degrees", "clouds"}


# -------------------------------------------------------------------------------------------------------------- errors


@ability("Error 401", "the gateway's key is refused: an authentication error that is not tried again and shows no key")
def error_401(cell: Cell) -> None:
    failed = cell.refused("key")
    assert (failed.kind, failed.status) == ("AuthenticationError", 401)
    assert failed.type == ("invalid_request_error" if cell.client.name == "responses" else "authentication_error")
    assert SAID in failed.message
    assert "0123456789" not in failed.message + str(failed.headers), "the provider's key"
    assert failed.headers["x-should-retry"] == "false"


@ability("Error 429", "a rate limit with `retry-after`")
def error_429(cell: Cell) -> None:
    failed = cell.refused("rate")
    assert (failed.kind, failed.status, failed.type) == ("RateLimitError", 429, "rate_limit_error")
    assert failed.headers["retry-after"] == RETRY_AFTER
    assert SAID in failed.message


@ability("Context overflow", "a prompt that is too long, in the words by which clients compact the conversation")
def context_overflow(cell: Cell) -> None:
    failed = cell.refused("overflow")
    assert (failed.kind, failed.status, failed.type) == ("BadRequestError", 400, "invalid_request_error")
    assert str(PROMPT) in failed.message
    assert str(LIMIT) in failed.message
    if cell.client.name == "anthropic":
        assert f"prompt is too long: {PROMPT} tokens > {LIMIT} maximum" in failed.message
        return
    assert failed.code == "context_length_exceeded"
    if cell.client.name == "openai":
        assert f"maximum context length is {LIMIT} tokens" in failed.message


@ability("Error 5xx", "the client sees that the provider is overloaded")
def error_5xx(cell: Cell) -> None:
    failed = cell.refused("overloaded")
    assert failed.status in (503, 529)
    assert failed.type == ("overloaded_error" if cell.client.name == "anthropic" else "server_error")
    assert SAID in failed.message


def _breaks(cell: Cell, how: Break) -> BaseException:
    cell.script(cell.backend.breaks(how, streamed=cell.streamed))
    talk = cell.talk()
    talk.say("hello")
    with pytest.raises(BROKEN) as caught:
        talk.turn()
    return caught.value


@ability("Failover", "a provider of another API fails before its first words, this one serves the same request")
def failover(cell: Cell) -> None:
    cell.other.server(cell.other.model).script(cell.other.breaks("error inside", streamed=False) if not cell.streamed
                                               else cell.other.fails("overloaded"))
    cell.script(cell.backend.calls(("weather", {"town": "Ulm"})))
    talk = cell.talk(model=after(cell.backend), system="Be brief.", tools=[WEATHER])
    talk.say("Weather in Ulm?", image=PNG)
    said = cell.turn(talk)
    assert (called(said), said.stop, said.model) == ([("weather", {"town": "Ulm"})], "calls", after(cell.backend))
    first, second = cell.other.asked(cell.other.server(cell.other.model).last), cell.asked()
    assert first == second, "each in its own API, but the same"
    assert (second.system, second.texts, second.images) == ("Be brief.", ["Weather in Ulm?"], [PNG])


@ability("Truncation", "a response that ends early is an error of the SDK, never a clean end")
def truncation(cell: Cell) -> None:
    error = _breaks(cell, "ends early")
    if not cell.streamed:
        assert cell.client.failed(error).status == 502


@ability("Lost connection", "a stream whose connection breaks is an error of the SDK as well", streamed=(True,))
def lost_connection(cell: Cell) -> None:
    _breaks(cell, "connection lost")


@ability("Error in a stream", "an error of the provider after the first words reaches the SDK as an error",
         streamed=(True,))
def error_in_a_stream(cell: Cell) -> None:
    error = _breaks(cell, "error inside")
    assert SAID in str(error)
