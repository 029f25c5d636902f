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
from dataclasses import dataclass
from random import random

import uvloop

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
MODEL = re.compile(rb'"model"\s*:\s*"(?:openai/)?([a-z0-9.-]+)"')


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(delta: bytes, finish: bytes = b"null") -> bytes:
    return chunked(b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
                   b'"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]}\n\n' % (delta, finish))


def response_event(kind: bytes, members: bytes) -> bytes:
    return chunked(b'event: response.%b\ndata: {"type":"response.%b","sequence_number":1,%b}\n\n' % (
        kind, kind, members))


@dataclass(frozen=True)
class Wire:
    """The events of one API. `stamped` holds 19 digits for the moment of its writing."""

    first: bytes
    word: bytes
    stamped: bytes
    last: bytes


_RESPONSE = b'"response":{"id":"resp_1","object":"response","model":"bench","status":"%b","output":[]%b}'
_DELTA = b'"item_id":"msg_1","output_index":0,"content_index":0,"delta":"%b","logprobs":[]'
CHAT = Wire(
    first=event(b'{"role":"assistant","content":""}'),
    word=event(b'{"content":" some"}'),
    stamped=event(b'{"content":" @%019d@"}' % 0),
    last=event(b"{}", b'"stop"') + chunked(
        b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
        b'"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}\n\n')
    + chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n")
RESPONSES = Wire(
    first=response_event(b"created", _RESPONSE % (b"in_progress", b"")) + response_event(
        b"output_item.added", b'"output_index":0,"item":{"id":"msg_1","type":"message","role":"assistant",'
        b'"status":"in_progress","content":[]}'),
    word=response_event(b"output_text.delta", _DELTA % b" some"),
    stamped=response_event(b"output_text.delta", _DELTA % (b" @%019d@" % 0)),
    last=response_event(b"completed", _RESPONSE % (
        b"completed", b',"usage":{"input_tokens":9,"output_tokens":9,"total_tokens":18}')) + b"0\r\n\r\n")
_PAUSE = 0.01
"""Seconds between the first token of `spoken` and the others."""


class Steady:
    """One stream of stamped events."""

    def __init__(self, write: Callable[[bytes], None], hertz: float, stamped: bytes) -> None:
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._pause = 1 / hertz
        self._before, self._after = stamped.split(b"%019d" % 0)
        self._timer = self._loop.call_soon(self._tick)
        # Streams that begin together do not go on in step.
        self._due = self._loop.time() - self._pause * random()

    def _tick(self) -> None:
        self._write(b"%b%019d%b" % (self._before, time.monotonic_ns(), self._after))
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
            request = bytes(self._received[:size])
            del self._received[:size]
            found = MODEL.search(request)
            path = request[:request.index(b" HTTP")]
            self._answer(found[1] if found else b"short", RESPONSES if path.endswith(b"/responses") else CHAT)

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

    def _answer(self, model: bytes, wire: Wire) -> None:
        write = self._transport.write
        write(HEAD + wire.first)
        if model.startswith(b"steady-"):
            self._steady = Steady(write, float(model.removeprefix(b"steady-")), wire.stamped)
        elif model == b"idle":
            write(wire.word)
        elif model == b"spoken":
            write(wire.word)
            asyncio.get_running_loop().call_later(_PAUSE, write, wire.word * 2 + wire.last)
        else:
            write(wire.word * 3 + wire.last)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=4096)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
