"""The load of the measurements: many raw streams at once, with as little work per byte as Python allows."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

KEY = "sk-bench"
_STAMP = re.compile(rb"@(\d{19})@")
_HELD_BACK = 20
"""Bytes at the end of a piece in which a stamp may have begun."""


@dataclass(frozen=True)
class Side:
    """One of the things that are compared: where it listens and what a request to it looks like."""

    name: str
    port: int
    path: str = "/v1/messages"

    def request(self, model: str, body: dict[str, object] | None = None) -> bytes:
        said: dict[str, object] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100, **(body or {})}
        if self.path == "/v1/responses":
            said = {"input": "hi", "max_output_tokens": 100}
        data = json.dumps({"model": model, "stream": True, **said}).encode()
        head = (f"POST {self.path} HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nx-api-key: {KEY}\r\n"
                "content-type: application/json\r\nanthropic-version: 2023-06-01\r\n"
                f"content-length: {len(data)}\r\n\r\n")
        return head.encode() + data


class BrokenStreamError(RuntimeError):
    """An answer that is no whole stream."""


class Stream(asyncio.Protocol):
    """One request on a connection of its own. `on_event` gets the nanoseconds that a stamped event was on its way."""

    def __init__(self, side: Side, request: bytes, on_event: Callable[[int], None]) -> None:
        self._side = side
        self._request = request
        self._on_event = on_event
        self._tail = b""
        self._started = 0.0
        loop = asyncio.get_running_loop()
        self.first: asyncio.Future[float] = loop.create_future()
        """Seconds until the first event with text."""
        self.ended: asyncio.Future[float] = loop.create_future()
        """Seconds until the end of the answer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        self._started = time.perf_counter()
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        data = self._tail + data
        last = 0
        for found in _STAMP.finditer(data):
            self._on_event(now - int(found[1]))
            last = found.end()
        if not self.first.done() and (last or b" some" in data):
            self.first.set_result(time.perf_counter() - self._started)
        if data.endswith(b"0\r\n\r\n") and not self.ended.done():
            if not self.first.done():
                self._broken(data)
            else:
                self.ended.set_result(time.perf_counter() - self._started)
        self._tail = data[max(last, len(data) - _HELD_BACK):]

    def connection_lost(self, error: Exception | None) -> None:
        self._broken(self._tail)

    def _broken(self, data: bytes) -> None:
        for future in (self.first, self.ended):
            if not future.done():
                future.set_exception(BrokenStreamError(f"{self._side.name}: the answer broke off: {data[-300:]!r}"))
            elif not future.cancelled():
                future.exception()

    def close(self) -> None:
        for future in (self.first, self.ended):
            future.cancel()
        self.transport.abort()


async def opened(side: Side, model: str, streams: int, on_event: Callable[[int], None],
                 at_once: int = 50) -> list[Stream]:
    """Streams that have all had their first event."""
    loop = asyncio.get_running_loop()
    request = side.request(model)
    running: list[Stream] = []
    while len(running) < streams:
        new = []
        for _ in range(min(at_once, streams - len(running))):
            _, stream = await loop.create_connection(lambda: Stream(side, request, on_event), "127.0.0.1", side.port)
            new.append(stream)
        async with asyncio.timeout(60):
            await asyncio.gather(*(stream.first for stream in new))
        running += new
    return running


@dataclass
class Answered:
    """Seconds until the first event with text, and until the end."""

    first: float
    whole: float


async def one_by_one(side: Side, count: int, body: dict[str, object] | None = None,
                     model: str = "short") -> list[Answered]:
    """The same request, `count` times, each on a connection of its own."""
    loop = asyncio.get_running_loop()
    request = side.request(model, body)
    taken = []
    for _ in range(count):
        _, stream = await loop.create_connection(lambda: Stream(side, request, lambda _: None), "127.0.0.1", side.port)
        async with asyncio.timeout(60):
            taken.append(Answered(await stream.first, await stream.ended))
        stream.close()
    return taken
