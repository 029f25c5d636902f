"""The demo over HTTP, and as a command."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from extproc.demo.server import start_demo
from tests.unit.demo.requests import ask


async def exchange(*requests: bytes) -> bytes:
    """All bytes of the demo on one connection that sends these requests and then waits for its end."""
    server = await start_demo("127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
        for request in requests:
            writer.write(request)
            await writer.drain()
        writer.write_eof()
        received = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    return received


def post(request: Any, path: str = "/v1/chat/completions", extra: str = "") -> bytes:
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return f"POST {path} HTTP/1.1\r\nhost: demo\r\n{extra}content-length: {len(body)}\r\n\r\n".encode() + body


def test_one_connection_serves_several_requests() -> None:
    received = asyncio.run(exchange(post(ask("hi")), post(ask("hi", stream=True)),
                                    b"GET /v1/models HTTP/1.1\r\nhost: demo\r\n\r\n"))
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 3
    assert b"data: [DONE]\n\n\r\n0\r\n\r\n" in received
    assert b'"id": "demo"' in received


def test_a_body_in_chunks_is_read() -> None:
    body = json.dumps(ask("hi")).encode()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (body[:9], body[9:]))
    received = asyncio.run(exchange(
        b"POST /v1/chat/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"))
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(("request_", "status"), [
    (post(ask("x"), "/v1/completions"), 404), (post(ask("x"), "/chat/completions"), 404), (post(b"{"), 400),
    (post(b"[" * 100_000), 400), (post(ask("x", top_k=1)), 400),
    (b"GET /v1/chat/completions HTTP/1.1\r\n\r\n", 405), (b"nonsense\r\n\r\n", 400),
    (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
    (b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: x\r\n\r\n", 400),
    (b"GET / HTTP/1.1\r\na: " + b"x" * 70_000 + b"\r\n\r\n", 400),
])
def test_errors_have_the_shape_of_openai(request_: bytes, status: int) -> None:
    head, _, body = asyncio.run(exchange(request_)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_the_command_prints_its_address_and_ends_on_sigterm() -> None:
    process = subprocess.Popen([sys.executable, "-m", "extproc", "demo", "--listen", "127.0.0.1:0"],
                               stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        assert words[:2] == ["listening", "on"]
        assert int(words[2]) > 0
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert time.monotonic() - started < 5
    finally:
        process.kill()
        process.communicate()
