"""Silence: pings while a provider thinks, an error event when it thinks too long (P12)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.e2e.gateway import Gateway, configuration
from tests.e2e.wire import payload, post, stream
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, chunk, sse, stall, text
from tests.providers.openai import stream as deltas

IDLE = 3


@pytest.fixture(scope="module")
def impatient(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that pings every second and gives a silent provider three."""
    config = configuration(provider_server.url, workers=1, timeouts={"ping": 1, "idle": IDLE, "per_try_idle": 5})
    running = Gateway(config, tmp_path_factory.mktemp("impatient"))
    yield running
    assert running.terminate() == 0, running.output


def test_p12_pings_while_the_provider_is_silent(impatient: Gateway, provider: OpenAIProvider) -> None:
    """Also inside a half-written event of the provider, and before the first content."""
    first, second = Gate(), Gate()
    event = 'data: {"choices":[{"index":0,"delta":{"content":"late"}}]}\n\n'
    provider.script(sse([": thinking\n\n", first, event[:30], second, event[30:], chunk({}, finish="stop")]))
    with stream(impatient.base_url) as answer:
        answer.until("ping")
        first.open()
        answer.until("ping")
        second.open()
        answer.read()
    assert answer.text == "late"


def test_p12_a_silent_provider_ends_in_an_error_event(impatient: Gateway, provider: OpenAIProvider) -> None:
    provider.script(sse([chunk({"content": "hm"})], done=False, end="hang"))
    with stream(impatient.base_url) as answer:
        events = answer.read()
        assert [e["type"] for e in events].count("ping") >= 1
        assert events[-1]["type"] == "error"
        assert events[-1]["error"]["type"] in {"timeout_error", "api_error", "overloaded_error"}
        assert provider.last.exchange.closed.wait(1)


def test_p12_silence_before_the_head(impatient: Gateway, provider: OpenAIProvider) -> None:
    gate = Gate()
    provider.script(stall(gate, text("never")))
    answer = post(impatient.base_url, payload(stream=True))
    assert answer.status == 504
    assert answer.error()[0] == "timeout_error"
    assert provider.last.exchange.closed.wait(1)


def test_p12_slow_is_not_silent(impatient: Gateway, provider: OpenAIProvider) -> None:
    """Comments of a provider show that it lives: the answer may take longer than the idle limit in total."""
    gates = [Gate() for _ in range(3)]
    provider.script(deltas([{"content": "a"}, gates[0], {"content": "b"}, gates[1], {"content": "c"}, gates[2]]))
    with stream(impatient.base_url) as answer:
        for gate in gates:
            answer.until("ping")
            gate.open()
        answer.read()
    assert answer.text == "abc"


def test_p12_a_head_and_then_thinking(impatient: Gateway, provider: OpenAIProvider) -> None:
    """Longer than the time between pings: Envoy would take a ping here for a mistake, and reset the stream."""
    gate = Gate()
    provider.script(sse([gate, chunk({"content": "late"}), chunk({}, finish="stop")]))
    opening = threading.Timer(1.7, gate.open)
    opening.start()
    with stream(impatient.base_url) as answer:
        answer.read()
    opening.join()
    assert answer.text == "late"


def test_p12_a_head_and_then_silence_is_a_status(impatient: Gateway, provider: OpenAIProvider) -> None:
    provider.script(sse([Gate()]))
    answer = post(impatient.base_url, payload(stream=True))
    assert (answer.status, answer.error()[0]) == (504, "timeout_error")
    assert provider.last.exchange.closed.wait(1)
