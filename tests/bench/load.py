"""The load of the measurements: many raw streams at once, with as little work per byte as Python allows."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass

KEY = "sk-bench"


@dataclass
class Side:
    """One of the two things that are compared: where it listens, what a request to it looks like, what marks an event
    with text in its answers."""

    name: str
    port: int
    path: str
    marker: bytes
    end: bytes = b"0\r\n\r\n"

    def request(self, model: str, text: str = "hi") -> bytes:
        body = json.dumps({"model": model, "max_tokens": 100, "stream": True,
                           "messages": [{"role": "user", "content": text}]}).encode()
        head = (f"POST {self.path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nx-api-key: {KEY}\r\n"
                "content-type: application/json\r\nanthropic-version: 2023-06-01\r\n"
                f"content-length: {len(body)}\r\n\r\n")
        return head.encode() + body


@dataclass
class Taken:
    """Seconds from the first byte sent to the first event with text and to the end; events with text."""

    first: float
    whole: float
    events: int


async def one(side: Side, request: bytes) -> Taken:
    """One request on a connection of its own. Raises RuntimeError when the answer is not a whole stream."""
    reader, writer = await asyncio.open_connection("127.0.0.1", side.port, limit=1 << 22)
    started = time.perf_counter()
    try:
        writer.write(request)
        await writer.drain()
        received, first, events = b"", 0.0, 0
        while not received.endswith(side.end):
            data = await reader.read(1 << 16)
            if not data:
                raise RuntimeError(f"{side.name}: the answer broke off: {received[-300:]!r}")
            events += (received[-len(side.marker) + 1:] + data).count(side.marker)
            if events and not first:
                first = time.perf_counter() - started
            received = (received + data)[-4096:]
        if not events:
            raise RuntimeError(f"{side.name}: no event with text: {received!r}")
        return Taken(first, time.perf_counter() - started, events)
    finally:
        writer.close()


async def together(side: Side, model: str, streams: int) -> list[Taken]:
    request = side.request(model)
    return await asyncio.gather(*(one(side, request) for _ in range(streams)))


async def one_by_one(side: Side, model: str, count: int, text: str = "hi") -> list[Taken]:
    request = side.request(model, text)
    return [await one(side, request) for _ in range(count)]


class Idle:
    """Streams that were opened and then say nothing: `async with Idle(side, 200)`."""

    def __init__(self, side: Side, streams: int) -> None:
        self.side = side
        self.streams = streams
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Idle:
        await asyncio.gather(*(self._open() for _ in range(self.streams)))
        return self

    async def _open(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.side.port)
        self._writers.append(writer)
        writer.write(self.side.request("idle"))
        received = b""
        while self.side.marker not in received:
            data = await reader.read(1 << 16)
            if not data:
                raise RuntimeError(f"{self.side.name}: an idle stream broke off: {received!r}")
            received += data

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()
