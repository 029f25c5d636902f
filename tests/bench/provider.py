"""A loopback provider for measurements, a program of its own: `python -m tests.bench.provider` prints its port.

The model's name says what it answers: `steady-HZ` streams text events, each in a chunk and a write of its own, HZ a
second, until the client leaves; `idle` streams one event and falls silent; `short` streams a few events at once,
`spoken` its first token alone and the others a moment later, as models do. Every event of a steady stream carries the
moment of its writing, so that whoever reads it can tell how long it was on its way. It checks
nothing and decodes only as much of a request as it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import time
from collections.abc import Callable
from random import random

import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
MODEL = re.compile(rb'"model"\s*:\s*"(?:openai/)?([a-z0-9.-]+)"')


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(delta: bytes, finish: bytes = b"null") -> bytes:
    return chunked(b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
                   b'"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]}\n\n' % (delta, finish))


FIRST = event(b'{"role":"assistant","content":""}')
WORD = event(b'{"content":" some"}')
STAMPED = event(b'{"content":" @%019d@"}' % 0)
USAGE = chunked(b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
                b'"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}\n\n')
_PAUSE = 0.01
"""Seconds between the first token of `spoken` and the others."""
LAST = event(b"{}", b'"stop"') + USAGE + chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"
_BEFORE, _AFTER = STAMPED.split(b"%019d" % 0)


class Steady:
    """One stream of stamped events."""

    def __init__(self, write: Callable[[bytes], None], hertz: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._pause = 1 / hertz
        self._timer = self._loop.call_soon(self._tick)
        # Streams that begin together do not go on in step.
        self._due = self._loop.time() - self._pause * random()

    def _tick(self) -> None:
        self._write(b"%b%019d%b" % (_BEFORE, time.monotonic_ns(), _AFTER))
        self._due += self._pause
        self._timer = self._loop.call_at(self._due, self._tick)

    def stop(self) -> None:
        self._timer.cancel()


class Connection(asyncio.Protocol):
    """One connection, one request after the other."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._steady: Steady | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        plug = transport.get_extra_info("socket")
        plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (size := self._whole()) is not None:
            found = MODEL.search(bytes(self._received[:size]))
            del self._received[:size]
            self._answer(found[1] if found else b"short")

    def connection_lost(self, error: Exception | None) -> None:
        if self._steady is not None:
            self._steady.stop()

    def _whole(self) -> int | None:
        """The size of a request that is complete."""
        end = self._received.find(b"\r\n\r\n")
        if end < 0:
            return None
        found = re.search(rb"content-length: *(\d+)", self._received[:end].lower())
        if found:
            size = end + 4 + int(found[1])
            return size if len(self._received) >= size else None
        return len(self._received) if self._received.endswith(b"\r\n0\r\n\r\n") else None

    def _answer(self, model: bytes) -> None:
        self._transport.write(HEAD + FIRST)
        if model.startswith(b"steady-"):
            self._steady = Steady(self._transport.write, float(model.removeprefix(b"steady-")))
        elif model == b"idle":
            self._transport.write(WORD)
        elif model == b"spoken":
            self._transport.write(WORD)
            asyncio.get_running_loop().call_later(_PAUSE, self._transport.write, WORD * 2 + LAST)
        else:
            self._transport.write(WORD * 3 + LAST)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=4096)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
