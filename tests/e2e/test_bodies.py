"""Large bodies and encodings, both ways (P18, P19)."""

from __future__ import annotations

import gzip
import json
import select
import socket
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import anthropic
import brotli
import pytest
import zstandard

from tests.e2e.gateway import BODY_LIMIT, CLIENT_KEY, Gateway
from tests.e2e.wire import ANTHROPIC, Answer, blocks_of, payload, post, stream
from tests.providers.http import Gate, Reply
from tests.providers.openai import EVENT_STREAM, JSON, OpenAIProvider, chunk, completion, openai_error, raw, sse, text

MB = 1024 * 1024


# ----------------------------------------------------------------------------------------------------------- sizes
def test_p18_a_request_of_20_mb(sdk: anthropic.Anthropic, provider: OpenAIProvider) -> None:
    words = "x" * (20 * MB)
    provider.script(text("that was long"))
    messages: Any = [{"role": "user", "content": words}]
    with sdk.messages.stream(model="claude-test", max_tokens=9, messages=messages) as answer:
        assert answer.get_final_text() == "that was long"
    assert provider.last.messages[0]["content"] == words


def test_p18_large_images(gateway: Gateway, provider: OpenAIProvider) -> None:
    image = "iVBORw0KGgoA" * (MB // 2)
    source = {"type": "base64", "media_type": "image/png", "data": image}
    provider.script(text("ok"))
    assert post(gateway.base_url, payload(messages=[{"role": "user", "content": [
        {"type": "image", "source": source}] * 2}])).status == 200
    assert len(provider.last.raw) > 2 * len(image)


def test_p18_an_answer_of_20_mb(gateway: Gateway, provider: OpenAIProvider) -> None:
    words = "y" * (20 * MB)
    provider.script(completion({"role": "assistant", "content": words}))
    assert post(gateway.base_url, payload()).json()["content"][0]["text"] == words


@pytest.mark.parametrize("framing", ["content-length", "chunked"])
def test_p18_a_request_over_the_limit(gateway: Gateway, provider: OpenAIProvider, framing: str) -> None:
    body = json.dumps(payload(messages=[{"role": "user", "content": "z" * (BODY_LIMIT + MB)}])).encode()
    answer = pour(gateway.port, body, chunked=framing == "chunked")
    assert answer.status == 413
    assert answer.error()[0] == "request_too_large"
    assert provider.seen == []


def pour(port: int, body: bytes, *, chunked: bool) -> Answer:
    """Sends a body to a server that may refuse it while it is being sent, and reads the answer."""
    head = (f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx-api-key: {CLIENT_KEY}\r\n"
            "anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\n"
            + ("transfer-encoding: chunked" if chunked else f"content-length: {len(body)}") + "\r\n\r\n").encode()
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(head)
        for at in range(0, len(body), 65536):
            if select.select([connection], [], [], 0)[0]:
                break
            piece = body[at:at + 65536]
            try:
                connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            except ConnectionError:
                break
        else:
            connection.sendall(b"0\r\n\r\n" if chunked else b"")
        received = bytearray()
        while b"\r\n\r\n" not in received or len(received) < full_length(received):
            data = connection.recv(65536)
            if not data:
                break
            received += data
    top, _, rest = bytes(received).partition(b"\r\n\r\n")
    first, *lines = top.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return Answer(int(first.split(" ")[1]), headers, rest)


def full_length(received: bytearray) -> int:
    top, _, _ = bytes(received).partition(b"\r\n\r\n")
    for line in top.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return len(top) + 4 + int(line.split(b":")[1])
    return 1 << 62


# ------------------------------------------------------------------------------------------------------- encodings
def gzip_pieces(pieces: Iterable[bytes]) -> list[bytes]:
    packer = zlib.compressobj(wbits=31)
    return [*(packer.compress(p) + packer.flush(zlib.Z_SYNC_FLUSH) for p in pieces), packer.flush()]


def deflate_pieces(pieces: Iterable[bytes]) -> list[bytes]:
    packer = zlib.compressobj()
    return [*(packer.compress(p) + packer.flush(zlib.Z_SYNC_FLUSH) for p in pieces), packer.flush()]


def brotli_pieces(pieces: Iterable[bytes]) -> list[bytes]:
    packer = brotli.Compressor()
    return [*(packer.process(p) + packer.flush() for p in pieces), packer.finish()]


def zstd_pieces(pieces: Iterable[bytes]) -> list[bytes]:
    packer = zstandard.ZstdCompressor().compressobj()
    return [*(packer.compress(p) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for p in pieces), packer.flush()]


ENCODINGS: dict[str, Callable[[Iterable[bytes]], list[bytes]]] = {
    "gzip": gzip_pieces, "deflate": deflate_pieces, "br": brotli_pieces, "zstd": zstd_pieces}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_p19_encoded_stream_stays_incremental(gateway: Gateway, provider: OpenAIProvider, encoding: str) -> None:
    gate = Gate()
    plain = [p for p in sse([chunk({"content": "a"}), chunk({"content": "b"}), chunk({}, finish="stop")]).body
             if isinstance(p, bytes)]
    packed: list[bytes | Gate] = [*ENCODINGS[encoding](plain)]
    packed.insert(1, gate)
    provider.script(raw(packed, headers={**EVENT_STREAM, "content-encoding": encoding}))
    with stream(gateway.base_url) as answer:
        assert "content-encoding" not in answer.headers
        answer.until("content_block_delta")
        gate.open()
        assert blocks_of(answer.read())[0]["text"] == "ab"


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_p19_encoded_whole_answers_and_errors(gateway: Gateway, provider: OpenAIProvider, encoding: str) -> None:
    pack = ENCODINGS[encoding]
    whole = json.dumps(completed("packed")).encode()
    failed = json.dumps(openai_error("packed error")).encode()
    headers = {**JSON, "content-encoding": encoding}
    provider.script(Reply(200, headers, pack([whole]), framing="length"),
                    Reply(503, headers, pack([failed]), framing="length"))
    answer = post(gateway.base_url, payload())
    assert "content-encoding" not in answer.headers
    assert answer.json()["content"][0]["text"] == "packed"
    if "content-length" in answer.headers:
        assert int(answer.headers["content-length"]) == len(answer.body)
    answer = post(gateway.base_url, payload())
    assert answer.status == 503
    assert "packed error" in answer.error()[1]


def completed(words: str) -> Any:
    reply = completion({"role": "assistant", "content": words})
    return json.loads(b"".join(p for p in reply.body if isinstance(p, bytes)))


def test_p19_empty_body_with_content_encoding(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(Reply(503, {**JSON, "content-encoding": "gzip"}, [], framing="length"))
    answer = post(gateway.base_url, payload())
    assert answer.status == 503
    assert answer.error()[1]


def test_p19_damaged_encoding(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(Reply(200, {**JSON, "content-encoding": "gzip"}, [b"this is not gzip"], framing="length"))
    answer = post(gateway.base_url, payload())
    assert answer.status == 502
    assert answer.error()[0] == "api_error"


def test_p19_gzip_request(gateway: Gateway, provider: OpenAIProvider) -> None:
    provider.script(text("ok"))
    packed = gzip.compress(json.dumps(payload()).encode())
    answer = post(gateway.base_url, packed, headers={**ANTHROPIC, "content-encoding": "gzip"})
    assert answer.status == 200, answer.body
    assert "content-encoding" not in provider.last.headers
    assert provider.last.messages == [{"role": "user", "content": "hello"}]


def test_p19_a_gzip_bomb_is_refused(gateway: Gateway, provider: OpenAIProvider) -> None:
    bomb = gzip.compress(b" " * (4 * BODY_LIMIT), 1)
    answer = post(gateway.base_url, bomb, headers={**ANTHROPIC, "content-encoding": "gzip"})
    assert answer.status == 413
    assert answer.error()[0] == "request_too_large"
    assert provider.seen == []
