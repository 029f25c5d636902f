"""HTTP/1 that no library sends: what two servers could read in two ways is refused before a provider is asked."""

from __future__ import annotations

import pytest

from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, Gateway
from tests.e2e.odd_clients import Case, Raw, asked, body, head, seen, sends, sent
from tests.providers.openai import OpenAIProvider, text

BODY = body()
SIZE = f"content-length: {len(BODY)}"
CHUNKED = "transfer-encoding: chunked"
REFUSED = "400 `invalid_request_error`, connection closed"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


CHUNKS = chunk(BODY) + b"0\r\n\r\n"


def outcome(gateway: Gateway, provider: OpenAIProvider, data: bytes) -> str:
    """What one client saw of the first answer, and whether the connection may be used again. Refused means that no
    provider was asked."""
    provider.always(text("ok"))
    with Raw(gateway.port) as connection:
        connection.pour(data)
        answer = connection.answer()
    found = seen(answer)
    assert len(provider.seen) == (1 if found == "200" else 0)
    closes = answer is not None and answer.headers.get("connection") == "close"
    return found + (", connection closed" if closes else "")


SMUGGLED = head(0, SIZE) + BODY


@sends(
    Case("content-length and transfer-encoding", REFUSED, lambda p: head(p, SIZE, CHUNKED) + CHUNKS),
    Case("the same with a second request behind the chunks", REFUSED,
         lambda p: head(p, "content-length: 4", CHUNKED) + b"0\r\n\r\n" + SMUGGLED),
    Case("two content-lengths that differ", REFUSED,
         lambda p: head(p, SIZE, f"content-length: {len(BODY) + 1}") + BODY),
    Case("two content-lengths that are the same", REFUSED, lambda p: head(p, SIZE, SIZE) + BODY),
    Case("a list as content-length", REFUSED, lambda p: head(p, f"{SIZE}, {len(BODY)}") + BODY),
    Case("a negative content-length", REFUSED, lambda p: head(p, f"content-length: -{len(BODY)}") + BODY),
    Case("`+` before the content-length", REFUSED, lambda p: head(p, f"content-length: +{len(BODY)}") + BODY),
    Case("transfer-encoding: identity with a content-length", REFUSED,
         lambda p: head(p, "transfer-encoding: identity", SIZE) + BODY),
    Case("transfer-encoding: xchunked", "501 `invalid_request_error`, connection closed",
         lambda p: head(p, "transfer-encoding: xchunked") + CHUNKS),
    Case("transfer-encoding: gzip, chunked", "501 `invalid_request_error`, connection closed",
         lambda p: head(p, "transfer-encoding: gzip, chunked") + CHUNKS),
    Case("a control character before `chunked`", REFUSED,
         lambda p: head(p, "transfer-encoding: \x0bchunked") + CHUNKS),
    Case("a blank before the colon of transfer-encoding", REFUSED,
         lambda p: head(p, "transfer-encoding : chunked") + CHUNKS),
    Case("a chunk size that is no number", REFUSED, lambda p: head(p, CHUNKED) + b"zz\r\n" + BODY + b"\r\n0\r\n\r\n"),
    Case("a chunk size of more than 64 bits", REFUSED,
         lambda p: head(p, CHUNKED) + b"f" * 18 + b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
    Case("a negative chunk size", REFUSED, lambda p: head(p, CHUNKED) + b"-1\r\n" + BODY + b"\r\n0\r\n\r\n"),
    Case("a chunk size with `0x`", REFUSED, lambda p: head(p, CHUNKED) + b"0x" + CHUNKS),
    Case("chunks with bare line feeds", REFUSED,
         lambda p: head(p, CHUNKED) + b"%x\n%b\n0\n\n" % (len(BODY), BODY)),
    Case("a body that is shorter than the JSON in it", "400 `invalid_request_error`, connection closed",
         lambda p: head(p, f"content-length: {len(BODY) - 3}") + BODY),
)
def test_one_request_is_never_read_as_two(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    return outcome(gateway, provider, case.data(gateway.port))


@sends(
    Case("a chunk extension", "200", lambda p: head(p, CHUNKED) + b"%x;a=b\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)),
    Case("trailers with another key (HTTP/1: not read)", "200",
         lambda p: head(p, CHUNKED, "trailer: x-api-key") + chunk(BODY) + b"0\r\nx-api-key: other\r\n\r\n"),
    Case("a header folded over two lines", "200", lambda p: head(p, "x-a: one\r\n x-api-key: two", SIZE) + BODY),
    Case("a bare line feed in a header", "200", lambda p: head(p, "x-a: one\nx-b: two", SIZE) + BODY),
    Case("a bare carriage return in a header", "200", lambda p: head(p, "x-a: one\rx-b: two", SIZE) + BODY),
    Case("a header that is not ASCII", "200", lambda p: head(p, "x-a: \xe9\u20ac", SIZE) + BODY),
    Case("headers with underscores", "200", lambda p: head(p, "x_api_key: 1", "content_length: 1", SIZE) + BODY),
    Case("an absolute URI of another host", "200",
         lambda p: head(p, SIZE, path="http://evil.example/v1/messages") + BODY),
    Case("a second host header", "200", lambda p: head(p, SIZE, "host: evil.example") + BODY),
    Case("`upgrade: h2c`", "200",
         lambda p: head(p, SIZE, "connection: Upgrade, HTTP2-Settings", "upgrade: h2c", "http2-settings: AAMA") + BODY),
    Case("`/v1/../v1//messages`", "200", lambda p: head(p, SIZE, path="/v1/../v1//messages") + BODY),
    Case("a query of 50,000 characters", "200", lambda p: head(p, SIZE, path="/v1/messages?" + "a" * 50_000) + BODY),
    Case("an expectation that nobody knows", "200", lambda p: head(p, SIZE, "expect: 200-maybe") + BODY),
)
def test_what_is_odd_but_clear_is_served_and_does_not_travel_on(gateway: Gateway, provider: OpenAIProvider,
                                                                case: Case) -> str:
    found = outcome(gateway, provider, case.data(gateway.port))
    headers = provider.last.headers
    assert headers["host"] == f"127.0.0.1:{provider.port}"
    assert headers["authorization"] == f"Bearer {PROVIDER_KEY}"
    assert not {"x-a", "x-b", "x_api_key", "x-api-key", "content_length", "upgrade", "expect", "trailer"} & set(headers)
    assert provider.last.path == "/v1/chat/completions"
    return found


@sends(
    Case("HTTP/0.9", "426 `invalid_request_error`, connection closed", lambda p: b"GET /v1/models\r\n\r\n"),
    Case("HTTP/1.0", "426 `invalid_request_error`, connection closed",
         lambda p: head(p, SIZE, version="HTTP/1.0") + BODY),
    Case("HTTP/1.2", "426 `invalid_request_error`, connection closed",
         lambda p: head(p, SIZE, version="HTTP/1.2") + BODY),
    Case("the first bytes of TLS", REFUSED, lambda p: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)),
    Case("no host header", "400 `invalid_request_error`, connection closed",
         lambda p: f"POST /v1/messages HTTP/1.1\r\nx-api-key: {CLIENT_KEY}\r\n{SIZE}\r\n\r\n".encode() + BODY),
    Case("a NUL in a header", REFUSED, lambda p: head(p, "x-a: a\0b", SIZE) + BODY),
    Case("a header of 70,000 characters", "431 `invalid_request_error`, connection closed",
         lambda p: head(p, "x-a: " + "a" * 70_000, SIZE) + BODY),
    Case("200 headers", "431 `invalid_request_error`, connection closed",
         lambda p: head(p, *(f"x-{number}: 1" for number in range(200)), SIZE) + BODY),
    Case("`upgrade: websocket`", "426 `invalid_request_error`, connection closed",
         lambda p: head(p, SIZE, "connection: upgrade", "upgrade: websocket") + BODY),
    Case("CONNECT to another host", "401 `authentication_error`, connection closed",
         lambda p: head(p, method="CONNECT", path="evil.example:443")),
    Case("TRACE", "405 `invalid_request_error`", lambda p: head(p, method="TRACE")),
    Case("a method that nobody knows", REFUSED, lambda p: head(p, SIZE, method="BREW") + BODY),
    Case("`/v1%2fmessages`", "404 `not_found_error`", lambda p: head(p, SIZE, path="/v1%2fmessages") + BODY),
    Case("`%00` in the path", REFUSED, lambda p: head(p, SIZE, path="/v1/messages%00") + BODY),
    Case("a blank in the path", REFUSED, lambda p: head(p, SIZE, path="/v1/mess ages") + BODY),
    Case("no body", "400 `invalid_request_error`, connection closed", lambda p: head(p)),
    Case("content-length: 0", "400 `invalid_request_error`, connection closed",
         lambda p: head(p, "content-length: 0")),
)
def test_what_is_not_a_request_is_refused(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    return outcome(gateway, provider, case.data(gateway.port))


@sent("five requests in one packet", sees="five answers in order")
def test_pipelining(gateway: Gateway, provider: OpenAIProvider) -> str:
    provider.always(lambda seen: text(str(seen.body["max_tokens"]))(seen))
    with Raw(gateway.port) as connection:
        bodies = [body(max_tokens=number) for number in range(1, 6)]
        connection.send(b"".join(head(gateway.port, f"content-length: {len(one)}") + one for one in bodies))
        answers = [connection.answer() for _ in bodies]
    said = [answer.json()["content"][0]["text"] for answer in answers if answer is not None]
    return "five answers in order" if said == ["1", "2", "3", "4", "5"] else str(said)


@sent("`expect: 100-continue`", sees="100, then 200")
def test_expect_continue(gateway: Gateway, provider: OpenAIProvider) -> str:
    provider.script(text("ok"))
    with Raw(gateway.port) as connection:
        connection.send(head(gateway.port, SIZE, "expect: 100-continue"))
        first = connection.received.readline() + connection.received.readline()
        assert first == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert provider.seen == []
        connection.send(BODY)
        return f"100, then {seen(connection.answer())}"


@pytest.mark.parametrize("byte", ["\r", "\0", "\x7f", "\u2028"])
def test_no_key_opens_a_door_by_a_character_behind_it(gateway: Gateway, provider: OpenAIProvider, byte: str) -> None:
    """Nothing is cut off a key before it is compared."""
    data = (f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {CLIENT_KEY}{byte}x\r\n"
            f"content-type: application/json\r\n{SIZE}\r\n\r\n").encode() + BODY
    assert seen(asked(gateway.port, data)) in ("400 `invalid_request_error`", "401 `authentication_error`")
    assert provider.seen == []
