"""HTTP/2 against the gateway, frame by frame: resets in every phase, floods, stalled windows, broken heads."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import h2.exceptions
import hpack
import pytest

from tests.e2e.gateway import Gateway
from tests.e2e.odd_clients import H2, Case, Peak, Raw, body, sends, sent
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, completion, stall, text
from tests.providers.openai import stream as deltas

HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION, PRIORITY = 1, 3, 4, 6, 7, 8, 9, 2
STREAMED = body(stream=True)
MB = 1024 * 1024
REQUEST = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/v1/messages")]


def frame(kind: int, flags: int, stream: int, data: bytes) -> bytes:
    return struct.pack(">I", len(data))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + data


# -------------------------------------------------------------------------------------------------------------- resets
@sends(
    Case("RST_STREAM after the head of the request", "the next stream: 200", 0),
    Case("RST_STREAM in the middle of its body", "the next stream: 200", 20),
)
def test_a_reset_of_a_request_on_its_way(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    provider.always(text("ok"))
    with H2(gateway.port) as client:
        number = client.open()
        if case.data:
            client.data(number, body()[:case.data])
        client.reset(number)
        found = client.part(client.ask()).seen
    assert len(provider.seen) == 1, "half a request reaches nobody"
    return f"the next stream: {found}"


@sends(
    Case("RST_STREAM while the provider thinks", "the next stream: 200", "head"),
    Case("RST_STREAM in the middle of an answer", "the next stream: 200", "answer"),
    Case("GOAWAY in the middle of an answer, then the end of the connection", "the next connection: 200", "goaway"),
)
def test_a_client_that_leaves_frees_the_provider(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    gate = Gate()
    held = deltas([{"content": "a"}, gate]) if case.data != "head" else stall(gate, text("never"))
    provider.script(held, text("ok"))
    with H2(gateway.port) as client:
        number = client.ask(STREAMED)
        asked = provider.wait_for(1)
        if case.data != "head":
            client.until(lambda: b"text_delta" in client.parts[number].data)
        if case.data == "goaway":
            client.state.close_connection()
            client.flush()
        else:
            client.reset(number)
            found = client.part(client.ask()).seen
            assert asked.exchange.closed.wait(2), "the provider's connection is closed"
            return f"the next stream: {found}"
    assert asked.exchange.closed.wait(2), "the provider's connection is closed"
    with H2(gateway.port) as other:
        return f"the next connection: {other.part(other.ask()).seen}"


@sent("100 streams opened and reset at once", sees="the next stream: 200")
def test_resets_one_after_the_other(gateway: Gateway, provider: OpenAIProvider) -> str:
    provider.always(text("ok"))
    with H2(gateway.port) as client:
        for _ in range(100):
            client.reset(client.open())
        found = client.part(client.ask()).seen
    assert len(provider.seen) == 1
    return f"the next stream: {found}"


@sent("rapid reset: 2,000 streams opened and reset", sees="connection closed; another client: 200")
def test_rapid_reset(gateway: Gateway, provider: OpenAIProvider) -> str:
    provider.always(text("ok"))
    with H2(gateway.port) as client, H2(gateway.port) as other:
        head = hpack.Encoder().encode(REQUEST, huffman=False)
        client.raw(b"".join(frame(HEADERS, 4, number, head) + frame(RST, 0, number, b"\0\0\0\x08")
                            for number in range(1, 4001, 2)))
        beside = other.part(other.ask()).seen
        client.raw_end()
    assert len(provider.seen) == 1
    return f"connection closed; another client: {beside}"


@sent("200 requests at once on one connection", sees="200 times 200")
def test_many_streams(gateway: Gateway, provider: OpenAIProvider) -> str:
    provider.always(text("ok"))
    with H2(gateway.port) as client:
        found = [client.part(number).seen for number in [client.ask() for _ in range(200)]]
    return f"{len(found)} times 200" if set(found) == {"200"} else str(set(found))


# ------------------------------------------------------------------------------------------------------------- windows
@sent("a client that opens no window while 60 MB are streamed", sees="64 KB; another client: 200")
def test_a_stalled_window(gateway: Gateway, provider: OpenAIProvider) -> str:
    """What nobody reads waits at the provider, not in the gateway."""
    provider.script(deltas([{"content": "y" * 60_000}] * 1000), text("ok"))
    with Peak(gateway) as peak, H2(gateway.port, acknowledge=False) as client:
        number = client.ask(STREAMED)
        client.until(lambda: len(client.parts[number].data) >= 65_535)
        with H2(gateway.port) as other:
            beside = other.part(other.ask()).seen
        assert not client.parts[number].ended
        assert not provider.seen[0].exchange.finished.is_set()
    assert peak.grown < 50 * MB, f"{peak.grown / MB:.0f} MB"
    return f"64 KB; another client: {beside}"


@sent("20 MB of request bodies that are never finished, on 20 streams",
      sees="the connection stays; another client: 200")
def test_bodies_that_are_never_finished(gateway: Gateway, provider: OpenAIProvider) -> str:
    provider.always(text("ok"))
    with Peak(gateway) as peak, H2(gateway.port) as client:
        for _ in range(20):
            client.data(client.open(), b" " * MB)
        with H2(gateway.port) as other:
            beside = other.part(other.ask()).seen
        assert {part.reset for part in client.parts.values()} == {None}
    assert peak.grown < 80 * MB, f"{peak.grown / MB:.0f} MB"
    assert len(provider.seen) == 1
    return f"the connection stays; another client: {beside}"


# --------------------------------------------------------------------------------------------------------------- heads
@sends(
    Case("trailers behind the body", "400 `invalid_request_error`", "trailers"),
    Case("a content-length that is not the body's", "stream reset (PROTOCOL_ERROR)", ("content-length", "5")),
    Case("a header of 70,000 characters (HTTP/2)", "stream reset (INTERNAL_ERROR)", ("x-a", "a" * 70_000)),
    Case("200 headers (HTTP/2)", "stream reset (INTERNAL_ERROR)", "many"),
    Case("a `host` beside `:authority`", "200", ("host", "evil.example")),
)
def test_heads_that_cost_one_stream(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    """The other streams of the connection go on."""
    provider.always(completion({"content": "ok"}))
    extra = [(f"x-{number}", "1") for number in range(200)] if case.data == "many" else \
        [case.data] if isinstance(case.data, tuple) else []
    with H2(gateway.port) as client:
        number = client.open(*extra)
        client.data(number, body(), end=case.data != "trailers")
        if case.data == "trailers":
            client.state.send_headers(number, [("x-t", "1")], end_stream=True)
            client.flush()
        found = client.part(number).seen
        assert len(provider.seen) == (1 if found == "200" else 0)
        if found == "200":
            assert provider.last.headers["host"] == f"127.0.0.1:{provider.port}"
        assert client.part(client.ask()).seen == "200"
    return found


def head_of(**pseudo: str) -> Callable[[H2], None]:
    def say(client: H2) -> None:
        number = client.open(**pseudo)  # type: ignore[arg-type]
        client.data(number, body(), end=True)
    return say


def header(name: str, value: str) -> Callable[[H2], None]:
    def say(client: H2) -> None:
        client.data(client.open((name, value)), body(), end=True)
    return say


def flood(kind: int, data: bytes, *, flags: int = 0, stream: int = 0, count: int = 20_000) -> Callable[[H2], None]:
    def say(client: H2) -> None:
        client.raw(frame(kind, flags, stream, data) * count)
    return say


def endless_head(client: H2) -> None:
    """CONTINUATION frames without an end."""
    client.raw(frame(HEADERS, 0, 1, hpack.Encoder().encode(REQUEST)))
    client.raw(frame(CONTINUATION, 0, 1, b"\x00\x03x-a\x7f\x00" + b"a" * 127) * 10_000)


@sends(
    Case("an upper-case header name", "connection closed", header("X-Up", "a")),
    Case("CR LF in a header's value", "connection closed", header("x-a", "a\r\nx-api-key: b")),
    Case("NUL in a header's value", "connection closed", header("x-a", "a\0b")),
    Case("a colon in a header's name", "connection closed", header("x:a", "b")),
    Case("`connection: close`", "connection closed", header("connection", "close")),
    Case("`transfer-encoding: chunked`", "connection closed", header("transfer-encoding", "chunked")),
    Case("two content-lengths", "connection closed", header("content-length", f"{len(body())},5")),
    Case("a second `:path`", "connection closed", header(":path", "/healthz")),
    Case("a pseudo-header that nobody knows", "connection closed", header(":evil", "x")),
    Case("an empty `:path`", "connection closed", head_of(path="")),
    Case("a line feed in `:method`", "connection closed", head_of(method="PO\nST")),
    Case("a head of 10,000 CONTINUATION frames", "connection closed", endless_head),
    Case("20,000 PINGs", "connection closed", flood(PING, b"12345678")),
    Case("20,000 SETTINGS", "connection closed", flood(SETTINGS, b"")),
    Case("20,000 PRIORITYs", "connection closed", flood(PRIORITY, b"\0\0\0\0\1", stream=1)),
    Case("a WINDOW_UPDATE of nothing", "connection closed", flood(WINDOW, bytes(4), count=1)),
    Case("windows past 2^31", "connection closed", flood(WINDOW, b"\x7f\xff\xff\xff", count=2)),
    Case("a frame longer than agreed", "connection closed", flood(0, b"a" * 20_000, stream=1, count=1)),
    Case("data on stream 0", "connection closed", flood(0, b"a", count=1)),
    Case("a stream with an even number", "connection closed", flood(HEADERS, b"\x82", flags=4, stream=2, count=1)),
)
def test_what_breaks_the_protocol_costs_the_connection(gateway: Gateway, provider: OpenAIProvider, case: Case,
                                                       closings: dict[str, str]) -> str:
    return closings[case.sent]


@pytest.fixture(scope="module")
def closings(gateway: Gateway, provider_server: OpenAIProvider) -> dict[str, str]:
    """What each of these clients saw, all at the same time: Envoy takes a second to close a connection."""
    provider_server.clear()
    mark = test_what_breaks_the_protocol_costs_the_connection.pytestmark[0]
    cases: list[Case] = mark.args[1]

    def play(case: Case) -> str:
        with H2(gateway.port) as client:
            case.data(client)
            with contextlib.suppress(h2.exceptions.ProtocolError):
                client.until(lambda: client.is_closed)
            client.raw_end()
            return "connection closed"

    with ThreadPoolExecutor(len(cases)) as pool:
        found = dict(zip([case.sent for case in cases], pool.map(play, cases), strict=True))
    assert provider_server.seen == [], "nothing of it reached a provider"
    return found


@sent("the preface of HTTP/2 and then something else", sees="GOAWAY, connection closed")
def test_a_preface_alone(gateway: Gateway, provider: OpenAIProvider) -> str:
    with Raw(gateway.port) as client:
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"garbage " * 10)
        found = client.received.read()
    return "GOAWAY, connection closed" if frame(GOAWAY, 0, 0, b"")[3:9] in found else repr(found)
