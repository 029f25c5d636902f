"""Providers that mean harm or are broken: lines of 100 MB, bombs, bytes that are no HTTP, wrong certificates. The
client gets an error in its shape, or the next provider's answer; nothing of theirs reaches it but the answer."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import brotli
import pytest
import zstandard

from tests.e2e.gateway import PROVIDER_KEY, Gateway, configuration
from tests.e2e.odd_clients import Case, Peak, ending, seen, sends, sent
from tests.e2e.wire import payload, post, stream
from tests.envoy.certificates import authority, needs_openssl, openssl, server_context
from tests.envoy.running import Provider
from tests.providers.http import Reply
from tests.providers.openai import (
    EVENT_STREAM,
    JSON,
    OpenAIProvider,
    calls,
    chunk,
    completion,
    openai_error,
    raw,
    sse,
    status,
    text,
)

MB = 1024 * 1024
SERVER_ERROR = "502 `api_error`"
IN_STREAM = "error event `api_error`"
TOOLS = [{"name": "f", "input_schema": {"type": "object"}}]


class Bytes:
    """A provider that answers every request with the same pieces of bytes and closes."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.asked = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=(self._socket.accept()[0],), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        received = b""
        with connection, contextlib.suppress(OSError):
            while not received.endswith(b"\r\n0\r\n\r\n"):
                if not (data := connection.recv(65536)):
                    return
                received += data
            self.asked += 1
            for piece in self.pieces:
                connection.sendall(piece)

    def stop(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def odd() -> Iterator[Bytes]:
    provider = Bytes()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Provider]]]:
    """The file of the trusted authority, and providers with certificates of every kind; none without openssl."""
    folder = tmp_path_factory.mktemp("tls")
    made: dict[str, Provider] = {}
    if needs_openssl.args[0]:
        yield "", made
        return
    authority(folder, "trusted")
    authority(folder, "unknown")
    for name, ca, names in (("good", "trusted", "DNS:localhost"), ("wrong-name", "trusted", "DNS:provider.example"),
                            ("unknown-authority", "unknown", "DNS:localhost"), ("expired", "trusted", "DNS:localhost")):
        context = server_context(folder, ca, names, name)
        if name == "expired":
            openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key",
                    "-days", "-1", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
            context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        made[name] = Provider(tls=context, body=completion_body("safe")).start()
    yield str(folder / "trusted.pem"), made
    for provider in made.values():
        provider.stop()


def completion_body(words: str) -> bytes:
    return b"".join(p for p in completion({"role": "assistant", "content": words}).body if isinstance(p, bytes))


@pytest.fixture(scope="module")
def gateway(provider_server: OpenAIProvider, odd: Bytes, certified: tuple[str, dict[str, Provider]],
            tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Each odd provider alone, and before the ordinary one."""
    config = configuration(provider_server.url, ejection={"failures": 1000})
    backends: dict[str, Any] = {"odd": {"api": "openai", "url": odd.url, "key": PROVIDER_KEY}}
    ca, made = certified
    for name, provider in made.items():
        backends[name] = {"api": "openai", "url": f"https://localhost:{provider.port}/v1", "key": PROVIDER_KEY,
                          "ca": ca}
    config["backends"].update(backends)
    for name in backends:
        alone = {"backend": name, "model": "m"}
        config["models"] += [{"match": name, "attempts": [alone]},
                             {"match": f"{name}+", "attempts": [alone, {"backend": "plain", "model": "m"}]}]
    running = Gateway(config, tmp_path_factory.mktemp("answers"))
    yield running
    assert running.terminate() == 0, running.output


def both(gateway: Gateway, model: str = "claude-test", *, limit: int = 120 * MB, **fields: Any) -> str:
    """What a client saw that streams, and one that does not, where that differs."""
    with Peak(gateway) as peak:
        with stream(gateway.base_url, payload(model, **fields)) as answer:
            streamed = ending(answer)
            assert PROVIDER_KEY not in str(answer.seen) + str(answer.headers)
        whole = whole_of(gateway, model, **fields)
    assert peak.grown < limit, f"{peak.grown / MB:.0f} MB"
    return streamed if streamed == whole else f"{streamed}; not streamed: {whole}"


def whole_of(gateway: Gateway, model: str, **fields: Any) -> str:
    """What a client saw that does not stream."""
    try:
        answer = post(gateway.base_url, payload(model, **fields))
    except (http.client.HTTPException, ConnectionError):
        return "a reset"
    assert PROVIDER_KEY.encode() not in answer.body
    return seen(answer)


# ---------------------------------------------------------------------------------------------------------- large, deep
LINE = [b'data: {"choices":[{"index":0,"delta":{"content":"', *[b"y" * MB] * 100, b'"}}]}\n\n']
DEEP = b"[" * 5000 + b"]" * 5000


@sends(
    Case("10,000 events in one chunk", "200",
         raw([b"".join(p for p in sse([chunk({"content": "x"})] * 10_000 + [chunk({}, finish="stop")]).body
                       if isinstance(p, bytes))])),
    Case("a line of 100 MB", f"{IN_STREAM}; not streamed: {SERVER_ERROR}", raw(LINE)),
    Case("100 MB without a line's end", f"{IN_STREAM}; not streamed: {SERVER_ERROR}", raw([b"z" * MB] * 100)),
    Case("100 MB of JSON", SERVER_ERROR, raw(LINE, headers=JSON)),
    Case("2 MB of comments and blank lines before the answer", "200",
         raw([b": x\n\n" * (MB // 5)] * 2 + [b for b in sse([chunk({"content": "a"}, finish="stop")]).body
                                            if isinstance(b, bytes)])),
    Case("an event nested 5,000 deep", f"{IN_STREAM}; not streamed: {SERVER_ERROR}",
         raw([b'data: {"choices":[{"index":0,"delta":{"content":"a","x":%b}}]}\n\n' % DEEP])),
    Case("an answer nested 5,000 deep", SERVER_ERROR, raw([
        b'{"choices":[{"index":0,"message":{"role":"assistant","content":"a","x":%b},"finish_reason":"stop"}]}'
        % DEEP], headers=JSON)),
    Case("an error nested 5,000 deep", "500 `api_error`", status(500, b'{"error":{"message":%b}}' % DEEP)),
)
def test_large_and_deep_answers(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    provider.always(case.data)
    return both(gateway)


@sends(
    Case("a gzip event stream that unpacks to 200 MB", f"{IN_STREAM}; not streamed: {SERVER_ERROR}",
         lambda: (EVENT_STREAM, "gzip", gzip.compress(bytes(200 * MB), 1))),
    Case("a br answer that unpacks to 200 MB", SERVER_ERROR,
         lambda: (JSON, "br", brotli.compress(bytes(200 * MB), quality=1))),
    Case("a zstd answer that unpacks to 200 MB", SERVER_ERROR,
         lambda: (JSON, "zstd", zstandard.compress(bytes(200 * MB), 1))),
    Case("100,000 empty gzip members", SERVER_ERROR, lambda: (JSON, "gzip", gzip.compress(b"") * 100_000)),
    Case("an answer in a coding that nobody knows", SERVER_ERROR, (JSON, "lzw", b"abc")),
)
def test_compressed_answers(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    headers, coding, data = case.value
    provider.always(raw([data], headers={**headers, "content-encoding": coding}))
    return both(gateway)


@sends(
    Case("a tool call with arguments nested 5,000 deep", "200", '{"a":' * 5000 + "1" + "}" * 5000),
    Case("... with 100,000 opening brackets", "200", "[" * 100_000),
    Case("... with 100,000 keys", "200", "{" + ",".join(f'"k{n}":{n}' for n in range(100_000)) + "}"),
    Case("... with 1e999999", "200", '{"a":1e999999}'),
    Case("... with an integer of 100,000 digits", "200", '{"a":' + "9" * 100_000 + "}"),
    Case("... with the same key twice", "200", '{"a":1,"a":2}'),
    Case("... with half a surrogate pair", "200", '{"a":"\\ud83d"}'),
    Case("... with a bare NUL", "200", '{"a":"\0"}'),
    Case("... that are a list", "200", "[1]"),
    Case("... that are no JSON", "200", "not json"),
)
def test_tool_arguments(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    """In a stream they come as the model wrote them; in a whole answer what is no JSON object comes as text under one
    key, so that a client that reads JSON reads the answer."""
    provider.always(calls(("call_1", "f", case.data), pieces=1000))
    with stream(gateway.base_url, {"tools": TOOLS}) as answer:
        events = answer.read()
    parts = [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(parts) == case.data
    for block in post(gateway.base_url, payload(tools=TOOLS)).json()["content"]:
        assert isinstance(block["input"], dict) or block["input"] == json.loads(case.data)
    return both(gateway, tools=TOOLS)


# -------------------------------------------------------------------------------------------------------- bytes as HTTP
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
OURS = {"content-type", "request-id", "date", "server", "transfer-encoding"}
"""Headers that the gateway writes itself."""
SAYS = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
WHOLE = SAYS + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def piece(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


GARBAGE = [
    Case("text that is no HTTP (HTTP/0.9)", SERVER_ERROR, [b"hello, I am not HTTP\n"]),
    Case("nothing, and the end", "503 `overloaded_error`", []),
    Case("half a head", SERVER_ERROR, [b"HTTP/1.1 200 OK\r\n"]),
    Case("two content-lengths", SERVER_ERROR,
         [HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\n" + WHOLE]),
    Case("content-length and chunks", SERVER_ERROR,
         [HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n" + piece(WHOLE) + b"0\r\n\r\n"]),
    Case("a NUL in a header", SERVER_ERROR, [HEAD + b"x-a: a\0b\r\n\r\n" + WHOLE]),
    Case("control characters in the reason", SERVER_ERROR, [b"HTTP/1.1 200 \x01\x02\r\n\r\n" + WHOLE]),
    Case("5,000 headers", SERVER_ERROR,
         [HEAD + b"x-a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 5000 + b"\r\n" + WHOLE]),
    Case("status 99999", SERVER_ERROR, [b"HTTP/1.1 99999 x\r\n\r\n"]),
    # It says that it closes, as it does: else the next request may find the connection that is closing.
    Case("status 000", SERVER_ERROR, [b"HTTP/1.1 000 x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"]),
    Case("an HTML page with status 200", SERVER_ERROR,
         [b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>Please log in</html>"]),
    Case("50,000 102s and then nothing", "503 `overloaded_error`", [b"HTTP/1.1 102 Processing\r\n\r\n" * 1000] * 50),
]


@sends(*GARBAGE)
def test_garbage_is_an_error(gateway: Gateway, provider: OpenAIProvider, odd: Bytes, case: Case) -> str:
    odd.pieces = case.data
    found = both(gateway, "odd")
    if case.data == [b"hello, I am not HTTP\n"]:
        assert "not valid HTTP" in post(gateway.base_url, payload("odd")).error()[1]
    return found


@sends(*(Case(f"{case.sent}, with another attempt to come", "200", case.data) for case in GARBAGE))
def test_garbage_fails_over(gateway: Gateway, provider: OpenAIProvider, odd: Bytes, case: Case) -> str:
    odd.pieces = case.data
    odd.asked = 0
    provider.always(text("from the other"))
    found = both(gateway, "odd+")
    assert (odd.asked, len(provider.seen)) == (2, 2)
    return found


@sends(
    # Without its end: where that has come the answer is whole, and the client may have it before the framing breaks.
    Case("a content-length that is too long", "502 `api_error`", [HEAD + b"content-length: 99999\r\n\r\n" + SAYS]),
    Case("a content-length that is too short", f"{IN_STREAM}; not streamed: {SERVER_ERROR}",
         [HEAD + b"content-length: %d\r\n\r\n" % (len(SAYS) + 3) + WHOLE]),
    Case("a chunk size that is no number, behind a first chunk", SERVER_ERROR,
         [HEAD + b"transfer-encoding: chunked\r\n\r\n" + piece(SAYS) + b"zz\r\n" + WHOLE]),
)
def test_broken_framing_never_looks_finished(gateway: Gateway, provider: OpenAIProvider, odd: Bytes, case: Case) -> str:
    """Where the head is out when the framing breaks, the client sees a reset instead of the status."""
    odd.pieces = case.data
    found = both(gateway, "odd")
    return case.sees if "reset" in found else found


@sends(
    Case("1,000 100s and 103s before the answer", "200",
         [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nset-cookie: a=b\r\n\r\n"] * 1000
         + [HEAD + b"\r\n" + WHOLE]),
    Case("HTTP/1.0 without a length", "200", [HEAD.replace(b"1.1", b"1.0") + b"\r\n" + WHOLE]),
    Case("no content-type", "200", [b"HTTP/1.1 200 OK\r\n\r\n" + WHOLE]),
    # It says that it closes, as "status 000" does.
    Case("trailers with a cookie", "200", [HEAD + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
                                           + piece(WHOLE) + b"0\r\nset-cookie: a=b\r\nx-evil: 1\r\n\r\n"]),
    Case("a second answer behind the first", "200", [HEAD + b"content-length: %d\r\n\r\n" % len(WHOLE) + WHOLE
                                                     + b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nXXX"]),
    Case("cookies, CORS and other headers that are not the client's, bytes that are not ASCII in those that are", "200",
         [HEAD + b"set-cookie: a=b\r\nserver: evil\r\nwww-authenticate: Basic\r\naccess-control-allow-origin: *\r\n"
          b"strict-transport-security: x\r\nx-request-id: a\xe9\r\nx-ratelimit-limit-requests: \xe9\xff\r\n"
          b"x-evil: 1\r\nretry-after: %b\r\nx-extproc-dropped: evil\r\nlocation: http://evil.example\r\n\r\n"
          % (b"9" * 5000) + WHOLE]),
)
def test_only_the_answer_reaches_the_client(gateway: Gateway, provider: OpenAIProvider, odd: Bytes, case: Case) -> str:
    odd.pieces = case.data
    for body in (payload("odd"), payload("odd", stream=True)):
        answer = post(gateway.base_url, body)
        assert set(answer.headers) <= {*OURS, "cache-control", "x-provider-request-id", "x-ratelimit-limit-requests"}
        assert answer.headers["server"] == "extproc"
        assert b"XXX" not in answer.body
    return both(gateway, "odd")


@sends(*(Case(f"status {code}", SERVER_ERROR, code) for code in (204, 205, 300, 301, 302, 303, 304, 307, 308)))
def test_statuses_that_are_no_answer(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    """A redirect is never followed: the key would go with it."""
    empty = case.data in (204, 304)
    location = {"location": f"http://127.0.0.1:{provider.port}/v1/elsewhere"}
    provider.always(Reply(case.data, {**location, **({} if empty else JSON)}, [] if empty else [b'{"a":1}'],
                          framing="length"))
    answer = post(gateway.base_url, payload())
    assert "location" not in answer.headers
    assert [one.path for one in provider.seen] == ["/v1/chat/completions"]
    return both(gateway)


@sent("429 with a `retry-after` of 5,000 digits, cookies and a challenge", sees="429 `rate_limit_error`")
def test_headers_of_an_error(gateway: Gateway, provider: OpenAIProvider) -> str:
    provider.script(status(429, openai_error("no"), {
        "set-cookie": "a=b", "retry-after": "9" * 5000, "x-ratelimit-foo": "a" * 5000,
        "location": "http://evil.example", "www-authenticate": "Basic", "x-should-retry": "true"}))
    answer = post(gateway.base_url, payload())
    assert set(answer.headers) <= {*OURS, "x-should-retry"}
    return seen(answer)


# --------------------------------------------------------------------------------------------------------- certificates
WRONG = [Case("a certificate for another name", "503 `overloaded_error`", "wrong-name"),
         Case("a certificate of an authority that is not trusted", "503 `overloaded_error`", "unknown-authority"),
         Case("a certificate that has expired", "503 `overloaded_error`", "expired")]


@needs_openssl
@sends(*WRONG)
def test_a_certificate_that_does_not_match(gateway: Gateway, provider: OpenAIProvider, case: Case,
                                           certified: tuple[str, dict[str, Provider]]) -> str:
    """No key goes out, and the error says what it may be."""
    found = both(gateway, case.data)
    assert "TLS certificate" in post(gateway.base_url, payload(case.data)).error()[1]
    assert certified[1][case.data].requests == [], "no key, no request"
    return found


@needs_openssl
@sends(*(Case(f"{case.sent}, with another attempt to come", "200", case.data) for case in WRONG))
def test_a_certificate_that_does_not_match_fails_over(gateway: Gateway, provider: OpenAIProvider, case: Case,
                                                      certified: tuple[str, dict[str, Provider]]) -> str:
    provider.always(text("from the other"))
    found = both(gateway, f"{case.data}+")
    assert len(provider.seen) == 2
    assert certified[1][case.data].requests == []
    return found


@needs_openssl
def test_the_right_certificate_serves(gateway: Gateway, certified: tuple[str, dict[str, Provider]]) -> None:
    assert post(gateway.base_url, payload("good")).json()["content"][0]["text"] == "safe"
    assert certified[1]["good"].requests[-1][1]["authorization"] == f"Bearer {PROVIDER_KEY}"
