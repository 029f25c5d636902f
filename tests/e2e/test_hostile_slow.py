"""Who takes his time: heads and bodies that never end, answers that nobody reads, providers that drip. One worker, and
the next client is served all the same."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.gateway import Gateway, configuration
from tests.e2e.odd_clients import H2, Case, Peak, Raw, body, ending, head, seen, sends, sent
from tests.e2e.wire import blocks_of, payload, post, stream
from tests.providers.openai import OpenAIProvider, chunk, raw, sse, text
from tests.providers.openai import stream as deltas

MB = 1024 * 1024
PATIENCE = 2
"""Seconds of `timeouts.stream_idle` here; 900 by default."""
WHOLE = 4
"""Seconds of `timeouts.request` here; 600 by default."""


@pytest.fixture(scope="module")
def gateway(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = configuration(provider_server.url, workers=1, timeouts={"stream_idle": PATIENCE, "request": WHOLE,
                                                                                "ping": 0.5})
    running = Gateway(config, tmp_path_factory.mktemp("slow"))
    yield running
    assert running.terminate() == 0, running.output


@pytest.fixture(scope="module", autouse=True)
def half_heads(gateway: Gateway) -> Iterator[list[Raw]]:
    """50 clients that have sent half a head, before all other tests: Envoy gives them ten seconds."""
    clients = [Raw(gateway.port, timeout=15) for _ in range(50)]
    for client in clients:
        client.send(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-a: ")
    yield clients
    for client in clients:
        client.socket.close()


def freed(provider: OpenAIProvider, seconds: float) -> bool:
    """The connection of the provider's first request, whose answer nobody took, ends. (Into a connection that is lost
    the scripted provider writes what is left at once.)"""
    exchange = provider.seen[0].exchange
    deadline = time.monotonic() + seconds
    while not (exchange.closed.wait(0.05) or exchange.finished.is_set()):
        if time.monotonic() > deadline:
            return False
    return True


# ------------------------------------------------------------------------------------------------------------- requests
@sends(
    Case("a body that stops in the middle (HTTP/1)", "408 `timeout_error`"),
    Case("50 of them at once", "408 `timeout_error` each; another client meanwhile: 200", 50),
)
def test_a_body_that_stops(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    provider.script(text("ok"))
    data = body()
    clients = [Raw(gateway.port) for _ in range(case.data or 1)]
    for client in clients:
        client.send(head(gateway.port, f"content-length: {len(data)}"), data[:20])
    beside = seen(post(gateway.base_url, payload()))
    found = {seen(client.answer()) for client in clients}
    for client in clients:
        client.socket.close()
    assert len(provider.seen) == 1, "half a request reaches nobody"
    return " ".join(sorted(found)) + (f" each; another client meanwhile: {beside}" if case.data else "")


@sent("a body that stops in the middle (HTTP/2)", sees="408 `timeout_error`; the next stream: 200")
def test_a_body_that_stops_in_http2(gateway: Gateway, provider: OpenAIProvider) -> str:
    provider.script(text("ok"))
    with H2(gateway.port) as client:
        number = client.open()
        client.data(number, body()[:20])
        found = client.part(number).seen
        return f"{found}; the next stream: {client.part(client.ask()).seen}"


@sent("a body that comes a byte at a time", sees="200")
def test_a_body_that_drips(gateway: Gateway, provider: OpenAIProvider) -> str:
    provider.script(text("ok"))
    data = body()
    with Raw(gateway.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.send(head(gateway.port, f"content-length: {len(data)}"), *(bytes([byte]) for byte in data))
        return seen(client.answer())


@sent("... and never comes to its end", sees="408 `timeout_error`")
def test_a_body_that_drips_for_ever(gateway: Gateway, provider: OpenAIProvider) -> str:
    """After `timeouts.request`: a byte now and then is a sign of life, but no request."""
    data = body()
    with Raw(gateway.port) as client:
        client.send(head(gateway.port, f"content-length: {len(data)}"))
        began = time.monotonic()
        for byte in data:
            if select.select([client.socket], [], [], PATIENCE / 8)[0] or time.monotonic() > began + 3 * WHOLE:
                break
            client.send(bytes([byte]))
        found = seen(client.answer())
    assert not provider.seen
    return found


# -------------------------------------------------------------------------------------------------------------- answers
@sent("a client that reads nothing while 60 MB are streamed (HTTP/1)", sees="another client meanwhile: 200")
def test_a_client_that_does_not_read(gateway: Gateway, provider: OpenAIProvider) -> str:
    """What nobody reads waits at the provider."""
    provider.script(deltas([{"content": "y" * 60_000}] * 1000), text("ok"))
    with Peak(gateway) as peak, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect(("127.0.0.1", gateway.port))
        data = body(stream=True)
        client.sendall(head(gateway.port, f"content-length: {len(data)}") + data)
        assert client.recv(15) == b"HTTP/1.1 200 OK"
        beside = seen(post(gateway.base_url, payload()))
        assert not provider.seen[0].exchange.finished.is_set()
    assert peak.grown < 40 * MB, f"{peak.grown / MB:.0f} MB"
    assert freed(provider, 2)
    return f"another client meanwhile: {beside}"


@sent("nothing: the client stays, but never reads", sees="reset, and the provider's connection is closed")
def test_who_never_reads_is_dropped(gateway: Gateway, provider: OpenAIProvider) -> str:
    """After `timeouts.stream_idle`: pings that cannot be written are no sign of life."""
    provider.script(deltas([{"content": "y" * 60_000}] * 1000))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(10)
        client.connect(("127.0.0.1", gateway.port))
        data = body(stream=True)
        client.sendall(head(gateway.port, f"content-length: {len(data)}") + data)
        provider.wait_for(1)
        assert freed(provider, PATIENCE + 4), "nobody keeps the provider waiting for ever"
    return "reset, and the provider's connection is closed"


@sent("a provider that sends a byte at a time", sees="200")
def test_a_provider_that_drips(gateway: Gateway, provider: OpenAIProvider) -> str:
    said = sse([chunk({"content": "ä€😀"}), chunk({}, finish="stop")])
    provider.script(raw([bytes([byte]) for part in said.body if isinstance(part, bytes) for byte in part]))
    with stream(gateway.base_url) as answer:
        found = ending(answer)
    assert blocks_of(answer.seen)[0]["text"] == "ä€😀"
    return found


# ---------------------------------------------------------------------------------------------------------------- heads
@sent("50 half heads (since the first test of this table)",
      sees="408 `server_error` (as OpenAI says it), connection closed")
def test_a_head_that_stops(gateway: Gateway, provider: OpenAIProvider, half_heads: list[Raw]) -> str:
    answers: list[Any] = [client.answer() for client in half_heads]
    assert all(answer is None or answer.headers["connection"] == "close" for answer in answers)
    found = {seen(answer) for answer in answers}
    return f"{found.pop()} (as OpenAI says it), connection closed" if len(found) == 1 else str(found)


